"""Processes whose clocks differ by -3 to +5 s from that of the bus: no call to a desk is lost (R51, R54)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.core.gates.rules import Gate, GateKind
from shared.core.states import JobStatus
from shared.operations import quotas
from shared.operations.desks import let_in
from shared.operations.gate_directory import GateDirectory
from shared.operations.transition import notify
from tests.operations.conftest import StillClock, World
from tests.operations.divided import BY
from tests.operations.support import create_numbered, limited

TENANT = Gate(GateKind.TENANT, "tenant_a")
SKEWS = [-3.0, -0.05, 0.0, 1.0, 5.0]


class SkewedClock:
    """The clock of a process that differs from the bus's, in seconds."""

    def __init__(self, bus: StillClock, skew_s: float) -> None:
        self._bus, self._skew = bus, timedelta(seconds=skew_s)

    def now(self) -> datetime:
        return self._bus.now() + self._skew


def skewed(world: World, skew_s: float) -> World:
    """Another process, whose clock differs by `skew_s` seconds; `world.clock` is the bus's."""
    clock = SkewedClock(world.clock, skew_s)
    return replace(world, context=replace(world.context, clock=clock, gates=GateDirectory()))


async def delivered(world: World, tenant: str, *, until: datetime) -> int:
    """Delivers the calls to the tenant's desk by the bus's clock to the process `world`; how many there were."""
    queue, count = world.context.desk_calls, 0
    while pending := [each for each in queue.calls if (each[2] or world.clock.now()) <= until]:  # type: ignore[attr-defined]
        _, _, at = call = min(pending, key=lambda each: each[2] or world.clock.now())
        queue.calls.remove(call)  # type: ignore[attr-defined]
        world.clock.time = max(world.clock.time, at or world.clock.time)
        await notify(world.context, world.orchestrations, tenant, await let_in(world.context, tenant))
        count += 1
    return count


@pytest.mark.parametrize("skew_s", SKEWS)
async def test_a_hold_that_ends_by_time_lets_its_tenant_go_on_without_a_sweep(world: World, skew_s: float) -> None:
    """A process whose clock is behind takes the call before the hold is over, and has it come again."""
    world = limited(world, staging="on", overflow="stage")
    until = world.clock.now() + timedelta(seconds=30)
    await quotas.hold(world.context, world.orchestrations, TENANT, BY, until=until)
    job_id = (await create_numbered(world, 1)).stored.record.job.job_id
    assert (await world.job(job_id)).job.status is JobStatus.THROTTLED
    count = await delivered(skewed(world, skew_s), "tenant_a", until=until + timedelta(seconds=6))
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED
    assert count <= 3


async def test_a_sweep_of_a_desk_that_waits_for_hours_asks_for_no_further_call(world: World) -> None:
    world = limited(world, staging="on", overflow="stage")
    await quotas.hold(world.context, world.orchestrations, TENANT, BY, until=world.clock.now() + timedelta(hours=9))
    await create_numbered(world, 1)
    asked = len(world.context.desk_calls.calls)  # type: ignore[attr-defined]
    for _ in range(5):
        world.clock.advance(60)
        await let_in(world.context, "tenant_a")
    assert len(world.context.desk_calls.calls) == asked  # type: ignore[attr-defined]
