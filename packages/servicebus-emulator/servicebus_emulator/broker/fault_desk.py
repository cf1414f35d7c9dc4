"""Faults of messages, by lane, entity, step type and tenant, decided by a seed.

A rule counts its matching messages at each entity. The seed, the rule, the entity and n alone determine a strike on the
n-th matching message, until the rule reaches its `count`. The same seed, rules and messages give the same faults again.
The time has no effect.

| fault | effect on a message that a client sends |
|---|---|
| drop | the message is accepted and lost |
| duplicate | the message is accepted twice, also if the entity detects duplicates |
| delay | the message arrives `ms` later. A delayed message is lost if the emulator ends |
| reorder | the message arrives after the next message of its entity, or after `ms`. Lost as a delayed message |
| truncate | the second half of the body is lost; a body without data sections is lost as a whole |
| forget | the message is accepted also if the entity detects it as a duplicate |
| slow | the message is accepted, and the sender gets the outcome `ms` later |
| disconnect | the message is accepted, and the sender's connection is lost before the outcome |
| throttle | the message is refused as by a busy server |

Messages that a client schedules over `$management` have no faults. `duplicate`, `delay` and `reorder` have no effect on
any message with a scheduled time in the future.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.message import Content

FAULTS = ("drop", "duplicate", "delay", "reorder", "truncate", "forget", "slow", "disconnect", "throttle")
#: maximum recorded strikes
MAX_RUN = 10_000
_DEFAULT_MS = 1000
_LANE = re.compile(r".*-p(\d+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault, and the messages that it can strike. None matches every message."""

    id: int
    fault: str
    #: the number at the end of the entity's name, as in `global-bus-p3`
    lane: int | None = None
    #: the beginning of the entity's name
    entity: str | None = None
    #: application properties
    step_type: str | None = None
    tenant: str | None = None
    #: share of the matching messages that the rule strikes
    percent: float = 100.0
    #: maximum number of messages that the rule strikes; None means no maximum
    count: int | None = None
    ms: int = _DEFAULT_MS

    def matches(self, path: str, content: Content) -> bool:
        lane = _LANE.fullmatch(path)
        if self.lane is not None and (lane is None or int(lane[1]) != self.lane):
            return False
        if self.entity is not None and not path.lower().startswith(self.entity.lower()):
            return False
        properties = content.application_properties() if self.step_type or self.tenant else {}
        return (self.step_type is None or _text(properties.get("step_type")) == self.step_type) and (
            self.tenant is None or _text(properties.get("tenant_id")) == self.tenant
        )


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that struck a message."""

    rule: int
    fault: str
    entity: str
    #: the message's number among those that the rule matched at the entity, from 1
    number: int
    message_id: str


@dataclass(slots=True)
class Verdict:
    """The faults of one message, each with its milliseconds."""

    faults: dict[str, int] = field(default_factory=dict)

    def __contains__(self, fault: str) -> bool:
        return fault in self.faults


class FaultDesk:
    """The rules of a broker, and their effects."""

    def __init__(self) -> None:
        self.seed = 0
        self.rules: list[Rule] = []
        self.run: deque[Strike] = deque(maxlen=MAX_RUN)
        self._last_id = 0
        self._matched: Counter[tuple[int, str]] = Counter()
        self._struck: Counter[int] = Counter()

    def add(self, request: Any) -> Rule:
        """Adds a rule from a JSON object with the fields of `Rule` except its id.

        Raises InvalidRequest, which names the invalid field.
        """
        rule = _rule(request, self._last_id + 1)
        self._last_id = rule.id
        self.rules.append(rule)
        return rule

    def remove(self, rule_id: int | None = None) -> int:
        """Removes a rule. Without `rule_id`, removes all rules and strikes, and ids begin at 1 again.

        Returns the number of removed rules.
        """
        before = len(self.rules)
        self.rules = [] if rule_id is None else [rule for rule in self.rules if rule.id != rule_id]
        if rule_id is None:
            self._last_id = 0
            self.begin(self.seed)
        return before - len(self.rules)

    def begin(self, seed: Any) -> None:
        """Begins a run, in which all counts start again. Raises InvalidRequest if the seed is not a whole number."""
        if type(seed) is not int:
            raise InvalidRequest("seed must be a whole number")
        self.seed = seed
        self.run.clear()
        self._matched.clear()
        self._struck.clear()

    def describe(self) -> dict[str, Any]:
        """Returns seed, rules with their counts, and the run, as JSON."""
        rules = [{**asdict(rule), "struck": self._struck[rule.id]} for rule in self.rules]
        return {"seed": self.seed, "rules": rules, "run": [asdict(strike) for strike in self.run]}

    def judge(self, path: str, content: Content) -> Verdict:
        """Returns the faults that strike a message at an entity, at most one fault of each kind. The first rule of a
        kind decides.
        """
        return Verdict(dict(reversed([*self._strikes(path, content)])))

    def _strikes(self, path: str, content: Content) -> Iterator[tuple[str, int]]:
        for rule in self.rules:
            if not rule.matches(path, content):
                continue
            self._matched[rule.id, path] += 1
            number = self._matched[rule.id, path]
            spent = rule.count is not None and self._struck[rule.id] >= rule.count
            chance = random.Random(f"{self.seed}:{rule.id}:{path.lower()}:{number}").random() * 100
            if not spent and chance < rule.percent:
                self._struck[rule.id] += 1
                self.run.append(Strike(rule.id, rule.fault, path, number, str(content.message_id)))
                yield rule.fault, rule.ms


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lane": (lambda value: type(value) is int and value >= 0, "a lane's number"),
    "entity": (lambda value: isinstance(value, str), "the beginning of an entity's name"),
    "step_type": (lambda value: isinstance(value, str), "a step type"),
    "tenant": (lambda value: isinstance(value, str), "a tenant"),
    "percent": (lambda value: type(value) in (int, float) and 0 < value <= 100, "a number above 0, at most 100"),
    "count": (lambda value: type(value) is int and value > 0, "a whole number of at least 1"),
    "ms": (
        lambda value: type(value) is int and 0 <= value <= 86_400_000,
        "a whole number of milliseconds, at most 86,400,000 (a day)",
    ),
}


def _rule(request: Any, rule_id: int) -> Rule:
    if not isinstance(request, dict):
        raise InvalidRequest("A rule must be a JSON object.")
    given = {name: value for name, value in request.items() if value is not None}
    fault = given.pop("fault", None)
    if fault not in FAULTS:
        raise InvalidRequest(f"fault must be one of {', '.join(FAULTS)}")
    for name, value in given.items():
        if name not in _FIELDS:
            raise InvalidRequest(f"unknown field: {name}")
        fits, what = _FIELDS[name]
        if not fits(value):
            raise InvalidRequest(f"{name} must be {what}")
    return Rule(rule_id, fault, **given)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
