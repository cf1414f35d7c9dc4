"""Faults of limits over all tenants (R54): each program is the smallest that showed one fault."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates import allocation, demand
from shared.core.gates.rules import Gate, GateKind, QuotaShare
from shared.core.jobs.states import JobStatus
from shared.operations.quotas import quotas
from shared.operations.quotas.admit_job import admit_job
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import cancelled, limited
from tests.worlds.gates import (
    OPERATOR,
    PLATFORM,
    active_jobs,
    allocation_record,
    apart,
    count,
    created,
    ruled,
    served,
    statuses,
)


async def test_nobody_saves_up_places_while_there_is_room(world: World) -> None:
    """A tenant that ran alone for ten hours has the same share as a tenant that arrives when slots run short."""
    await ruled(world, PLATFORM, max_active=4)
    for number in range(3):
        await created(world, number, "busy")
    await created(world, 100, "idle")
    world.clock.advance(36_000)
    await quotas.hold(world.context, world.orchestrations, PLATFORM, OPERATOR, until=None)
    for number in range(20):
        await created(world, 200 + number, "busy")
        await created(world, 300 + number, "idle")
    await quotas.resume(world.context, world.orchestrations, PLATFORM, OPERATOR)
    await served(world)
    for _ in range(20):
        oldest = min((ids[0] for ids in active_jobs(world).values()), key=lambda job_id: int(job_id[4:]))
        await cancelled(world, oldest)
        world.clock.advance(15)
        await served(world, world.clock.now())
    assert count(world) == {"busy": 2, "idle": 2}


async def test_place_time_is_that_of_the_latest_clock(world: World) -> None:
    """Processes whose clocks differ by a second use an admission state in turn: no second is counted twice."""
    world = limited(world, max_inflight=50, overflow="stage")
    await created(world, 0, "a")
    began = world.clock.now()
    for number in range(20):
        world.clock.time = began + timedelta(seconds=number / 10 + number % 2)
        await created(world, 1 + number, "a")
    admission = (await world.context.admissions.read("a")).admission  # type: ignore[union-attr]
    most = sum(1 + number for number in range(20)) * 100 + 20 * 1000
    assert admission.share(PLATFORM).slot_ms <= most


async def test_place_time_of_a_great_weight_is_not_rounded_away(world: World) -> None:
    """Divisions a second apart, and a place that counts less than a millisecond in each."""
    claims = [demand.Demand(tenant="a", active=1, requested=1, share=QuotaShare(gate=PLATFORM), slot_ms=0, weight=700)]
    at = allocation.AllocationRecord(gate_id="g", accounts={"a": allocation.Account(is_waiting=True)})
    for second in range(1, 701):
        claims = [replace(claims[0], slot_ms=second * 1000)]
        at = replace(at, accounts=allocation.accrue_accounts(at, claims))
    assert at.accounts["a"].slot_time == pytest.approx(1000, rel=0.1)


async def test_a_rate_of_the_tenant_and_a_limit_over_all(world: World) -> None:
    """Its own rate admits by time, and then it requests a slot: it does not wait for the sweeper."""
    await ruled(world, PLATFORM, max_active=4)
    await ruled(world, Gate(GateKind.TENANT, "a"), max_per_hour=360, burst=1)
    for number in range(30):
        await created(world, 100 + number, "b")
    for number in range(12):
        await created(world, number, "a")
    started: set[str] = set()
    for _ in range(120):
        world.clock.advance(1)
        await served(world, world.clock.now())
        started |= {*active_jobs(world).get("a", [])}
        for ids in active_jobs(world).values():
            if world.clock.now().second % 4 == 0:
                await cancelled(world, ids[0])
    assert len(started) >= 8


async def test_a_number_that_is_set_again_counts_who_is_inside(world: World) -> None:
    """Without a number no job requests a slot: so all jobs are counted again, before any slot is lent."""
    await ruled(world, PLATFORM, max_active=2)
    world.clock.advance(1)
    await ruled(world, PLATFORM, max_active=None)
    for number in range(6):
        await created(world, number, f"tenant_{number % 2}")
    world.clock.advance(1)
    await ruled(world, PLATFORM, max_active=5)
    assert (await allocation_record(world)).granted == 6
    late = await created(world, 10, "late")
    assert await statuses(world, [late]) == [JobStatus.THROTTLED]


async def test_jobs_of_a_process_that_did_not_know_the_rule_yet_are_counted(world: World) -> None:
    """For ten seconds it starts jobs of any tenant: those are counted too."""
    other = apart(world)
    await created(other, 0, "first")
    await ruled(world, PLATFORM, max_active=3)
    world.clock.advance(5)
    for number in range(3):
        await created(other, 1 + number, "unheard")
    world.clock.advance(120)
    await sweep(world.context, world.orchestrations)
    await served(world)
    jobs = [await created(world, 10 + number, "b") for number in range(2)]
    assert await statuses(world, jobs) == [JobStatus.THROTTLED] * 2


@pytest.mark.parametrize("kind", ["hold", "emergency"])
async def test_who_passes_a_limit_counts(world: World, kind: str) -> None:
    """An emergency, or a job that an operator admitted, of a tenant without lent slots: others get fewer."""
    await ruled(world, PLATFORM, max_active=2)
    await ruled(world, Gate(GateKind.TENANT, "vip"), emergency_max_active=5)
    if kind == "hold":
        await quotas.hold(world.context, world.orchestrations, Gate(GateKind.TENANT, "vip"), OPERATOR, until=None)
        for number in range(2):
            waiting = await created(world, number, "vip")
            await admit_job(world.context, world.orchestrations, waiting, OPERATOR)
    else:
        for number in range(2):
            await created(world, number, "vip", priority="emergency")
    assert count(world) == {"vip": 2}
    world.clock.advance(2)
    await served(world)
    await created(world, 5, "b")
    assert count(world) == {"vip": 2}


async def test_a_line_at_another_gate_has_no_request_refused(world: World) -> None:
    """Jobs of the tenant that wait at another gate do not count for this one."""
    world = limited(world, max_inflight=5, overflow="reject")
    held = Gate(GateKind.TYPE, "a", "OCR")
    await quotas.hold(world.context, world.orchestrations, held, OPERATOR, until=None)
    waiting = await created(world, 0, "a")
    assert await statuses(world, [waiting]) == [JobStatus.THROTTLED]
    started = await created(world, 1, "a", request_type="OCR_EMBEDDING")
    assert await statuses(world, [started]) == [JobStatus.QUEUED]


@pytest.mark.parametrize("numbers", [{"max_per_hour": 36_000, "burst": 1000}, {}])
async def test_a_gate_without_a_number_is_not_divided_at_each_end(world: World, numbers: dict[str, int]) -> None:
    """Nor called for: an end makes no room at a rate or a throttle."""
    if numbers:
        await ruled(world, PLATFORM, **numbers)
    else:
        await quotas.throttle(world.context, world.orchestrations, PLATFORM, OPERATOR, max_per_hour=36_000, until=None)
    jobs = [await created(world, number, "a") for number in range(20)]
    world.clock.advance(20)
    await served(world)
    before = (await allocation_record(world)).epoch
    for job_id in jobs:
        await cancelled(world, job_id)
        world.clock.advance(2)
    assert world.context.bus.admission_calls.divisions == []  # type: ignore[attr-defined]
    await sweep(world.context, world.orchestrations)
    assert (await allocation_record(world)).epoch == before


@pytest.mark.parametrize("seconds", [150, pytest.param(3600, marks=pytest.mark.long)])
async def test_calls_under_contention_are_bounded(world: World, seconds: int) -> None:
    """With three processes and five tenants that always wait, fewer than 40 division calls are in the queue."""
    world = limited(world, max_inflight=5, overflow="stage")
    processes = [world, apart(world), apart(world)]
    calls: Any = world.context.bus.admission_calls
    most, started, number = 0, 0, 0
    for second in range(seconds):
        if len(world.ledger.jobs) - started < 30:
            number += 1
            await created(processes[number % 3], number, f"tenant_{number % 5}")
        if second % 3 == 0:
            oldest = min((ids[0] for ids in active_jobs(world).values()), key=lambda job_id: int(job_id[4:]))
            await cancelled(processes[second % 3], oldest)
            world.ledger.take(oldest)
            started = sum(count(world).values())
        world.clock.advance(1)
        await served(processes[second % 2], world.clock.now())
        most = max(most, len(calls.divisions))
        assert sum(count(world).values()) <= 5
    assert sum(count(world).values()) == 5
    assert 0 < most < 40


async def test_a_call_without_a_request_ends_with_the_next_divisions(world: World) -> None:
    """While jobs always wait each division is late: such calls, sent each second, do not accumulate."""
    world = limited(world, max_inflight=1, overflow="stage")
    calls: Any = world.context.bus.admission_calls
    await created(world, 1, "t0")
    await created(world, 2, "t1")
    for _ in range(60):
        await calls.call_allocation(PLATFORM.id, at=world.clock.now())
        world.clock.advance(1)
        await served(world, world.clock.now())
    assert len(calls.divisions) < 30


@pytest.mark.parametrize("broken", ["read", "write_admission"])
async def test_a_admission_that_cannot_be_reached_holds_up_no_other(world: World, broken: str) -> None:
    """Its tenant keeps its lent slots, and the others are lent the rest."""
    world = limited(world, max_inflight=4, overflow="stage")
    running = await created(world, 0, "sick")
    assert (await allocation_record(world)).accounts["sick"].granted == 4
    await cancelled(world, running)
    await created(world, 1, "well")
    await created(world, 2, "sick")
    assert await created(world, 3, "well")
    port: Any = world.context.admissions if broken == "read" else world.index
    with failing(port, broken, only=lambda asked: (asked if broken == "read" else asked.after.tenant) == "sick"):
        for number in range(4):
            await created(world, 10 + number, "well")
        await created(world, 20, "other")
        world.clock.advance(11)
        await served(world, world.clock.now())
    lent = (await allocation_record(world)).accounts
    assert sum(account.granted for account in lent.values()) <= 4
    assert sum(count(world).values()) == 4 or lent["sick"].granted > 1
    world.clock.advance(11)
    await served(world, world.clock.now())
    assert sum(count(world).values()) == 4


async def test_who_stays_in_line_asks_though_others_of_its_tenant_went_in(world: World) -> None:
    """A hold ends by time: one type starts at once, the other needs a slot of its gate over all tenants."""
    await ruled(world, Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), max_active=1)
    until = world.clock.now() + timedelta(seconds=20)
    await quotas.hold(world.context, world.orchestrations, Gate(GateKind.TENANT, "a"), OPERATOR, until=until)
    free = await created(world, 0, "a", request_type="OCR_EMBEDDING")
    limited_too = await created(world, 1, "a")
    world.clock.advance(21)
    await served(world, world.clock.now())
    world.clock.advance(2)
    await served(world)
    assert await statuses(world, [free, limited_too]) == [JobStatus.QUEUED] * 2


def test_a_book_has_room_for_so_many_names() -> None:
    """It is one row of 1 MiB: of the longest names there is room for fewer than a thousand."""
    full = allocation.AllocationRecord(
        gate_id="g", accounts={f"{number}": allocation.Account() for number in range(990)}
    )
    assert allocation.count_room(full, [f"new {number}" for number in range(50)]) == 10
    long = [f"{number:0480d}" for number in range(1000)]
    room = allocation.count_room(allocation.AllocationRecord(gate_id="g"), long)
    assert 800 < room < 900
