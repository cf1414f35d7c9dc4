"""What a tenant's jobs spent and cost, over a time range."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from shared.core.routing import normalise
from shared.errors import DataLost, JobNotFound, UnknownStatus
from shared.operations.context import Context
from shared.operations.read_history import read_history
from shared.ports.index import ListRow
from shared.responses.history import Receipt
from shared.views.receipt import add_up, receipt

#: jobs of one page: each is read whole, with its events
MAX_JOBS = 100
_READS_AT_ONCE = 8


async def sum_receipts(
    context: Context, tenant_id: str, *, since: datetime | None, until: datetime | None, after: str | None, limit: int
) -> tuple[dict[str, Any], str | None]:
    """Sums over at most `limit` (MAX_JOBS) jobs created in the range, newest first, and the position to go on from.

    A page costs one query of the list and, for each of its jobs, one of its rows and one per 1000 of its events;
    who wants more adds the pages. Raises LedgerUnavailable.
    """
    limit = min(limit, MAX_JOBS)
    tenant = normalise(tenant_id)
    listed = await context.index.list_jobs(tenant, after=after, limit=limit, since=since, until=until)
    semaphore = asyncio.Semaphore(_READS_AT_ONCE)
    now = context.clock.now()

    async def one(job: ListRow) -> Receipt | None:
        async with semaphore:
            try:
                return receipt(*await read_history(context, job.job_id), now)
            except (JobNotFound, DataLost, UnknownStatus):
                return None  # a creation that is not finished, or was withdrawn; a job that cannot be read

    found = [each for each in await asyncio.gather(*map(one, listed)) if each is not None]
    return {"tenant_id": tenant, **add_up(found)}, listed[-1].cursor if len(listed) == limit else None
