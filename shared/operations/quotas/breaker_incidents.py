"""Creates the incident of a breaker that opened, by a call immediately after the opening, else by the sweeper (R63).

No job and no allocation waits for the incident. The quota's log has each opening, so a breaker that has already closed
gets its incident too. The incident's id is made from the opening, so the call and the sweeper make one incident.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from shared.core.gates.breaker import BreakerState, advance
from shared.core.gates.changes import ChangeType
from shared.core.gates.rules import EVERY, GateState
from shared.core.incidents import IncidentKind
from shared.operations.incidents.incidents import find_incident_of, raise_incident, settle_incident
from shared.operations.process.context import Context

#: time after a breaker closed in which sweeps still create and settle its incident, since sweeps may fail
_JUST_CLOSED = timedelta(hours=1)
#: number of last entries of a quota's log that are read, and of their openings that are compared with incidents
_ENTRIES, _OPENINGS = 50, 8


class _Opening(NamedTuple):
    at: datetime
    #: text of the incident
    reason: str


async def answer_call(context: Context, tenant: str, gate_id: str) -> None:
    """Creates the incident that a call requests. Raises Contended, LedgerUnavailable."""
    stored = await context.admissions.read(tenant)
    if stored is not None and (state := stored.admission.gates.get(gate_id)) is not None:
        await keep_incident(context, state)


async def keep_incident(context: Context, state: GateState) -> None:
    """Opens or closes the incident of the quota's breaker. Does nothing if the breaker has been closed for an hour or
    longer.

    A breaker that opens again before it closed has one incident, unless an operator closed the incident in between.
    Raises Contended, LedgerUnavailable.
    """
    if state.breaker is None:
        return
    now, gate = context.clock.now(), state.gate
    breaker = advance(state.breaker, now)
    is_open = breaker.state is not BreakerState.CLOSED
    if not is_open and (breaker.closed_at is None or now - breaker.closed_at >= _JUST_CLOSED):
        return
    known = await context.incidents.find_open(IncidentKind.BREAKER, gate.id)
    if known is None:
        await _make(context, state)
    if not is_open:
        await settle_incident(context, IncidentKind.BREAKER, gate.id, "the breaker has closed")


async def _make(context: Context, state: GateState) -> None:
    """Creates the incident of the last opening, unless an incident was open at or after the opening."""
    openings = await _read_openings(context, state)
    if not openings:
        return
    gate, last = state.gate, openings[-1]
    for opening in openings[-_OPENINGS:]:
        found = await find_incident_of(context, IncidentKind.BREAKER, gate.id, opening.at)
        if found is not None and (found.settled_at is None or found.settled_at >= last.at):
            return
    await raise_incident(
        context,
        IncidentKind.BREAKER,
        gate.id,
        tenant=None if gate.tenant == EVERY else gate.tenant,
        code="BREAKER_OPENED",
        detail=f"{gate.display_name}: {last.reason}",
        request_type=gate.name,
        at=last.at,
    )


async def _read_openings(context: Context, state: GateState) -> list[_Opening]:
    """Reads from the quota's log the openings since the breaker was last closed, in order."""
    first = max(0, state.log_seq - _ENTRIES)
    found: list[_Opening] = []
    for entry in await context.admissions.log(state.gate.tenant, state.gate.id, after=first, limit=_ENTRIES):
        if entry.type == ChangeType.BREAKER_OPENED:
            was_closed = entry.data["before"]["breaker"]["state"] == BreakerState.CLOSED
            found = [*([] if was_closed else found), _Opening(entry.at, entry.reason)]
    if not found and state.breaker is not None and state.breaker.opened_at is not None:
        # the log is deleted
        bad, calls = state.breaker.opened_by
        return [_Opening(state.breaker.opened_at, f"{bad} of {calls} jobs failed")]
    return found
