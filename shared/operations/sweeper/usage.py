"""Rolls up usage: the LIST rows of each past hour become one row per tenant, and again a day later (R68).

The second rollup includes jobs that were admitted or ended in the meantime. Both rollups read a range of keys, page by
page, and keep only the sums. An interrupted rollup continues at its position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.records.canonical import encode_key
from shared.core.usage import HOUR, Counted, Group, hour_of
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.turns import AT_ONCE
from shared.operations.usage.read_usage import count
from shared.ports.index import WAKE_LASTS
from shared.ports.usage import Folding, FoldPosition, Usage

#: time after the end of an hour in which running creations may still write rows of it
_SETTLED = timedelta(minutes=5)
#: time after an hour's end until its second rollup
AGAIN_AFTER = timedelta(days=1)
#: retention of usage
KEPT_FOR = timedelta(days=400)
#: maximum past that a sweeper rolls up after an outage
_FARTHEST = timedelta(days=31)
#: time for which an hour that fails for one tenant delays the next hour of the others
_GIVEN_UP_AFTER = timedelta(hours=6)
_PAGE, _REMOVED_AT_ONCE = 1000, 100


async def roll_up_usage(one: Pass, usage: Usage, is_over: IsOver) -> datetime:
    """Rolls up due hours until the time is over. Returns the time before which each hour of the share's tenants is
    rolled up, or was left to its second rollup.

    Repeated and concurrent calls are harmless, since a rollup depends on its rows only. A tenant whose rows fail is
    skipped. Raises LedgerUnavailable.
    """
    position = await _roll_up_first(one, usage, is_over)
    await _roll_up_again(one, usage, is_over)
    assert position.next is not None
    return position.next


async def _roll_up_first(one: Pass, usage: Usage, is_over: IsOver) -> FoldPosition:
    context, share, awake = one.context, one.share, one.awake
    ready = hour_of(context.clock.now() - _SETTLED)
    before = position = await usage.read_position(share.number)
    if position.next is None or position.next < ready - _FARTHEST:
        position = FoldPosition(ready - HOUR)
    while position.next is not None and position.next < ready:
        hour = position.next
        # no tenant sleeps before its hours are rolled up (`AwakeTenant.posted_at` may be some minutes old)
        posted = (name for name, each in awake.items() if each.posted_at + WAKE_LASTS >= hour)
        position = await _roll_up_all(one, usage, position, sorted(posted), is_over)
        if position.next == hour:
            break
    if position != before:
        await usage.write_position(share.number, position)
    return position


async def _roll_up_all(
    one: Pass, usage: Usage, position: FoldPosition, tenants: list[str], is_over: IsOver
) -> FoldPosition:
    hour, waiting = position.next, [name for name in tenants if name >= position.tenant]
    assert hour is not None
    unfinished, failed = list[str](), list[str]()

    async def roll_up_one(tenant: str) -> None:
        try:
            if not await roll_up_hour(one.context, usage, tenant, hour, is_over, again=False):
                unfinished.append(tenant)
        except Exception as fault:
            lasts = await one.report_fault("USAGE_UNFOLDED", fault, row=f"{encode_key(tenant)} LIST", tenant_id=tenant)
            if lasts or one.began - hour >= _GIVEN_UP_AFTER:
                # the others continue with the next hour; the second rollup of this one is a day later
                await usage.put_fold_again(tenant, hour)
            else:
                failed.append(tenant)

    while waiting:
        turn, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        await run_concurrently(turn, roll_up_one)
        if unfinished or (waiting and is_over()):
            return replace(position, tenant=min([*unfinished, *failed, *waiting[:1]]))
    return replace(position, tenant=min(failed)) if failed else FoldPosition(hour + HOUR)


async def _roll_up_again(one: Pass, usage: Usage, is_over: IsOver) -> None:
    before, after = hour_of(one.context.clock.now() - AGAIN_AFTER), ""
    while True:
        rows = await usage.list_fold_again(before, after=after, limit=_PAGE)
        for hour, tenant, row in rows:
            after = row
            if not one.share.has(tenant):
                continue
            try:
                if is_over() or not await roll_up_hour(one.context, usage, tenant, hour, is_over, again=True):
                    return
                await usage.delete_fold_again(tenant, hour)
            except Exception as fault:
                # the next sweep tries this hour again
                row_key = f"{encode_key(tenant)} LIST"
                await one.report_fault("USAGE_UNFOLDED", fault, row=row_key, tenant_id=tenant)
        if len(rows) < _PAGE:
            return


async def roll_up_hour(
    context: Context, usage: Usage, tenant: str, hour: datetime, is_over: Callable[[], bool], *, again: bool
) -> bool:
    """Sums up one hour of one tenant, at least one page. Returns `False` if the time is over first. The next call then
    continues.

    Raises LedgerUnavailable.
    """
    begun = await usage.read_folding(tenant, hour)
    jobs, after = dict(begun.jobs), begun.cursor
    while True:
        rows = await context.index.list_jobs(tenant, after=after, limit=_PAGE, since=hour, until=hour + HOUR)
        for row in rows:
            count(jobs, row)
        if len(rows) < _PAGE:
            break
        after = rows[-1].cursor
        if is_over():
            await usage.write_folding(tenant, hour, Folding(jobs, after))
            return False
    if jobs and not again:
        # before the rollup: after a crash in between it is rolled up once more than needed
        await usage.put_fold_again(tenant, hour)
    if jobs and not await _has_more(usage, tenant, hour, jobs):
        await usage.put_jobs(tenant, hour, jobs)
    if begun.cursor is not None:
        await usage.write_folding(tenant, hour, None)
    if again:
        await usage.remove_before(tenant, hour - KEPT_FOR, limit=_REMOVED_AT_ONCE)
    return True


async def _has_more(usage: Usage, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> bool:
    """Returns `True` if the stored rollup has more jobs, since jobs have been deleted in the meantime."""
    known = await usage.hours(tenant, hour, hour + HOUR)
    return any(_count_created(each.jobs) > _count_created(jobs) for each in known)


def _count_created(jobs: Mapping[Group, Counted]) -> int:
    return sum(each.created for each in jobs.values())
