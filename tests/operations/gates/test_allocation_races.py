"""Divisions concurrent with each other, creations, ends and resets, in every order of their calls (R54, R61)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.gates import allocation
from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import EVERY, Gate
from shared.core.jobs.states import JobStatus
from shared.operations.gates.allocations import allocate
from shared.operations.jobs.admission import notify
from shared.operations.quotas import quotas
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.faults import meanwhile
from tests.operations.interleave import Meeting, Work, every_order
from tests.operations.support import cancelled, limited
from tests.worlds.gates import (
    OCR_OF_ALL,
    OPERATOR,
    PLATFORM,
    active_jobs,
    allocation_record,
    apart,
    breaker_over_all,
    count,
    created,
    ends,
    fail,
    logged_over_all,
    served,
    statuses,
    with_breaker_over_all,
)


def allocates(gate: Gate = PLATFORM) -> Work:
    async def work(world: World) -> None:
        for tenant, entered in (await allocate(world.context, gate)).items():
            await notify(world.context, world.orchestrations, tenant, entered)

    return work


def posts(number: int, tenant: str) -> Work:
    async def work(world: World) -> None:
        await created(world, number, tenant)

    return work


def cancels(tenant: str) -> Work:
    async def work(world: World) -> None:
        await cancelled(world, active_jobs(world)[tenant][0])

    return work


LIMIT = 2


def wrong(world: World) -> str | None:
    """Returns a fault if more than the limit is lent or admitted."""
    admissions = [
        stored.admission for stored in world.index.admissions.admissions.values() if stored.admission.tenant != EVERY
    ]
    kept = sum(max(admission.share(PLATFORM).slots, admission.active) for admission in admissions)
    held = sum(not row.counted_place.is_staged for row in world.index.active.values())
    return f"{kept} are lent, {held} inside, of {LIMIT}" if max(kept, held) > LIMIT else None


def gives_up(job_id: str) -> Work:
    async def work(world: World) -> None:
        await cancelled(world, job_id)
        await allocates()(world)

    return work


CASES = {
    "two divisions and an end": (allocates(), allocates(), cancels("a")),
    "a division, and another after one gave up": (allocates(), gives_up("job_6")),
    "a creation elsewhere, a division and an end": (posts(9, "c"), allocates(), cancels("a")),
    "two creations of new tenants": (posts(9, "c"), posts(8, "d")),
}


async def prepared(world: World) -> World:
    world = limited(world, max_inflight=LIMIT, overflow="stage")
    for number in range(2):
        await created(world, number, "a")
    assert await created(world, 3, "b") == "job_6"
    await created(world, 4, "a")
    await served(world)
    await cancelled(world, active_jobs(world)["a"][0])
    assert (count(world), (await allocation_record(world)).granted) == ({"a": 1}, 2)
    world.clock.advance(5)
    return world


async def meets(meeting: Meeting, works: tuple[Work, ...], killed: tuple[str, int] | None) -> None:
    world = await prepared(meeting.world)
    meeting.killed, meeting.watch = killed, lambda: wrong(world)

    await meeting.at_once(**{str(place): work(apart(world)) for place, work in enumerate(works)})
    meeting.killed = None
    for _ in range(4):
        world.clock.advance(301)
        await sweep(world.context, world.orchestrations)
        assert wrong(world) is None
    waiting = [each for each in world.ledger.jobs.values() if each.record.job.is_staged]
    assert not waiting or sum(count(world).values()) == LIMIT, "one waits beside a free place"


def explore(name: str, *, kills: Iterable[int], interruptions: int = 1) -> int:
    works = CASES[name]

    async def scenario(meeting: Meeting) -> None:
        await meets(meeting, works, None)

    found = every_order(scenario, interruptions=interruptions)
    for call in kills:

        async def with_a_death(meeting: Meeting, call: int = call) -> None:
            await meets(meeting, works, ("0", call))

        found += every_order(with_a_death, interruptions=min(1, interruptions))
    return found


def test_divisions_in_every_order() -> None:
    """Race division: the total lent is never above the limit, and no job waits beside a free slot afterwards.

    `make test-long` has the other cases.
    """
    assert explore("a division, and another after one gave up", kills=()) > 5


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", CASES)
def test_divisions_in_every_order_for_long(name: str) -> None:
    """With two interruptions, and the first killed at any call."""
    explore(name, kills=range(1, 40), interruptions=2)


async def test_a_division_that_another_one_overtook_grants_nothing(world: World) -> None:
    """Race division: the record was written after it was read, and the free slot granted; see `test_allocations.py` of
    the adapters for the refusal.
    """
    world = limited(world, max_inflight=LIMIT, overflow="stage")
    await created(world, 1, "a")
    meanwhile(world.context.allocations, "write", lambda: created(apart(world), 2, "b"))
    await created(world, 3, "c")
    assert count(world) == {"a": 1, "b": 1}


def test_a_division_without_epochs_lends_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a gift of an earlier division comes after a later one has taken."""

    def granted(share: Any, account: Any, keep: int, epoch: int) -> Any:
        return replace(share, slots=max(share.slots, keep))

    def reclaimed(share: Any, goal: int, epoch: int) -> Any:
        return replace(share, slots=min(share.slots, goal))

    monkeypatch.setattr(allocation, "grant", granted)
    monkeypatch.setattr(allocation, "reclaim", reclaimed)
    with pytest.raises(AssertionError, match="are lent"):
        explore("a division, and another after one gave up", kills=())


# --- a breaker that opens

OPENING_LIMIT = 4


def over_the_limit(world: World) -> str | None:
    """Returns a fault if more than the number is lent or admitted."""
    found = [
        stored.admission for stored in world.index.admissions.admissions.values() if stored.admission.tenant != EVERY
    ]
    lent = sum(
        max(admission.share(OCR_OF_ALL).slots, admission.count_used(OCR_OF_ALL))
        + admission.count_active(OCR_OF_ALL)
        - admission.count_used(OCR_OF_ALL)
        for admission in found
    )
    return f"{lent} are lent of {OPENING_LIMIT}" if lent > OPENING_LIMIT else None


def resets() -> Work:
    async def work(world: World) -> None:
        await quotas.reset_breaker(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR)

    return work


OPENINGS = {
    "two divisions that open it, and one that comes": (allocates(OCR_OF_ALL), allocates(OCR_OF_ALL), posts(50, "t2")),
    "a division that opens it, and a reset": (allocates(OCR_OF_ALL), resets()),
}


@pytest.mark.parametrize(
    ("name", "interruptions"),
    [
        ("a division that opens it, and a reset", 1),
        pytest.param("two divisions that open it, and one that comes", 1, marks=pytest.mark.long),
        *(pytest.param(name, 2, marks=[pytest.mark.long, pytest.mark.timeout(7200)]) for name in OPENINGS),
    ],
)
def test_an_opening_in_every_order(name: str, interruptions: int) -> None:
    """Race division: never more admitted than the number; it opens once, or was reset; record and log agree."""

    async def scenario(meeting: Meeting) -> None:
        world = limited(meeting.world)
        await with_breaker_over_all(world, max_active=OPENING_LIMIT)
        jobs = [await created(world, 10 * number + each, f"t{number}") for number in range(2) for each in range(3)]
        await fail(world, jobs[0])
        await ends(world, jobs[3])
        world.clock.advance(1)
        meeting.watch = lambda: over_the_limit(world)

        await meeting.at_once(**{str(place): work(apart(world)) for place, work in enumerate(OPENINGS[name])})
        world.clock.advance(61)
        await sweep(world.context, world.orchestrations)
        found, entries = await breaker_over_all(world), await logged_over_all(world)
        assert entries.count("BREAKER_OPENED") <= 1
        assert found.epoch == len([each for each in entries if each in ("BREAKER_OPENED", "BREAKER_RESET")])
        is_open = found.state is BreakerState.OPEN
        assert is_open is (entries[-1] == "BREAKER_OPENED")
        late = await created(world, 90, "t3")
        assert not is_open or await statuses(world, [late]) == [JobStatus.THROTTLED]
        assert over_the_limit(world) is None

    assert every_order(scenario, interruptions=interruptions) > 3
