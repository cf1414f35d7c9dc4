"""A process that passes feeds on to a topic, which may refuse, and the order in which events arrive there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from shared.errors import BusUnavailable
from shared.operations.process import topic_relay as module
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.topic_relay import TopicRelay
from shared.ports.feed import FeedEvent, FeedWrite
from tests.contexts import changed
from tests.memory_bus import MemoryEvents
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import StillClock, World
from tests.worlds.events import Fed, of

OTHER = "tenant_b"


class Topic(MemoryEvents):
    """Refuses as often as it is told, before or after it took the events."""

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
    """A process of `tell` over a feed and a topic; what it does beside the calls waits for `works`."""

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
        """As `tell` does, without its hints; 99 events in a transaction."""
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
        write = module.with_sent(self.passing, write)
        known.head = await self.feed.write(write)
        self.passing.wrote(write)

    async def works(self) -> None:
        """Everything that goes on beside the calls, to its end."""
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
    """A world whose feed is passed on."""
    fed = of(world, feed)
    process = Process(fed.feed, topic, world.clock)
    fed.world = replace(fed.world, context=changed(fed.world.context, known_feeds=process.known, relay=process.passing))
    return fed, process


def first_arrivals(events: Sequence[FeedEvent]) -> dict[str, list[int]]:
    """By tenant, without what came before."""
    found: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for each in events:
        found[each.event_id.partition(":")[0]][each.number] = None
    return {tenant: list(numbers) for tenant, numbers in found.items()}
