"""The index: a tenant's claims, active jobs, list, and ended jobs that are to be cleared."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from shared.core.job import Job

#: an ACTIVE row is first looked at when a job that nothing went wrong with is past its start
FIRST_CHECK = timedelta(minutes=1)

#: how long the histories of an ended job's orchestrations are kept, for people to look at
FIRST_CLEARING = timedelta(hours=1)


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
    #: looks in a row that its orchestration did not hear, and the number of the look that it waited for
    looks: int = 0
    look_no: int = 0
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
    """A tenant's claims, active jobs and list, in one partition."""

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        """Raises LedgerUnavailable."""

    async def reserve(self, job: Job, *, replacing: Claim | None, tenant_limit: int | None = None) -> None:
        """CLAIM, ACTIVE and LIST in one transaction; `replacing` is an expired claim that gives way.

        With a limit, and a `gated` job, GATE counts up in the same transaction, so that the limit is exact.
        Raises AlreadyExists or Conflict where the claim is taken (look again), GateFull, LedgerUnavailable.
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

    async def reschedule_check(
        self, active: ActiveRow, check_at: datetime, *, looks: int = 0, look_no: int = 0
    ) -> None:
        """Moves the sweeper's next look, and notes what the last ones met; nothing happens if the row is gone.

        Raises LedgerUnavailable.
        """

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
