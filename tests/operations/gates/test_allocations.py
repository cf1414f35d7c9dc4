"""A limit over all tenants, divided among them (R54): never exceeded, no place unused, fair by place time."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.quotas import quotas
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import cancelled, limited, submitted
from tests.worlds.gates import (
    OPERATOR,
    PLATFORM,
    active_jobs,
    allocation_record,
    count,
    created,
    ruled,
    served,
    statuses,
)


async def test_an_idle_platform_starts_the_jobs_of_any_tenant(world: World) -> None:
    """At once, though each tenant is new; the job above the limit waits, and is admitted at the first end."""
    world = limited(world, max_inflight=4, overflow="stage")
    jobs = [await created(world, number, f"tenant_{number}") for number in range(5)]
    assert await statuses(world, jobs) == [JobStatus.QUEUED] * 4 + [JobStatus.THROTTLED]
    await cancelled(world, jobs[0])
    await served(world)
    assert await statuses(world, jobs[4:]) == [JobStatus.QUEUED]
    assert (await allocation_record(world)).granted == 4


async def test_places_that_one_tenant_does_not_need_are_anothers(world: World) -> None:
    """Slots granted to an idle tenant are reclaimed when another tenant requests more, without an end of a job."""
    world = limited(world, max_inflight=6, overflow="reject")
    first = await created(world, 0, "a")
    assert (await allocation_record(world)).accounts["a"].granted == 6
    for number in range(5):
        await created(world, 10 + number, f"b{number}")
    assert count(world) == {"a": 1, "b0": 1, "b1": 1, "b2": 1, "b3": 1, "b4": 1}
    await cancelled(world, first)
    await created(world, 20, "b0")
    assert count(world)["b0"] == 2


@pytest.mark.parametrize("backlog", [60, pytest.param(900, marks=pytest.mark.long)])
async def test_a_lone_tenant_starts_within_five_starts(world: World, backlog: int) -> None:
    """A backlog of another tenant keeps no tenant out: each returned slot is lent again."""
    world = limited(world, max_inflight=4, overflow="stage")
    for number in range(backlog):
        await created(world, number, "many")
    [lone] = [await created(world, backlog, "lone")]
    await served(world)
    for _ in range(5):
        await cancelled(world, active_jobs(world)["many"][0])
        world.clock.advance(2)
        await served(world)
        assert sum(count(world).values()) == 4
        if await statuses(world, [lone]) == [JobStatus.QUEUED]:
            break
    assert await statuses(world, [lone]) == [JobStatus.QUEUED]


async def test_place_time_follows_the_weights(world: World) -> None:
    """Within a tenth; a weight that is changed while both wait counts from then on."""
    world = limited(world, max_inflight=8, overflow="stage")
    await ruled(world, Gate(GateKind.TENANT, "heavy"), weight=3)
    for number in range(120):
        await created(world, number, "heavy")
    for number in range(70):
        await created(world, 1000 + number, "light")

    async def run(turns: int) -> dict[str, int]:
        """Place time of each; a job runs a minute, and one ends every 7.5 seconds."""
        spent = {"heavy": 0, "light": 0}
        for _ in range(turns):
            for tenant, ids in count(world).items():
                spent[tenant] += ids
            oldest = min((ids[0] for ids in active_jobs(world).values()), key=started_at)
            await cancelled(world, oldest)
            world.clock.advance(7.5)
            await served(world, world.clock.now())
        return spent

    def started_at(job_id: str) -> Any:
        job = world.ledger.jobs[job_id].record.job
        return (job.admitted_at or job.created_at, int(job_id[4:]))

    await run(20)
    spent = await run(80)
    assert spent["heavy"] / spent["light"] == pytest.approx(3, rel=0.1), spent
    await ruled(world, Gate(GateKind.TENANT, "heavy"), weight=1)
    await run(20)
    spent = await run(40)
    assert spent["heavy"] / spent["light"] == pytest.approx(1, rel=0.1), spent


async def test_a_limit_over_jobs_that_run_lends_nothing_until_they_ended(world: World) -> None:
    """All jobs are counted first, also of tenants without a gate; then each end frees a slot below the limit only."""
    for number in range(9):
        await created(world, number, f"tenant_{number % 3}")
    await ruled(world, PLATFORM, max_active=7)
    world.clock.advance(61)
    found = await allocation_record(world)
    assert (found.opened_at is not None, found.granted) == (True, 9)
    waiting = await created(world, 100, "tenant_9")
    assert await statuses(world, [waiting]) == [JobStatus.THROTTLED]
    for turn, ids in enumerate(active_jobs(world).values()):
        await cancelled(world, ids[0])
        world.clock.advance(2)
        await served(world)
        assert sum(count(world).values()) == (8, 7, 7)[turn]
    assert await statuses(world, [waiting]) == [JobStatus.QUEUED]


async def test_a_change_of_the_rule_counts_at_once(world: World) -> None:
    """A higher number admits jobs, a lower one stops no running job, and without a rule all jobs are admitted."""
    await ruled(world, PLATFORM, max_active=2)
    for number in range(8):
        await created(world, number, f"tenant_{number % 2}")
    assert sum(count(world).values()) == 2
    await ruled(world, PLATFORM, max_active=5)
    assert sum(count(world).values()) == 5
    await ruled(world, PLATFORM, max_active=1)
    await served(world)
    assert sum(count(world).values()) == 5
    await quotas.delete_rule(world.context, world.orchestrations, PLATFORM, OPERATOR, rule_seq=None)
    await served(world)
    assert sum(count(world).values()) == 8


async def test_a_hold_of_the_platform_stops_every_tenant(world: World) -> None:
    """Jobs of priority emergency and of new tenants too; its end admits all."""
    await ruled(world, PLATFORM, max_active=3)
    await quotas.hold(world.context, world.orchestrations, PLATFORM, OPERATOR, until=None)
    for number in range(4):
        await created(world, number, f"tenant_{number}")
    assert count(world) == {}
    await quotas.resume(world.context, world.orchestrations, PLATFORM, OPERATOR)
    await served(world)
    assert sum(count(world).values()) == 3


@pytest.mark.parametrize("hours", [2, pytest.param(10, marks=pytest.mark.long)])
async def test_a_rate_over_all_tenants_is_exact_to_the_job(world: World, hours: int) -> None:
    """`max_per_hour` and `burst` of two tenants that always wait: neither a job more nor one less."""
    await ruled(world, PLATFORM, max_per_hour=30, burst=4)
    began = world.clock.now()
    for number in range(15 * hours + 10):
        await created(world, number, "a")
        await created(world, 1000 + number, "b")
    for hour in range(1, hours + 1):
        await served(world, began + timedelta(hours=hour))
        world.clock.advance((began + timedelta(hours=hour) - world.clock.now()).total_seconds())
        assert sum(count(world).values()) == 4 + 30 * hour
    a, b = count(world).values()
    assert abs(a - b) <= 4


async def test_a_narrow_and_a_broad_limit_leave_no_place_unused(world: World) -> None:
    """A slot of the platform is not lent to a job that its type's gate holds."""
    await ruled(world, Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), max_active=1)
    await ruled(world, PLATFORM, max_active=3)
    for number in range(6):
        await created(world, number, f"tenant_{number % 2}")
    await served(world)
    assert sum(count(world).values()) == 1
    others = [await submitted(world, doc_id=f"other-{number}", tenant_id="tenant_2") for number in range(2)]
    assert await statuses(world, others) == [JobStatus.QUEUED] * 2
    for job_id in others:
        await cancelled(world, job_id)
    for left in range(5, -1, -1):
        await cancelled(world, next(iter(active_jobs(world).values()))[0])
        world.clock.advance(12)
        await served(world)
        assert sum(count(world).values()) == min(1, left)


async def test_without_the_queue_lines_move_by_the_sweeps_alone(world: World) -> None:
    """Each call is lost: each sweep lends the returned slots."""
    world = limited(world, max_inflight=2, overflow="stage")
    for number in range(8):
        await created(world, number, f"tenant_{number}")
    for ended in range(1, 7):
        await cancelled(world, next(iter(active_jobs(world).values()))[0])
        world.clock.advance(60)
        await sweep(world.context, world.orchestrations)
        assert sum(count(world).values()) == min(2, 8 - ended)


async def test_a_division_that_dies_lends_too_little_and_the_next_one_heals_it(world: World) -> None:
    """At each of its writes; afterwards no place is lost."""
    for broken in ("write", "answer", "write_admission"):
        here = limited(world, max_inflight=3, overflow="stage")
        tenants = [f"{broken}_{number}" for number in range(5)]
        port = here.index if broken == "write_admission" else here.context.allocations
        with failing(port, broken, at=[2]):
            for number, tenant in enumerate(tenants):
                with contextlib.suppress(LedgerUnavailable):
                    await created(here, number, tenant)
        for _ in range(4):
            here.clock.advance(301)
            await sweep(here.context, here.orchestrations)
            await served(here, here.clock.now())
        assert sum(count(here).values()) == 3, broken
        for ids in active_jobs(here).values():
            await cancelled(here, ids[0])
            here.clock.advance(2)
            await served(here, here.clock.now())
        for ids in active_jobs(here).values():
            await cancelled(here, ids[0])
