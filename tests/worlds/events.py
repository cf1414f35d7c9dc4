"""A world with a feed: hints wait until they are taken, and each event in it is known by its id."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.events.hints import Hint, decode_hint, encode_hint
from shared.core.events.public_events import public_events
from shared.errors import BusUnavailable
from shared.operations.events.feed_writer import write_feed
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.sweeper.sweep import sweep
from tests.contexts import changed
from tests.memory_bus import MemoryHints
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
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
        """What was sent, over the wire."""
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
        return [each["id"] for row in rows for each in public_events(row, job)]

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
    """Ids of the events of gates and incidents in the feed."""
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
