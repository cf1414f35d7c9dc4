"""Once a day: ended jobs that no ENDED row leads to, since no retention was set when their idempotency key expired.

They get an ENDED row again, and the sweeper archives them as it does all others (R21).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from shared.core.jobs.states import JobStatus
from shared.operations.context import Context
from shared.ports.index import ListRow

#: after a job's retention: until then its own ENDED row may be there, two days longer than its retention (R73)
_GRACE = timedelta(days=4)
#: rows of one query, and jobs of one transaction
_PAGE, _WRITTEN = 1000, 50


async def clear_late(context: Context, tenant: str, is_over: Callable[[], bool]) -> int:
    """Clears each of the tenant's jobs whose retention is over for days; returns how many. Raises LedgerUnavailable."""
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
            # once: that of a job that cannot be read is put off again and again
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
