"""Lists jobs by filter, newest first.

A page of one tenant's unfiltered list usually takes one query of the index. Other lists take at least one query for
each tenant.

Each item has the number of its last event (`seq`). The sweeper's survey updates the items of living jobs, so each can
be as old as one whole survey. A list of living jobs by status is read from the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from shared.api.job import JobLine, job_line
from shared.core.filters import JobFilter
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import digest
from shared.operations.jobs.read_history import read_for_list
from shared.operations.process.context import Context
from shared.ports.index import ListRow

_READS_AT_ONCE = 16

#: maximum rows of a query; the store returns no more in one response
_MAX_ROWS = 1000
#: maximum rows that a request reads in addition to those that it shows; the next page continues after the last
MAX_READ_MORE = 200
#: minimum rows that a filtered list reads first, enough for most pages
_FIRST_LOOK = 100
#: minimum rows that are worth another query
_LEAST_LOOK = 10


class IndexRow(Protocol):
    """A row of an index, with an opaque position by which rows of several tenants are merged."""

    @property
    def cursor(self) -> str: ...


R = TypeVar("R", bound=IndexRow)
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Items of a list, and the position of the next page."""

    lines: list[T]
    #: position to continue from; None if the list has ended
    after: str | None
    #: `True` if the request reached its limit of rows before the page was full
    partial: bool = False


async def list_jobs(context: Context, job_filter: JobFilter, *, after: str | None, limit: int) -> Page[JobLine]:
    """Returns a page of jobs. Raises LedgerUnavailable."""

    async def render(listed: ListRow) -> JobLine | None:
        status = status_of(listed)
        if status is None:
            return None
        if job_filter.needs_ledger and not status.terminal:
            if (stored := await read_for_list(context.ledger, listed.job_id)) is not None:
                listed = _as_of(listed, stored.record.job)
            if not job_filter.has_status(JobStatus(listed.status)):
                return None
        return job_line(listed)

    return await walk_list(context, job_filter, render, after=after, limit=limit)


async def walk_list(
    context: Context,
    job_filter: JobFilter,
    render: Callable[[ListRow], Awaitable[T | None]],
    *,
    after: str | None,
    limit: int,
) -> Page[T]:
    """Returns a page of the results of `render` for the LIST rows that match the filter. Leaves out results that are
    None.

    Raises LedgerUnavailable.
    """

    async def of_tenant(tenant: str, after: str | None, count: int) -> list[ListRow]:
        if job_filter.is_keyed:
            return await _of_key(context, tenant, job_filter, after=after, limit=count)
        list_page = context.index.list_archived if job_filter.archived else context.index.list_jobs
        return await list_page(tenant, after=after, limit=count, since=job_filter.since, until=job_filter.until)

    def may_match(listed: ListRow) -> bool:
        status = status_of(listed)
        return (
            status is not None
            and job_filter.has_time(listed.created_at)
            and job_filter.may_match(status, listed.request_type, listed.labels)
        )

    return await fill(
        context,
        job_filter,
        of_tenant,
        may_match,
        render,
        after=after,
        limit=limit,
        every_row=job_filter.matches_every_row,
    )


async def _of_key(
    context: Context, tenant: str, job_filter: JobFilter, *, after: str | None, limit: int
) -> list[ListRow]:
    """Returns rows of the jobs that have the filter's keys. Raises LedgerUnavailable."""
    index, key, correlation_id = context.index, job_filter.idempotency_key, job_filter.correlation_id
    if key is None:
        return await index.list_correlated(tenant, correlation_id or "", after=after, limit=limit)
    if (claim := await index.read_claim(tenant, digest(f"key:{key}"))) is None:
        return []
    row = await index.read_listed(tenant, claim.created_at, claim.job_id, correlation_id=correlation_id)
    return [row] if row is not None and (after is None or row.cursor > after) else []


def _as_of(listed: ListRow, job: Job) -> ListRow:
    """Returns the row with the job's present values of the columns that change until the job ends."""
    return replace(
        listed,
        status=job.status.value,
        current_step_id=job.current_step_id,
        seq=job.event_seq,
        ended_at=job.completed_at,
        error_code=job.error_code,
    )


def status_of(listed: ListRow) -> JobStatus | None:
    """Returns the status, or None for a status of a later release, which only that release can show (R44)."""
    return JobStatus(listed.status) if listed.status in JobStatus.__members__ else None


async def fill(
    context: Context,
    job_filter: JobFilter,
    of_tenant: Callable[[str, str | None, int], Awaitable[list[R]]],
    may_match: Callable[[R], bool],
    render: Callable[[R], Awaitable[T | None]],
    *,
    after: str | None,
    limit: int,
    every_row: bool,
) -> Page[T]:
    """Returns a page of the rows of all tenants of the filter, merged (`fill_from`). Raises errors of the ports."""
    tenants = [normalise(job_filter.tenant_id)] if job_filter.tenant_id else await context.index.tenants()
    return await fill_from(tenants, of_tenant, may_match, render, after=after, limit=limit, every_row=every_row)


async def fill_from(
    sources: Sequence[S],
    rows_past: Callable[[S, str | None, int], Awaitable[list[R]]],
    may_match: Callable[[R], bool],
    render: Callable[[R], Awaitable[T | None]],
    *,
    after: str | None,
    limit: int,
    every_row: bool,
) -> Page[T]:
    """Merges the rows of all sources after `after` into a page. Stops at a full page, at the end of the list, or after
    `MAX_READ_MORE` (200) rows that are not shown.

    `every_row`: nearly every row is shown, so at most `limit` rows are read first. Raises errors of the ports.
    """
    semaphore = asyncio.Semaphore(_READS_AT_ONCE)
    kept: list[T] = []
    read = 0
    batch = limit if every_row else min(max(limit, _FIRST_LOOK), MAX_READ_MORE - 1)

    async def rows_of(source: S, count: int) -> list[R]:
        async with semaphore:
            return await rows_past(source, after, count)

    async def render_row(row: R) -> T | None:
        async with semaphore:
            return await render(row)

    while True:
        # one more row shows whether the list continues
        ask = min(batch + 1, _MAX_ROWS)
        found = [row for rows in await asyncio.gather(*(rows_of(each, ask) for each in sources)) for row in rows]
        found.sort(key=lambda row: row.cursor)
        rows, more, place = found[:batch], len(found) >= ask, 0
        read += min(len(found), ask)
        while place < len(rows):
            # the page renders at most the rows that it has room for
            turn: list[R] = []
            while place < len(rows) and len(turn) < limit - len(kept):
                row = rows[place]
                after, place = row.cursor, place + 1
                if may_match(row):
                    turn.append(row)
            kept += [line for line in await asyncio.gather(*map(render_row, turn)) if line is not None]
            if len(kept) == limit:
                return Page(kept, after if more or place < len(rows) else None)
        if not more:
            return Page(kept, None)
        batch = min(MAX_READ_MORE + len(kept) - read - 1, max(limit - len(kept), _FIRST_LOOK))
        if batch < _LEAST_LOOK:
            return Page(kept, after, partial=True)
