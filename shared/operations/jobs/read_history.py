"""A job with its events, at one instant."""

from __future__ import annotations

from shared import telemetry
from shared.api.explain import cite
from shared.core.jobs.history import EventType
from shared.core.jobs.job import Event, Record
from shared.errors import DataLost, LedgerUnavailable, Undecodable, UnknownStatus
from shared.operations.context import Context
from shared.ports.ledger import Ledger, Stored
from shared.refusals import JobNotFound

_PAGE = 1000
#: events read at a time, from the newest back: of a job at most 20 are mere records of late replies
_MOVE_PAGE = 50


async def read_history(context: Context, job_id: str) -> tuple[Record, list[Event]]:
    """Returns the rows, and the events up to the head that they name. Race history: later ones are left out.

    Raises JobNotFound, LedgerUnavailable.
    """
    # a colon never stands in a job id: it sets off a control, as in `:cancel`
    stored = None if ":" in job_id or len(job_id) > 128 else await context.ledger.read(job_id)
    if stored is None:
        raise JobNotFound(job_id)
    head = stored.record.job.event_seq
    events: list[Event] = []
    while len(events) < head:
        page = await context.ledger.events(job_id, after_seq=len(events), limit=min(_PAGE, head - len(events)))
        if not page:
            raise LedgerUnavailable(f"the events of job {job_id} are not all there")
        events += page
    return stored.record, events


async def last_transition(context: Context, record: Record) -> Event | None:
    """Returns the newest event that changed the job's state. Race history: events after `record` was read are left out.

    Raises LedgerUnavailable.
    """
    end = record.job.event_seq
    while end > 0:
        start = max(0, end - _MOVE_PAGE)
        for event in reversed(await context.ledger.events(record.job.job_id, after_seq=start, limit=end - start)):
            if event.type == EventType.JOB_CREATED or cite(event):
                return event
        end = start
    return None


async def read_for_list(ledger: Ledger, job_id: str) -> Stored | None:
    """Returns the job. None: it does not exist, it is of a later release, or a part of it is lost. It must not hide the
    others.

    Raises LedgerUnavailable.
    """
    try:
        return await ledger.read(job_id)
    except UnknownStatus:
        return None
    except (DataLost, Undecodable) as lost:
        telemetry.warn("LEDGER_REFUSED", jobId=job_id, reason=lost)
        return None
