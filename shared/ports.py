"""What the operations need of the world; `shared.adapters` implements it, `shared.wiring` chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from shared.access.caller import Caller
from shared.contracts.messages import Directive
from shared.core.job import Event, Job, Record


class Clock(Protocol):
    """The time of day."""

    def now(self) -> datetime:
        """An aware UTC instant."""


@dataclass(frozen=True)
class Stored:
    """A job as read, with the token that its next transaction must present."""

    record: Record
    etag: str


class Callers(Protocol):
    """Whom requests come from."""

    async def caller(self, authorization: str | None) -> Caller:
        """By the `Authorization` header. Raises Refusal (401, 403, 503)."""


class Ledger(Protocol):
    """One partition a job: JOB, STEP and EVENT rows, moved in one transaction (DESIGN 3)."""

    async def read(self, job_id: str) -> Stored | None:
        """JOB and STEPs in one query; None if there is no such job. Raises LedgerUnavailable."""

    async def create(self, record: Record, event: Event) -> Stored:
        """Inserts all rows of a new job. Raises AlreadyExists, LedgerRefused, LedgerUnavailable."""

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        """Writes JOB, the steps that changed, and the events, under JOB's ETag.

        Raises Conflict if the job moved since `before`, LedgerRefused, LedgerUnavailable.
        """

    async def remove(self, stored: Stored) -> None:
        """JOB and STEPs, under JOB's ETag, then all else of the partition. Raises Conflict, LedgerUnavailable."""

    async def delete_remainder(self, job_id: str) -> None:
        """What a removal that died left of a job whose JOB row is gone. Raises LedgerUnavailable."""

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        """The event that `cause_id` made, if it committed. Raises LedgerUnavailable."""

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        """Events in order, from `after_seq` exclusive. Raises LedgerUnavailable."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A CLAIM row: which job an idempotency key or body already is."""

    job_id: str
    body_hash: str
    created_at: datetime
    #: None while the job lives; then its end plus the time to live
    expires_at: datetime | None
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class ActiveRow:
    """An ACTIVE row: a job that still owes something."""

    job_id: str
    tenant: str
    #: RowKey of its claim, without the prefix
    claim: str
    created_at: datetime
    #: when the sweeper looks at the job next; written by the sweeper alone
    check_at: datetime
    gated: bool = False
    #: the event that its LIST row is as of
    listed_seq: int = 0
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class EndedRow:
    """An ENDED row: a job that ended, and from when on the next part of it is to be cleared away."""

    job_id: str
    tenant: str
    clear_at: datetime


@dataclass(frozen=True)
class Guard:
    """How many jobs were active, by mode, when the sweeper last counted."""

    active: dict[str, int]
    counted_at: datetime


@dataclass(frozen=True, kw_only=True)
class ListRow:
    """A LIST row: one line of a tenant's list, as of event `seq`; of a living job at most a sweep behind JOB."""

    job_id: str
    tenant_id: str
    request_type: str
    status: str
    current_step_id: str | None
    labels: dict[str, str]
    seq: int
    created_at: datetime
    #: opaque position of this row, for the next page
    cursor: str = ""


class Index(Protocol):
    """A tenant's claims, active jobs and list, in one partition (DESIGN 3)."""

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        """Raises LedgerUnavailable."""

    async def reserve(self, job: Job, *, replacing: Claim | None, tenant_limit: int | None = None) -> None:
        """CLAIM, ACTIVE and LIST in one transaction; `replacing` is an expired claim that gives way.

        With a limit, and a `gated` job, GATE counts up in the same transaction, so that the limit is exact.
        Raises AlreadyExists or Conflict where the claim is taken (look again), LimitReached, LedgerUnavailable.
        """

    async def close(self, job: Job, *, claim_expires_at: datetime) -> None:
        """After a job's end: ACTIVE out, LIST brought up to date, the claim's end set, ENDED in; again is harmless."""

    async def count_gated(self, tenant: str) -> int:
        """The tenant's active jobs by its GATE row, which alone decides its limit. Raises LedgerUnavailable."""

    async def count_active(self) -> dict[str, int]:
        """Jobs that still owe something, by mode, over all tenants. Raises LedgerUnavailable."""

    async def write_guard(self, guard: Guard) -> None:
        """Raises LedgerUnavailable."""

    async def read_guard(self) -> Guard | None:
        """The counts of the last sweep. Raises LedgerUnavailable."""

    async def due(self, tenant: str, *, now: datetime, limit: int) -> list[ActiveRow]:
        """Active jobs whose `check_at` has come, the longest due first. Raises LedgerUnavailable."""

    async def reschedule_check(self, active: ActiveRow, check_at: datetime) -> None:
        """Moves the sweeper's next look; nothing happens if the row is gone. Raises LedgerUnavailable."""

    async def list_active(self, tenant: str, *, after: str | None, limit: int) -> list[ActiveRow]:
        """Active jobs in the order of their ids, past the id `after`. Raises LedgerUnavailable."""

    async def refresh_listing(self, active: ActiveRow, job: Job) -> None:
        """Brings LIST to where a living job stands; nothing happens if the row moved since `active` was read.

        Raises LedgerUnavailable.
        """

    async def read_listing_position(self) -> tuple[str, str] | None:
        """Where the last relisting stopped at its bound: tenant and job id. Raises LedgerUnavailable."""

    async def write_listing_position(self, position: tuple[str, str] | None) -> None:
        """None: it came to the end. Raises LedgerUnavailable."""

    async def withdraw(self, active: ActiveRow) -> None:
        """CLAIM, ACTIVE and LIST of a job that never came to be, in one transaction; again is harmless.

        ENDED comes in with it: the tombstone is cleared away like every other job.
        """

    async def due_for_clearing(self, tenant: str, *, now: datetime, limit: int) -> list[EndedRow]:
        """ENDED rows whose `clear_at` has come, the earliest first. Raises LedgerUnavailable."""

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime) -> None:
        """Moves the row; nothing happens if it is gone. Raises LedgerUnavailable."""

    async def finish_clearing(self, ended: EndedRow) -> None:
        """Nothing is left to clear away: the row goes; again is harmless. Raises LedgerUnavailable."""

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        """Under its ETag, so that a request that replaces it wins. Raises LedgerUnavailable."""

    async def delete_listing(self, job: Job) -> None:
        """LIST goes; again is harmless. Raises LedgerUnavailable."""

    async def list_jobs(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ListRow]:
        """A tenant's jobs, newest first, created from `since` on and before `until`: one query of at most 1,000 rows.

        No other filter: the store would look at any number of rows to fill a page. Raises LedgerUnavailable.
        """

    async def tenants(self) -> list[str]:
        """Every tenant (normalised) that ever posted. Raises LedgerUnavailable."""


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """The last pass of the sweeper, wherever it ran."""

    ended_at: datetime
    looked_at: int
    actions: int
    #: a bound was reached
    more: bool


class SweepMarks(Protocol):
    """Where the sweeper leaves its mark, for health on any instance."""

    async def write(self, mark: SweepMark) -> None:
        """Raises LedgerUnavailable."""

    async def read(self) -> SweepMark | None:
        """None: no pass yet. Raises LedgerUnavailable."""


@dataclass(frozen=True, kw_only=True)
class RejectedMessage:
    """A message that no job could take (luciusrejected)."""

    #: the same for every delivery of the same message (`shared.core.rejections`)
    id: str
    received_at: datetime
    reason: str
    detail: str
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    body: str
    #: when a job took it after all
    redriven_at: datetime | None = None
    #: what came of that
    redriven_outcome: str | None = None


class RejectedMessages(Protocol):
    """Where messages are parked that would otherwise block their lane."""

    async def quarantine(self, message: RejectedMessage) -> None:
        """Again is harmless, and keeps the mark of a redrive. Raises LedgerUnavailable."""

    async def read(self, id_: str) -> RejectedMessage | None:
        """None if there is no such message. Raises LedgerUnavailable."""

    async def list_day(self, day: str, *, after: str | None, limit: int) -> list[RejectedMessage]:
        """A day's messages (`YYYYMMDD`, UTC), newest first, past the id `after`. Raises LedgerUnavailable."""

    async def mark(self, id_: str, *, redriven_at: datetime, outcome: str) -> None:
        """Says that a job took the message. Raises LedgerUnavailable."""


@dataclass(frozen=True, kw_only=True)
class DeadReply:
    """A reply that the bus gave up delivering to us."""

    body: bytes
    message_id: str
    sequence_number: int
    delivery_count: int
    enqueued_at: datetime
    #: why it was dead-lettered, as the bus says, for example `MaxDeliveryCountExceeded`
    reason: str


class DeadReplies(Protocol):
    """The dead-letter queues of the reply subscriptions."""

    async def waiting(self, lane: int) -> int:
        """How many lie there, up to a bound of the adapter's; takes none. Raises BusUnavailable."""

    async def drain(self, lane: int, take: Callable[[DeadReply], Awaitable[None]]) -> int:
        """Hands them to `take` one by one, up to a bound, and removes each once `take` has returned; how many.

        What `take` raises ends the drain and is raised; that message stays. Raises BusUnavailable.
        """


class Archive(Protocol):
    """Where jobs go whose time in the ledger is over."""

    async def put(self, name: str, text: str) -> None:
        """Writing the same name again replaces it. Raises LedgerUnavailable."""


class DirectivePublisher(Protocol):
    """The directive topics."""

    async def publish(self, directive: Directive, *, time_to_live_s: float) -> None:
        """Sends to the topic of the directive's lane. Raises PublishUnavailable."""


class Lanes(Protocol):
    """A look at what waits on a lane, without taking it."""

    async def has_waiting_reply(self, lane: int, *, before: datetime) -> bool:
        """Whether a reply that was sent before that instant still lies on the lane. Raises BusUnavailable."""

    async def has_waiting_directive(self, lane: int, service: str, *, message_id: str, before: datetime) -> bool:
        """Whether this directive, or one sent before that instant, still lies there. Raises BusUnavailable."""


class ConfigurationStore(Protocol):
    """Settings that change while the app runs."""

    async def version(self) -> str | None:
        """Changes when the others are to be read again; None: always. Raises ConfigurationUnavailable."""

    async def read(self) -> dict[str, str]:
        """Every key that begins with `lucius:`. Raises ConfigurationUnavailable."""


class InstanceState(StrEnum):
    """What the durable engine says of an instance."""

    NOT_FOUND = "NOT_FOUND"
    #: Pending, Running or suspended by hand
    ALIVE = "ALIVE"
    ENDED = "ENDED"


class Orchestrations(Protocol):
    """The durable engine, as far as triggers may speak to it."""

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        """Starts the job orchestration; one that exists already is left alone. Raises OrchestrationUnavailable."""

    async def state(self, instance_id: str) -> InstanceState:
        """Raises OrchestrationUnavailable."""

    async def purge(self, instance_id: str) -> bool:
        """Removes the history of an instance that has ended; False: it has not. Raises OrchestrationUnavailable."""

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        """Raises InstanceNotFound, InstanceEnded, OrchestrationUnavailable."""
