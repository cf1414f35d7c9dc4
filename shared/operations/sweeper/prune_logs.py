"""Deletes old entries of quota logs, old closed incidents and old usage once a day (R88). Schedules the archiving of
ended jobs that were not archived after their retention (R21).

A log loses entries older than `LUCIUS_CHANGE_LOG_DAYS`, but the last old entry stays. That entry has the state and the
hash that the first younger entry continues. So a log is never empty, and its numbers and hashes continue. An entry that
the feed does not have yet stays, with all later entries (R79).

Each call starts at a random tenant, so no tenant is always the last, and deletes the oldest rows first. An interrupted
or concurrent call leaves the rest to the next day.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.events.public_log_events import feed_of
from shared.core.gates.rules import EVERY
from shared.core.jobs.states import JobStatus
from shared.core.usage import hour_of
from shared.errors import Conflict
from shared.operations.events.prune_feeds import DAILY_HOUR
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.turns import from_anywhere
from shared.operations.sweeper.usage import KEPT_FOR
from shared.ports.admissions import LogPlace
from shared.ports.index import ListRow

#: maximum time of a call, out of 570 s of its function, which also writes anchors, exports tables and prunes feeds
BUDGET = timedelta(minutes=4)
#: maximum rows of a query, of a transaction, and maximum jobs of a transaction
PAGE, _REMOVED, _CLEARED = 1000, 100, 50
#: time after a job's retention in which its own ENDED row may exist, up to two days longer than its retention (R73)
_GRACE = timedelta(days=4)
#: maximum tenants at the same time
_AT_ONCE = 8
#: a number after every entry of a log
_PAST = 10**10 - 1


async def prune_logs(context: Context) -> int:
    """Deletes rows past their retention, for all tenants, in the hour `DAILY_HOUR` (3 UTC) only. Returns the number of
    deleted log entries and incidents.

    A tenant or an incident that fails is logged, and stays until the next day.
    """
    now = context.clock.now()
    if now.hour != DAILY_HOUR:
        return 0
    before = now - timedelta(days=context.settings.change_log_days)

    def is_over(budget: timedelta = BUDGET) -> bool:
        return context.clock.now() - now >= budget

    async def one(tenant: str) -> int:
        try:
            removed = 0 if is_over() else await prune_gate_logs(context, tenant, before, is_over)
            if not is_over():
                # for tenants with jobs, the sweeper does it
                await context.usage.remove_before(tenant, hour_of(now - KEPT_FOR), limit=PAGE)
            if not is_over():
                await clear_late(context, tenant, is_over)
        except Exception as fault:
            telemetry.record_fault(fault, "LOG_UNPRUNED", tenant_id=tenant)
            return 0
        return removed

    try:
        # tenants have the other half of the time, for any number of incidents
        removed = await prune_incidents(context, before, lambda: is_over(BUDGET / 2))
        tenants = from_anywhere(sorted(await _tenants(context)), context.random)
        removed += sum(await run_concurrently(tenants, one, limit=_AT_ONCE))
    except Exception as fault:
        telemetry.record_fault(fault, "LOG_UNPRUNED")
        return 0
    telemetry.info("LOGS_PRUNED", count=removed)
    return removed


async def _tenants(context: Context) -> set[str]:
    """Returns the tenants that may have logs. A tenant without jobs may have changed a quota."""
    known = await context.admissions.directory()
    fed = await context.events.feed.tenants() if context.events is not None else ()
    return {EVERY, *known.tenants, *fed, *await context.index.tenants()}


async def prune_gate_logs(context: Context, tenant: str, before: datetime, is_over: Callable[[], bool]) -> int:
    """Deletes entries of the tenant's quota logs that are older than `before`. Returns their number. Raises
    LedgerUnavailable.
    """
    removed, first = 0, LogPlace("", 0)
    while True:
        page = await context.admissions.log_places(tenant, first=first, limit=PAGE)
        gone, kept = await _old(context, tenant, page, before)
        for start in range(0, len(gone), _REMOVED):
            chunk = gone[start : start + _REMOVED]
            try:
                await context.admissions.drop_log(tenant, chunk)
            except Conflict:
                # another call is deleting them; continuing here would leave a gap
                return removed
            removed += len(chunk)
        if len(page) < PAGE or is_over():
            return removed
        last = page[-1]
        # read the last one again, since the entry after it decides whether it is deleted
        first = LogPlace(last.gate_id, _PAST) if last.gate_id in kept else last


async def _old(
    context: Context, tenant: str, page: Sequence[LogPlace], before: datetime
) -> tuple[list[LogPlace], set[str]]:
    """Returns the entries of the page that can be deleted. Also returns the ids of quotas whose later entries stay."""
    gone: list[LogPlace] = []
    kept: set[str] = set()
    fed: dict[str, int] = {}
    for entry, following in itertools.pairwise(page):
        gate_id = entry.gate_id
        if gate_id in kept or following.gate_id != gate_id:
            continue
        if following.at is not None and following.at >= before:
            kept.add(gate_id)
            continue
        if context.events is not None and gate_id not in fed:
            fed[gate_id] = await context.events.feed.read_seen(feed_of(tenant), gate_id)
        if context.events is not None and entry.seq > fed[gate_id]:
            kept.add(gate_id)
            continue
        gone.append(entry)
    return gone, kept


async def prune_incidents(context: Context, before: datetime, is_over: Callable[[], bool]) -> int:
    """Deletes incidents without a job that were closed earlier than `before`. Returns their number. Raises
    LedgerUnavailable.
    """
    removed, after = 0, None
    while rows := await context.incidents.list_settled(before, after=after, limit=PAGE):
        for row in rows:
            if is_over():
                return removed
            with telemetry.tolerate(Exception, "LOG_UNPRUNED", subject=row.incident.id):
                await context.incidents.remove(row.incident)
                removed += 1
        after = rows[-1].cursor
    return removed


async def clear_late(context: Context, tenant: str, is_over: Callable[[], bool]) -> int:
    """Schedules the clearing of the tenant's late jobs. Returns the number of these jobs. Raises LedgerUnavailable.

    The retention of a late job ended at least four days ago, and no earlier call scheduled the job. For example, there
    was no retention when the job's idempotency record expired (R21).
    """
    if context.settings.retention_days is None:
        return 0
    retention, found, after = timedelta(days=context.settings.retention_days), 0, None
    now = context.clock.now()
    before = now - retention - _GRACE
    while True:
        rows = await context.index.list_jobs(tenant, after=after, limit=PAGE, until=before)
        late = [
            (row, row.ended_at + retention)
            for row in rows
            # checked first, since a job that cannot be read is postponed again and again
            if row.ended_at is not None and row.ended_at < before and _has_ended(row) and not row.cleared_again
        ]
        for start in range(0, len(late), _CLEARED):
            await context.index.clear_again(tenant, late[start : start + _CLEARED], now)
        found += len(late)
        if len(rows) < PAGE or is_over():
            return found
        after = rows[-1].cursor


def _has_ended(row: ListRow) -> bool:
    return row.status in set(JobStatus) and JobStatus(row.status).terminal
