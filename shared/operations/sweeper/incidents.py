"""Repairs incidents in each sweep: opens missing incidents, and closes incidents whose cause has ended."""

from __future__ import annotations

from datetime import timedelta

from shared.core.gates.rules import GateState
from shared.core.incidents import IncidentKind
from shared.operations.gates.admission_turns import read_directory
from shared.operations.incidents.row_incidents import open_row, settle_rows
from shared.operations.process.concurrency import run_concurrently
from shared.operations.quotas.breaker_incidents import keep_incident
from shared.operations.sweeper.state import IsOver, Pass
from shared.ports.incidents import IncidentRow

#: subject of the incident of the directory as a whole
DIRECTORY = "the directory of quotas"
#: maximum age of a process's copy while the directory cannot be read
_OUTAGE = timedelta(minutes=5)
_PAGE = 1000


async def keep_breakers(one: Pass, is_over: IsOver) -> None:
    """Opens and closes the incidents of the breakers that this sweep read (R63)."""

    async def keep(state: GateState) -> None:
        if is_over():
            return
        try:
            await keep_incident(one.context, state)
        except Exception as fault:
            row = f"{state.gate.tenant} breaker {state.gate.id}"
            await one.report_fault("INCIDENT_LATE", fault, row=row, gate=state.gate.id)

    await run_concurrently([state for state in one.gates if state.breaker is not None], keep)


async def look_at_directory(one: Pass, is_over: IsOver) -> None:
    """Opens the incident of a directory that cannot be read for five minutes, and of each row that cannot be decoded.

    Raises LedgerUnavailable.
    """
    context, now = one.context, one.context.clock.now()
    try:
        await read_directory(context)
    finally:
        if not context.process.gate_directory.is_outdated(now):
            one.note_success(DIRECTORY)
        elif context.process.row_faults.note_failure(DIRECTORY, now) >= _OUTAGE:
            await open_row(
                context, DIRECTORY, "DIRECTORY_UNREAD", "the sweeper has not read the directory of quotas for 5 minutes"
            )
    for row in context.process.gate_directory.unread:
        await open_row(
            context,
            row,
            "ROW_UNDECODABLE",
            "LUCIUS cannot decode this row of the directory of quotas, and ignores the row",
        )


async def settle_row_incidents(one: Pass, is_over: IsOver) -> None:
    """Resolves incidents of rows on which an operation succeeded.

    The first share also resolves incidents that no failure has renewed for two hours. Each sweep checks the 1,000
    incidents that were opened last. The first sweep of each hour checks all. Raises LedgerUnavailable.
    """
    if one.share.number and not one.fine:
        return
    found, after = list[IncidentRow](), None
    while True:
        rows = await one.context.incidents.list_open(after=after, limit=_PAGE)
        found += [row for row in rows if row.incident.kind is IncidentKind.ROW]
        if len(rows) < _PAGE or not one.is_hourly or is_over():
            break
        after = rows[-1].cursor
    await settle_rows(one.context, found, one.fine, quiet_too=one.share.number == 0)
