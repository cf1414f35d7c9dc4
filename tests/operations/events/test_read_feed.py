"""Pages of a feed: matching events, in order, from an exact cursor on (R74)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from shared.access.caller import Caller
from shared.core.events.event_types import PublicType
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.events.read_feed import MAX_LOOKED_AT, EventFilter, FeedPage, read_feed
from shared.ports.feed import FeedEvent, FeedIdentity, FeedWrite, Head
from shared.refusals import CursorExpired, EventsOff
from shared.wiring import seen_by
from tests.contexts import changed
from tests.jobs import START
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile, noted
from tests.operations.support import submitted

TENANT = "tenant_a"
EVERY = EventFilter()


class WrongCursor(Exception):
    pass


async def filled(count: int) -> MemoryFeed:
    """Events 1 to `count`: every third ends a job."""
    feed, types = MemoryFeed(), [PublicType.COMPLETED, PublicType.QUEUED, PublicType.LEASED]
    events = []
    for number in range(1, count + 1):
        type_, job_id = types[number % 3], f"job_{number % 2}"
        data = {"jobType": "OCR" if number % 2 else "SIS", "labels": {"team": "a" if number % 4 else "b"}}
        text = json.dumps({"id": str(number), "type": type_, "data": data})
        events.append(
            FeedEvent(number=number, event_id=str(number), event_type=type_, job_id=job_id, at=START, text=text)
        )
    await write(feed, events)
    return feed


async def write(feed: MemoryFeed, events: list[FeedEvent]) -> None:
    """Writes the first events of a feed, 99 in a transaction."""
    head = Head()
    for first in range(0, len(events), 99):
        head = await feed.write(FeedWrite(tenant=TENANT, head=head, events=events[first : first + 99], seen={}))


async def read(
    world: World, feed: MemoryFeed | None, after: str, given: EventFilter = EVERY, limit: int = 10
) -> FeedPage:
    context = changed(world.context, feed=feed) if feed is not None else world.context
    return await read_feed(context, TENANT, after=after, event_filter=given, limit=limit, invalid=WrongCursor)


def ids(page: FeedPage) -> list[int]:
    return [int(each["id"]) for each in page.events]


async def test_pages_from_the_first_to_the_end_and_on(world: World) -> None:
    feed = await filled(25)
    found: list[int] = []
    page = await read(world, feed, "earliest")
    while page.events:
        found += ids(page)
        page = await read(world, feed, page.next)
    assert found == list(range(1, 26))
    assert await read(world, feed, "latest") == page
    head = await feed.head(TENANT)
    more = FeedEvent(
        number=26, event_id="26", event_type="x", job_id="j", at=START, text='{"id": "26", "data": {"jobType": "OCR"}}'
    )
    await feed.write(FeedWrite(tenant=TENANT, head=head, events=[more], seen={}))
    assert ids(await read(world, feed, page.next)) == [26]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EventFilter(terminal=True), [3, 6, 9]),
        (EventFilter(types=frozenset({PublicType.QUEUED})), [1, 4, 7, 10]),
        (EventFilter(job_id="job_0"), [2, 4, 6, 8, 10]),
        (EventFilter(job_type="SIS"), [2, 4, 6, 8, 10]),
        (EventFilter(label=("team", "b")), [4, 8]),
        (EventFilter(label=("team", "b"), terminal=True), []),
    ],
)
async def test_a_page_is_narrowed(world: World, given: EventFilter, expected: list[int]) -> None:
    page = await read(world, await filled(10), "earliest", given)
    assert ids(page) == expected
    # `next` is after the rows that were read, matching or not
    assert page.next == (await read(world, await filled(10), "latest")).next


async def test_a_filter_that_nothing_fits_comes_to_an_end(world: World) -> None:
    feed = await filled(MAX_LOOKED_AT + 5)
    page = await read(world, feed, "earliest", EventFilter(job_id="none"))
    assert page.events == []
    assert ids(await read(world, feed, page.next)) == list(range(MAX_LOOKED_AT + 1, MAX_LOOKED_AT + 6))


async def test_what_is_written_between_two_reads_is_no_gap(world: World) -> None:
    """The rows are read before HEAD, which is further by then: the rows between them exist."""
    feed = await filled(3)
    at_end = (await read(world, feed, "latest")).next
    text = '{"id": "4", "data": {"jobType": "OCR"}}'
    four = FeedEvent(number=4, event_id="4", event_type="x", job_id="j", at=START, text=text)
    write = FeedWrite(tenant=TENANT, head=await feed.head(TENANT), events=[four], seen={})
    meanwhile(feed, "head", lambda: feed.write(write))
    assert ids(await read(world, feed, at_end)) == [4]


async def test_a_page_with_events_is_one_read(world: World) -> None:
    """An empty page needs two: a subscriber of a busy tenant reads few rows beside its events."""
    feed = await filled(3)
    calls = noted(feed, "events", "head")
    page = await read(world, feed, "earliest", limit=2)
    page = await read(world, feed, page.next)
    assert [name for name, *_ in calls] == ["events"] * 2
    await read(world, feed, page.next)
    assert [name for name, *_ in calls] == [*["events"] * 3, "head"]


async def test_cursors_that_hold_no_more(world: World) -> None:
    """A cursor of another table, of deleted events, or of no event: the error has the earliest valid cursor."""
    feed = await filled(10)
    at_three = (await read(world, feed, "earliest", limit=3)).next
    latest = (await read(world, feed, "latest")).next
    feed.put_events(TENANT, feed.events_of(TENANT)[5:])
    with pytest.raises(CursorExpired) as expired:
        await read(world, feed, at_three)
    assert (
        ids(await read(world, feed, expired.value.earliest))
        == ids(await read(world, feed, "earliest"))
        == [6, 7, 8, 9, 10]
    )
    shorter = await filled(4)
    with pytest.raises(CursorExpired):
        await read(world, shorter, latest)
    other = await filled(10)
    other._identity = FeedIdentity(feed_id="other", since=START)
    with pytest.raises(CursorExpired):
        await read(world, other, latest)
    feed.put_events(TENANT, [])
    assert (await read(world, feed, latest)).next == (await read(world, feed, "earliest")).next == latest
    with pytest.raises(CursorExpired):
        await read(world, feed, at_three)


@pytest.mark.parametrize("cursor", ["x", "bWVtb3J5", "bWVtb3J5Oi0x", "bWVtb3J5OuKBuQ==", "ä", "//8="])
async def test_what_is_no_cursor(world: World, cursor: str) -> None:
    with pytest.raises(WrongCursor):
        await read(world, await filled(1), cursor)


async def test_a_tenant_without_events_and_a_deployment_without_feed(world: World) -> None:
    page = await read(world, MemoryFeed(), "earliest")
    assert (page.events, page.next) == ([], (await read(world, MemoryFeed(), "latest")).next)
    assert (await read(world, MemoryFeed(), page.next)).events == []
    with pytest.raises(EventsOff):
        await read(world, None, "earliest")


async def test_a_request_reaches_its_own_tenants_feed_alone(world: World) -> None:
    caller = Caller(tenant="tenant_b", actor="b", scopes=frozenset())
    context = seen_by(caller, changed(world.context, feed=await filled(3)), moving=False)
    assert context.events is not None
    for call in (
        context.events.feed.events(TENANT, after=0, limit=1),
        context.events.feed.head(TENANT),
        context.events.feed.forget("tenant_b", "job_1"),
        context.events.feed.forget_incidents("tenant_b", before=START, limit=1),
        context.events.feed.write(FeedWrite(tenant="tenant_b", head=Head(), events=[], seen={})),
    ):
        with pytest.raises(PermissionError):
            await call
    assert await context.events.feed.events("tenant_b", after=0, limit=1) == []


async def test_events_stay_for_their_days(world: World) -> None:
    """The events of each tenant; a tenant whose rows cannot be read keeps its own, and delays no other."""
    feed = await filled(250)
    await submitted(world)
    context = changed(world.context, feed=feed)
    world.clock.advance(timedelta(days=6.9).total_seconds())
    assert await prune_feeds(context) == 0
    world.clock.advance(timedelta(days=0.2).total_seconds())
    with failing(feed, "remove"):
        assert await prune_feeds(context) == 0
    assert await prune_feeds(context) == 250
    assert (await read(world, feed, "earliest")).next == (await read(world, feed, "latest")).next


async def test_a_page_that_finds_nothing_lets_others_run(world: World) -> None:
    """A filter that fits none of 1,000 events does not hold the process, and a page of 1,000 does not either."""
    feed, turns, over = await filled(MAX_LOOKED_AT), 0, False

    async def others() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(others())
    for given in (EventFilter(label=("no", "such")), EVERY):
        turns = 0
        await read(world, feed, "earliest", given, MAX_LOOKED_AT)
        assert turns >= MAX_LOOKED_AT / 50
    over = True
    await running


class Counted(MemoryFeed):
    """Records the number of rows that each read requested, and prunes after the first."""

    def __init__(self, given: MemoryFeed, prune_to: int = 0) -> None:
        super().__init__()
        self.__dict__.update(given.__dict__)
        self.asked: list[int] = []
        self._prune_to = prune_to

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        self.asked.append(limit)
        floor = self._prune_to if len(self.asked) > 1 else 0
        return await super().events(tenant, after=max(after, floor), limit=limit)


async def test_a_page_reads_no_more_than_it_needs(world: World) -> None:
    """It ends where it has its events; small pages are one read."""
    feed = await filled(MAX_LOOKED_AT)
    for given, limit, asked in (
        (EVERY, 10, [10]),
        (EVERY, 600, [250, 250, 100]),
        (EventFilter(terminal=True), 10, [250]),
        (EventFilter(terminal=True), 100, [250, 250]),
        (EventFilter(label=("no", "such")), 10, [250] * 4),
    ):
        counted = Counted(feed)
        await read(world, counted, "earliest", given, limit)
        assert counted.asked == asked


async def test_a_page_of_large_events_ends_early_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page reads about 4 MiB; the next page starts at its end, and each page has at least one row."""
    feed = MemoryFeed()
    # a row holds 32,768 characters of an event
    monkeypatch.setattr("shared.operations.events.read_feed.MAX_CHARACTERS", 100_000)
    text = json.dumps({"id": "1", "data": {"labels": {"a": "x" * 25_000}}})
    events = [
        FeedEvent(number=n, event_id=str(n), event_type="x", job_id="j", at=START, text=text) for n in range(1, 11)
    ]
    await write(feed, events)
    for given, found in ((EVERY, [4, 4, 2]), (EventFilter(label=("no", "such")), [0, 0, 0])):
        counts, numbers, after = [], [], "earliest"
        for _ in range(3):
            page = await read(world, feed, after, given, 100)
            counts.append(len(page.events))
            numbers.append(page.number)
            after = page.next
        assert (counts, numbers) == (found, [4, 8, 10])


async def test_a_page_over_which_the_feed_is_pruned_ends_at_the_gap(world: World) -> None:
    """The next page reports the deleted events as an expired cursor."""
    counted = Counted(await filled(600), prune_to=300)
    page = await read(world, counted, "earliest", EventFilter(label=("no", "such")))
    assert (page.number, counted.asked) == (250, [250, 250])
    with pytest.raises(CursorExpired):
        await read(world, counted, page.next)
