"""The context: everything that operations use."""

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
from shared.refusals import EventsOff
from shared.settings import Settings
from shared.webhook_refusals import WebhooksOff

#: maximum tries of a write that can conflict with others; then the caller's own retry continues
MAX_TRIES = 8
#: maximum wait after the first conflict, in seconds
_FIRST_WAIT_S = 0.02

_T = TypeVar("_T")
#: sleep function; injected so that tests do not wait
Sleep = Callable[[float], Awaitable[None]]
#: type of `shared.operations.jobs.ending.follow_end`, which gets the newly committed EVENT rows
FollowEnd = Callable[["Context", Orchestrations, Stored, Sequence[Event]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores of the app's rows."""

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
    """The dependencies of operations, built once in `shared.wiring`. Tests build their own."""

    settings: Settings
    registry: Registry
    modes: Modes = field(default_factory=Modes)
    #: allowed hosts of references by normalised tenant, within the setting (`shared.operations.protocols.overrides`);
    #: None if the configuration store was never read
    ref_hosts: Mapping[str, frozenset[str]] | None = field(default_factory=dict)
    bus: Bus
    #: feeds; None means `LUCIUS_EVENTS=off`
    events: Events | None = None
    #: exports of tables; None if `LUCIUS_EXPORT_DAYS` is unset or the tables are in memory
    exports: LedgerExports | None = None
    #: webhooks; None if there are no feeds, or no keys to sign with
    webhooks: Webhooks | None = None
    #: heads and anchors; None if there are no feeds, or no key to sign with
    audit: Audit | None = None
    process: Process = field(default_factory=Process)
    #: files of runs; None if there is no blob storage, so there are no runs
    runs: RunFiles | None = None
    #: context of all tenants, if this one is of a caller with limited access; None if this one covers all tenants
    unscoped: Context | None = None
    #: follows up on the end of a job; a value of the context, because it admits jobs, which are transitions too
    follow_end: FollowEnd
    clock: Clock
    sleep: Sleep
    #: returns a number from 0 to 1, for jitter and random choices
    random: Callable[[], float]
    #: returns an id for a new job
    new_job_id: Callable[[], str]
    #: returns 128 random bits in hex, for the lease of an attempt or the salt of an EVENT row
    new_lease: Callable[[], str]
    new_salt: Callable[[], str]

    def require_events(self) -> Events:
        """Returns the feeds. Raises EventsOff if events are off."""
        if self.events is None:
            raise EventsOff
        return self.events

    def require_webhooks(self) -> Webhooks:
        """Returns the client, the queue and the limits of webhooks. Raises WebhooksOff if webhooks are off."""
        if self.webhooks is None:
            raise WebhooksOff
        return self.webhooks

    def require_audit(self) -> Audit:
        """Returns the heads, their signer and the store of statements. Raises AuditOff if there are no heads."""
        if self.audit is None:
            raise AuditOff
        return self.audit

    @property
    def of_all_tenants(self) -> Context:
        """Returns the context for LUCIUS's own work, which also covers tenants that the caller cannot see."""
        return self.unscoped or self

    async def retry_on_conflict(self, act: Callable[[], Awaitable[_T]], subject: str) -> _T:
        """Calls `act`, which reads and writes rows, again after each conflict, and returns its result.

        `act` is called at most 8 times, with `wait_after_conflict` between the calls. `subject` names the rows in the
        error. Raises Contended after the last conflict, and every other error of `act` immediately.
        """
        for conflicts in range(MAX_TRIES):
            if conflicts:
                await self.wait_after_conflict(conflicts - 1)
            with suppress(Conflict, AlreadyExists):
                return await act()
        raise Contended(f"{subject} changed at every try")

    async def wait_after_conflict(self, conflicts: int) -> None:
        """Waits a random time after conflict number `conflicts` (from 0). The maximum is 20 ms after conflict 0, and
        doubles with each further conflict.
        """
        await self.sleep(_FIRST_WAIT_S * 2**conflicts * self.random())
