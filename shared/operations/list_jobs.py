"""Lists of jobs, newest first: by filter, and those that failed for good.

A list is read from the index: one query a page, however many jobs there are. Each line names the event that it is as
of (`seq`). The sweeper brings the lines of living jobs up to date, so none is behind for longer than a sweep. A list of
living jobs by status is read from the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from shared.core.routing import normalise
from shared.core.states import JobStatus
from shared.operations.context import Context
from shared.operations.read_history import read_for_list
from shared.ports.index import ListRow
from shared.responses.job import DeadLetter, JobLine
from shared.views.job import dead_letter, job_line

_READS_AT_ONCE = 16

#: rows that one request looks at, however few of them fit its filter; the next page goes on after the last
MAX_LOOKED_AT = 1000
#: what a filtered list looks at first: most pages are filled by it
_FIRST_LOOK = 100

_Line = TypeVar("_Line", JobLine, DeadLetter)

_LIVING = frozenset(status for status in JobStatus if not status.terminal)


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """The one filter of lists; what is None does not matter."""

    #: None: every tenant's jobs, merged
    tenant_id: str | None = None
    statuses: frozenset[JobStatus] | None = None
    request_type: str | None = None
    #: created at or after this instant
    since: datetime | None = None
    #: created before this instant
    until: datetime | None = None
    #: a label and its value
    label: tuple[str, str] | None = None

    @property
    def matches_every_row(self) -> bool:
        """The keys of the rows are filter enough."""
        return self.statuses is None and self.request_type is None and self.label is None

    @property
    def needs_ledger(self) -> bool:
        """A LIST row may not know yet in which of these states a living job is."""
        return self.statuses is not None and bool(self.statuses & _LIVING)

    def may_match(self, listed: ListRow) -> bool:
        """As far as the LIST row shows."""
        status = _status(listed)
        return status is not None and (
            (self.statuses is None or status in self.statuses or (self.needs_ledger and status in _LIVING))
            and (self.request_type is None or listed.request_type == self.request_type)
            and (self.label is None or listed.labels.get(self.label[0]) == self.label[1])
        )


def _status(listed: ListRow) -> JobStatus | None:
    """None: one of a later release, whose jobs only that release can show (R44)."""
    return JobStatus(listed.status) if listed.status in JobStatus.__members__ else None


async def list_jobs(
    context: Context, job_filter: JobFilter, *, after: str | None, limit: int
) -> tuple[list[JobLine], str | None]:
    """One page, and the position to go on from. Raises LedgerUnavailable."""

    async def render(listed: ListRow) -> JobLine | None:
        status, step_id, seq = _status(listed), listed.current_step_id, listed.seq
        if status is None:
            return None
        if job_filter.needs_ledger and not status.terminal:
            if (stored := await read_for_list(context.ledger, listed.job_id)) is not None:
                job = stored.record.job
                status, step_id, seq = job.status, job.current_step_id, job.event_seq
            if status not in (job_filter.statuses or ()):
                return None
        return job_line(listed, status=status, current_step_id=step_id, seq=seq)

    return await _walk(context, job_filter, render, after=after, limit=limit)


async def list_dead_letters(
    context: Context, *, tenant_id: str | None, after: str | None, limit: int
) -> tuple[list[DeadLetter], str | None]:
    """Jobs that are FAILED_FINAL, with why, where and what became of them. Raises LedgerUnavailable."""

    async def render(listed: ListRow) -> DeadLetter | None:
        stored = await read_for_list(context.ledger, listed.job_id)
        return dead_letter(stored.record) if stored is not None else None

    job_filter = JobFilter(tenant_id=tenant_id, statuses=frozenset({JobStatus.FAILED_FINAL}))
    return await _walk(context, job_filter, render, after=after, limit=limit)


async def _walk(
    context: Context,
    job_filter: JobFilter,
    render: Callable[[ListRow], Awaitable[_Line | None]],
    *,
    after: str | None,
    limit: int,
) -> tuple[list[_Line], str | None]:
    """Looks at rows until the page is full, the list is at its end, or the bound is reached."""
    tenants = [normalise(job_filter.tenant_id)] if job_filter.tenant_id else await context.index.tenants()
    semaphore = asyncio.Semaphore(_READS_AT_ONCE)
    kept: list[_Line] = []
    looked_at = 0
    batch = limit if job_filter.matches_every_row else max(limit, _FIRST_LOOK)

    async def line(listed: ListRow) -> _Line | None:
        if not job_filter.may_match(listed):
            return None
        async with semaphore:
            return await render(listed)

    while True:
        batch = min(batch, MAX_LOOKED_AT - looked_at)
        rows, more = await _rows(context, job_filter, tenants, after, batch, semaphore)
        for listed, shown in zip(rows, await asyncio.gather(*map(line, rows)), strict=True):
            after = listed.cursor
            if shown is not None:
                kept.append(shown)
            if len(kept) == limit:
                return kept, after if more or listed is not rows[-1] else None
        looked_at += len(rows)
        if not more:
            return kept, None
        if looked_at >= MAX_LOOKED_AT:
            return kept, after
        batch *= 4


async def _rows(
    context: Context,
    job_filter: JobFilter,
    tenants: list[str],
    after: str | None,
    limit: int,
    semaphore: asyncio.Semaphore,
) -> tuple[list[ListRow], bool]:
    """At most `limit` rows of all these tenants, newest first, and whether there are more of them."""
    # one more shows whether there is more; the store gives at most so many in one response
    ask = min(limit + 1, MAX_LOOKED_AT)

    async def of_tenant(tenant: str) -> list[ListRow]:
        async with semaphore:
            return await context.index.list_jobs(
                tenant, after=after, limit=ask, since=job_filter.since, until=job_filter.until
            )

    found = [listed for rows in await asyncio.gather(*map(of_tenant, tenants)) for listed in rows]
    found.sort(key=lambda listed: listed.cursor)
    return found[:limit], len(found) >= ask
