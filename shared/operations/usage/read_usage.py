"""Reads the usage of a tenant's jobs (R68): from rows of past hours, and from the list for hours without a rollup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.usage import HOUR, Axis, Counted, Group, HourUsage, Sum, group_in, hour_of, sum_hours
from shared.operations.process.context import Context
from shared.ports.index import ListRow

#: maximum period of one call
FARTHEST = timedelta(days=31)
#: default period
DEFAULT_SINCE = timedelta(days=1)
#: maximum LIST rows of hours without a rollup; past it the response is partial
MAX_ROWS = 5_000
#: time after which an hour without a rollup had no jobs
_UNFOLDED = timedelta(hours=2)
_PAGE = 1000


@dataclass(frozen=True)
class Used:
    """Sums of usage from `since` to `until`."""

    since: datetime
    until: datetime
    total: Sum
    groups: dict[str, Sum]
    #: `True` if jobs of the last hours may be missing
    partial: bool


async def read_usage(context: Context, tenant: str, since: datetime, axis: Axis | None) -> Used:
    """Returns the sums of usage from the start of the hour of `since` until now.

    A call costs one query of the hours and at most seven queries of lists. Raises LedgerUnavailable.
    """
    now, first = context.clock.now(), hour_of(since)
    kept = await context.usage.hours(tenant, first, now + HOUR)
    hours = {each.hour: each for each in kept}
    room, hour = MAX_ROWS, hour_of(now)
    while hour >= max(first, hour_of(now - _UNFOLDED)) and room:
        known = hours.get(hour, HourUsage(hour))
        if not known.folded:
            jobs, room = await _count_list(context, tenant, hour, room)
            hours[hour] = replace(known, jobs=jobs)
        hour -= HOUR
    total, groups = sum_hours((each for _, each in sorted(hours.items())), axis)
    return Used(first, now, total, groups, partial=not room)


async def _count_list(context: Context, tenant: str, hour: datetime, room: int) -> tuple[dict[Group, Counted], int]:
    """Returns an hour's usage from its list, and the number of rows that may still be read."""
    jobs: dict[Group, Counted] = {}
    after = None
    while room:
        limit = min(_PAGE, room)
        rows = await context.index.list_jobs(tenant, after=after, limit=limit, since=hour, until=hour + HOUR)
        for row in rows:
            count(jobs, row)
        room -= len(rows)
        if len(rows) < limit:
            break
        after = rows[-1].cursor
    return jobs, room


def count(jobs: dict[Group, Counted], row: ListRow) -> None:
    """Adds a LIST row to its group."""
    counted = jobs.setdefault(group_in(jobs, (row.request_type, row.source or "")), Counted())
    counted.add(row.staged_at, row.admitted_at, row.ended_at)
