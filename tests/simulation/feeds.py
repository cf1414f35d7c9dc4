"""Hints, the feed and the topic of a simulated world, and their invariants at rest (R71 to R73, R78 to R81).

Hints are lost after the queue accepted them, arrive twice, late and out of order, and are received by two processes at
once.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shared.adapters.tables.incidents import _incident_of
from shared.adapters.tables.log_rows import entry_of
from shared.adapters.tables.table import RowOperation
from shared.core.audit.heads import INCIDENT_LOG, QUOTA_LOG
from shared.core.events.hints import Hint, decode_hint, encode_hint
from shared.core.events.public_events import PublicEvent, make_public_events
from shared.core.events.public_log_events import feed_of, gate_events, incident_events
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import Gate
from shared.core.incidents import Incident, IncidentEntry
from shared.core.jobs.job import Event, Record
from shared.core.jobs.reasons import Reason
from shared.core.records.chained_log import Entry
from shared.errors import BusUnavailable, LedgerUnavailable
from shared.operations.events.feed_first import FeedFirst
from shared.operations.events.feed_writer import write_feed
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.process.context import Context
from shared.operations.process.hinting import Hinting
from shared.operations.process.hook_calls import HookCalls
from shared.operations.process.known_feeds import ComparedLogs, KnownFeeds
from shared.operations.process.topic_relay import TopicRelay
from shared.ports.feed import FeedEvent, FeedWrite, Head
from shared.ports.ledger import Stored
from tests.contexts import changed
from tests.memory_stores import MemoryFeed
from tests.row_views import tenant_of
from tests.simulation.bus import LOCK_S
from tests.simulation.heads import Heads
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
        return [event.event_id for event in self.events_of(tenant)]


class Topic:
    """The topic `lucius-events`: events come again, but none before its turn."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: by tenant, up to which number all events came
        self.whole: Counter[str] = Counter()
        self.repeated = 0

    async def send(self, events: Sequence[FeedEvent]) -> None:
        for event in events:
            tenant = json.loads(event.text)["tenant"]
            if event.number > self.whole[tenant] + 1:
                self._world.add_violation(f"{event.number} of {tenant} is sent after {self.whole[tenant]}")
            self.repeated += event.number <= self.whole[tenant]
            self.whole[tenant] = max(self.whole[tenant], event.number)


class Feeds:
    """The queue of hints, their receivers, the feed and the topic."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.feed = CheckedFeed(world)
        self.topic = Topic(world)
        self.heads = Heads(world, self.feed)
        #: public events by tenant and job, in order, of all that ever was committed
        self.expected: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        #: those of gates and incidents, by feed and key, and by the number of the entry
        self._logged: defaultdict[tuple[str, str], dict[int, list[str]]] = defaultdict(dict)
        #: each as it was last written
        self._gates: dict[str, Gate] = {}
        self._incidents: dict[str, Incident] = {}
        self._on_the_way: Counter[str] = Counter()
        self._takers: tuple[Context, ...] = ()

    def context(self, context: Context) -> Context:
        """With the feed, as a process begins."""
        port = self._world._port
        # every third world writes its feeds where it commits
        write_feeds = FeedFirst(lambda: self._takers[0]).write if self._world.report.seed % 3 == 1 else None
        context = changed(
            context,
            feed=port(self.feed, LedgerUnavailable),
            hooks=port(self.feed.hooks, LedgerUnavailable),
            hinting=Hinting(
                port(self, BusUnavailable),
                self._world,
                self._world.host.spawn,
                has_heads=True,
                write_feeds=write_feeds,
            ),
            compared_logs=ComparedLogs(),
            audit=self.heads.part(),
        )
        if self._world.webhooks is not None:
            context = self._world.webhooks.context(context)
        self._takers = (self._process(context), self._process(context))
        if self._world.webhooks is not None:
            self._world.webhooks.takers = self._takers
        return self._takers[0]

    def _process(self, context: Context) -> Context:
        """Returns a context with its own memory for each process."""
        world, known_feeds = self._world, KnownFeeds()
        topic = world._port(self.topic, BusUnavailable)
        passing = TopicRelay(
            topic, context.require_events().feed, known_feeds, world, world.scheduler.pause, world.host.spawn
        )
        context = changed(context, known_feeds=known_feeds, relay=passing)
        return changed(context, calls=HookCalls()) if context.webhooks is not None else context

    async def prune(self) -> None:
        """Runs triggers/prune_timer.py in its own process."""
        world = self._world
        try:
            await world.host.serve(prune_feeds(self._process(world.context)))
            await self.heads.prune(world.context)
        except (HostDown, LedgerUnavailable):
            # the next hour's does it
            return
        except Exception as error:
            world.add_violation(f"prune_feeds raised {error!r}")

    def watch(self) -> None:
        """Records commits from now on."""
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
        self._world.index.account.committed = self._committed

    def _committed(self, _table: str, operations: Sequence[RowOperation]) -> None:
        """Checks that each GATES and INCIDENT row is written before the entries of its logs."""
        for verb, row, *_ in operations:
            kind = row["RowKey"].partition(":")[0] if verb != "delete" else ""
            if kind == "GATES":
                admission = self._world.index.admissions.admissions[tenant_of(row["PartitionKey"])].admission
                self._gates.update({id_: state.gate for id_, state in admission.gates.items()})
            elif kind == "INCIDENT":
                self._incidents[row["id"]] = _incident_of(row)
            elif kind == "GATELOG":
                entry, gate = entry_of(LogEntry)(row), self._gates[row["gate_id"]]
                self._note_entry(feed_of(gate.tenant), gate.id, entry, gate_events(entry, gate))
                self.heads.note(feed_of(gate.tenant), QUOTA_LOG + gate.id, entry)
            elif kind == "INCIDENTLOG":
                settled, incident = entry_of(IncidentEntry)(row), self._incidents[row["incident_id"]]
                self._note_entry(feed_of(incident.tenant), incident.id, settled, incident_events(settled, incident))
                self.heads.note(feed_of(incident.tenant), INCIDENT_LOG + incident.id, settled)

    def _note(self, record: Record, events: Sequence[Event]) -> None:
        job = record.job
        for event in events:
            self.heads.note(job.tenant, job.job_id, event)
            self.expected[job.tenant, job.job_id] += [each["id"] for each in make_public_events(event, job)]

    def _note_entry(self, tenant: str, key: str, entry: Entry, events: Sequence[PublicEvent]) -> None:
        """The opening of a job's incident may be written again."""
        self._logged[tenant, key][entry.seq] = [each["id"] for each in events]

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
        """Receives as triggers/hints_bus.py, and as the bus: an uncompleted message arrives again."""
        world, hint = self._world, decode_hint(body)
        assert hint is not None
        try:
            await world.host.serve(write_feed(world.random.choice(self._takers), [hint]))
        except HostDown:
            self._deliver(body, LOCK_S)
        except Exception as error:
            world.add_violation(f"write_feed raised {error!r}")
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
        for tenant, head in self.feed.heads.items():
            if self.topic.whole[tenant] < head.number:
                yield f"the topic has {self.topic.whole[tenant]} events of {tenant}, its feed {head.number}"
        yield from self.heads.unfinished()

    def check(self) -> None:
        """Checks that each public event is there once, and those of each job, gate and incident in their order."""
        for (tenant, key), expected in self._real():
            found = [each for each in self.feed.ids(tenant) if each.rpartition(":")[0].rpartition(":")[0] == key]
            if found != expected:
                self._world.add_violation(f"{key} is in the feed as {found}, and its rows mean {expected}")
        self.heads.check()
        self._world.report.events["of logs"] += sum(len(expected) for _, expected in self._logs())
        self._world.report.events["sent again"] += self.topic.repeated
        self._world.report.events["in the feed"] += sum(len(self.feed.ids(tenant)) for tenant in self.feed.heads)

    def is_behind(self) -> bool:
        """Returns whether a part of a log is in no feed."""
        return any(set(expected).difference(self.feed.ids(tenant)) for (tenant, _), expected in self._logs())

    def _logs(self) -> Iterator[tuple[tuple[str, str], list[str]]]:
        for key, entries in self._logged.items():
            yield key, [each for seq in sorted(entries) for each in entries[seq]]

    def _real(self) -> Iterator[tuple[tuple[str, str], list[str]]]:
        yield from self._logs()
        for key, expected in self.expected.items():
            record = self._world.ledger.records.get(key[1])
            if record is None or record.job.error_code != Reason.WITHDRAWN:
                yield key, expected
