"""The reason why a job waits for a quota, and the condition that starts the job, in words."""

from __future__ import annotations

from datetime import datetime

from shared.api.response import Response
from shared.core.gates.admission_state import BlockReason, GateVerdict
from shared.core.gates.queue_position import MAX_POSITION
from shared.core.gates.rules import OVER_ALL, GateKind, Hold

_STARTS_AFTER = {
    BlockReason.HELD: "the quota is resumed",
    BlockReason.FULL: "a job of this quota ends",
    BlockReason.RATE: "the rate allows its start",
    BlockReason.BREAKER: "the breaker allows its start",
    BlockReason.LINE: "the jobs ahead have started",
}


class QuotaWait(Response):
    """A job's wait for a quota, in words."""

    cause: str
    """Quota that stops the job, and the state of the quota. For a held quota, includes the start and, if set, the
    end of the hold. For a held quota of one tenant, also includes the actor and the reason."""
    starts: str
    """Condition that starts the job."""


def quota_wait(verdict: GateVerdict, expected_at: datetime | None) -> QuotaWait:
    """Returns the cause of the wait, and the condition that starts the job."""
    starts = f"after {_starts_after(verdict)}"
    if expected_at is not None and verdict.blocked_by is not BlockReason.HELD:
        starts = f"{starts}, estimated at {iso(expected_at)}"
    return QuotaWait(cause=_cause(verdict), starts=starts)


def wait_reason(wait: QuotaWait, position: int | None) -> str:
    """Returns the cause, the job's position in the waiting queue, and the condition that starts the job."""
    place = position if position is not None else f"over {MAX_POSITION:,}"
    return f"{wait.cause}; position {place}; starts {wait.starts}"


def iso(instant: datetime | None) -> str | None:
    """Formats a time: `2026-01-27T10:02:00Z`. Returns None for None."""
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z") if instant else None


def _starts_after(verdict: GateVerdict) -> str:
    reason = verdict.blocked_by or BlockReason.LINE
    if reason is BlockReason.HELD and verdict.hold is not None and verdict.hold.until is not None:
        return f"{iso(verdict.hold.until)}, or after the quota is resumed"
    if verdict.needs_allocation and reason is not BlockReason.BREAKER:
        granted = "slot" if reason is BlockReason.FULL else "start"
        own_end = "a job of its tenant ends, or after " if reason is BlockReason.FULL else ""
        return f"{own_end}the next allocation among tenants grants its tenant a {granted}"
    if reason is BlockReason.FULL and verdict.allowed is not None:
        return "an emergency of this quota ends"
    return _STARTS_AFTER[reason]


def _cause(verdict: GateVerdict) -> str:
    quota = f"the quota of {verdict.gate.display_name}"
    match verdict.blocked_by:
        case BlockReason.BREAKER:
            return _breaker(verdict)
        case BlockReason.HELD:
            return f"{quota}, which is held{_hold(verdict.hold, names_actor=verdict.gate.kind not in OVER_ALL)}"
        case BlockReason.FULL if verdict.allowed is not None:
            return f"{quota}, which has its maximum of active emergencies ({verdict.allowed})"
        case BlockReason.FULL:
            limit = verdict.rule.max_active if verdict.rule is not None else None
            return f"{quota}, which has its maximum of active jobs" + (f" ({limit})" if limit else "")
        case BlockReason.RATE:
            return f"{quota}, which has reached its rate"
        case _:
            return f"{quota}, which has other jobs ahead"


def _hold(hold: Hold | None, *, names_actor: bool) -> str:
    """Returns actor, times and reason. For a quota over all tenants, leaves out actor and reason, which may name a
    tenant.
    """
    if hold is None:
        return ""
    by, reason = (f" by {hold.actor}", f" ({hold.reason})") if names_actor else ("", "")
    until = f" until {iso(hold.until)}" if hold.until is not None else ""
    return f"{by} since {iso(hold.at)}{until}{reason}"


def _breaker(verdict: GateVerdict) -> str:
    whose = f"the breaker of {verdict.gate.display_name}"
    if verdict.gate.kind is GateKind.TYPE:
        whose = f"the breaker of type {verdict.gate.name} of tenant {verdict.gate.tenant}"
    elif verdict.opens_at is None:
        return f"{whose}, which is half-open and admits at most 32 jobs at a time, over all tenants"
    if verdict.allowed or verdict.opens_at is None:
        return f"{whose}, which is half-open and admits {verdict.allowed} at a time"
    return f"{whose}, which is open until {iso(verdict.opens_at)}"
