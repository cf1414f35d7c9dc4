"""Why a job waits for a quota, and what starts it, in words."""

from __future__ import annotations

from datetime import datetime

from shared.core.gates.admission_state import BlockReason, GateVerdict
from shared.core.gates.queue_position import MAX_POSITION
from shared.core.gates.rules import OVER_ALL, GateKind, Hold

_STARTS_AFTER = {
    BlockReason.HELD: "the quota is resumed",
    BlockReason.FULL: "a job of this quota ends",
    BlockReason.RATE: "the rate allows its start",
    BlockReason.BREAKER: "enough jobs of this type have ended well",
    BlockReason.LINE: "the jobs before it",
}


def wait_reason(verdict: GateVerdict, position: int | None, expected_at: datetime | None) -> str:
    """The quota that stops the job and the cause, the job's position, and what starts the job."""
    place = position if position is not None else f"over {MAX_POSITION:,}"
    text = f"{_cause(verdict)}; its position in line is {place}; it starts after {_starts_after(verdict)}"
    if expected_at is None or verdict.blocked_by is BlockReason.HELD:
        return text
    return f"{text}, estimated at {iso(expected_at)}"


def iso(instant: datetime | None) -> str | None:
    """`2026-01-27T10:02:00Z`; None for None."""
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z") if instant else None


def _starts_after(verdict: GateVerdict) -> str:
    reason = verdict.blocked_by or BlockReason.LINE
    if reason is BlockReason.HELD and verdict.hold is not None and verdict.hold.until is not None:
        return f"{iso(verdict.hold.until)}, or after the quota is resumed"
    if verdict.needs_allocation and reason is not BlockReason.BREAKER:
        granted = "slot" if reason is BlockReason.FULL else "start"
        own_end = "a job of its tenant ends, or after " if reason is BlockReason.FULL else ""
        return f"{own_end}the next allocation among tenants grants its tenant a {granted}"
    return _STARTS_AFTER[reason]


def _cause(verdict: GateVerdict) -> str:
    quota = f"the quota of {verdict.gate.words}"
    match verdict.blocked_by:
        case BlockReason.BREAKER:
            return _breaker(verdict)
        case BlockReason.HELD:
            return f"{quota}, which is held{_hold(verdict.hold, names_actor=verdict.gate.kind not in OVER_ALL)}"
        case BlockReason.FULL:
            limit = verdict.rule.max_active if verdict.rule is not None else None
            return f"{quota}, which has as many jobs inside as it may have" + (f" ({limit})" if limit else "")
        case BlockReason.RATE:
            return f"{quota}, which starts no more at its rate now"
        case _:
            return f"{quota}, which is open, and others wait before it"


def _hold(hold: Hold | None, *, names_actor: bool) -> str:
    """Who holds it, since when, until when and why. Actor and reason of a quota over all tenants may name a tenant."""
    if hold is None:
        return ""
    by, reason = (f" by {hold.actor}", f" ({hold.reason})") if names_actor else ("", "")
    until = f" until {iso(hold.until)}" if hold.until is not None else ""
    return f"{by} since {iso(hold.at)}{until}{reason}"


def _breaker(verdict: GateVerdict) -> str:
    whose = f"the breaker of {verdict.gate.words}"
    if verdict.gate.kind is GateKind.TYPE:
        whose = f"the breaker of type {verdict.gate.name} of tenant {verdict.gate.tenant}"
    elif verdict.opens_at is None:
        return f"{whose}, which is half-open and lets few in at once, of all tenants"
    if verdict.allowed or verdict.opens_at is None:
        return f"{whose}, which is half-open and lets {verdict.allowed} in at once"
    return f"{whose}, which is open until {iso(verdict.opens_at)}"
