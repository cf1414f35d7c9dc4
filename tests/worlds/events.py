"""A world with a feed: hints wait until they are taken, and each event in it is known by its id."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.events.hints import Hint, decode_hint, encode_hint
from shared.core.events.public_events import make_public_events
from shared.errors import BusUnavailable
from shared.operations.events.feed_writer import write_feed
from shared.operations.process import topic_relay as module
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.topic_relay import TopicRelay
from shared.operations.sweeper.sweep import sweep
from shared.ports.feed import FeedEvent, FeedWrite
from tests.contexts import changed
from tests.memory_bus import MemoryEvents, MemoryHints
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import StillClock, World
from tests.operations.support import dispatch, service_sends, submitted

ONE: dict[str, Any] = {"request_type": "OCR", "payload": {}}
TENANT = "tenant_a"
_numbers = itertools.count(1)


async def sends(world: World, job_id: str, type_: str) -> None:
    await service_sends(world, job_id, type_, next(_numbers))


@dataclass
class Fed:
    """A world with a feed; hints wait in `queue` until `taken`."""

    world: World
    queue: MemoryHints
    feed: MemoryFeed

    async def hints(self) -> list[Hint]:
        """Returns the sent hints, decoded."""
        assert self.world.context.events is not None
        await self.world.context.events.hinting.settle()
        sent, self.queue.sent = self.queue.sent, []
        found = [decode_hint(encode_hint(hint)) for hint, _ in sent]
        return [hint for hint in found if hint is not None]

    async def taken(self, hints: Sequence[Hint] | None = None) -> None:
        await write_feed(self.world.context, await self.hints() if hints is None else hints)

    async def ids(self, tenant: str = TENANT) -> list[str]:
        events = await self.feed.events(tenant, after=0, limit=10_000)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert all(json.loads(event.text)["id"] == event.event_id for event in events)
        return [event.event_id for event in events]

    async def expected(self, job_id: str) -> list[str]:
        job, rows = (await self.world.job(job_id)).job, await self.world.ledger.events(job_id)
        return [each["id"] for row in rows for each in make_public_events(row, job)]

    async def finished(self, **changes: Any) -> str:
        """A job of one step that succeeded."""
        job_id = await submitted(self.world, **ONE | changes)
        await dispatch(self.world, job_id)
        await sends(self.world, job_id, "ACK")
        await sends(self.world, job_id, "RESULT")
        return job_id


def of(world: World, feed: MemoryFeed | None = None) -> Fed:
    queue, feed = MemoryHints(), feed or MemoryFeed()
    context = changed(
        world.context, feed=feed, hinting=Hinting(queue, world.clock), known_feeds=KnownFeeds(), sleep=no_sleep
    )
    return Fed(replace(world, context=context), queue, feed)


@pytest.fixture
def fed(world: World) -> Fed:
    return of(world)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


class Refusing(MemoryHints):
    refuses = False

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        if self.refuses:
            raise BusUnavailable("away")
        await super().send(hints, at=at)


def refusing(world: World) -> tuple[Fed, Refusing]:
    fed, queue = of(world), Refusing()
    context = changed(fed.world.context, hinting=Hinting(queue, world.clock))
    return Fed(replace(fed.world, context=context), queue, fed.feed), queue


async def logs(fed: Fed, tenant: str = TENANT) -> list[str]:
    """Returns the ids of the events of gates and incidents in the feed."""
    assert await fed.ids(tenant) is not None
    events = await fed.feed.events(tenant, after=0, limit=10_000)
    return [each.event_id for each in events if not each.event_type.startswith("job.")]


async def types(fed: Fed, tenant: str = TENANT) -> list[str]:
    events = await fed.feed.events(tenant, after=0, limit=10_000)
    return [each.event_type for each in events if not each.event_type.startswith("job.")]


async def swept(fed: Fed, seconds: float = 61) -> None:
    fed.world.clock.advance(seconds)
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()


async def swept_at_the_hour(fed: Fed) -> None:
    now = fed.world.clock.now()
    await swept(fed, (now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1) - now).total_seconds())


# --- a process that relays feeds to a topic


OTHER = "tenant_b"


class Topic(MemoryEvents):
    """Refuses the requested number of times, before or after it accepted the events."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.refusals = 0
        self.takes_all_the_same = False

    async def send(self, events: Sequence[FeedEvent]) -> None:
        self.tries += 1
        await asyncio.sleep(0)
        if not self.refusals or self.takes_all_the_same:
            await super().send(events)
        if self.refusals:
            self.refusals -= 1
            raise BusUnavailable("the topic is full")

    def numbers(self) -> list[int]:
        return [event.number for event in self.sent]


class Process:
    """A process of `tell` over a feed and a topic; its background work waits for `works`."""

    def __init__(self, feed: MemoryFeed, topic: MemoryEvents, clock: StillClock) -> None:
        self.feed, self.topic, self.clock = feed, topic, clock
        self.known = KnownFeeds()
        self.passing = TopicRelay(topic, feed, self.known, clock, self._sleep, self._spawn)
        self._background: list[Coroutine[Any, Any, None]] = []
        self.slept_s = 0.0

    async def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._background.append(work)
        # not over before `works`
        return asyncio.get_running_loop().create_future()  # type: ignore[return-value]

    async def writes(self, tenant: str, count: int, size: int = 0) -> None:
        """Writes as `tell` does, without its hints; 99 events per transaction."""
        for first in range(0, count, 99):
            await self._writes_some(tenant, min(99, count - first), size)

    async def _writes_some(self, tenant: str, count: int, size: int) -> None:
        known = await self.known.of(self.feed, tenant)
        write = FeedWrite(
            tenant=tenant,
            head=known.head,
            events=[event(tenant, known.head.number + n, self.clock, size) for n in range(1, count + 1)],
            seen={},
        )
        write = module.add_sent(self.passing, write)
        known.head = await self.feed.write(write)
        self.passing.wrote(write)

    async def works(self) -> None:
        """Runs all background work to its end."""
        while self._background:
            await self._background.pop()
        self.passing._worker = None

    def dies(self) -> None:
        for work in self._background:
            work.close()


def event(tenant: str, number: int, clock: StillClock, size: int = 0) -> FeedEvent:
    text = f'{{"tenant": "{tenant}", "x": "{"y" * size}"}}'
    return FeedEvent(
        number=number, event_id=f"{tenant}:{number}:0", event_type="job.leased", job_id="j", at=clock.now(), text=text
    )


def fed_by(world: World, topic: MemoryEvents, feed: MemoryFeed | None = None) -> tuple[Fed, Process]:
    """Returns a world whose feed is relayed."""
    fed = of(world, feed)
    process = Process(fed.feed, topic, world.clock)
    fed.world = replace(fed.world, context=changed(fed.world.context, known_feeds=process.known, relay=process.passing))
    return fed, process


def first_arrivals(events: Sequence[FeedEvent]) -> dict[str, list[int]]:
    """Returns the first arrivals by tenant, without earlier ones."""
    found: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for each in events:
        found[each.event_id.partition(":")[0]][each.number] = None
    return {tenant: list(numbers) for tenant, numbers in found.items()}
