"""Bulk operations of one tenant are bounded in number, and do not delay those of other tenants (R65)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.bulks import LASTS, MAX_RUNNING, Bulk, BulkAction, BulkState, ItemState
from shared.core.jobs.states import JobStatus
from shared.operations.bulks.bulks import cancel_bulk, read_bulk, redrive_tree, start_bulk
from shared.operations.sweeper.bulks import look_at_bulks
from shared.ports.bulks import DueBulk
from shared.refusals import BulkLimit
from tests.operations.conftest import World
from tests.operations.faults import noted
from tests.operations.interleave import Meeting, every_order
from tests.operations.support import cancelled, limited, one_pass, swept
from tests.worlds.bulks import TENANT, later, made, outcomes, started, status, worked


async def begun(world: World, tenant: str = TENANT, key: str | None = None) -> Bulk:
    world.clock.advance(1)
    bulk, _ = await start_bulk(
        world.context, tenant=tenant, action=BulkAction.CANCEL, words={}, reason="why", actor="app:1", key=key
    )
    return bulk


async def running(world: World, tenant: str = TENANT) -> list[Bulk]:
    found = await world.context.bulks.list_bulks(tenant, after=None, limit=100)
    return [each for each in found if each.state is BulkState.RUNNING]


async def test_a_tenant_has_twenty_running_bulks(world: World) -> None:
    """The next one is refused, also one of a tree; other tenants have their own; one that ended leaves its slot."""
    job_id = await made(world, 1)
    await cancelled(world, job_id)
    bulks = [await begun(world, key=f"key {number}") for number in range(MAX_RUNNING)]
    with pytest.raises(BulkLimit):
        await begun(world)
    with pytest.raises(BulkLimit):
        await redrive_tree(world.context, job_id, reason="why", actor="app:1")
    assert len(await running(world)) == MAX_RUNNING
    assert await begun(world, key="key 3") == bulks[3]
    await begun(world, "tenant_b")
    await cancel_bulk(world.context, TENANT, bulks[7].bulk_id)
    await begun(world)
    with pytest.raises(BulkLimit):
        await begun(world)
    await worked(world, bulks[0])
    for _ in range(MAX_RUNNING):
        await begun(world)
    assert len(await running(world)) == MAX_RUNNING
    assert len(await world.context.bulks.slots(TENANT)) == MAX_RUNNING


async def test_a_refused_bulk_leaves_nothing_to_the_sweeper(world: World) -> None:
    for _ in range(MAX_RUNNING):
        await begun(world)
    with pytest.raises(BulkLimit):
        await begun(world)
    assert len(await world.context.bulks.due(now=world.clock.now(), limit=99)) == MAX_RUNNING


def test_in_every_order_two_creations_do_not_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slot of two is left: one of them has it."""
    monkeypatch.setattr("shared.operations.bulks.bulks.MAX_RUNNING", 2)

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        bulks = [await begun(world) for _ in range(2)]
        await cancel_bulk(world.context, TENANT, bulks[0].bulk_id)
        context = replace(world.context, bulks=meeting.port(world.context.bulks))
        words: dict[str, Any] = {"tenant": TENANT, "action": BulkAction.PAUSE, "words": {}, "actor": "app:1"}
        ended = await meeting.at_once(
            first=start_bulk(context, reason="first", **words), second=start_bulk(context, reason="second", **words)
        )
        assert sorted(type(each.error).__name__ for each in ended.values()) == ["BulkLimit", "NoneType"]
        assert len(await running(world)) == 2

    every_order(scenario)


@pytest.mark.parametrize("early", [False, True])
async def test_what_is_refused_for_now_is_refused_for_good_after_seven_days(world: World, early: bool) -> None:
    """The item has the code of its last refusal; earlier controls stay applied, and the bulk ends."""
    jobs = [await made(world, number) for number in range(4)]
    for job_id in jobs:
        await cancelled(world, job_id)
    await later(world)
    world = limited(world, max_inflight_per_tenant=1, overflow="reject")
    bulk = await started(world, BulkAction.REDRIVE, status="CANCELLED")
    found = await worked(world, bulk, calls=1)
    assert (found.done, found.open) == (1, 3)
    world.clock.time = bulk.created_at + LASTS - timedelta(seconds=30 if early else 0)
    found = await worked(world, bulk, calls=1)
    assert (found.state is BulkState.RUNNING) == early
    if early:
        assert (found.refused, found.open) == (0, 3)
        world.clock.advance(400)
        found = await worked(world, bulk)
    assert (found.state, found.done, found.refused, found.open) == (BulkState.DONE, 1, 3, 0)
    refused = [each for each in (await outcomes(world, bulk)).values() if each.state is ItemState.REFUSED]
    assert [each.code for each in refused] == ["LIMIT_REACHED"] * 3
    assert world.context.bus.admission_calls.bulk_calls == []  # type: ignore[attr-defined]


async def test_a_bulk_that_nobody_worked_on_for_weeks_tries_each_job_once(world: World) -> None:
    """Its age refuses nothing that can be done."""
    jobs = [await made(world, number) for number in range(3)]
    await later(world)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    world.clock.advance(3 * LASTS.total_seconds())
    assert (await worked(world, bulk)).done == 3
    assert {await status(world, each) for each in jobs} == {JobStatus.CANCELLED}


async def test_many_bulks_of_one_tenant_hide_no_bulk_of_another(world: World) -> None:
    """2,500 rows of one tenant are older: one sweep continues the other tenant's bulk, whose call was lost."""
    job_id = await made(world, 1)
    for number in range(2500):
        at = world.clock.now() + timedelta(milliseconds=number)
        await world.context.bulks.put_due(DueBulk(tenant="many", bulk_id=f"bulk_{number:04d}", due_at=at))
    world.clock.advance(60)
    bulk = await started(world, BulkAction.CANCEL, status="QUEUED")
    world.context.bus.admission_calls.bulk_calls.clear()  # type: ignore[attr-defined]
    world.clock.advance(90)
    await swept(world)
    assert await status(world, job_id) is JobStatus.CANCELLED
    assert (await read_bulk(world.context, TENANT, bulk.bulk_id)).done == 1


@pytest.mark.parametrize("random", [0.0, 0.5, 0.99])
async def test_where_the_time_is_short_each_tenant_has_its_turn(world: World, random: float) -> None:
    """Ten tenants, one of which has 500 rows: after 40 checks each of the others has had its check."""
    world = replace(world, context=replace(world.context, random=lambda: random))
    for number in range(500):
        await world.context.bulks.put_due(
            DueBulk(tenant="many", bulk_id=f"bulk_{number:04d}", due_at=world.clock.now())
        )
    world.clock.advance(1)
    bulks = [await begun(world, f"tenant_{number}") for number in range(9)]
    world.clock.advance(90)
    checks = noted(world.context.bulks, "read")
    await look_at_bulks(await one_pass(world), lambda: len(checks) >= 40)
    checked = [tenant for _, tenant, _ in checks]
    assert {each.tenant for each in bulks} <= set(checked)
    assert checked.count("many") < 40
