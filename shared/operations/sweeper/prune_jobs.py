"""Finds ended jobs without an ENDED row once a day: no retention was set when their idempotency record expired.

They get an ENDED row again, and the sweeper archives them like all others (R21).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from shared.core.jobs.states import JobStatus
from shared.operations.process.context import Context
from shared.ports.index import ListRow

#: time after a job's retention in which its own ENDED row may exist, up to two days longer than its retention (R73)
_GRACE = timedelta(days=4)
#: maximum rows of a query, and maximum jobs of a transaction
_PAGE, _WRITTEN = 1000, 50


async def clear_late(context: Context, tenant: str, is_over: Callable[[], bool]) -> int:
    """Schedules the clearing of each of the tenant's jobs whose retention ended days ago. Returns their number. Raises
    LedgerUnavailable.
    """
    if context.settings.retention_days is None:
        return 0
    retention, found, after = timedelta(days=context.settings.retention_days), 0, None
    now = context.clock.now()
    before = now - retention - _GRACE
    while True:
        rows = await context.index.list_jobs(tenant, after=after, limit=_PAGE, until=before)
        late = [
            (row, row.ended_at + retention)
            for row in rows
            # checked first, since a job that cannot be read is postponed again and again
            if row.ended_at is not None and row.ended_at < before and _has_ended(row) and not row.cleared_again
        ]
        for start in range(0, len(late), _WRITTEN):
            await context.index.clear_again(tenant, late[start : start + _WRITTEN], now)
        found += len(late)
        if len(rows) < _PAGE or is_over():
            return found
        after = rows[-1].cursor


def _has_ended(row: ListRow) -> bool:
    return row.status in set(JobStatus) and JobStatus(row.status).terminal
