"""Reads a job with its events, as of one time."""

from __future__ import annotations

from collections.abc import Sequence

from shared import telemetry
from shared.api.explain import cite
from shared.core.jobs.history import EventType
from shared.core.jobs.job import Event, Job, Record
from shared.errors import DataLost, LedgerUnavailable, Undecodable, UnknownStatus
from shared.operations.jobs.read_archived import ArchivedJob, read_archived
from shared.operations.process.context import Context
from shared.ports.ledger import Ledger, Stored
from shared.refusals import JobNotFound

_PAGE = 1000
#: events of one read, from the newest back; at most 20 events of a job record late replies only
_MOVE_PAGE = 50


async def read_history(context: Context, job_id: str) -> tuple[Record, list[Event]]:
    """Returns the rows, and the events up to the head in the rows, also for an archived job.

    Race history: later events are left out. Raises the errors of `read_job`.
    """
    record, archived = await read_job(context, job_id)
    if archived is not None:
        return record, archived.events
    head = record.job.event_seq
    events: list[Event] = []
    while len(events) < head:
        page = await context.ledger.events(job_id, after_seq=len(events), limit=min(_PAGE, head - len(events)))
        if not page:
            raise LedgerUnavailable(f"events of job {job_id} are missing")
        events += page
    return record, events


async def read_job(context: Context, job_id: str) -> tuple[Record, ArchivedJob | None]:
    """Returns the job with its steps, and for an archived job the rest of its bundle.

    Raises JobNotFound, ArchiveGone, ArchiveInvalid, DataLost, Undecodable, UnknownStatus, LedgerUnavailable.
    """
    stored = await context.ledger.read(job_id)
    if stored is not None:
        return stored.record, None
    if (archived := await read_archived(context, job_id)) is None:
        raise JobNotFound(job_id)
    return archived.record, archived


async def find_job(context: Context, job_id: str) -> Job | None:
    """Returns the job from the ledger, else from the archive, or None if there is no such job.

    Raises DataLost, Undecodable, UnknownStatus, LedgerUnavailable, and ArchiveGone or ArchiveInvalid if the archived
    job cannot be read.
    """
    try:
        record, _ = await read_job(context, job_id)
    except JobNotFound:
        return None
    return record.job


async def last_transition(context: Context, record: Record, events: Sequence[Event] | None = None) -> Event | None:
    """Returns the newest event that used rows of the transition tables, or the creation. Returns None if there is no
    such event. `events`: all events of an archived job.

    Race history: events after `record` was read are left out. Raises LedgerUnavailable.
    """
    if events is not None:
        return next((each for each in reversed(events) if each.type == EventType.JOB_CREATED or cite(each)), None)
    end = record.job.event_seq
    while end > 0:
        start = max(0, end - _MOVE_PAGE)
        for event in reversed(await context.ledger.events(record.job.job_id, after_seq=start, limit=end - start)):
            if event.type == EventType.JOB_CREATED or cite(event):
                return event
        end = start
    return None


async def read_for_list(ledger: Ledger, job_id: str) -> Stored | None:
    """Returns the job for a list. Returns None if the job does not exist, is of a later release, or has a lost or
    undecodable part.

    So one such job does not hide the others. Raises LedgerUnavailable.
    """
    try:
        return await ledger.read(job_id)
    except UnknownStatus:
        return None
    except (DataLost, Undecodable) as lost:
        telemetry.warn("LEDGER_REFUSED", jobId=job_id, reason=lost)
        return None
