"""The sweeper's part in lists: brings the LIST rows of living jobs up to date.

A transition is one transaction in the ledger. The job's LIST row is in another partition and is written when the job is
created and when it ends. This pass compares the two, so a list is never behind for longer than a sweep, while no more
than `MAX_RELISTED` jobs are active; with more, for as many sweeps as the comparison takes.
"""

from __future__ import annotations

import asyncio

from shared.operations.context import Context
from shared.operations.read_history import read_for_list
from shared.ports.index import ActiveRow

#: jobs that one sweep compares; the next one goes on after the last
MAX_RELISTED = 5000
_PAGE = 500
_READS_AT_ONCE = 16


async def relist(context: Context) -> int:
    """How many rows were behind. Race relist: safe during normal work and another pass. Raises LedgerUnavailable."""
    semaphore = asyncio.Semaphore(_READS_AT_ONCE)
    start = await context.index.read_listing_position()
    compared = behind = 0
    for tenant in sorted(await context.index.tenants()):
        after = start[1] if start and start[0] == tenant else None
        if start and tenant < start[0]:
            continue
        while rows := await context.index.list_active(tenant, after=after, limit=min(_PAGE, MAX_RELISTED - compared)):
            behind += sum(await asyncio.gather(*(_compare(context, active, semaphore) for active in rows)))
            compared, after = compared + len(rows), rows[-1].job_id
            if compared >= MAX_RELISTED:
                await context.index.write_listing_position((tenant, after))
                return behind
    if start is not None:
        await context.index.write_listing_position(None)
    return behind


async def _compare(context: Context, active: ActiveRow, semaphore: asyncio.Semaphore) -> bool:
    async with semaphore:
        stored = await read_for_list(context.ledger, active.job_id)
        if stored is None or stored.record.job.event_seq == active.listed_seq:
            return False
        if stored.record.job.status.terminal:
            # its end is not in the index: this very sweep shall look at it and close it
            await context.index.reschedule_check(active, context.clock.now())
        else:
            await context.index.refresh_listing(active, stored.record.job)
        return True
