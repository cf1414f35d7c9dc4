"""Everything that an operation may use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from shared.core.jobs.job import Event
from shared.core.jobs.routing import Modes
from shared.core.registry import Registry
from shared.errors import AlreadyExists, Conflict, Contended
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.process.hinting import Hinting
from shared.operations.process.hook_calls import HookCalls
from shared.operations.process.in_flight import InFlight
from shared.operations.process.known_feeds import ComparedLogs, KnownFeeds
from shared.operations.process.recent_ends import RecentEnds
from shared.operations.process.recent_jobs import RecentJobs
from shared.operations.process.row_faults import RowFaults
from shared.operations.process.submissions import Submissions
from shared.operations.process.topic_relay import TopicRelay
from shared.operations.process.usage_buffer import Tally
from shared.operations.process.waiters import Tails, Waiters
from shared.ports.books import Books
from shared.ports.bulks import Bulks
from shared.ports.bus import Counts, DeadReplies, DeskCalls, DirectivePublisher, Lanes
from shared.ports.desks import Desks
from shared.ports.durable import Orchestrations
from shared.ports.environment import Clock
from shared.ports.feed import Feed
from shared.ports.hooks import Hooks
from shared.ports.incidents import Incidents
from shared.ports.index import Index
from shared.ports.ledger import Archive, Ledger, Stored
from shared.ports.rejected import RejectedMessages
from shared.ports.sweeps import Answers, SweepMarks
from shared.ports.usage import Usage
from shared.ports.webhooks import DeliveryQueue, WebhookSender
from shared.settings import Settings

#: tries of a write that others may overtake; after the last one the caller's own retry takes over
MAX_TRIES = 8
#: maximum wait after the first conflict, in seconds
_FIRST_WAIT_S = 0.02

_T = TypeVar("_T")
#: waits so many seconds; a port, so that tests need not
Sleep = Callable[[float], Awaitable[None]]
#: `shared.operations.jobs.ending.follow_end`, with the EVENT rows that were committed now
FollowEnd = Callable[["Context", Orchestrations, Stored, Sequence[Event]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Context:
    """Built once in `shared.wiring`; tests build their own."""

    settings: Settings
    registry: Registry
    modes: Modes = field(default_factory=Modes)
    #: by normalised tenant, within the setting's (`shared.operations.protocols.overrides`); None: they stand in a store
    #: that was never read, so that nobody knows where a tenant's references may lead
    ref_hosts: Mapping[str, frozenset[str]] | None = field(default_factory=dict)
    ledger: Ledger
    index: Index
    desks: Desks
    bulks: Bulks
    incidents: Incidents
    rejected: RejectedMessages
    archive: Archive
    publisher: DirectivePublisher
    lanes: Lanes
    desk_calls: DeskCalls
    dead_replies: DeadReplies
    #: None: nobody can be asked, and no guard can have a number
    counts: Counts | None = None
    #: rows at which this process's work fails
    row_faults: RowFaults = field(default_factory=RowFaults)
    #: None: nobody notes which services answer
    answers: Answers | None = None
    #: when this process last noted that a service answered
    answered: dict[str, datetime] = field(default_factory=dict)
    #: None: the sweeper's last pass is not recorded
    sweep_marks: SweepMarks | None = None
    #: None: nobody keeps what tenants used
    usage: Usage | None = None
    books: Books
    #: None: `LUCIUS_EVENTS=off`, so that nothing is written into any feed
    feed: Feed | None = None
    #: None where there is no feed
    hinting: Hinting | None = None
    #: None where there is no feed
    hooks: Hooks | None = None
    #: None: there are no keys to sign with, and nothing is posted to anybody
    sender: WebhookSender | None = None
    #: None where there is no sender
    deliveries: DeliveryQueue | None = None
    #: what this process posts to whom
    hook_calls: HookCalls = field(default_factory=HookCalls)
    #: and the tests of webhooks, which are requests of the API and take no message's place
    hook_tests: HookCalls = field(default_factory=HookCalls)
    #: what this process knows of the feeds
    known_feeds: KnownFeeds = field(default_factory=KnownFeeds)
    #: and of the logs that they have
    compared_logs: ComparedLogs = field(default_factory=ComparedLogs)
    #: None: the feeds are passed on to no topic
    passing: TopicRelay | None = None
    #: who waits in this process for a tenant's feed
    feed_tails: Tails = field(default_factory=Tails)
    #: context of all tenants, if this one is of a caller who sees some tenants only; None: this one is of all tenants
    unscoped: Context | None = None
    #: what this process knows of the gates
    gates: GateDirectory = field(default_factory=GateDirectory)
    #: what it knows of the bus's counts
    in_flight: InFlight = field(default_factory=InFlight)
    #: what this process ended and no later end has cleared
    recent_ends: RecentEnds = field(default_factory=RecentEnds)
    #: what this process committed
    recent_jobs: RecentJobs = field(default_factory=RecentJobs)
    #: what it has seen of its tenants' use
    tally: Tally = field(default_factory=Tally)
    #: does what follows the end of a job; a value of the context, because it admits jobs, which are transitions too
    follow_end: FollowEnd
    #: requests that it holds back
    waiters: Waiters = field(default_factory=Waiters)
    #: calls of the queue `lucius-admission` that work on bulks, of 16 at the same time: the others are for admissions
    bulk_turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
    #: what this process has in hand
    submissions: Submissions = field(default_factory=Submissions)
    clock: Clock
    sleep: Sleep
    #: a number from 0 to 1, for the jitter of conflict retries
    random: Callable[[], float]
    #: a new job's id
    new_job_id: Callable[[], str]
    #: a new attempt's lease and a new EVENT row's salt: each 128 bits in hex that nobody can guess
    new_lease: Callable[[], str]
    new_salt: Callable[[], str]

    @property
    def of_all_tenants(self) -> Context:
        """Returns the context for work that LUCIUS does itself, also for tenants that the caller does not see."""
        return self.unscoped or self

    async def retry_on_conflict(self, act: Callable[[], Awaitable[_T]], subject: str) -> _T:
        """Returns the result of `act`, which reads rows and writes them; calls it again after a conflict.

        `act` is called 8 times at most, with the waits of `wait_after_conflict` between. `subject` names the rows in
        the error. Raises Contended after the last conflict, and every other error of `act` at once.
        """
        for conflicts in range(MAX_TRIES):
            if conflicts:
                await self.wait_after_conflict(conflicts - 1)
            with suppress(Conflict, AlreadyExists):
                return await act()
        raise Contended(f"{subject} was changed by others at every try")

    async def wait_after_conflict(self, conflicts: int) -> None:
        """Waits a random time after conflict number `conflicts`, from 0 on: at most 20 ms, doubled for each number."""
        await self.sleep(_FIRST_WAIT_S * 2**conflicts * self.random())
