"""Incidents of rows that LUCIUS cannot read or process. Failing work opens an incident, and the sweeper closes it.

The fault returns at each try, so the work is postponed and an operator must act. A process writes the incident of a row
at most every half hour, for at most 50 rows an hour.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from shared import telemetry
from shared.core.incidents import IncidentKind
from shared.errors import Undecodable
from shared.operations.incidents.incidents import raise_incident, settle_incident
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.incidents import IncidentRow

#: time by which work at a failing row is postponed
POSTPONED_FOR = timedelta(hours=1)
#: time without another failure after which an incident is closed: twice `POSTPONED_FOR`
SETTLED_AFTER = timedelta(hours=2)


async def report_row(context: Context, row: str, fault: Exception) -> bool:
    """Returns `True` if the fault will last, and then calls `open_row` for the row. Raises nothing.

    `row`: partition and row key of the row that the work is about. If a row cannot be decoded, the incident is of the
    row that `fault` names. The incident belongs to no tenant, since only an operator can act on a row.
    """
    context, now = context.of_all_tenants, context.clock.now()
    if not context.process.row_faults.lasts(row, fault, now):
        return False
    subject = fault.row if isinstance(fault, Undecodable) else row
    code = "ROW_UNDECODABLE" if isinstance(fault, Undecodable) else "ROW_FAILS"
    await open_row(context, subject, code, f"{type(fault).__name__}: {fault}")
    return True


async def open_row(context: Context, subject: str, code: str, detail: str) -> None:
    """Opens the incident of a row, or records in the open incident that the fault continues. Raises nothing."""
    context, now = context.of_all_tenants, context.clock.now()
    if not context.process.row_faults.may_report(subject, now):
        return
    try:
        incident = await raise_incident(context, IncidentKind.ROW, subject, tenant=None, code=code, detail=detail)
        if incident.opened_at < now:
            # the fault continues; the sweeper settles incidents that no failure renews
            await context.incidents.enter_open(incident, now)
    except Exception as failed:
        context.process.row_faults.forget_report(subject)
        telemetry.record_fault(failed, "INCIDENT_LATE", row=subject)


async def settle_rows(
    context: Context, listed: Collection[IncidentRow], fine: Collection[str], *, quiet_too: bool = True
) -> None:
    """Resolves the open incidents of the rows in `fine`. If `quiet_too`, also resolves the incidents that no failure
    has renewed for `SETTLED_AFTER` (2 h).

    `fine`: keys of rows on which an operation succeeded. The next sweep retries an incident that cannot be resolved.
    """
    now = context.clock.now()

    async def look(row: IncidentRow) -> None:
        subject, why = row.incident.subject, "LUCIUS processed the row again"
        if subject not in fine:
            if not quiet_too or now - (row.entered_at or row.incident.opened_at) < SETTLED_AFTER:
                return
            why = f"no fault of the row for {SETTLED_AFTER // timedelta(hours=1)} hours"
        with telemetry.tolerate(Exception, "INCIDENT_LATE", row=subject):
            await settle_incident(context, IncidentKind.ROW, subject, why)
            context.process.row_faults.note_success(subject)

    await run_concurrently(
        [row for row in listed if row.incident.kind is IncidentKind.ROW and row.incident.is_open], look
    )
