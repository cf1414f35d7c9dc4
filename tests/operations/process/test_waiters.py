"""Waiting for a feed: one read serves all, writes of this process wake them, and no caller takes all slots (R75)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

import pytest

from shared.errors import LedgerUnavailable
from shared.operations.events.read_feed import EventFilter, FeedPage, follow_feed
from shared.operations.process import waiters
from shared.operations.process.waiters import MAX_FOLLOWERS, MAX_WAITERS, LastEvent, Tails, Waiters
from shared.ports.feed import FeedEvent, FeedWrite
from tests.jobs import START
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.worlds.events import Fed, of

TENANT = "tenant_a"
EVERY = EventFilter()
#: no test waits this long: a waiter that is not woken before fails it
LONG_S = 60.0


@pytest.fixture
def fed(world: World) -> Fed:
    return of(world)


async def follow(fed: Fed, after: str, wait_s: float = LONG_S, given: EventFilter = EVERY) -> FeedPage:
    return await follow_feed(
        fed.world.context, TENANT, after=after, event_filter=given, limit=10, invalid=ValueError, wait_s=wait_s
    )


async def write(feed: MemoryFeed, count: int, tenant: str = TENANT) -> None:
    """Writes as another process does: no waiter is notified."""
    head = await feed.head(tenant)
    events = [
        FeedEvent(
            number=head.number + n,
            event_id=str(head.number + n),
            event_type="x",
            job_id="j",
            at=START,
            text='{"data": {"jobType": "OCR"}}',
        )
        for n in range(1, count + 1)
    ]
    await feed.write(FeedWrite(tenant=tenant, head=head, events=events, seen={}))


async def waiting_at(fed: Fed, count: int) -> None:
    """Waits until this number of callers reads the tail."""
    async with asyncio.timeout(30):
        while True:
            tail = fed.world.context.events.tails._tails.get(TENANT)
            if tail is not None and len(tail._waiting) == count:
                return
            await asyncio.sleep(0)


async def test_what_is_there_is_answered_at_once(fed: Fed) -> None:
    await write(fed.feed, 1)
    assert len((await follow(fed, "earliest")).events) == 1


async def test_what_this_process_writes_wakes_who_waits(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a read of the table."""
    monkeypatch.setattr(waiters, "_LOOK_S", LONG_S)
    at_end = (await follow(fed, "latest", 0)).next
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(follow(fed, at_end)) for _ in range(3)]
        await waiting_at(fed, 3)
        await fed.finished()
        await fed.taken()
        pages = await asyncio.gather(*tasks)
    assert [len(page.events) for page in pages] == [5] * 3
    assert fed.world.context.events.tails._tails == {}


async def test_what_another_process_writes_is_found_by_one_look_for_all(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "_LOOK_S", 0.05)
    at_end = (await follow(fed, "latest", 0)).next
    async with asyncio.timeout(30):
        began = time.monotonic()
        tasks = [asyncio.create_task(follow(fed, at_end)) for _ in range(8)]
        await waiting_at(fed, 8)
        looks = noted(fed.feed, "head")
        while not looks:  # noqa: ASYNC110  # nobody signals a look
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        found = len(looks)
        assert found <= (time.monotonic() - began) / 0.05 + 1
        await write(fed.feed, 2)
        assert [len(page.events) for page in await asyncio.gather(*tasks)] == [2] * 8


async def test_a_wait_ends_with_an_empty_page_and_its_cursor(fed: Fed) -> None:
    await write(fed.feed, 3)
    page = await follow(fed, "latest", 0.01)
    assert (page.events, page.number) == ([], 3)
    # events that were read and do not match move the cursor on
    page = await follow(fed, "earliest", 0.01, EventFilter(job_id="other"))
    assert (page.events, page.number) == ([], 3)


async def test_a_filter_waits_for_what_fits(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    async with asyncio.timeout(30):
        task = asyncio.create_task(follow(fed, "earliest", given=EventFilter(terminal=True)))
        await waiting_at(fed, 1)
        await write(fed.feed, 1)
        await fed.finished()
        await fed.taken()
        page = await task
    assert [each["type"] for each in page.events] == ["job.completed"]


async def test_a_fault_is_raised_and_leaves_nothing(fed: Fed) -> None:
    at_end = (await follow(fed, "latest", 0)).next
    task = asyncio.create_task(follow(fed, at_end))
    await waiting_at(fed, 1)
    failing(fed.feed, "head")
    with pytest.raises(LedgerUnavailable):
        async with asyncio.timeout(30):
            await task
    assert fed.world.context.events.tails._tails == {}


async def test_what_is_written_during_a_look_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The read returns the state before the write."""
    monkeypatch.setattr(waiters, "_LOOK_S", LONG_S)
    tails, looking, go_on = Tails(), asyncio.Event(), asyncio.Event()

    async def slow() -> LastEvent:
        looking.set()
        await go_on.wait()
        return LastEvent(0)

    with tails.of(TENANT, slow) as tail:
        async with asyncio.timeout(30):
            task = asyncio.create_task(tail.goes_past(0, LONG_S))
            await looking.wait()
            tails.grew(TENANT, 1)
            tails.grew("tenant_b", 5)
            go_on.set()
            assert await task


def test_room_is_bounded_in_all_and_by_tenant() -> None:
    held = Waiters()
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS):
            assert held.has_room(TENANT, follower=True)
            stack.enter_context(held.hold(TENANT, follower=True))
        assert not held.has_room(TENANT, follower=True)
        # waiters for a job, or for another tenant's events, still find room
        assert held.has_room(TENANT)
        assert held.has_room("tenant_b", follower=True)
        for number in range(MAX_FOLLOWERS, MAX_WAITERS):
            assert held.has_room(None)
            stack.enter_context(held.hold(f"tenant_{number}", follower=True))
        assert not held.has_room("tenant_b", follower=True)
        assert not held.has_room(None)
    assert held.has_room(TENANT, follower=True)
    assert not held._held
    assert not held._following


async def test_a_request_and_the_app_have_the_same_tails(fed: Fed) -> None:
    context = replace(fed.world.context, settings=fed.world.context.settings)
    assert context.events.tails is fed.world.context.events.tails


async def test_an_older_reading_sets_no_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that began before a write may end later; every read counts for its own time."""
    monkeypatch.setattr(waiters, "_LOOK_S", LONG_S)

    async def restored() -> LastEvent:
        return LastEvent(2)

    with Tails().of("job", restored) as tail:
        tail.grew(5)
        tail.grew(3)
        assert await tail.goes_past(4, 0)
        monkeypatch.setattr(waiters, "_LOOK_S", 0)
        assert not await tail.goes_past(4, 0)


async def test_what_one_look_finds_wakes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whose next read is later."""
    monkeypatch.setattr(waiters, "_LOOK_S", LONG_S)
    tails, number = Tails(), 1

    async def look() -> LastEvent:
        return LastEvent(number)

    with tails.of("job", look) as tail:
        tail.grew(1)
        async with asyncio.timeout(30):
            waiting = [asyncio.create_task(tail.goes_past(1, LONG_S)) for _ in range(3)]
            while len(tail._waiting) < 3:  # noqa: ASYNC110  # nobody signals that somebody waits
                await asyncio.sleep(0)
            number = 2
            monkeypatch.setattr(waiters, "_LOOK_S", 0)
            assert await tail.goes_past(1, 0)
            assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_wait_for_the_end_passes_over_what_comes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of this process and reads of those of others: only the last one, which ends the job, ends the wait."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    tails, found = Tails(), LastEvent(1)

    async def look() -> LastEvent:
        return found

    with tails.of("job", look) as tail:
        async with asyncio.timeout(30):
            waiting = asyncio.create_task(tail.goes_past(0, LONG_S, to_end=True))
            for number in (2, 3):
                found = LastEvent(number)
                tails.grew("job", number)
                await asyncio.sleep(0.03)
            assert not waiting.done()
            found = LastEvent(4, ended=True)
            assert await waiting
        # a wait that begins later knows it without a read
        monkeypatch.setattr(waiters, "_LOOK_S", LONG_S)
        assert await tail.goes_past(4, 0, to_end=True)
