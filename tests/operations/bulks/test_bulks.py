"""Bulk operations: one control or redrive of many jobs, with an outcome for each (R65)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.bulks import BulkAction, BulkState, ItemState
from shared.core.jobs.states import JobStatus
from shared.operations.bulks.bulks import bulk_items, cancel_bulk, preview_bulk, read_bulk, start_bulk
from shared.refusals import BulkEnded, BulkKeyConflict, BulkNotFound, FilterInvalid
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import cancelled, limited, swept
from tests.worlds.bulks import TENANT, later, made, outcomes, started, status, worked


async def test_every_job_of_the_filter_has_an_outcome(world: World) -> None:
    """The bulk covers the tenant's jobs that existed before it; later jobs and other tenants' jobs stay unchanged."""
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
    """Pause, resume, cancel and redrive; a refusal by a job is its outcome, with the problem's code."""
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
    """A second request with the key returns the same bulk; with another body it is refused."""
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
    """A limit admits two jobs: the others stay open, and are admitted as places become free."""
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
    [(_, _, at)] = world.context.bus.admission_calls.bulk_calls  # type: ignore[attr-defined]
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
    away = failing(world.ledger, "commit")
    bulk, waits = await started(world, BulkAction.CANCEL, status="QUEUED"), []
    for _ in range(7):
        before = world.clock.now()
        found = await worked(world, bulk, calls=1)
        waits.append((found.look_at - max(before, world.clock.now())).total_seconds())
    assert waits == [15, 30, 60, 120, 240, 300, 300]
    assert (found.open, (await outcomes(world, bulk)).popitem()[1].code) == (1, "DEPENDENCY_UNAVAILABLE")
    away.ends()
    assert (await worked(world, bulk)).done == 1


async def test_an_ended_bulk_is_kept_as_long_as_jobs(world: World) -> None:
    """With a retention: then it is deleted with its items and its key."""
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


async def test_a_cancelled_bulk_begins_nothing_more(world: World) -> None:
    """Finished actions stay; the others stay open, and a repeated call changes nothing."""
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
