"""Submissions under load: a maximum of concurrent ones, tenants in turns, and 503 past the maximum."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.operations.jobs.create_job import create_job
from shared.operations.process import submissions
from shared.operations.process.submissions import AT_ONCE, MAX_WAITING, Submissions
from shared.refusals import Overloaded
from tests.contexts import changed
from tests.jobs import envelope
from tests.operations.conftest import World
from tests.operations.support import failed_at_embedding, redrive


class Queue:
    """Creations that end on request, in the order of their turns."""

    def __init__(self) -> None:
        self.submissions = Submissions()
        self.began: list[str] = []
        self._ends: asyncio.Queue[None] = asyncio.Queue()

    async def create(self, tenant: str) -> None:
        async with self.submissions.turn(tenant):
            self.began.append(tenant)
            await self._ends.get()

    def begin(self, tenant: str, count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.create(tenant)) for _ in range(count)]

    async def end(self, count: int) -> None:
        for _ in range(count):
            self._ends.put_nowait(None)
            await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_at_once_and_tenants_in_turns() -> None:
    """One tenant's burst is in hand; of those that wait each tenant has one turn after the other."""
    queue = Queue()
    tasks = queue.begin("a", AT_ONCE + 4)
    await settled()
    tasks += queue.begin("b", 2) + queue.begin("c", 1)
    await settled()
    assert queue.began == ["a"] * AT_ONCE
    await queue.end(7)
    assert queue.began[AT_ONCE:] == ["a", "b", "c", "a", "b", "a", "a"]
    await queue.end(AT_ONCE)
    await asyncio.gather(*tasks)
    assert (queue.submissions._in_hand, queue.submissions._waiting) == (0, {})


async def test_past_the_bound_it_is_refused_and_one_tenant_leaves_room() -> None:
    """One tenant fills half of the slots; another tenant is admitted, and both get their response at once."""
    queue = Queue()
    tasks = queue.begin("a", AT_ONCE + MAX_WAITING // 2)
    await settled()
    with pytest.raises(Overloaded):
        await queue.create("a")
    tasks += queue.begin("b", 1)
    await settled()
    assert not tasks[-1].done()
    await queue.end(len(tasks))
    await asyncio.gather(*tasks)


async def test_who_gives_up_leaves_no_place_taken() -> None:
    """While it waits, and as its turn comes."""
    queue = Queue()
    tasks = queue.begin("a", AT_ONCE)
    waiting, chosen, last = queue.begin("b", 3)
    await settled()
    waiting.cancel()
    await settled()
    # by hand, so that it is cancelled between its turn and its going on
    queue.submissions._give_on()
    chosen.cancel()
    await settled()
    queue.submissions._in_hand += 1
    assert queue.began == ["a"] * AT_ONCE + ["b"]
    await queue.end(AT_ONCE + 1)
    await asyncio.gather(*tasks, last)
    assert (queue.submissions._in_hand, queue.submissions._waiting) == (0, {})


async def test_a_place_passes_over_who_just_gave_up() -> None:
    """Its turn is cancelled before it runs again: the slot goes to the next request, and is not lost with an error."""
    queue = Queue()
    tasks = queue.begin("a", AT_ONCE)
    waiting, last = queue.begin("b", 1) + queue.begin("c", 1)
    await settled()
    waiting.cancel()
    # effects of an end in the same round of the loop
    queue.submissions._give_on()
    await settled()
    assert waiting.cancelled()
    assert queue.began[AT_ONCE:] == ["c"]
    queue.submissions._in_hand += 1
    await queue.end(AT_ONCE + 1)
    await asyncio.gather(*tasks, last)
    assert (queue.submissions._in_hand, queue.submissions._waiting) == (0, {})


async def test_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission without a turn in time is refused, and its slot is free."""
    monkeypatch.setattr(submissions, "LONGEST_WAIT_S", 0.01)
    queue = Queue()
    tasks = queue.begin("a", AT_ONCE)
    await settled()
    with pytest.raises(Overloaded):
        await queue.create("b")
    await queue.end(AT_ONCE)
    await asyncio.gather(*tasks)
    assert (queue.submissions._in_hand, queue.submissions._waiting) == (0, {})


async def test_a_duplicate_is_refused_too(world: World) -> None:
    """The bound is the process's own and no limit of a tenant; nothing is read or written for the duplicate."""
    first = await create_job(world.context, world.orchestrations, envelope(), correlation_id=None)
    queue = Queue()
    tasks = queue.begin("tenant_a", AT_ONCE + MAX_WAITING // 2)
    await settled()
    busy = changed(world.context, submissions=queue.submissions)
    with pytest.raises(Overloaded):
        await create_job(busy, world.orchestrations, envelope(), correlation_id=None)
    await queue.end(len(tasks))
    again = await create_job(busy, world.orchestrations, envelope(), correlation_id=None)
    assert (again.replayed, again.stored.record.job.job_id) == (True, first.stored.record.job.job_id)


async def test_a_redrive_takes_its_turn(world: World) -> None:
    """A redrive past the maximum is refused, and nothing is written; later it is one new job."""
    old = await failed_at_embedding(world)
    queue = Queue()
    tasks = queue.begin("tenant_a", AT_ONCE + MAX_WAITING // 2)
    await settled()
    busy = replace(world, context=changed(world.context, submissions=queue.submissions))
    with pytest.raises(Overloaded):
        await redrive(busy, old)
    assert (await world.job(old)).job.redriven_by is None
    await queue.end(len(tasks))
    redriven = await redrive(busy, old)
    assert not redriven.replayed
    assert (queue.submissions._in_hand, queue.submissions._waiting) == (0, {})
