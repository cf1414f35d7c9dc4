"""Bulk operations with crashed or concurrent workers, lost calls or thousands of jobs: each job has its action once
(R65).
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from shared.core.bulks import BulkAction, BulkState
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.bulks.bulks import cancel_bulk, read_bulk
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.sweeper.bulks import look_at_bulks
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import cancelled, control, one_pass, swept
from tests.worlds.bulks import TENANT, adds_up, later, made, mortal, requests, started, status, worked


async def test_a_lost_call_is_made_up_by_the_sweeper(world: World) -> None:
    """Each call is lost: the sweeper continues the bulk at each sweep, and deletes the row of an ended bulk."""
    jobs = [await made(world, number) for number in range(130)]
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    for _ in range(5):
        world.context.bus.admission_calls.bulk_calls.clear()  # type: ignore[attr-defined]
        world.clock.advance(95)
        await swept(world)
        await adds_up(world, bulk)
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).state is BulkState.DONE
    assert {await status(world, each) for each in jobs} == {JobStatus.CANCELLED}
    await swept(world)
    assert await world.context.bulks.due(now=world.clock.now(), limit=9) == []


async def test_a_creation_that_died_leaves_nothing(world: World) -> None:
    """The index has a row without a bulk: the row is deleted five minutes later."""
    with failing(world.context.bulks, "create"), pytest.raises(LedgerUnavailable):
        await started(world, BulkAction.CANCEL)
    await swept(world)
    assert len(await world.context.bulks.due(now=world.clock.now(), limit=9)) == 1
    world.clock.advance(301)
    await swept(world)
    assert await world.context.bulks.due(now=world.clock.now(), limit=9) == []


async def test_outcomes_are_kept_of_a_bulk_that_is_cancelled_meanwhile(world: World) -> None:
    """The controls of the current step were applied: their items say so."""
    await made(world, 1)
    await later(world)
    bulk = await started(world, BulkAction.PAUSE, status="QUEUED")
    meanwhile(world.ledger, "commit", lambda: cancel_bulk(world.context, TENANT, bulk.bulk_id))
    found = await worked(world, bulk)
    assert (found.state, found.done, found.open) == (BulkState.CANCELLED, 1, 0)


@pytest.mark.parametrize("action", [BulkAction.PAUSE, BulkAction.REDRIVE])
async def test_a_crash_at_each_call(world: World, action: BulkAction) -> None:
    """A process ends after each call in turn: each job gets its control once, and the counts are exact."""
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
    assert len(world.ledger.jobs) == (6 if action is BulkAction.PAUSE else 12)


async def test_an_act_that_was_done_is_not_done_again(world: World) -> None:
    """A worker ends before it writes the outcome; an operator resumes the job; no worker pauses it again."""
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
    queue = world.context.bus.admission_calls.bulk_calls  # type: ignore[attr-defined]
    while queue:
        queue.pop(0)
        world.clock.advance(-1)
        await work_bulk(world.context, world.orchestrations, TENANT, bulk.bulk_id)
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).done == 130


async def test_hundreds_of_jobs(world: World) -> None:
    """In calls of bounded length."""
    for number in range(400):
        await made(world, number)
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    queue = world.context.bus.admission_calls.bulk_calls  # type: ignore[attr-defined]
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
    """Each process ends at a random call; the sweeper alone completes the bulk, and each job has its control once."""
    jobs = [await made(world, number) for number in range(10_000)]
    await later(world)
    bulk, lives = await started(world, BulkAction.CANCEL, status="QUEUED"), random.Random(7)
    while (await read_bulk(world.context, TENANT, bulk.bulk_id)).state is BulkState.RUNNING:
        world.clock.advance(95)

        async def look(one: World) -> None:
            await look_at_bulks(await one_pass(one), lambda: False)

        await mortal(world, [lives.uniform(10, 900)], look)
    await adds_up(world, bulk)
    found = await read_bulk(world.context, TENANT, bulk.bulk_id)
    assert (found.matched, found.done) == (10_000, 10_000)
    assert {await requests(world, each, "CANCEL_REQUESTED") for each in jobs} == {1}
