"""Changes of a quota by callers: its rule, a hold, a throttle, a resume, a reset of its breaker (R48, R62).

`shared.operations.quotas.quotas` writes these changes. A change without effect returns the given state, so that a
repeated request writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.core.gates import breaker as breakers
from shared.core.gates import rate
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.breaker import Breaker, BreakerRule
from shared.core.gates.log import LogEntry, append_entry
from shared.core.gates.rules import MAX_RULES, OVER_ALL, Directory, GateKind, GateState, Hold, Rule, Throttle
from shared.refusals import QuotaForbidden, QuotaInvalid

#: maximum length of a reason in a hold or a throttle; the log has the whole reason
MAX_REASON = 200
#: maximum size of all quotas of a tenant, in bytes of UTF-16. They share a row of 1 MiB with up to 400 waiting queues
#: and the counts of sources, whose names take up to 580 KiB
MAX_BYTES = 400 * 1024
#: size of the last 50 ends in the breaker of a job type, in bytes
_RING_BYTES = 5_000

#: numbers that an operator can set in a rule
NUMBERS = ("max_active", "max_per_hour", "burst", "max_staged", "emergency_max_active", "weight")
#: rule members that only some kinds of quotas have, each with a name of these quotas for messages
_ONLY_FOR = {
    "breaker": "job types",
    **dict.fromkeys(("max_staged", "emergency_max_active", "weight"), "tenants"),
}


class ChangeType(StrEnum):
    """The type of a quota's log entry."""

    RULE_SET = "RULE_SET"
    RULE_DELETED = "RULE_DELETED"
    HELD = "HELD"
    THROTTLED = "THROTTLED"
    RESUMED = "RESUMED"
    #: an operator admitted a job past its quotas; logged at the tenant's own quota
    JOB_ADMITTED = "JOB_ADMITTED"
    #: this type and the next three: caused by the end of a job, by elapsed time or by an operator
    BREAKER_OPENED = "BREAKER_OPENED"
    BREAKER_HALF_OPEN = "BREAKER_HALF_OPEN"
    BREAKER_CLOSED = "BREAKER_CLOSED"
    BREAKER_RESET = "BREAKER_RESET"


#: changed rule members by name; those of a breaker are under `breaker`
Patch = Mapping[str, Any]


def apply_patch(state: GateState, patch: Patch) -> GateState:
    """Merges `patch` into the quota's own rule (RFC 7396). None removes a field. Raises QuotaInvalid for an invalid
    rule.

    A quota's own rule replaces the rule for every tenant completely.
    """
    before = state.rule or Rule()
    numbers: dict[str, Any] = dict(patch)
    if "breaker" in patch:
        numbers["breaker"] = _patch_breaker(before.breaker, patch["breaker"])
    rule = replace(before, **numbers)
    kind = state.gate.kind
    wrong = [
        (name, f"is only for quotas of {gates}; remove the field")
        for name, gates in _ONLY_FOR.items()
        if getattr(rule, name) is not None and name not in kind.limits
    ]
    if kind is GateKind.TYPE and rule.breaker is not None and rule.breaker.min_tenants is not None:
        wrong.insert(0, ("breaker.min_tenants", "is only for quotas over all tenants; remove the field"))
    if rule.burst is not None and rule.max_per_hour is None:
        wrong.append(("burst", "has no effect without max_per_hour; set both fields"))
    if wrong:
        raise QuotaInvalid(*wrong)
    return state if rule == state.rule else replace(state, rule=rule)


def _patch_breaker(found: BreakerRule | None, patch: Mapping[str, Any] | None) -> BreakerRule | None:
    """Merges `patch` into the breaker's rule. A removed field gets its default. Returns None for no breaker."""
    if patch is None:
        return None
    new = BreakerRule()
    return replace(
        found or new, **{name: getattr(new, name) if value is None else value for name, value in patch.items()}
    )


def shorten(reason: str) -> str:
    """Returns the reason of a hold or a throttle, shortened to `MAX_REASON` characters."""
    return reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…"


def measure(state: GateState) -> int:
    """Returns the maximum size in bytes of the quota in its tenant's row, as JSON in UTF-16."""
    text = json.dumps(asdict(replace(state, breaker=None)), default=str, ensure_ascii=False)
    ring = _RING_BYTES if "breaker" in state.gate.kind.limits else 0
    return len(text.encode("utf-16-le")) + ring


def apply_hold(state: GateState, hold: Hold, now: datetime) -> GateState:
    """Returns the state with the hold. Returns the same state for an equal hold, or for a tenant's own hold that ends
    no later than an operator's hold. Raises QuotaForbidden if a tenant's own caller tries to extend an operator's hold.
    """
    found = state.hold
    if found is not None and found.is_on(now):
        if (found.until, found.reason, found.own) == (hold.until, hold.reason, hold.own):
            return state
        if hold.own and not found.own:
            if found.until is None or (hold.until is not None and hold.until <= found.until):
                return state
            raise QuotaForbidden
    return replace(state, hold=hold)


def apply_throttle(state: GateState, throttle: Throttle, now: datetime) -> GateState:
    """Returns the state with the throttle. Raises QuotaForbidden for a tenant's own caller while an operator's throttle
    is in effect.
    """
    found = state.throttle
    if found is not None and found.is_on(now):
        if replace(found, actor=throttle.actor, at=throttle.at) == throttle:
            return state
        if throttle.own and not found.own:
            raise QuotaForbidden
    return replace(state, throttle=throttle)


def apply_reset(state: GateState) -> GateState:
    """Returns the state with a closed breaker that has no counted ends."""
    breaker = breakers.reset(state.breaker) if state.breaker is not None else None
    return state if breaker is state.breaker else replace(state, breaker=breaker)


def apply_resume(state: GateState, now: datetime, *, own: bool) -> GateState:
    """Returns the state without the hold and the throttle of the quota.

    If `own` is True, ends only those of the tenant's own callers, and raises QuotaForbidden if only an operator's hold
    or throttle is in effect.
    """
    hold = state.hold if state.hold is not None and state.hold.is_on(now) else None
    throttle = state.throttle if state.throttle is not None and state.throttle.is_on(now) else None
    kept_hold = hold if hold is not None and own and not hold.own else None
    kept_throttle = throttle if throttle is not None and own and not throttle.own else None
    if (kept_hold, kept_throttle) == (hold, throttle):
        if kept_hold is not None or kept_throttle is not None:
            raise QuotaForbidden
        return state
    return replace(state, hold=kept_hold, throttle=kept_throttle)


def record_change(
    before: GateState,
    after: GateState,
    directory: Directory,
    type_: ChangeType,
    *,
    actor: str,
    reason: str,
    at: datetime,
    last_epoch: int = 0,
) -> tuple[GateState, LogEntry]:
    """Returns the state to write and the log entry. `last_epoch` is the last epoch of the type's breakers in the
    admission state.

    The credit is computed up to now by the old rate, so that a changed rate keeps the earned starts. A breaker whose
    rule was removed starts as new with the next rule.
    """
    credit = rate.accrue(before, directory.find_rule(before), at)
    after = replace(after, rule_seq=before.rule_seq + 1, credit=credit.credit, credit_at=credit.credit_at)
    if before.gate.kind in OVER_ALL:
        # the directory publishes the quota's own rule; admission states have ends that no allocation has counted yet
        if before.rule is not None and before.rule.breaker and (after.rule is None or after.rule.breaker is None):
            after = replace(after, breaker=Breaker(epoch=(before.breaker or Breaker()).epoch + 1))
    else:
        in_force = directory.find_rule(after)
        if after.breaker is not None and (in_force is None or in_force.breaker is None):
            after = replace(after, breaker=breakers.reset(after.breaker))
        after = number_epoch(before, after, last_epoch)
    data = {"before": encode_state(before), "after": encode_state(after)}
    if after.breaker is not before.breaker:
        for name, state in (("before", before), ("after", after)):
            data[name]["breaker"] = breakers.encode_breaker(state.breaker or Breaker())
    return append_entry(after, type_, actor=actor, reason=reason, at=at, data=data)


def number_epoch(before: GateState, after: GateState, last_epoch: int) -> GateState:
    """Returns the state with a new epoch of its breaker, numbered after `last_epoch`, the last epoch of the job
    type.
    """
    epochs = [state.breaker.epoch if state.breaker is not None else 0 for state in (before, after)]
    if after.breaker is None or epochs[0] == epochs[1]:
        return after
    return replace(after, breaker=replace(after.breaker, epoch=max(epochs[1], last_epoch + 1)))


def encode_state(state: GateState) -> dict[str, Any]:
    """Returns the quota's settings as JSON: `{"rule", "hold", "throttle"}`, with null for a missing setting."""

    def members(value: Rule | Hold | Throttle | None) -> dict[str, Any] | None:
        if value is None:
            return None
        found = {name: each for name, each in asdict(value).items() if each is not None}
        return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in found.items()}

    numbers = members(state.rule)
    rule = {name: numbers[name] for name in NUMBERS if name in numbers} if numbers is not None else None
    if rule is not None and state.rule is not None and state.rule.breaker is not None:
        rule["breaker"] = {name: each for name, each in asdict(state.rule.breaker).items() if each is not None}
    return {"rule": rule, "hold": members(state.hold), "throttle": members(state.throttle)}


def is_set(state: GateState, now: datetime) -> bool:
    """Returns `True` if a rule, a hold or a throttle is in effect."""
    temporary = (each for each in (state.hold, state.throttle) if each is not None)
    return state.rule is not None or any(each.is_on(now) for each in temporary)


def is_in_use(admission: AdmissionState, now: datetime) -> bool:
    """Returns `True` if the tenant must stay in the directory: a job of the tenant waits, or limits, a hold or a
    throttle are in effect.
    """
    return bool(admission.staged or admission.queues) or any(is_set(state, now) for state in admission.gates.values())


def apply_change(
    admission: AdmissionState, state: GateState, directory: Directory, now: datetime, *, is_fed: bool = False
) -> AdmissionState:
    """Returns the admission state with the changed quota. Removes an idle quota, since its log has every change.

    `is_fed` is True if the deployment has feeds. An idle quota then stays, while there is room, until the tenant's feed
    has its log (R79).
    """
    if (is_fed and len(admission.gates) < MAX_RULES) or not is_idle(state, directory, now):
        return admission.with_state(state)
    return remove_gates(admission, {state.gate.id})


def is_idle(state: GateState, directory: Directory, now: datetime) -> bool:
    """Returns `True` if the quota's state can be deleted. The state of a tenant's own quota stays.

    The state stays while a default rate for every tenant counts its credit. The state also stays if the breaker has an
    epoch, because active jobs can have that epoch.
    """
    is_kept = state.breaker is not None and state.breaker.epoch > 0
    is_counted = rate.find_rate(state, directory.find_rule(state), now) is not None
    return not (is_set(state, now) or is_counted or is_kept or state.gate.kind is GateKind.TENANT)


def remove_gates(admission: AdmissionState, gate_ids: Collection[str]) -> AdmissionState:
    """Returns the admission state without the states of these quotas."""
    return replace(admission, gates={id_: kept for id_, kept in admission.gates.items() if id_ not in gate_ids})
