"""The gauges of a sweep: jobs that wait and run, ages, breakers, and the counts of several sweepers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.breaker import Breaker, BreakerRule, BreakerState
from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.core.gates.tight_quotas import TightQuota
from shared.core.jobs.occurrences import ControlKind
from shared.errors import Undecodable
from shared.operations.sweeper import gauges
from shared.operations.sweeper.sweep import sweep
from shared.ports.sweeps import SweeperShare, SweepMark, merged
from tests.jobs import START
from tests.memory_stores import MemorySweepMark
from tests.observability.conftest import Telemetry
from tests.observability.moves import dispatched, replied, submitted
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import control, create_numbered, limited
from tests.worlds.gates import states_written, statuses


async def test_the_sweeper_shows_what_is_under_way(world: World, emitted: Telemetry) -> None:
    """Queue and backlog are counted from the rows, and are 0 once nothing is left."""
    job_id = await submitted(world, request_type="OCR", payload={})
    directive = await dispatched(world, job_id, "ocr")
    world.clock.advance(7)
    await sweep(world.context, world.orchestrations)
    points = emitted.points()
    queue = ("job_queue_depth", (("jobType", "OCR"), ("tenant", "tenant_a")))
    assert (points[queue], points[("outbox_backlog", ())], points[("outbox_oldest_seconds", ())]) == (1, 1, 7)
    assert points[("job_queue_oldest_seconds", ())] == 7
    assert points[("sweeper_passes_total", (("outcome", "done"),))] == 1
    await replied(world, directive, "RESULT")
    await sweep(world.context, world.orchestrations)
    points = emitted.points()
    assert (points[queue], points[("outbox_backlog", ())], points[("job_queue_oldest_seconds", ())]) == (0, 0, 0)


async def test_a_job_that_nothing_starts_grows_old(world: World, emitted: Telemetry) -> None:
    """No attempt is recorded, so the outbox is empty: only the age of the oldest QUEUED job shows it."""
    await submitted(world, request_type="OCR", payload={})
    for waited in (60, 3600):
        world.clock.advance(waited)
        await sweep(world.context, world.orchestrations)
    points = emitted.points()
    assert (points[("job_queue_oldest_seconds", ())], points[("outbox_backlog", ())]) == (3660, 0)


async def test_jobs_that_wait_show_in_the_queue_and_by_the_oldest(world: World, emitted: Telemetry) -> None:
    """Jobs that wait at gates and for other jobs are counted; the age is that of the oldest, and 0 if no job waits."""
    small = limited(world, max_inflight_per_tenant=1, overflow="stage")
    first = (await create_numbered(small, 1)).stored.record.job.job_id
    await create_numbered(small, 2, dependencies=[first])
    small.clock.advance(50)
    third = (await create_numbered(small, 3)).stored.record.job.job_id
    small.clock.advance(7)
    await sweep(small.context, small.orchestrations)
    points = emitted.points()
    queue, oldest = ("job_queue_depth", (("jobType", "OCR"), ("tenant", "tenant_a"))), ("job_wait_oldest_seconds", ())
    assert (points[queue], points[oldest], points[("job_queue_oldest_seconds", ())]) == (3, 7, 57)
    await control(small, third, ControlKind.CANCEL)
    await sweep(small.context, small.orchestrations)
    assert (emitted.points()[queue], emitted.points()[oldest]) == (2, 0)


async def test_a_queued_job_that_cannot_be_read_grows_old(world: World, emitted: Telemetry) -> None:
    """Its age counts from its creation, since nothing processes it."""
    await submitted(world, request_type="OCR", payload={})
    world.clock.advance(60)
    with failing(world.ledger, "read", error=Undecodable("JOB", "broken")):
        await sweep(world.context, world.orchestrations)
    assert emitted.points()[("job_queue_oldest_seconds", ())] == 60


async def test_the_age_of_a_queued_job_counts_from_its_admission(world: World, emitted: Telemetry) -> None:
    """The alert of jobs that do not start must not fire for a job that waited for a quota."""
    small = limited(world, max_inflight_per_tenant=1, overflow="stage")
    first, second = [(await create_numbered(small, number)).stored.record.job.job_id for number in (1, 2)]
    small.clock.advance(3600)
    await control(small, first, ControlKind.CANCEL)
    await sweep(small.context, small.orchestrations)
    assert await statuses(small, [second]) == ["QUEUED"]
    small.clock.advance(5)
    await sweep(small.context, small.orchestrations)
    assert emitted.points()[("job_queue_oldest_seconds", ())] == 5


async def test_a_breaker_shows_by_its_job_type(
    world: World, emitted: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gauge is the worst of all admission states, 0 while the breaker is closed, and 0 once its gate is removed."""
    admission_of = {name: Gate(GateKind.TYPE, name, "OCR") for name in ("a", "b")}
    states = {gate.id: 2 * (name == "b") for name, gate in admission_of.items()}
    gates = [GateState(gate=gate) for gate in admission_of.values()]
    point = ("circuit_breaker_state", (("jobType", "OCR"),))
    with monkeypatch.context() as opened:
        opened.setattr(gauges, "breaker_state", lambda state, now: states[state.gate.id])
        for shown, expected in ((gates, 2), (gates[:1], 0), (gates, 2), ([], 0)):
            gauges.set_breaker_gauges(SweeperShare(), shown, START)
            assert emitted.points()[point] == expected
    small = limited(world, max_inflight_per_tenant=1, overflow="stage")
    opened = Breaker(state=BreakerState.OPEN, cooldown_s=60, until=START + timedelta(seconds=60))
    gate = Gate(GateKind.TYPE, "tenant_a", "EMBEDDING")
    await states_written(small, GateState(gate=gate, rule=Rule(breaker=BreakerRule()), breaker=opened))
    await create_numbered(small, 1)
    for expected in (2, 1):
        await sweep(small.context, small.orchestrations)
        assert emitted.points()[("circuit_breaker_state", (("jobType", "EMBEDDING"),))] == expected
        small.clock.advance(61)


async def test_many_jobs_are_counted_exactly(world: World, emitted: Telemetry) -> None:
    """Each row counts, by its status as of this sweep; the oldest job is found at any id."""
    for number in range(11):
        job_id = await submitted(world, idempotency_key=str(number), tenant_id="a" if number < 3 else "b")
        if number in (2, 5, 6):
            directive = await dispatched(world, job_id, "ocr")
            await replied(world, directive, "ACK")
        world.clock.advance(-1)
    world.clock.advance(100)
    await sweep(world.context, world.orchestrations)
    points = emitted.points()
    depths = {key[1][1][1]: value for key, value in points.items() if key[0] == "job_queue_depth"}
    assert depths == {"a": 2, "b": 6}
    assert points[("job_active", (("status", "QUEUED"),))] == 8
    assert points[("job_active", (("status", "IN_PROGRESS"),))] == 3
    assert points[("job_queue_oldest_seconds", ())] == 99


async def test_the_counts_of_several_sweepers_are_one(world: World, emitted: Telemetry) -> None:
    """Each sweeper counts its own tenants; the first adds the others' last counts, in gauges and in health."""
    settings = replace(world.context.settings, sweepers=3)
    marks = MemorySweepMark()
    context = replace(world.context, settings=settings, sweep_marks=marks)
    tenants = [f"tenant-{number}" for number in range(12)]
    for tenant in tenants:
        await submitted(world, tenant_id=tenant)
    for number in (2, 1, 0):
        await sweep(context, world.orchestrations, SweeperShare(number, 3))
    points = emitted.points()
    assert points[("job_active", (("status", "QUEUED"),))] == 12
    assert {key[1][1][1] for key in points if key[0] == "job_queue_depth"} == set(tenants)
    whole = merged((await marks.read(3)).values())
    assert whole is not None
    assert whole.counts.active == {"QUEUED": 12}
    # a sweep by hand is over all tenants, and counts none of them twice
    await sweep(context, world.orchestrations)
    assert len(await marks.read(9)) == 3
    assert emitted.points()[("job_active", (("status", "QUEUED"),))] == 12


def test_a_quota_over_all_tenants_is_one_of_several_sweepers() -> None:
    gate = Gate.over_all(GateKind.PLATFORM)
    quotas = [TightQuota(gate=gate, active=number, max_active=9, waiting=1, held=True) for number in (2, 3)]
    whole = merged(SweepMark(ended_at=START, looked_at=0, actions=0, more=False, quotas=[each]) for each in quotas)
    assert whole is not None
    assert whole.quotas == [replace(quotas[0], active=5, waiting=2)]


def test_a_quota_of_one_tenant_in_two_marks_has_the_numbers_of_the_later_sweep() -> None:
    """After a change of the number of sweepers, until each share has swept."""
    gate = Gate(GateKind.TENANT, "tenant_a")
    older, newer = [TightQuota(gate=gate, active=number, max_active=9, waiting=1, held=True) for number in (2, 3)]
    marks = [
        SweepMark(ended_at=at, looked_at=0, actions=0, more=False, quotas=[each])
        for at, each in ((START + timedelta(minutes=1), newer), (START, older))
    ]
    whole = merged(marks)
    assert whole is not None
    assert whole.quotas == [newer]
