"""Everything that an operation may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from shared.audit_refusals import AuditOff
from shared.core.jobs.job import Event
from shared.core.jobs.routing import Modes
from shared.core.registry import Registry
from shared.errors import AlreadyExists, Conflict, Contended
from shared.operations.process.parts import Audit, Bus, Events, Process, Webhooks
from shared.ports.admissions import AdmissionStates
from shared.ports.allocations import Allocations
from shared.ports.bulks import Bulks
from shared.ports.durable import Orchestrations
from shared.ports.environment import Clock
from shared.ports.exports import LedgerExports
from shared.ports.incidents import Incidents
from shared.ports.index import Index
from shared.ports.ledger import Archive, Ledger, Stored
from shared.ports.minutes import Minutes
from shared.ports.rejected import RejectedMessages
from shared.ports.runs import RunFiles
from shared.ports.sweeps import Answers, SweepMarks
from shared.ports.usage import Usage
from shared.refusals import EventsOff, WebhooksOff
from shared.settings import Settings

#: tries of a write that others may overtake; after the last one the caller's own retry takes over
MAX_TRIES = 8
#: maximum wait after the first conflict, in seconds
_FIRST_WAIT_S = 0.02

_T = TypeVar("_T")
#: sleep function; injected so that tests do not wait
Sleep = Callable[[float], Awaitable[None]]
#: `shared.operations.jobs.ending.follow_end`, with the EVENT rows that were committed now
FollowEnd = Callable[["Context", Orchestrations, Stored, Sequence[Event]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Stores:
    """What keeps the app's rows."""

    ledger: Ledger
    index: Index
    admissions: AdmissionStates
    allocations: Allocations
    bulks: Bulks
    incidents: Incidents
    rejected: RejectedMessages
    archive: Archive
    usage: Usage
    answers: Answers
    sweep_marks: SweepMarks
    minutes: Minutes


@dataclass(frozen=True, kw_only=True)
class Context(Stores):
    """Built once in `shared.wiring`; tests build their own."""

    settings: Settings
    registry: Registry
    modes: Modes = field(default_factory=Modes)
    #: by normalised tenant, within the setting's (`shared.operations.protocols.overrides`); None: the store that has
    #: them was never read
    ref_hosts: Mapping[str, frozenset[str]] | None = field(default_factory=dict)
    bus: Bus
    #: None: `LUCIUS_EVENTS=off`
    events: Events | None = None
    #: None: tables in memory
    exports: LedgerExports | None = None
    #: None: there are no events, or no keys to sign with
    webhooks: Webhooks | None = None
    #: None: there are no events, or no key that signs heads
    audit: Audit | None = None
    process: Process = field(default_factory=Process)
    #: None: there is no blob storage, and so no run
    runs: RunFiles | None = None
    #: context of all tenants, if this one is of a caller that sees some tenants only; None: this one is of all tenants
    unscoped: Context | None = None
    #: does what follows the end of a job; a value of the context, because it admits jobs, which are transitions too
    follow_end: FollowEnd
    clock: Clock
    sleep: Sleep
    #: a number from 0 to 1, for the jitter of conflict retries
    random: Callable[[], float]
    #: a new job's id
    new_job_id: Callable[[], str]
    #: a new attempt's lease and a new EVENT row's salt: each 128 random bits in hex
    new_lease: Callable[[], str]
    new_salt: Callable[[], str]

    def require_events(self) -> Events:
        """Returns the feeds. Raises EventsOff."""
        if self.events is None:
            raise EventsOff
        return self.events

    def require_webhooks(self) -> Webhooks:
        """Returns what posts to webhooks. Raises WebhooksOff."""
        if self.webhooks is None:
            raise WebhooksOff
        return self.webhooks

    def require_audit(self) -> Audit:
        """Returns the heads and what signs them. Raises AuditOff."""
        if self.audit is None:
            raise AuditOff
        return self.audit

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
        raise Contended(f"{subject} changed at every attempt")

    async def wait_after_conflict(self, conflicts: int) -> None:
        """Waits a random time after conflict number `conflicts`, from 0 on: at most 20 ms, doubled for each number."""
        await self.sleep(_FIRST_WAIT_S * 2**conflicts * self.random())
