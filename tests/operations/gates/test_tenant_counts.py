"""A tenant whose jobs cannot be counted does not block a limit over all tenants, and the limit is kept (R54)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates.rules import EVERY
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates import admission_counts, tenant_counts
from shared.operations.gates.allocations import allocate
from shared.operations.jobs.admission import notify
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.gates.test_gate_counts import hurrying
from tests.operations.interleave import Meeting, Work, every_order
from tests.operations.support import cancelled, limited
from tests.worlds.gates import (
    OCR_OF_ALL,
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

UNREADABLE = [LedgerUnavailable("the row is away"), TypeError("a decoder's own fault")]


class Away:
    """Rows of tenants that the store does not give."""

    def __init__(
        self, world: World, fault: Exception, *tenants: str, admissions: bool = True, rows: bool = False
    ) -> None:
        self.tenants = set(tenants)
        for port, name, is_away in ((world.index.admissions, "read", admissions), (world.index, "list_active", rows)):
            if is_away:
                setattr(port, name, self._away(getattr(port, name), fault))

    def _away(self, read: Any, fault: Exception) -> Any:
        async def call(tenant: str, **fields: Any) -> Any:
            if tenant in self.tenants:
                raise fault
            return await read(tenant, **fields)

        return call

    def back(self) -> None:
        self.tenants.clear()


async def minutes(world: World, number: int) -> None:
    for _ in range(number):
        world.clock.advance(61)
        await sweep(world.context, world.orchestrations)
        await served(world)


@pytest.mark.parametrize("fault", UNREADABLE)
async def test_an_unreadable_admission_holds_no_limit_closed(world: World, fault: Exception) -> None:
    """Its jobs are counted by their ACTIVE rows; a request of another tenant does not see the fault."""
    for number, tenant in enumerate(("bad", "bad", "good")):
        await created(world, number, tenant)
    Away(world, fault, "bad")
    await ruled(world, PLATFORM, max_active=4)
    jobs = [await created(world, 10 + number, "good") for number in range(2)]
    await served(world)
    assert sorted(await statuses(world, jobs)) == [JobStatus.QUEUED, JobStatus.THROTTLED]
    await minutes(world, 3)
    assert count(world) == {"bad": 2, "good": 2}
    await cancelled(world, active_jobs(world)["good"][0])
    await served(world)
    assert await statuses(world, jobs) == [JobStatus.QUEUED, JobStatus.QUEUED]


@pytest.mark.parametrize("fault", UNREADABLE)
async def test_a_tenant_without_counts_gets_the_rest_of_the_limit(world: World, fault: Exception) -> None:
    """The others keep their slots, so its earlier jobs never exceed the limit; its first count returns the rest."""
    for number, tenant in enumerate(("bad", "worse", "good")):
        await created(world, number, tenant)
    away = Away(world, fault, "bad", "worse", rows=True)
    await ruled(world, PLATFORM, max_active=4)
    jobs = [await created(world, 10 + number, "good") for number in range(2)]
    assert await statuses(world, jobs) == [JobStatus.THROTTLED] * 2
    await cancelled(world, active_jobs(world)["good"][0])
    await served(world)
    # its number of jobs when the limit was set
    assert sorted(await statuses(world, jobs)) == [JobStatus.QUEUED, JobStatus.THROTTLED]
    assert (await allocation_record(world)).uncounted == {"bad", "worse"}
    away.tenants.remove("worse")
    await minutes(world, 1)
    assert (await allocation_record(world)).uncounted == {"bad"}
    assert count(world) == {"bad": 1, "worse": 1, "good": 1}
    away.back()
    await minutes(world, 1)
    assert (await allocation_record(world)).uncounted == frozenset()
    assert count(world) == {"bad": 1, "worse": 1, "good": 2}


async def test_a_tenant_that_is_counted_holds_a_division_for_a_second(world: World) -> None:
    """More than a page of jobs: one division reserves slots, a call counts the jobs, the next division uses it."""
    for number, tenant in enumerate(("many", "many", "good")):
        await created(world, number, tenant)
    began, patched = world.clock.now(), pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(admission_counts, "_PAGE", 2)
        world = hurrying(limited(world, max_inflight=3, overflow="stage"))
        late = await created(world, 10, "good")
        assert await statuses(world, [late]) == [JobStatus.THROTTLED]
        assert world.clock.now() - began <= timedelta(seconds=2)
        assert (await allocation_record(world)).uncounted == {"many"}
        await served(world)
        await minutes(world, 1)
    found = await allocation_record(world)
    assert (found.uncounted, found.accounts["many"].granted) == (frozenset(), 2)
    await cancelled(world, active_jobs(world)["good"][0])
    await served(world)
    assert await statuses(world, [late]) == [JobStatus.QUEUED]


async def test_the_second_count_goes_by_the_first(world: World) -> None:
    """A tenant that is unavailable then keeps its lent slots, and the others get all free ones."""
    for number, tenant in enumerate(("bad", "good")):
        await created(world, number, tenant)
    await ruled(world, PLATFORM, max_active=4)
    Away(world, UNREADABLE[0], "bad", rows=True)
    world.clock.advance(61)
    jobs = [await created(world, 10 + number, "good") for number in range(3)]
    await served(world)
    assert await statuses(world, jobs) == [JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.THROTTLED]
    assert (await allocation_record(world)).uncounted == frozenset()


async def test_a_gate_that_fails_keeps_no_other_from_the_sweeper(world: World, capsys: Any) -> None:
    """The divisions of the other gates follow; so does the change that could not be divided."""
    await ruled(world, PLATFORM, max_active=1)
    fault = TypeError("a decoder's own fault")
    broken = failing(world.context.allocations, "read", error=fault, only=lambda gate_id: gate_id == PLATFORM.id)
    await ruled(world, OCR_OF_ALL, max_active=1)
    await ruled(world, PLATFORM, max_active=2)
    world.context.bus.admission_calls.divisions.clear()  # type: ignore[attr-defined]
    world.clock.advance(120)
    await sweep(world.context, world.orchestrations)
    assert (await allocation_record(world, OCR_OF_ALL)).allocated_at == world.clock.now()
    broken.ends()
    await sweep(world.context, world.orchestrations)
    assert (await allocation_record(world)).allocated_at == world.clock.now()


async def test_a_book_that_is_away_refuses_no_job(world: World) -> None:
    """A new job is staged, and starts once the allocation record can be read."""
    await ruled(world, PLATFORM, max_active=2)
    with failing(world.context.allocations, "read", error=UNREADABLE[0]):
        job_id = await created(world, 1, "a")
        assert await statuses(world, [job_id]) == [JobStatus.THROTTLED]
    await minutes(world, 1)
    assert await statuses(world, [job_id]) == [JobStatus.QUEUED]


# --- in every order

LIMIT = 3


def wrong(world: World) -> str | None:
    """More jobs hold a slot than the limit allows."""
    held = sum(not row.counted_place.is_staged for row in world.index.active.values())
    return f"{held} are active, of {LIMIT}" if held > LIMIT else None


def allocates() -> Work:
    async def work(world: World) -> None:
        for tenant, entered in (await allocate(world.context, PLATFORM)).items():
            await notify(world.context, world.orchestrations, tenant, entered)

    return work


async def meets(meeting: Meeting, works: Iterable[Work], tenants: tuple[str, ...]) -> None:
    """Two tenants have a job each when the limit is set, and one of a third waits; `tenants` cannot be read."""
    world = limited(meeting.world, max_inflight=LIMIT, overflow="stage")
    before = limited(meeting.world)
    for number, tenant in enumerate("ab"):
        await created(before, number, tenant)
    away = Away(world, UNREADABLE[0], *tenants, rows=True)
    meeting.watch = lambda: wrong(world)

    async def heals(world: World) -> None:
        await world.context.allocations.read(PLATFORM.id)
        away.back()
        await allocates()(world)

    await meeting.at_once(**{str(place): work(apart(world)) for place, work in enumerate([*works, heals])})
    for _ in range(2):
        world.clock.advance(301)
        await sweep(world.context, world.orchestrations)
        await served(world)
        assert wrong(world) is None
    waiting = [each for each in world.ledger.jobs.values() if each.record.job.is_staged]
    assert not waiting or sum(count(world).values()) == LIMIT, "one waits beside a free slot"
    kept = [
        stored.admission for stored in world.index.admissions.admissions.values() if stored.admission.tenant != EVERY
    ]
    assert sum(max(admission.share(PLATFORM).slots, admission.active) for admission in kept) <= LIMIT


def explore(works: Iterable[Work], *, interruptions: int = 1, tenants: tuple[str, ...] = ("b",)) -> int:
    """Returns the number of orders."""
    return every_order(lambda meeting: meets(meeting, works, tenants), interruptions=interruptions)


def posts(number: int, tenant: str) -> Work:
    async def work(world: World) -> None:
        await created(world, number, tenant)

    return work


WORKS = {
    "a creation": (posts(9, "c"),),
    "two creations and a division": (posts(9, "c"), posts(8, "a"), allocates()),
}


@pytest.mark.parametrize(
    ("name", "tenants", "interruptions"),
    [
        ("a creation", ("b",), 1),
        pytest.param("a creation", ("a", "b"), 2, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
        pytest.param(
            "two creations and a division", ("a", "b"), 1, marks=[pytest.mark.long, pytest.mark.timeout(7200)]
        ),
    ],
)
def test_a_first_count_in_every_order(name: str, tenants: tuple[str, ...], interruptions: int) -> None:
    """Race division: the tenant's rows return at any moment; the limit is kept, and no job waits beside a free slot."""
    assert explore(WORKS[name], interruptions=interruptions, tenants=tenants) > 5


def test_a_first_count_without_a_reserve_exceeds_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a tenant that cannot be counted is booked as one without jobs."""
    monkeypatch.setattr(
        tenant_counts,
        "reserve_rest",
        lambda allocation_record, limit: replace(allocation_record, uncounted=frozenset()),
    )
    with pytest.raises(AssertionError, match="are active"):
        explore([posts(9, "c"), posts(8, "c")], interruptions=0)
