"""What a tenant's jobs spent and cost, over a time range."""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.core.job import Job
from shared.core.routing import normalise
from shared.errors import DataLost, JobNotFound, UnknownStatus
from shared.operations.context import Context
from shared.operations.read_history import read_history
from shared.ports.index import ListRow
from shared.responses.history import Receipt
from shared.views.receipt import add_up, grouped, receipt

#: jobs of one page: each is read whole, with its events
MAX_JOBS = 100
_READS_AT_ONCE = 8


class Grouping(StrEnum):
    """What the jobs of one sum have in common."""

    TYPE = "type"
    SOURCE = "source"
    PRIORITY = "priority"


async def sum_receipts(
    context: Context,
    tenant_id: str,
    *,
    since: datetime | None,
    until: datetime | None,
    after: str | None,
    limit: int,
    by: Grouping | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Sums over at most `limit` (MAX_JOBS) jobs created in the range, newest first, and the position to go on from.

    `by`: also sums of the jobs of each type, source (as it is compared) or priority. A page costs one query of the list
    and, for each of its jobs, one of its rows and one per 1000 of its events; who wants more adds the pages. Raises
    LedgerUnavailable.
    """
    limit = min(limit, MAX_JOBS)
    tenant = normalise(tenant_id)
    listed = await context.index.list_jobs(tenant, after=after, limit=limit, since=since, until=until)
    semaphore = asyncio.Semaphore(_READS_AT_ONCE)
    now = context.clock.now()

    async def one(job: ListRow) -> tuple[Job, Receipt] | None:
        async with semaphore:
            try:
                record, events = await read_history(context, job.job_id)
                return record.job, receipt(record, events, now)
            except (JobNotFound, DataLost, UnknownStatus):
                return None  # a creation that is not finished, or was withdrawn; a job that cannot be read

    found = [each for each in await asyncio.gather(*map(one, listed)) if each is not None]
    sums = {"tenant_id": tenant, **add_up([each for _, each in found])}
    if by is not None:
        sums["groups"] = grouped((_key(job, by), each) for job, each in found)
    return sums, listed[-1].cursor if len(listed) == limit else None


def _key(job: Job, by: Grouping) -> str:
    match by:
        case Grouping.TYPE:
            return job.request_type
        case Grouping.SOURCE:
            return normalise(job.source or "")
        case Grouping.PRIORITY:
            return job.priority
