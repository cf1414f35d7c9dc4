"""An idle share of a limit over all tenants is granted to another tenant within 2 s (R54)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.core.gates.rules import Gate, GateKind
from shared.operations.quotas import quotas
from tests.operations.conftest import World
from tests.operations.support import cancelled, limited
from tests.worlds.gates import OPERATOR, active_jobs, count, created, served

#: maximum time in which an idle share is granted
WITHIN_S = 2.0


async def contended(world: World, *, first: str) -> World:
    """Limit 4; "a" and "b" have 2 jobs active each, "a" 1 job waiting and "b" 20; divisions follow each other."""
    world = limited(world, max_inflight=4, overflow="stage")
    jobs = {"a": 3, "b": 22}
    for tenant in sorted(jobs, reverse=first == "b"):
        for number in range(jobs[tenant]):
            await created(world, number + 1000 * (tenant == "b"), tenant)
    for _ in range(40):
        if count(world) == {"a": 2, "b": 2}:
            break
        rich = max(count(world), key=lambda tenant: count(world)[tenant])
        if rich == "a":
            await created(world, int(world.clock.now().timestamp()), "a")
        await cancelled(world, active_jobs(world)[rich][0])
        await elapsed(world, 11)
    assert count(world) == {"a": 2, "b": 2}
    return world


async def elapsed(world: World, seconds: float) -> None:
    """Advances virtual time, with each call of the queue at its time and no sweep."""
    until = world.clock.now() + timedelta(seconds=seconds)
    await served(world, until)
    world.clock.time = max(world.clock.time, until)


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("after_s", [0.1, 3.0, 7.0])
async def test_a_queue_that_ran_empty_gives_its_places_to_the_tenant_that_waits(
    world: World, first: str, after_s: float
) -> None:
    """`after_s`: seconds between the end that empties the queue, and between each of the next ends."""
    world = await contended(world, first=first)
    while (left := active_jobs(world).get("a")) is not None:
        others = count(world).get("b", 0)
        await cancelled(world, left[0])
        idle = len(active_jobs(world).get("a", [])) < len(left)
        await elapsed(world, WITHIN_S)
        if idle:
            assert count(world).get("b", 0) == others + 1
        assert sum(count(world).values()) == 4
        await elapsed(world, after_s)
    assert count(world) == {"b": 4}


@pytest.mark.parametrize("stops", ["hold", "cancel"])
async def test_a_tenant_that_stops_waiting_gives_its_places_back_as_its_jobs_end(world: World, stops: str) -> None:
    """By its own hold, or as its waiting jobs are cancelled."""
    world = await contended(world, first="a")
    await created(world, 500, "a")
    await elapsed(world, 1)
    if stops == "hold":
        await quotas.hold(world.context, world.orchestrations, Gate(GateKind.TENANT, "a"), OPERATOR, until=None)
    else:
        for stored in [*world.ledger.jobs.values()]:
            if stored.record.job.tenant == "a" and stored.record.job.is_staged:
                await cancelled(world, stored.record.job.job_id)
    for left in (2, 1):
        await cancelled(world, active_jobs(world)["a"][0])
        await elapsed(world, WITHIN_S)
        assert count(world) == ({"a": left - 1, "b": 5 - left} if left > 1 else {"b": 4})
