"""Sums up the time and operations of jobs, by filter."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from shared.api.receipt import Receipt, add_up, grouped, receipt
from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.filters import JobFilter
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.operations.jobs.list_jobs import Page, walk_list
from shared.operations.jobs.read_history import read_history
from shared.operations.process.context import Context
from shared.ports.index import ListRow
from shared.refusals import JobNotFound

#: maximum jobs of a page, since each is read with all its events
MAX_JOBS = 100


class Grouping(StrEnum):
    """The property by which jobs are summed."""

    TYPE = "type"
    SOURCE = "source"
    PRIORITY = "priority"


async def sum_receipts(
    context: Context, job_filter: JobFilter, *, after: str | None, limit: int, by: Grouping | None = None
) -> tuple[dict[str, Any], Page[tuple[Job, Receipt]]]:
    """Sums up the time and operations of at most `limit` jobs of the filter's one tenant, newest first. The maximum is
    MAX_JOBS (100).

    Returns the sums and their page. `by`: also sums for each type, normalised source or priority. A page costs the
    queries of a list. Each of its jobs costs one query of its rows and one for each 1,000 of its events.

    The caller adds up the sums of the pages. A job that cannot be read is counted as `unreadable`. Raises
    LedgerUnavailable.
    """
    now = context.clock.now()
    unreadable = 0

    async def one(listed: ListRow) -> tuple[Job, Receipt] | None:
        nonlocal unreadable
        try:
            record, events = await read_history(context, listed.job_id)
        except JobNotFound:
            return None  # the creation is incomplete or was withdrawn
        except (ArchiveGone, ArchiveInvalid, DataLost, Undecodable, UnknownStatus):
            unreadable += 1
            return None
        return (record.job, receipt(record, events, now)) if job_filter.has_status(record.job.status) else None

    page = await walk_list(context, job_filter, one, after=after, limit=min(limit, MAX_JOBS))
    added = add_up([each for _, each in page.lines])
    sums = {"tenant_id": normalise(job_filter.tenant_id or ""), "unreadable": unreadable, **added}
    if by is not None:
        sums["groups"] = grouped((_key(job, by), each) for job, each in page.lines)
    return sums, page


def _key(job: Job, by: Grouping) -> str:
    match by:
        case Grouping.TYPE:
            return job.request_type
        case Grouping.SOURCE:
            return normalise(job.source or "")
        case Grouping.PRIORITY:
            return job.current_priority
