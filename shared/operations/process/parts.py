"""Parts of the context of operations, each for one subject or for the process."""

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
    """The messages that the app sends and reads over Service Bus, except hints, events and webhooks."""

    publisher: DirectivePublisher
    lanes: Lanes
    admission_calls: AdmissionCalls
    dead_replies: DeadReplies
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class Events:
    """The feeds of public events, with their webhooks, hints and relay."""

    feed: Feed
    hooks: Hooks
    hinting: Hinting
    known_feeds: KnownFeeds = field(default_factory=KnownFeeds)
    compared_logs: ComparedLogs = field(default_factory=ComparedLogs)
    #: relay to the topic; None if no topic gets the events
    relay: TopicRelay | None = None
    #: requests of this process that wait for the next event of a tenant
    tails: Tails = field(default_factory=Tails)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Heads of histories, with the signer and the store of statements about them."""

    heads: Heads
    signer: Signer
    kept: Kept
    #: ids of public keys that are known to be stored
    kept_keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class Webhooks:
    """The client, the queue and the limits of posts to webhooks."""

    sender: WebhookSender
    deliveries: DeliveryQueue
    #: running posts of this process, with a separate limit for tests of webhooks
    calls: HookCalls = field(default_factory=HookCalls)
    tests: HookCalls = field(default_factory=HookCalls)


@dataclass(frozen=True, kw_only=True)
class Process:
    """The memory of one process, which is empty after a restart."""

    gate_directory: GateDirectory = field(default_factory=GateDirectory)
    in_flight: InFlight = field(default_factory=InFlight)
    recent_ends: RecentEnds = field(default_factory=RecentEnds)
    recent_jobs: RecentJobs = field(default_factory=RecentJobs)
    row_faults: RowFaults = field(default_factory=RowFaults)
    usage_buffer: UsageBuffer = field(default_factory=UsageBuffer)
    minute_buffer: MinuteBuffer = field(default_factory=MinuteBuffer)
    #: time of the last noted reply by service
    answered: dict[str, datetime] = field(default_factory=dict)
    waiters: Waiters = field(default_factory=Waiters)
    submissions: Submissions = field(default_factory=Submissions)
    #: slots for calls of the queue `lucius-admission` that work on bulk operations; the others of its 16 are for other
    #: calls
    bulk_turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
