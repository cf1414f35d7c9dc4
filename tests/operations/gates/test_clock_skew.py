"""Processes whose clocks differ by -3 to +5 s from the bus's: no call to an admission state is lost (R51, R54)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.operations.gates.allocations import allocate_on_call
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.quotas import quotas
from tests.contexts import changed
from tests.operations.conftest import StillClock, World
from tests.operations.support import cancelled, create_numbered, limited
from tests.worlds.gates import OPERATOR, PLATFORM, active_jobs, created

TENANT = Gate(GateKind.TENANT, "tenant_a")
SKEWS = [-3.0, -0.05, 0.0, 1.0, 5.0]
EDGES = [-3.0, 0.0, 5.0]


class SkewedClock:
    """The clock of a process that differs from the bus's, in seconds."""

    def __init__(self, bus: StillClock, skew_s: float) -> None:
        self._bus, self._skew = bus, timedelta(seconds=skew_s)

    def now(self) -> datetime:
        return self._bus.now() + self._skew


def skewed(world: World, skew_s: float) -> World:
    """Returns another process, whose clock differs by `skew_s` seconds; `world.clock` is the bus's."""
    clock = SkewedClock(world.clock, skew_s)
    return replace(world, context=changed(world.context, clock=clock, gate_directory=GateDirectory()))


async def delivered(world: World, handler: World, *, until: datetime) -> int:
    """Delivers the calls of the queue, each at its time by the bus's clock, to the process `handler`; returns their
    number.

    A delivery takes 0.1 s. The orchestrations receive each admission; no sweep runs.
    """
    queue: Any = world.context.bus.admission_calls
    count = 0
    while True:
        calls = [(at, (tenant, None)) for tenant, _, at in queue.calls]
        calls += [(at, (gate_id, since)) for gate_id, at, since in queue.divisions]
        at, (name, since) = min(calls, key=lambda call: call[0] or until, default=(None, (None, None)))
        if name is None or (at or world.clock.now()) > until or world.clock.now() > until:
            return count
        world.clock.time = max(world.clock.now(), at or world.clock.now()) + timedelta(seconds=0.1)
        count += 1
        if since is None:
            queue.calls.remove((name, None, at))
            await notify(
                handler.context, handler.orchestrations, name, await take_turn(handler.context, name, due_at=at)
            )
            continue
        queue.divisions.remove((name, at, since))
        for tenant, entered in (await allocate_on_call(handler.context, PLATFORM, since)).items():
            await notify(handler.context, handler.orchestrations, tenant, entered)


@pytest.mark.parametrize("skew_s", SKEWS)
async def test_a_hold_that_ends_by_time_lets_its_tenant_go_on_without_a_sweep(world: World, skew_s: float) -> None:
    """A process whose clock is behind receives the call before the hold ends, and schedules it again."""
    world = limited(world, overflow="stage")
    until = world.clock.now() + timedelta(seconds=30)
    await quotas.hold(world.context, world.orchestrations, TENANT, OPERATOR, until=until)
    job_id = (await create_numbered(world, 1)).stored.record.job.job_id
    assert (await world.job(job_id)).job.status is JobStatus.THROTTLED
    count = await delivered(world, skewed(world, skew_s), until=until + timedelta(seconds=6))
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED
    assert count <= 3


async def test_other_turns_add_no_calls_to_a_rate(world: World) -> None:
    """One waiting job a second is admitted, by one call a second, also while sweeps and ends take turns in between."""
    world = limited(world, overflow="stage")
    numbers = {"max_per_hour": 3600, "burst": 1}
    await quotas.set_rule(world.context, world.orchestrations, TENANT, numbers, OPERATOR, rule_seq=None)
    jobs = [(await create_numbered(world, number)).stored.record.job.job_id for number in range(60)]
    counts = []
    for _ in range(4):
        counts.append(await delivered(world, world, until=world.clock.now() + timedelta(seconds=10)))
        await take_turn(world.context, "tenant_a")
    assert max(counts[1:]) <= counts[0] + 1
    assert [(await world.job(job_id)).job.status for job_id in jobs].count(JobStatus.QUEUED) >= 36


async def test_a_sweep_of_a_admission_that_waits_for_hours_asks_for_no_further_call(world: World) -> None:
    world = limited(world, overflow="stage")
    await quotas.hold(
        world.context, world.orchestrations, TENANT, OPERATOR, until=world.clock.now() + timedelta(hours=9)
    )
    await create_numbered(world, 1)
    asked = len(world.context.bus.admission_calls.calls)  # type: ignore[attr-defined]
    for _ in range(5):
        world.clock.advance(60)
        await take_turn(world.context, "tenant_a")
    assert len(world.context.bus.admission_calls.calls) == asked  # type: ignore[attr-defined]


@pytest.mark.parametrize("handler_s", EDGES)
@pytest.mark.parametrize("asker_s", EDGES)
@pytest.mark.parametrize("last_s", EDGES)
async def test_an_ask_is_answered_whatever_the_clock_of_the_last_division(
    world: World, last_s: float, asker_s: float, handler_s: float
) -> None:
    """Tenant "a" has all slots, no job waits; the hold of "b" ends, which requests a slot for a job that waited."""
    world = limited(world, max_inflight=3, overflow="stage")
    tenant = Gate(GateKind.TENANT, "b")
    await quotas.hold(world.context, world.orchestrations, tenant, OPERATOR, until=None)
    job_id = await created(world, 1, "b")
    world.clock.advance(60)
    await created(skewed(world, last_s), 2, "a")
    world.clock.advance(0.2)
    asker = skewed(world, asker_s)
    await quotas.resume(asker.context, asker.orchestrations, tenant, OPERATOR)
    assert (await world.job(job_id)).job.status is JobStatus.THROTTLED
    count = await delivered(world, skewed(world, handler_s), until=world.clock.now() + timedelta(seconds=9))
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED
    assert count <= 60


@pytest.mark.parametrize("handler_s", [-0.05, 5.0])
@pytest.mark.parametrize("ender_s", EDGES)
@pytest.mark.parametrize("last_s", EDGES)
async def test_a_place_that_comes_back_is_granted_whatever_the_clock_of_the_last_division(
    world: World, last_s: float, ender_s: float, handler_s: float
) -> None:
    """Before the division that follows the last one after 10 s: the test removes its call."""
    world = limited(world, max_inflight=2, overflow="stage")
    await created(world, 1, "a")
    await created(world, 2, "a")
    world.clock.advance(60)
    job_id = await created(skewed(world, last_s), 3, "b")
    world.clock.advance(0.2)
    world.context.bus.admission_calls.divisions.clear()  # type: ignore[attr-defined]
    await cancelled(skewed(world, ender_s), active_jobs(world)["a"][0])
    count = await delivered(world, skewed(world, handler_s), until=world.clock.now() + timedelta(seconds=9))
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED
    assert count <= 60
