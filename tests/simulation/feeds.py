"""Hints and the feed of a simulated world, and what must be true of it at rest (R71 to R73).

Hints are lost after the queue took them, come twice, late and out of order, and are taken by two processes at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shared.adapters.memory_feed import MemoryFeed
from shared.core.hints import Hint, decode_hint, encode_hint
from shared.core.job import Event, Record
from shared.core.public_events import public_events
from shared.core.reasons import Reason
from shared.errors import BusUnavailable, LedgerUnavailable
from shared.operations.context import Context
from shared.operations.hinting import Hinting
from shared.operations.known_feeds import KnownFeeds
from shared.operations.tell import take_hints
from shared.ports.feed import FeedWrite, Head
from shared.ports.ledger import Stored
from tests.simulation.bus import LOCK_S
from tests.simulation.host import HostDown

if TYPE_CHECKING:
    from tests.simulation.world import World

LOST, DOUBLED, LATE = 0.08, 0.1, 0.15


class CheckedFeed(MemoryFeed):
    """Sees to it at every write that numbers follow on each other."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def write(self, write: FeedWrite) -> Head:
        last = (await self.head(write.tenant)).number
        head = await super().write(write)
        if [event.number for event in write.events] != list(range(last + 1, last + 1 + len(write.events))):
            self._world.add_violation(f"the feed of {write.tenant} goes on from {last} with {write.events}")
        return head

    def ids(self, tenant: str) -> list[str]:
        return [event.event_id for event in self._events[tenant]]


class Feeds:
    """The queue of hints, who takes them, and the feed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.feed = CheckedFeed(world)
        #: public events by tenant and job, in order, of all that ever was committed
        self.expected: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._on_the_way: Counter[str] = Counter()
        self._takers: tuple[Context, ...] = ()

    def context(self, context: Context) -> Context:
        """With the feed, as a process begins."""
        port = self._world._port
        queue = port(self, BusUnavailable)
        context = replace(
            context,
            feed=port(self.feed, LedgerUnavailable),
            hinting=Hinting(queue, self._world, self._world.host.spawn),
            known_feeds=KnownFeeds(),
        )
        if self._world.webhooks is not None:
            context = self._world.webhooks.context(context)
        self._takers = (context, replace(context, known_feeds=KnownFeeds()))
        return context

    def watch(self) -> None:
        """Notes what is committed from now on."""
        ledger: Any = self._world.ledger
        create, commit = ledger.create, ledger.commit

        async def created(record: Record, event: Event) -> Stored:
            stored: Stored = await create(record, event)
            self._note(record, [event])
            return stored

        async def committed(before: Stored, after: Record, events: Sequence[Event]) -> Stored:
            stored: Stored = await commit(before, after, events)
            self._note(after, events)
            return stored

        ledger.create, ledger.commit = created, committed

    def _note(self, record: Record, events: Sequence[Event]) -> None:
        job = record.job
        for event in events:
            self.expected[job.tenant, job.job_id] += [each["id"] for each in public_events(event, job)]

    # --- `shared.ports.feed.HintQueue`

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        world = self._world
        for hint in hints:
            body = encode_hint(hint)
            if world.faults.occurs(LOST):
                continue
            late_s = 400 * world.random.random() if world.faults.occurs(LATE) else world.faults.latency_s()
            wait_s = max(0.0, (at - world.now()).total_seconds()) if at is not None else 0.0
            self._deliver(body, wait_s + late_s)
            if world.faults.occurs(DOUBLED):
                self._deliver(body, wait_s + 60 * world.random.random())

    def _deliver(self, body: bytes, seconds: float) -> None:
        self._on_the_way[""] += 1
        self._world.scheduler.later(seconds, lambda: self._world.scheduler.spawn(self._take(body)))

    async def _take(self, body: bytes) -> None:
        """triggers/hints_bus.py, and the bus's side: what is not completed comes again."""
        world, hint = self._world, decode_hint(body)
        assert hint is not None
        try:
            await world.host.serve(take_hints(world.random.choice(self._takers), [hint]))
        except HostDown:
            self._deliver(body, LOCK_S)
        except Exception as error:
            world.add_violation(f"take_hints raised {error!r}")
        finally:
            self._on_the_way[""] -= 1

    # --- at rest

    def unfinished(self) -> Iterator[str]:
        if self._on_the_way[""]:
            yield f"{self._on_the_way['']} hints are on their way"
        for (tenant, job_id), expected in self._real():
            missing = set(expected).difference(self.feed.ids(tenant))
            if missing:
                yield f"{job_id}: {sorted(missing)} are in no feed"

    def check(self) -> None:
        """Each public event once, and each job's in its order."""
        for (tenant, job_id), expected in self._real():
            found = [each for each in self.feed.ids(tenant) if each.rpartition(":")[0].rpartition(":")[0] == job_id]
            if found != expected:
                self._world.add_violation(f"{job_id} is in the feed as {found}, and its rows mean {expected}")
        self._world.report.events["in the feed"] += sum(len(self.feed.ids(tenant)) for tenant in self.feed._heads)

    def _real(self) -> Iterator[tuple[tuple[str, str], list[str]]]:
        for key, expected in self.expected.items():
            record = self._world.ledger.records.get(key[1])
            if record is None or record.job.error_code != Reason.WITHDRAWN:
                yield key, expected
