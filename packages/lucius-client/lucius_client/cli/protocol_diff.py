"""`lucius protocol diff`: the effect of replacing one version of a protocol by another.

A definition is in the form of the API: each step's `payload_schema` is the JSON Schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from lucius_client.cli.exits import UsageError
from lucius_client.cli.schema_breaks import rules_of, schema_breaks

Definition = Mapping[str, Any]

#: default timings of the app in seconds (docs/reference/settings.md)
DEFAULTS: Mapping[str, Any] = {
    "ack_timeout_s": 30,
    "attempt_max_s": 14_400,
    "lease_s": 900,
    "max_attempts": 3,
    "total_timeout_s": 604_800,
    "dispatch_backoffs": [30, 120, 600],
    "ack_backoffs": [60, 300, 900],
    "execution_backoffs": [5, 30, 120],
}
#: maximum ratio of a wait before an attempt to its backoff
_JITTER = 1.1
#: columns of a step that other functions compare
_COMPARED_ELSEWHERE = ("step_id", "payload_schema")
#: values that mean the same as an absent column
_EMPTY: Mapping[str, Any] = {"backoffs": {}, "parallel": []}


@dataclass(frozen=True)
class Change:
    """A column of a protocol or a step, with the old and the new value. None means that the column is absent."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name} {_shown(self.old)} -> {_shown(self.new)}"


@dataclass(frozen=True)
class Bounds:
    """The worst case of a job, without time for quotas, pauses, waits on the bus and the start of LUCIUS."""

    attempts: int
    duration_s: float


@dataclass
class Difference:
    """The differences between two versions of a protocol, for callers and jobs."""

    protocol_id: str
    old_version: int
    new_version: int
    #: requests that the old version accepts and the new one refuses, or a load that the app refuses
    breaks: list[str] = field(default_factory=list)
    steps_added: list[str] = field(default_factory=list)
    steps_removed: list[str] = field(default_factory=list)
    #: changed columns by step id
    steps_changed: dict[str, list[Change]] = field(default_factory=dict)
    protocol_changed: list[Change] = field(default_factory=list)
    old_worst: Bounds | None = None
    new_worst: Bounds | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yields the differences as lines of text."""
        yield f"{self.protocol_id} version {self.old_version} -> {self.new_version}"
        yield from (f"BREAKS  {each}" for each in self.breaks)
        yield from (f"added   step {each}" for each in self.steps_added)
        yield from (f"removed step {each}" for each in self.steps_removed)
        for step_id, changes in self.steps_changed.items():
            yield from (f"changed step {step_id}: {each}" for each in changes)
        yield from (f"changed {each}" for each in self.protocol_changed)
        if self.old_worst is not None and self.new_worst is not None:
            old, new = self.old_worst, self.new_worst
            yield f"worst   attempts {old.attempts} -> {new.attempts}"
            yield f"worst   duration {_duration(old.duration_s)} -> {_duration(new.duration_s)}"


def read_definition(path: Path) -> Definition:
    """Reads a protocol file with the schemas that it names. Raises UsageError."""
    try:
        definition = json.loads(path.read_text(encoding="utf-8"))
        for step in definition["steps"]:
            if isinstance(name := step.get("payload_schema"), str):
                step["payload_schema"] = json.loads((path.parent / name).read_text(encoding="utf-8"))
        if not definition["steps"] or not {"protocol_id", "version", "request_type"} <= definition.keys():
            raise ValueError("a protocol must have protocol_id, version, request_type and steps")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a protocol file: {error}; check the file with `lucius protocol lint`"
        ) from error
    return dict(definition)


def compare(old: Definition, new: Definition) -> Difference:
    found = Difference(str(new["protocol_id"]), int(old["version"]), int(new["version"]))
    steps, new_steps = ({step["step_id"]: step for step in each["steps"]} for each in (old, new))
    found.steps_added = [name for name in new_steps if name not in steps]
    found.steps_removed = [name for name in steps if name not in new_steps]
    for name in (each for each in steps if each in new_steps):
        if changes := list(_changes(steps[name], new_steps[name], _COMPARED_ELSEWHERE)):
            found.steps_changed[name] = changes
    kept = [[name for name in each if name in steps and name in new_steps] for each in (steps, new_steps)]
    found.protocol_changed = list(_changes(old, new, ("steps", "digest", "version", "description", "ramp_percent")))
    if kept[0] != kept[1]:
        found.protocol_changed.append(Change("order of steps", kept[0], kept[1]))
    found.breaks = list(_breaks(old, new, found))
    found.old_worst, found.new_worst = worst_case(old), worst_case(new)
    return found


def _breaks(old: Definition, new: Definition, found: Difference) -> Iterator[str]:
    steps, new_steps = ({step["step_id"]: step for step in each["steps"]} for each in (old, new))
    if old["request_type"] != new["request_type"]:
        yield f"request_type {old['request_type']} became {new['request_type']}: requests for the old name are refused"
    for name in found.steps_removed:
        yield f"step {name} is removed: remove the key {name} from payloads"
    if len(steps) == 1 and len(new_steps) > 1:
        yield "a payload without step keys is refused: the protocol has more than one step now"
    for name, step in new_steps.items():
        schema = step.get("payload_schema", True)
        if name in steps:
            yield from schema_breaks(steps[name].get("payload_schema", True), schema, f"payload.{name}")
        elif isinstance(schema, Mapping) and schema.get("required"):
            yield f"step {name} is new and its payload requires {', '.join(schema['required'])}"
    is_same = old["protocol_id"] == new["protocol_id"] and old["version"] == new["version"]
    if is_same and _work(old) != _work(new):
        yield (
            f"version {new['version']} differs in ids, types, services or payload schemas of steps, in `parallel` or "
            "in request_type; the app refuses this version, so raise `version`"
        )


def _work(definition: Definition) -> Any:
    """Returns the parts that never change within a version (a test compares them with the app)."""
    steps = [
        [*(step[name] for name in ("step_id", "step_type", "service")), rules_of(step.get("payload_schema"))]
        for step in definition["steps"]
    ]
    return [definition["request_type"], steps, [list(group) for group in definition.get("parallel") or ()]]


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], left_out: tuple[str, ...]) -> Iterator[Change]:
    for name in sorted((old.keys() | new.keys()) - set(left_out)):
        was, now = (None if each.get(name) == _EMPTY.get(name) else each.get(name) for each in (old, new))
        if was != now:
            yield Change(name, was, now)


def worst_case(definition: Definition) -> Bounds:
    """Returns the maximum number of attempts and the maximum duration of a job.

    Each attempt takes its dispatch backoffs, its ACK timeout and its maximum time. Each further attempt also takes the
    longest ACK or execution backoff so far. Of parallel steps, only the longest step counts for the duration. The total
    times of a step and of the job limit the duration.
    """
    group_of = {name: str(number) for number, names in enumerate(definition.get("parallel") or ()) for name in names}
    total_s = 0.0
    for _, steps in groupby(definition["steps"], key=lambda step: group_of.get(step["step_id"], step["step_id"] + ":")):
        total_s += max(_step_worst_s(step) for step in steps)
    attempts = sum(_timing(step, "max_attempts") for step in definition["steps"])
    return Bounds(attempts, min(total_s, definition.get("total_timeout_s") or DEFAULTS["total_timeout_s"]))


def _step_worst_s(step: Mapping[str, Any]) -> float:
    named = step.get("backoffs") or {}
    dispatch, ack, execution = (
        named.get(cause) or DEFAULTS[f"{cause}_backoffs"] for cause in ("dispatch", "ack", "execution")
    )
    attempts = _timing(step, "max_attempts")
    attempt_s = _JITTER * sum(dispatch) + _timing(step, "ack_timeout_s") + _timing(step, "attempt_max_s")
    waits_s: float = sum(max(*ack[:number], *execution[:number]) for number in range(1, attempts))
    whole_s: float = attempts * attempt_s + _JITTER * waits_s
    return min(whole_s, float(step.get("total_timeout_s") or whole_s))


def _timing(step: Mapping[str, Any], name: str) -> Any:
    return step.get(name) or DEFAULTS[name]


def _shown(value: Any) -> str:
    return "default" if value is None else json.dumps(value, ensure_ascii=False)


def _duration(seconds: float) -> str:
    """Formats a duration with its two largest units: `2d 3h`, `14m 5s`."""
    left, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2]) or "0s"
