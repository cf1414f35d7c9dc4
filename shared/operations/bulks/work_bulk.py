"""Runs a bulk operation in steps (R65): find the next jobs, act on each, write the results.

The row of an item is written before the action on its job. The result is written together with the counts. A process
that dies in between leaves an open item. The action is idempotent: the cause identifies a control, and the idempotency
record identifies a redrive or a replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from shared import telemetry
from shared.core.bulks import LASTS, Bulk, BulkAction, BulkItem, BulkState, ItemState, Work
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.reasons import Reason
from shared.core.jobs.replay import ReplayMode, ReplayRequest
from shared.errors import AlreadyExists, Conflict, Contended, DataLost, LuciusError, Transient
from shared.operations.bulks.bulks import make_filter, request_work
from shared.operations.bulks.purge_tenant import purge_step
from shared.operations.gates.admission_turns import CLOCK_SKEW
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.jobs.replay_job import replay_job
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import MAX_TRIES, Context
from shared.ports.bulks import BulkWrite, StoredBulk
from shared.ports.durable import Orchestrations
from shared.refusals import LimitReached, Overloaded, Refused

#: maximum items of a step, whose results take up to three rows each in one transaction; and maximum actions at the same
#: time
_STEP, _AT_ONCE = 20, 8
#: maximum jobs that a step adds, with two rows each in a transaction
_LISTED = 40
#: maximum steps of a call
_STEPS = 5
#: time for which no other process works on the same bulk operation
_TURN = timedelta(seconds=60)
#: a call waits once to twice this time if half of the process's calls already work on bulk operations
_LATER = timedelta(seconds=5)
#: wait after a step in which every item was refused temporarily
_FIRST_WAIT_S, _LONGEST_WAIT_S = 15, 300
#: maximum units of work that a step reads; the tried ones are among the first
_LOOKED_AT = 100


@dataclass(frozen=True)
class _Tried:
    """A unit of work, and its item after the action."""

    work: Work
    item: BulkItem
    #: `True` if it was refused temporarily, by a limit or a fault
    held: bool = False
    #: `True` if it was refused until a job that it depends on is redriven
    early: bool = False


async def work_bulk(context: Context, orchestrations: Orchestrations, tenant: str, bulk_id: str) -> None:
    """Runs at most `_STEPS` (5) steps of a bulk operation, then requests the next steps if the operation is RUNNING.
    Concurrent calls are safe.

    Raises Transient. The sweeper then continues.
    """
    stored = await context.bulks.read(tenant, bulk_id)
    now = context.clock.now()
    if stored is None or stored.bulk.state is not BulkState.RUNNING or now + CLOCK_SKEW < stored.bulk.look_at:
        return
    if context.process.bulk_turns.locked():
        await request_work(context, stored.bulk, now + _LATER * (1 + context.random()))
        return
    async with context.process.bulk_turns:
        with suppress(Conflict):
            await _take_turn(context, orchestrations, stored)


async def _take_turn(context: Context, orchestrations: Orchestrations, stored: StoredBulk) -> None:
    """Reserves the bulk operation for this process, then runs its next steps. Raises Transient, and Conflict if another
    process runs the bulk operation or it was cancelled.
    """
    stored = await _write(context, stored, replace(stored.bulk, look_at=context.clock.now() + _TURN))
    wait_s = 0
    for _ in range(_STEPS):
        stored, wait_s = await _step(context, orchestrations, stored)
        if stored.bulk.state is not BulkState.RUNNING or wait_s:
            break
    if stored.bulk.state is not BulkState.RUNNING:
        bulk = stored.bulk
        telemetry.info("BULK_ENDED", bulk_id=bulk.bulk_id, tenant_id=bulk.tenant, state=bulk.state.value)
        return
    look_at = context.clock.now() + timedelta(seconds=wait_s)
    stored = await _write(context, stored, replace(stored.bulk, look_at=look_at))
    await request_work(context, stored.bulk, look_at if wait_s else None)


async def _step(context: Context, orchestrations: Orchestrations, stored: StoredBulk) -> tuple[StoredBulk, int]:
    """Runs one bounded step. Returns the bulk operation, and the seconds to wait before the next step. Raises
    Transient, and Conflict if another process runs the bulk operation.
    """
    bulk = stored.bulk
    if bulk.action is BulkAction.PURGE:
        return await purge_step(context, orchestrations, stored)
    work = await context.bulks.work(bulk.tenant, bulk.bulk_id, limit=_STEP)
    try:
        if not work:
            if not bulk.listed:
                return await _list_more(context, stored), 0
            ended = replace(bulk, state=BulkState.DONE, ended_at=context.clock.now())
            return await _write(context, stored, ended), 0
        if work[0].dependants_after is not None:
            return await _add_dependants(context, stored, work[0]), 0
    except (Conflict, AlreadyExists):
        return await _read_again(context, stored), 0

    async def one(each: Work) -> _Tried:
        return await _act(context, orchestrations, bulk, each)

    tried = await run_concurrently([each for each in work if each.dependants_after is None], one, limit=_AT_ONCE)
    stored = await _settle(context, stored, tried)
    return stored, stored.bulk.wait_s


async def _list_more(context: Context, stored: StoredBulk) -> StoredBulk:
    """Adds the next listed jobs to the bulk operation, before any action on them. Returns the bulk operation."""
    bulk = stored.bulk
    job_filter = make_filter(bulk.filter, bulk.tenant, bulk.created_at)
    page = await list_jobs(context, job_filter, after=bulk.cursor, limit=_LISTED)
    job_ids = [line.jobId for line in page.lines]
    after = replace(bulk, cursor=page.after, listed=page.after is None)
    return await context.bulks.write(_make_addition(stored, after, job_ids))


async def _add_dependants(context: Context, stored: StoredBulk, work: Work) -> StoredBulk:
    """Adds an item for each job that failed because of the redriven job, unless it is an item already."""
    bulk, position = stored.bulk, work.dependants_after or ""
    found = await context.index.list_failed_dependants(bulk.tenant, work.job_id, limit=_LISTED, after=position)
    new = [each for each in await asyncio.gather(*(_find_failed(context, bulk, job_id) for job_id in found)) if each]
    after = replace(bulk, fruitless=0 if new else bulk.fruitless)
    change = _make_addition(stored, after, new)
    if len(found) == _LISTED:
        no = change.after.last_no + 1
        rest = Work(no=no, job_id=work.job_id, dependants_after=found[-1])
        change = replace(change, after=replace(change.after, last_no=no), added=(*change.added, rest))
    return await context.bulks.write(replace(change, finished=(work,)))


async def _find_failed(context: Context, bulk: Bulk, job_id: str) -> str | None:
    """Returns `job_id` if the job failed because of another job and is not an item yet, else None."""
    if await context.bulks.read_item(bulk.tenant, bulk.bulk_id, job_id) is not None:
        return None
    stored = await context.ledger.read(job_id)
    failed = stored is not None and stored.record.job.error_code == Reason.DEPENDENCY_FAILED
    return job_id if failed else None


def _make_addition(stored: StoredBulk, after: Bulk, job_ids: Sequence[str]) -> BulkWrite:
    work = tuple(Work(no=after.last_no + number, job_id=each) for number, each in enumerate(job_ids, start=1))
    grown = replace(after, matched=after.matched + len(work), last_no=after.last_no + len(work))
    new_items = tuple(BulkItem(job_id=each) for each in job_ids)
    return BulkWrite(before=stored, after=grown, new_items=new_items, added=work)


async def _act(context: Context, orchestrations: Orchestrations, bulk: Bulk, work: Work) -> _Tried:
    """Acts on one job and returns the result. Raises nothing. A temporary error keeps the item open, and any other
    error refuses the item.
    """
    job_id = work.job_id
    origin = Origin(cause_id=f"bulk:{bulk.bulk_id}:{job_id}", actor=bulk.actor, source="bulk", reason=bulk.reason)
    tried = BulkItem(job_id=job_id, tried_at=context.clock.now())
    try:
        if bulk.action in (BulkAction.REDRIVE, BulkAction.REPLAY):
            if bulk.action is BulkAction.REDRIVE:
                created = await redrive_job(context, orchestrations, job_id, origin)
            else:
                created = await replay_job(context, orchestrations, _make_replay_request(bulk, job_id), origin)
            new_job_id = created.stored.record.job.job_id
            return _Tried(work, replace(tried, state=ItemState.DONE, new_job_id=new_job_id))
        kind = ControlKind[bulk.action.name]
        await control_job(context, orchestrations, job_id, kind, origin, maybe_repeated=True)
    except (Transient, LimitReached, Overloaded) as later:
        telemetry.record_fault(later)
        code = later.code if isinstance(later, Refused) else "DEPENDENCY_UNAVAILABLE"
        return _Tried(work, replace(tried, code=code), held=True)
    except Refused as refused:
        if bulk.root is not None and refused.code == Reason.DEPENDENCY_FAILED:
            return _Tried(work, replace(tried, code=refused.code), early=True)
        return _Tried(work, replace(tried, state=ItemState.REFUSED, code=refused.code))
    except LuciusError as broken:
        telemetry.record_fault(broken)
        code = "DATA_LOST" if isinstance(broken, DataLost) else "LEDGER_REFUSED"
        return _Tried(work, replace(tried, state=ItemState.REFUSED, code=code))
    except Exception as bug:  # a defect at one job must not stop the other jobs
        telemetry.warn("BULK_ITEM_BROKEN", jobId=job_id, bulk_id=bulk.bulk_id, reason=f"{type(bug).__name__}: {bug}")
        return _Tried(work, replace(tried, state=ItemState.REFUSED, code="INTERNAL"))
    return _Tried(work, replace(tried, state=ItemState.DONE))


def _make_replay_request(bulk: Bulk, job_id: str) -> ReplayRequest:
    key = f"bulk:{bulk.bulk_id}"
    return ReplayRequest(job_id=job_id, mode=ReplayMode.RERUN, reason=bulk.reason or "", key=key)


async def _settle(context: Context, stored: StoredBulk, tried: Sequence[_Tried]) -> StoredBulk:
    """Writes results and counts in one transaction, without results that another process has already written.

    Also writes the results of a bulk operation that was cancelled in between, since the actions were done. Raises
    Contended.
    """
    for conflicts in range(MAX_TRIES):
        is_late = context.clock.now() >= stored.bulk.created_at + LASTS
        with suppress(Conflict, AlreadyExists):
            return await context.bulks.write(_make_outcomes(stored, tried, is_late=is_late))
        await context.wait_after_conflict(conflicts)
        stored = await _read_again(context, stored)
        left = await context.bulks.work(stored.bulk.tenant, stored.bulk.bulk_id, limit=_LOOKED_AT)
        numbers = {each.no for each in left}
        tried = [each for each in tried if each.work.no in numbers]
        if not tried:
            return stored
    raise Contended("the bulk operation changed at every try")


def _make_outcomes(stored: StoredBulk, tried: Sequence[_Tried], *, is_late: bool) -> BulkWrite:
    """Applies the results to the items. If `is_late`, a temporary error becomes permanent and keeps its code."""
    bulk = stored.bulk
    if is_late:
        tried = [_give_up(each) if each.held or each.early else each for each in tried]
    settled = [each for each in tried if not (each.held or each.early)]
    is_held = any(each.held for each in tried)
    # a whole round redrove no job, so nothing will redrive the dependencies of the waiting items
    fruitless = 0 if settled or is_held else bulk.fruitless + len(tried)
    if fruitless > bulk.open:
        tried = [_give_up(each) for each in tried]
        settled, fruitless = list(tried), 0
    done = sum(each.item.state is ItemState.DONE for each in settled)
    bulk = replace(bulk, done=bulk.done + done, refused=bulk.refused + len(settled) - done)
    wait_s = min(max(_FIRST_WAIT_S, 2 * bulk.wait_s), _LONGEST_WAIT_S) if is_held and not settled else 0
    added: list[Work] = []
    for each in tried:
        no = bulk.last_no + len(added) + 1
        if each.held or each.early:
            added.append(Work(no=no, job_id=each.work.job_id))
        elif bulk.root is not None and each.item.state is ItemState.DONE:
            added.append(Work(no=no, job_id=each.work.job_id, dependants_after=""))
    after = replace(bulk, last_no=bulk.last_no + len(added), fruitless=fruitless, wait_s=wait_s)
    return BulkWrite(
        before=stored,
        after=after,
        items=tuple(each.item for each in tried),
        finished=tuple(each.work for each in tried),
        added=tuple(added),
    )


def _give_up(tried: _Tried) -> _Tried:
    return replace(tried, item=replace(tried.item, state=ItemState.REFUSED), held=False, early=False)


async def _write(context: Context, stored: StoredBulk, after: Bulk) -> StoredBulk:
    return await context.bulks.write(BulkWrite(before=stored, after=after))


async def _read_again(context: Context, stored: StoredBulk) -> StoredBulk:
    found = await context.bulks.read(stored.bulk.tenant, stored.bulk.bulk_id)
    if found is None:
        raise Contended("the bulk operation was removed while it was in progress")
    return found
