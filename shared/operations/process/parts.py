"""Parts of the context of operations: what serves one subject, or one process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from shared.operations.process.gate_directory import GateDirectory
from shared.operations.process.hinting import Hinting
from shared.operations.process.hook_calls import HookCalls
from shared.operations.process.in_flight import InFlight
from shared.operations.process.known_feeds import ComparedLogs, KnownFeeds
from shared.operations.process.minute_buffer import MinuteBuffer
from shared.operations.process.recent_ends import RecentEnds
from shared.operations.process.recent_jobs import RecentJobs
from shared.operations.process.row_faults import RowFaults
from shared.operations.process.submissions import Submissions
from shared.operations.process.topic_relay import TopicRelay
from shared.operations.process.usage_buffer import UsageBuffer
from shared.operations.process.waiters import Tails, Waiters
from shared.ports.bus import AdmissionCalls, Counts, DeadReplies, DirectivePublisher, Lanes
from shared.ports.feed import Feed
from shared.ports.heads import Heads
from shared.ports.hooks import Hooks
from shared.ports.signing import Kept, Signer
from shared.ports.webhooks import DeliveryQueue, WebhookSender


@dataclass(frozen=True, kw_only=True)
class Bus:
    """What the app sends over Service Bus and reads from it, but for hints and webhooks."""

    publisher: DirectivePublisher
    lanes: Lanes
    admission_calls: AdmissionCalls
    dead_replies: DeadReplies
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class Events:
    """Feeds of public events."""

    feed: Feed
    hooks: Hooks
    hinting: Hinting
    known_feeds: KnownFeeds = field(default_factory=KnownFeeds)
    compared_logs: ComparedLogs = field(default_factory=ComparedLogs)
    #: None: no topic gets the events
    relay: TopicRelay | None = None
    #: requests of this process that wait for a tenant's next event
    tails: Tails = field(default_factory=Tails)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Heads of histories, and what signs and keeps statements about them."""

    heads: Heads
    signer: Signer
    kept: Kept
    #: ids of public keys that are surely kept
    kept_keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class Webhooks:
    """Posts of events to webhooks."""

    sender: WebhookSender
    deliveries: DeliveryQueue
    #: posts that this process makes now, and apart from them tests of webhooks
    calls: HookCalls = field(default_factory=HookCalls)
    tests: HookCalls = field(default_factory=HookCalls)


@dataclass(frozen=True, kw_only=True)
class Process:
    """What one process remembers; a process that starts again knows nothing of it."""

    gate_directory: GateDirectory = field(default_factory=GateDirectory)
    in_flight: InFlight = field(default_factory=InFlight)
    recent_ends: RecentEnds = field(default_factory=RecentEnds)
    recent_jobs: RecentJobs = field(default_factory=RecentJobs)
    row_faults: RowFaults = field(default_factory=RowFaults)
    usage_buffer: UsageBuffer = field(default_factory=UsageBuffer)
    minute_buffer: MinuteBuffer = field(default_factory=MinuteBuffer)
    #: by service, when this process last noted an answer
    answered: dict[str, datetime] = field(default_factory=dict)
    waiters: Waiters = field(default_factory=Waiters)
    submissions: Submissions = field(default_factory=Submissions)
    #: calls of the queue `lucius-admission` that work on bulks, of 16 at the same time: the others are for admissions
    bulk_turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
