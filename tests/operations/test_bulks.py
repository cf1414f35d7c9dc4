"""Bulks: one control or redrive of many jobs (R65), and of the tree below a job (R66)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.bulks import Bulk, BulkAction, BulkItem, BulkState, ItemState
from shared.core.occurrences import ControlKind
from shared.core.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.bulks import bulk_items, cancel_bulk, preview_bulk, read_bulk, redrive_tree, start_bulk
from shared.operations.places import follow
from shared.operations.work_bulk import look_at_bulks, work_bulk
from shared.refusals import BulkEnded, BulkKeyConflict, BulkNotFound, FilterInvalid, NotRedrivable
from tests.operations.conftest import World
from tests.operations.support import cancelled, control, create_numbered, limited, redrive, swept

TENANT = "tenant_a"


async def made(world: World, number: int, **changes: Any) -> str:
    return (await create_numbered(world, number, **changes)).stored.record.job.job_id


async def started(world: World, action: BulkAction, key: str | None = None, **words: Any) -> Bulk:
    bulk, _ = await start_bulk(
        world.context, tenant=TENANT, action=action, words=words, reason="why", actor="app:1", key=key
    )
    return bulk


async def worked(world: World, bulk: Bulk, calls: int = 1000) -> Bulk:
    """The calls of a bulk, as the queue's function answers them, until there is none; then as it stands."""
    queue = world.context.desk_calls.bulk_calls  # type: ignore[attr-defined]
    while queue and calls:
        calls -= 1
        tenant, bulk_id, at = queue.pop(0)
        if at is not None and at > world.clock.now():
            world.clock.advance((at - world.clock.now()).total_seconds())
        await work_bulk(world.context, world.orchestrations, tenant, bulk_id)
        await adds_up(world, bulk)
    return await read_bulk(world.context, TENANT, bulk.bulk_id)


async def outcomes(world: World, bulk: Bulk) -> dict[str, BulkItem]:
    return {
        each.job_id: each for each in await world.context.bulks.items(TENANT, bulk.bulk_id, after=None, limit=99999)
    }


async def adds_up(world: World, bulk: Bulk) -> None:
    """The counts are those of the items, and each open item has one piece of work."""
    found, items = await read_bulk(world.context, TENANT, bulk.bulk_id), await outcomes(world, bulk)
    states = Counter(each.state for each in items.values())
    assert (found.matched, found.done, found.refused) == (
        len(items),
        states[ItemState.DONE],
        states[ItemState.REFUSED],
    )
    work = await world.context.bulks.work(TENANT, bulk.bulk_id, limit=99999)
    acts = [each.job_id for each in work if each.dependants_after is None]
    assert sorted(acts) == sorted(each.job_id for each in items.values() if each.state is ItemState.OPEN)


async def status(world: World, job_id: str) -> JobStatus:
    return (await world.job(job_id)).job.status


async def requests(world: World, job_id: str, type_: str) -> int:
    return sum(event.type == type_ for event in await world.ledger.events(job_id))


async def later(world: World) -> None:
    """Jobs and bulks of different milliseconds."""
    world.clock.advance(1)


async def test_every_job_of_the_filter_has_an_outcome(world: World) -> None:
    """Those that were there before the bulk, of the tenant; later ones, and others' ones, are not touched."""
    meant = [await made(world, number, labels={"team": "red"}) for number in range(45)]
    other = await made(world, 100)
    foreign = await made(world, 101, tenant_id="tenant_b", labels={"team": "red"})
    await cancelled(world, meant[0])
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, label="team:red", status="QUEUED,CANCELLED")
    await later(world)
    late = await made(world, 102, labels={"team": "red"})
    done = await worked(world, bulk)
    assert (done.state, done.matched, done.done, done.refused, done.open) == (BulkState.DONE, 45, 45, 0, 0)
    assert {await status(world, each) for each in meant} == {JobStatus.CANCELLED}
    assert {await status(world, each) for each in (other, foreign, late)} == {JobStatus.QUEUED}
    [event] = [each for each in await world.ledger.events(meant[1]) if each.type == "CANCEL_REQUESTED"]
    assert (event.cause_id, event.actor, event.reason) == (f"bulk:{bulk.bulk_id}:{meant[1]}", "app:1", "why")


async def test_each_action_is_that_of_its_route(world: World) -> None:
    """Pause, resume, cancel and redrive; what a job refuses is its outcome, with the problem's code."""
    first, second = await made(world, 1), await made(world, 2)
    await later(world)
    assert (await worked(world, await started(world, BulkAction.PAUSE))).done == 2
    assert await status(world, first) is JobStatus.PAUSED
    assert (await worked(world, await started(world, BulkAction.RESUME, status="PAUSED"))).done == 2
    assert await status(world, first) is JobStatus.QUEUED
    await cancelled(world, first)
    again = await worked(world, bulk := await started(world, BulkAction.REDRIVE))
    assert (again.done, again.refused) == (1, 1)
    items = await outcomes(world, bulk)
    assert items[second].code == "JOB_LIVE"
    assert items[first].new_job_id == (await world.job(first)).job.redriven_by
    ended = await worked(world, bulk := await started(world, BulkAction.PAUSE, until=world.clock.now().isoformat()))
    assert (ended.matched, (await outcomes(world, bulk))[first].code) == (2, "JOB_TERMINAL")


@pytest.mark.parametrize(
    ("words", "word"),
    [({"status": "BUSY"}, "status"), ({"colour": "red"}, "colour"), ({"since": "yesterday"}, "since")],
)
async def test_a_wrong_filter_makes_no_bulk(world: World, words: dict[str, Any], word: str) -> None:
    """The fault has its place, and nothing is written."""
    with pytest.raises(FilterInvalid) as wrong:
        await started(world, BulkAction.CANCEL, **words)
    assert wrong.value.word == word
    assert await world.context.bulks.list_bulks(TENANT, after=None, limit=9) == []
    assert await world.context.bulks.due(now=world.clock.now(), limit=9) == []


async def test_a_dry_run_counts_and_writes_nothing(world: World) -> None:
    """With the ids of the jobs."""
    jobs = [await made(world, number) for number in range(3)]
    await later(world)
    found, more = await preview_bulk(world.context, tenant=TENANT, words={"status": "QUEUED"})
    assert (sorted(found), more) == (sorted(jobs), False)
    assert await world.context.bulks.list_bulks(TENANT, after=None, limit=9) == []


async def test_a_key_makes_one_bulk(world: World) -> None:
    """Asked for again it is the same bulk; with another body it is refused."""
    await made(world, 1)
    await later(world)
    first = await started(world, BulkAction.PAUSE, key="k", status="QUEUED")
    await later(world)
    assert (await started(world, BulkAction.PAUSE, key="k", status="QUEUED")).bulk_id == first.bulk_id
    with pytest.raises(BulkKeyConflict):
        await started(world, BulkAction.CANCEL, key="k", status="QUEUED")
    newer = await started(world, BulkAction.PAUSE, status="QUEUED")
    listed = await world.context.bulks.list_bulks(TENANT, after=None, limit=9)
    assert [each.bulk_id for each in listed] == [newer.bulk_id, first.bulk_id]


async def test_what_is_refused_for_now_is_tried_later(world: World) -> None:
    """A limit lets two in: the others stay open, and go in as places come free."""
    jobs = [await made(world, number) for number in range(6)]
    for job_id in jobs:
        await cancelled(world, job_id)
    await later(world)
    world = limited(world, max_inflight_per_tenant=2, overflow="reject")
    bulk = await started(world, BulkAction.REDRIVE, status="CANCELLED")
    found = await worked(world, bulk, calls=2)
    assert (found.state, found.done, found.open) == (BulkState.RUNNING, 2, 4)
    items = await outcomes(world, bulk)
    assert {each.code for each in items.values() if each.state is ItemState.OPEN} == {"LIMIT_REACHED"}
    [(_, _, at)] = world.context.desk_calls.bulk_calls  # type: ignore[attr-defined]
    assert at is not None
    while found.open:
        for job_id in [each.new_job_id for each in (await outcomes(world, bulk)).values() if each.new_job_id]:
            if not (await world.job(job_id)).job.status.terminal:
                await cancelled(world, job_id)
        found = await worked(world, bulk, calls=1)
    assert (found.done, found.refused) == (6, 0)
    assert (await worked(world, bulk)).state is BulkState.DONE


async def test_a_store_that_is_away_refuses_nothing(world: World) -> None:
    """Its items stay open, and each wait is longer than the one before, up to five minutes."""
    await made(world, 1)
    await later(world)

    class Away:
        def __init__(self) -> None:
            self.is_away = True

        def __getattr__(self, name: str) -> Any:
            return getattr(world.ledger, name)

        async def commit(self, *given: Any) -> Any:
            if self.is_away:
                raise LedgerUnavailable
            return await world.ledger.commit(*given)

    away = Away()
    world = replace(world, context=replace(world.context, ledger=away))  # type: ignore[arg-type]
    bulk, waits = await started(world, BulkAction.CANCEL, status="QUEUED"), []
    for _ in range(7):
        before = world.clock.now()
        found = await worked(world, bulk, calls=1)
        waits.append((found.look_at - max(before, world.clock.now())).total_seconds())
    assert waits == [15, 30, 60, 120, 240, 300, 300]
    assert (found.open, (await outcomes(world, bulk)).popitem()[1].code) == (1, "DEPENDENCY_UNAVAILABLE")
    away.is_away = False
    assert (await worked(world, bulk)).done == 1


async def test_a_lost_call_is_made_up_by_the_sweeper(world: World) -> None:
    """Every call is lost: pass after pass the sweeper goes on, and forgets a bulk that has ended."""
    jobs = [await made(world, number) for number in range(130)]
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    for _ in range(5):
        world.context.desk_calls.bulk_calls.clear()  # type: ignore[attr-defined]
        world.clock.advance(95)
        await swept(world)
        await adds_up(world, bulk)
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).state is BulkState.DONE
    assert {await status(world, each) for each in jobs} == {JobStatus.CANCELLED}
    await swept(world)
    assert await world.context.bulks.due(now=world.clock.now(), limit=9) == []


async def test_an_ended_bulk_is_kept_as_long_as_jobs(world: World) -> None:
    """Where a retention is set: then it goes with its items and its key."""
    world = replace(world, context=replace(world.context, settings=replace(world.context.settings, retention_days=30)))
    await made(world, 1)
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, key="k", status="QUEUED")
    await worked(world, bulk)
    await swept(world)
    world.clock.advance(29 * 86400)
    await swept(world)
    assert len(await outcomes(world, bulk)) == 1
    world.clock.advance(2 * 86400)
    await swept(world)
    assert await world.context.bulks.read(TENANT, bulk.bulk_id) is None
    assert (await outcomes(world, bulk), await world.context.bulks.due(now=world.clock.now(), limit=9)) == ({}, [])
    assert (
        await start_bulk(
            world.context, tenant=TENANT, action=BulkAction.PAUSE, words={}, reason="r", actor="a", key="k"
        )
    )[1] is False


async def test_a_creation_that_died_leaves_nothing(world: World) -> None:
    """The directory has its row, and no bulk came: five minutes later the row goes."""

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.context.bulks, name)

        async def create(self, *_: Any, **__: Any) -> None:
            raise LedgerUnavailable

    dying = replace(world, context=replace(world.context, bulks=Dying()))  # type: ignore[arg-type]
    with pytest.raises(LedgerUnavailable):
        await started(dying, BulkAction.CANCEL)
    await swept(world)
    assert len(await world.context.bulks.due(now=world.clock.now(), limit=9)) == 1
    world.clock.advance(301)
    await swept(world)
    assert await world.context.bulks.due(now=world.clock.now(), limit=9) == []


async def test_a_cancelled_bulk_begins_nothing_more(world: World) -> None:
    """What is done stays done; the rest stays open, and again changes nothing."""
    jobs = [await made(world, number) for number in range(150)]
    await later(world)
    bulk = await started(world, BulkAction.PAUSE, status="QUEUED")
    found = await worked(world, bulk, calls=1)
    assert 0 < found.done < 150
    stopped = await cancel_bulk(world.context, TENANT, bulk.bulk_id)
    assert (stopped.state, stopped.done) == (BulkState.CANCELLED, found.done)
    assert await cancel_bulk(world.context, TENANT, bulk.bulk_id) == stopped
    assert (await worked(world, bulk)).done == found.done
    assert sum([await status(world, each) is JobStatus.PAUSED for each in jobs]) == found.done
    short = await started(world, BulkAction.RESUME, status="CANCELLED")
    await worked(world, short)
    with pytest.raises(BulkEnded):
        await cancel_bulk(world.context, TENANT, short.bulk_id)
    with pytest.raises(BulkNotFound):
        await cancel_bulk(world.context, "tenant_b", bulk.bulk_id)


async def test_outcomes_are_kept_of_a_bulk_that_is_cancelled_meanwhile(world: World) -> None:
    """The acts of the step in hand have been done: their items say so."""
    await made(world, 1)
    await later(world)
    bulk = await started(world, BulkAction.PAUSE, status="QUEUED")

    class Cancelling:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.ledger, name)

        async def commit(self, *given: Any) -> Any:
            await cancel_bulk(world.context, TENANT, bulk.bulk_id)
            return await world.ledger.commit(*given)

    meeting = replace(world, context=replace(world.context, ledger=Cancelling()))  # type: ignore[arg-type]
    found = await worked(meeting, bulk)
    assert (found.state, found.done, found.open) == (BulkState.CANCELLED, 1, 0)


async def test_items_are_paged_by_outcome(world: World) -> None:
    """A page of one outcome reads a bounded number of others."""
    jobs = sorted([await made(world, number) for number in range(8)])
    for job_id in jobs[1::2]:
        await cancelled(world, job_id)
    await later(world)
    bulk = await started(world, BulkAction.PAUSE)
    await worked(world, bulk)
    found = await read_bulk(world.context, TENANT, bulk.bulk_id)
    page = await bulk_items(world.context, found, ItemState.REFUSED, after=None, limit=3)
    assert [each.job_id for each in page.lines] == jobs[1:6:2]
    rest = await bulk_items(world.context, found, ItemState.REFUSED, after=page.after, limit=3)
    assert ([each.job_id for each in rest.lines], rest.after) == ([jobs[7]], None)
    every = await bulk_items(world.context, found, None, after=None, limit=8)
    assert ([each.job_id for each in every.lines], every.after) == (jobs, None)


class Killed(BaseException):
    """The process is over: none of its calls takes effect from now on."""


class _Mortal:
    """A port whose calls count down to the end of the process, before the last one's effect or after it."""

    def __init__(self, target: Any, life: list[float]) -> None:
        self._target, self._life = target, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            self._life[0] -= 0.5
            if self._life[0] < 0:
                raise Killed
            result = await found(*args, **fields)
            self._life[0] -= 0.5
            if self._life[0] < 0:
                raise Killed
            return result

        return call


async def mortal(world: World, life: list[float], work: Callable[[World], Awaitable[Any]]) -> bool:
    """Whether `work` came to its end before the process did."""
    context = replace(
        world.context,
        ledger=_Mortal(world.ledger, life),  # type: ignore[arg-type]
        index=_Mortal(world.index, life),  # type: ignore[arg-type]
        bulks=_Mortal(world.context.bulks, life),  # type: ignore[arg-type]
    )
    try:
        await work(replace(world, context=context))
    except Killed:
        return False
    return True


@pytest.mark.parametrize("action", [BulkAction.PAUSE, BulkAction.REDRIVE])
async def test_a_crash_at_each_call(world: World, action: BulkAction) -> None:
    """Whatever call was the last of a process: each job gets its act once, and the counts add up."""
    jobs = [await made(world, number) for number in range(6)]
    for job_id in jobs if action is BulkAction.REDRIVE else ():
        await cancelled(world, job_id)
    await later(world)
    bulk = await started(world, action, until=world.clock.now().isoformat())
    life, lives = 0.5, 0
    while (await read_bulk(world.context, TENANT, bulk.bulk_id)).state is BulkState.RUNNING:
        world.clock.advance(90)
        await mortal(world, [life], lambda one: work_bulk(one.context, one.orchestrations, TENANT, bulk.bulk_id))
        await adds_up(world, bulk)
        # each process lives for half a call longer than the one before
        life, lives = life + 0.5, lives + 1
    assert lives > 10
    found = await read_bulk(world.context, TENANT, bulk.bulk_id)
    assert (found.done, found.refused) == (6, 0)
    for job_id in jobs:
        type_ = "PAUSE_REQUESTED" if action is BulkAction.PAUSE else "JOB_REDRIVEN"
        assert await requests(world, job_id, type_) == 1
    assert len(world.ledger._jobs) == (6 if action is BulkAction.PAUSE else 12)


async def test_an_act_that_was_done_is_not_done_again(world: World) -> None:
    """A worker dies before it writes the outcome; somebody resumes the job; the next worker leaves it running."""
    job_id = await made(world, 1)
    await later(world)
    bulk = await started(world, BulkAction.PAUSE, status="QUEUED")
    lived = 0.0
    while await status(world, job_id) is not JobStatus.PAUSED:
        lived += 0.5
        world.clock.advance(90)
        await mortal(world, [lived], lambda one: work_bulk(one.context, one.orchestrations, TENANT, bulk.bulk_id))
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).open == 1
    await control(world, job_id, ControlKind.RESUME)
    world.clock.advance(90)
    await swept(world)
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).done == 1
    assert await status(world, job_id) is JobStatus.QUEUED


async def test_two_workers_at_once(world: World) -> None:
    """A call that comes twice while the turn is over: each outcome is counted once."""
    jobs = [await made(world, number) for number in range(60)]
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")

    async def turns_are_over(one: World) -> None:
        for _ in range(10):
            await work_bulk(one.context, one.orchestrations, TENANT, bulk.bulk_id)
            world.clock.advance(61)
            await asyncio.sleep(0)

    class Slow:
        def __getattr__(self, name: str) -> Any:
            found = getattr(world.context.bulks, name)

            async def call(*args: Any, **fields: Any) -> Any:
                await asyncio.sleep(0)
                world.clock.advance(7)
                return await found(*args, **fields)

            return call

    slow = replace(world, context=replace(world.context, bulks=Slow()))  # type: ignore[arg-type]
    await asyncio.gather(*(turns_are_over(slow) for _ in range(3)))
    await adds_up(world, bulk)
    assert (await worked(world, bulk)).done == 60
    assert [await requests(world, each, "CANCEL_REQUESTED") for each in jobs] == [1] * 60


async def test_the_next_worker_may_be_behind(world: World) -> None:
    """By a few seconds of its clock: the call is taken, and no sweep is waited for."""
    for number in range(130):
        await made(world, number)
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    queue = world.context.desk_calls.bulk_calls  # type: ignore[attr-defined]
    while queue:
        queue.pop(0)
        world.clock.advance(-1)
        await work_bulk(world.context, world.orchestrations, TENANT, bulk.bulk_id)
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).done == 130


async def answered(world: World) -> None:
    """The calls to jobs and desks until there is none."""
    calls = world.context.desk_calls.calls  # type: ignore[attr-defined]
    while calls:
        _, job_id, _ = calls.pop(0)
        if job_id is not None and (stored := await world.ledger.read(job_id)) is not None:
            await follow(world.context, world.orchestrations, stored)


async def tree(world: World, size: int) -> list[str]:
    """Jobs of which each waits for one or two earlier ones, by the first alone or with the one before."""
    jobs = [await made(world, 0)]
    for number in range(1, size):
        named = {jobs[(number - 1) // 3], jobs[number - 1]} if number % 5 == 0 else {jobs[(number - 1) // 3]}
        jobs.append(await made(world, number, dependencies=sorted(named)))
    return jobs


async def below(world: World, root: str) -> Bulk:
    return (await redrive_tree(world.context, root, reason="repaired", actor="app:1"))[0]


async def redriven_whole(world: World, size: int) -> None:
    jobs = await tree(world, size)
    unrelated = await made(world, size + 1)
    spared = await made(world, size + 2, dependencies=[jobs[0]], on_dependency_failure="run")
    given_up = await made(world, size + 3, dependencies=[jobs[0]])
    await cancelled(world, given_up)
    await cancelled(world, jobs[0])
    await answered(world)
    assert {await status(world, each) for each in jobs[1:]} == {JobStatus.FAILED_FINAL}
    await later(world)
    found = await worked(world, bulk := await below(world, jobs[0]))
    assert (found.state, found.matched, found.done, found.refused) == (BulkState.DONE, size, size, 0)
    items = await outcomes(world, bulk)
    assert items.keys() == set(jobs)
    assert await status(world, unrelated) is JobStatus.QUEUED
    assert await status(world, spared) is JobStatus.QUEUED
    for job_id in jobs[1:]:
        old = (await world.job(job_id)).job
        new = (await world.job(items[job_id].new_job_id or "")).job
        assert new.status is JobStatus.WAITING_FOR_JOBS
        assert new.dependencies == [items[each].new_job_id for each in old.dependencies or ()]
        assert old.redriven_by == new.job_id


async def test_a_tree_is_redriven_with_its_root(world: World) -> None:
    """Each job that failed because of it, once, after all that it depends on; nobody else."""
    await redriven_whole(world, 100)


@pytest.mark.long
async def test_a_large_tree_is_redriven_with_its_root(world: World) -> None:
    """As many as may wait at once, with the two others."""
    await redriven_whole(world, 998)


async def test_a_tree_whose_root_was_redriven_before(world: World) -> None:
    """The jobs below an earlier one of the chain are found too, whoever of it is named."""
    root = await made(world, 1)
    waits = await made(world, 2, dependencies=[root])
    await cancelled(world, root)
    await answered(world)
    await later(world)
    heir = (await redrive(world, root)).stored.record.job.job_id
    await cancelled(world, heir)
    await later(world)
    bulk = await below(world, heir)
    assert (await worked(world, bulk)).done == 2
    assert waits in await outcomes(world, bulk)


async def test_a_job_that_failed_for_another_one_too(world: World) -> None:
    """Nobody redrives the other one: the job is refused in the end, and named so."""
    root, other = await made(world, 1), await made(world, 2)
    both = await made(world, 3, dependencies=[root, other])
    await cancelled(world, root)
    await cancelled(world, other)
    await answered(world)
    await later(world)
    found = await worked(world, bulk := await below(world, root))
    assert (found.state, found.done, found.refused) == (BulkState.DONE, 1, 1)
    assert (await outcomes(world, bulk))[both].code == "DEPENDENCY_FAILED"
    await later(world)
    assert (await worked(world, await below(world, other))).done == 2


async def test_a_root_that_cannot_be_redriven(world: World) -> None:
    """It makes no bulk."""
    with pytest.raises(NotRedrivable):
        await below(world, await made(world, 1))
    assert await world.context.bulks.list_bulks(TENANT, after=None, limit=9) == []


async def test_hundreds_of_jobs(world: World) -> None:
    """In calls of bounded length."""
    for number in range(400):
        await made(world, number)
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    queue = world.context.desk_calls.bulk_calls  # type: ignore[attr-defined]
    calls = 0
    while queue:
        calls += 1
        tenant, bulk_id, _ = queue.pop(0)
        before = (await read_bulk(world.context, TENANT, bulk_id)).done
        await work_bulk(world.context, world.orchestrations, tenant, bulk_id)
        assert (await read_bulk(world.context, TENANT, bulk_id)).done - before <= 100
    found = await read_bulk(world.context, TENANT, bulk.bulk_id)
    assert (found.state, found.done, calls > 4) == (BulkState.DONE, 400, True)
    await adds_up(world, bulk)


@pytest.mark.long
async def test_ten_thousand_jobs_through_crashes(world: World) -> None:
    """Each process dies somewhere; the sweeper's looks alone bring it to its end, each job has its act once."""
    jobs = [await made(world, number) for number in range(10_000)]
    await later(world)
    bulk, lives = await started(world, BulkAction.CANCEL, status="QUEUED"), random.Random(7)
    while (await read_bulk(world.context, TENANT, bulk.bulk_id)).state is BulkState.RUNNING:
        world.clock.advance(95)

        async def look(one: World) -> None:
            await look_at_bulks(one.context, one.orchestrations, lambda _: True, lambda: False)

        await mortal(world, [lives.uniform(10, 900)], look)
    await adds_up(world, bulk)
    found = await read_bulk(world.context, TENANT, bulk.bulk_id)
    assert (found.matched, found.done) == (10_000, 10_000)
    assert {await requests(world, each, "CANCEL_REQUESTED") for each in jobs} == {1}
