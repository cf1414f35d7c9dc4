"""Jobs, newest first, by filter (FEATURES E3), and those that failed for good (D8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.routing import normalise
from shared.core.states import JobStatus
from shared.core.view import dead_letter_view, listed_view
from shared.operations.context import Context
from shared.ports import Listed, ListFilter

#: LIST rows say how a job ended, but of a living job only that it lives: its state is read from its own row
_READS_AT_ONCE = 16

#: rows that one request looks at, however few of them fit its filter; the next page goes on after the last
MAX_LOOKED_AT = 1000

#: a row's line of the list; None where it does not fit the filter after all
Show = Callable[[Listed], Awaitable[dict[str, Any] | None]]

_LIVING = frozenset(status for status in JobStatus if not status.terminal)


@dataclass(frozen=True, kw_only=True)
class Wanted:
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

    def rows(self) -> ListFilter:
        """What of it the LIST rows can tell."""
        wanted = self.statuses
        if wanted is not None and wanted & _LIVING:
            wanted |= _LIVING
        return ListFilter(
            statuses=frozenset(status.value for status in wanted) if wanted is not None else None,
            request_type=self.request_type,
            since=self.since,
            until=self.until,
        )


async def list_jobs(
    context: Context, wanted: Wanted, *, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """One page, and the position to go on from. Raises LedgerUnavailable."""

    async def show(listed: Listed) -> dict[str, Any] | None:
        status, step_id = listed.status, None
        if not JobStatus(status).terminal and (stored := await context.ledger.read(listed.job_id)) is not None:
            status, step_id = stored.record.job.status.value, stored.record.job.current_step_id
        fits = wanted.statuses is None or JobStatus(status) in wanted.statuses
        return listed_view(listed, status=status, current_step_id=step_id) if fits else None

    return await _walk(context, wanted, show, after=after, limit=limit)


async def list_dead_letters(
    context: Context, *, tenant_id: str | None, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Jobs that are FAILED_FINAL, with why, where and what became of them. Raises LedgerUnavailable."""

    async def show(listed: Listed) -> dict[str, Any] | None:
        stored = await context.ledger.read(listed.job_id)
        return dead_letter_view(stored.record) if stored is not None else None

    wanted = Wanted(tenant_id=tenant_id, statuses=frozenset({JobStatus.FAILED_FINAL}))
    return await _walk(context, wanted, show, after=after, limit=limit)


async def _walk(
    context: Context, wanted: Wanted, show: Show, *, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Looks at rows until the page is full, the list is at its end, or the bound is reached."""
    tenants = [normalise(wanted.tenant_id)] if wanted.tenant_id else await context.index.tenants()
    gate = asyncio.Semaphore(_READS_AT_ONCE)
    only = wanted.rows()
    kept: list[dict[str, Any]] = []
    looked_at = 0

    async def line(listed: Listed) -> dict[str, Any] | None:
        if wanted.label is not None and listed.labels.get(wanted.label[0]) != wanted.label[1]:
            return None
        async with gate:
            return await show(listed)

    while True:
        batch = max(limit - len(kept), _READS_AT_ONCE)
        found: list[Listed] = []
        for tenant in tenants:
            found += await context.index.list_jobs(tenant, after=after, limit=batch, only=only)
        found.sort(key=lambda listed: listed.cursor)
        more = len(found) >= batch
        rows = found[:batch]
        for listed, shown in zip(rows, await asyncio.gather(*map(line, rows)), strict=True):
            after = listed.cursor
            looked_at += 1
            if shown is not None:
                kept.append(shown)
            if len(kept) == limit or looked_at == MAX_LOOKED_AT:
                return kept, after if more or listed is not rows[-1] else None
        if not more:
            return kept, None
