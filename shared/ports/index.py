"""The index: a tenant's idempotency records, living jobs, lists, dead letters, and ended jobs to clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, Unpack

from shared.core.gates.admission_state import Candidate
from shared.core.gates.ends import Freed
from shared.core.gates.places import Place, PlaceState
from shared.core.incidents import escalates
from shared.core.jobs.job import Job
from shared.ports.admissions import AdmissionWrite
from shared.ports.dead_letters import DeadLetters
from shared.ports.page_range import PageRange
from shared.ports.purging import Purging
from shared.ports.sweeps import SweepPosition

#: time after which a new job's ACTIVE row is first checked: a job without problems has started by then
FIRST_CHECK = timedelta(minutes=1)

#: time after a job's end at which the sweeper clears histories that no later end has cleared
FIRST_CLEARING = timedelta(hours=1)
#: the same time for a job whose end opens an incident: the sweeper ensures that the list of open ones has it
FIRST_CLEARING_OF_INCIDENT = timedelta(minutes=1)

#: time for which a process relies on having woken a tenant
WAKE_LASTS = timedelta(minutes=5)
#: time after `posted_at` in which a tenant is not put to sleep: far longer than `WAKE_LASTS` and a creation together
AWAKE_AFTER_POST = timedelta(hours=1)

#: by step id: (number of a wake-up, wake-ups in a row)
Looks = Mapping[str, tuple[int, int]]
NO_LOOKS: Looks = {}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A CLAIM row, which has the job of an idempotency key or body."""

    job_id: str
    body_hash: str
    created_at: datetime
    #: end of the retention; None while the job is living
    expires_at: datetime | None
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class ActiveRow:
    """An ACTIVE row, of a living job or of an ended job with due actions."""

    job_id: str
    tenant: str
    #: RowKey of its idempotency record, without the prefix
    claim: str
    created_at: datetime
    #: time of the sweeper's next check, also in the key of its DUE row
    check_at: datetime
    #: for each step that was behind: the wake-up that its orchestration waited for, and the number of ignored ones in a
    #: row
    looks: Looks = field(default_factory=dict)
    #: `due` does not set the fields from here to `place`, since a DUE row does not have them. `status`, `unacked` and
    #: `unacked_since` are as of event `listed_seq`
    request_type: str = ""
    mode: str = ""
    status: str = ""
    #: number of INITIATED attempts without an ACK, and the start of the oldest one
    unacked: int = 0
    unacked_since: datetime | None = None
    #: number of the last event in its LIST row
    listed_seq: int = 0
    #: version of its protocol; 0: an earlier release wrote the row
    protocol_version: int = 0
    #: normalised source; None if the request named none
    source: str | None = None
    priority: str = "normal"
    #: place in admission; None if the job had neither quotas nor dependencies at its creation
    place: Place | None = None
    etag: str = ""
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def counted_place(self) -> Place:
        """Returns the job's place. A job without a place counts as active."""
        if self.place is not None:
            return self.place
        candidate = Candidate(
            job_id=self.job_id,
            job_type=self.request_type,
            mode=self.mode,
            source=self.source,
            priority=self.priority,
            rank=0,
        )
        return Place(candidate=candidate)

    def make_freed(self, at: datetime, *, good: bool | None = None) -> Freed | None:
        """Returns the FREED row that replaces ACTIVE for the tenant's counts, or None for a job that is not counted."""
        place = self.counted_place
        if place.state is PlaceState.ENDED or place.uncounted:
            return None
        return Freed(place=place, created_at=self.created_at, freed_at=at, is_placed=self.place is not None, good=good)


@dataclass(frozen=True, kw_only=True)
class EndedRow:
    """An ENDED row: a job that ended, and the due time of the next part to clear."""

    job_id: str
    tenant: str
    clear_at: datetime
    #: `True` if the histories of its orchestrations are deleted
    purged: bool = False
    #: `True` if its LIST, CLAIM, DEAD and INCIDENT rows were not written at its end, since one was refused or deleted
    owed: bool = False
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


def first_clearing(job: Job) -> EndedRow:
    """Makes the ENDED row with which a job ends."""
    after = FIRST_CLEARING_OF_INCIDENT if escalates(job) else FIRST_CLEARING
    return EndedRow(job_id=job.job_id, tenant=job.tenant, clear_at=(job.completed_at or job.updated_at) + after)


@dataclass(frozen=True)
class Clearing:
    """An ended job whose histories are purged, with the next due time of its ENDED row."""

    row: EndedRow
    clear_at: datetime


@dataclass(frozen=True)
class Reservation:
    """The rows of a new job in its tenant's partition."""

    job: Job
    #: an expired idempotency record that is replaced
    replacing: Claim | None = None
    #: place in admission; None if the job has neither quotas nor dependencies
    place: Place | None = None


@dataclass(frozen=True)
class PlaceMove:
    """A job whose place in admission changes."""

    active: ActiveRow
    place: Place
    #: new time of its DUE row
    check_at: datetime


@dataclass(frozen=True, kw_only=True)
class AwakeTenant:
    """A tenant for which the sweeper may have work."""

    tenant: str
    #: time of its last POST or `clear_again`, or up to five minutes before it
    posted_at: datetime
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class ListRow:
    """A LIST row: an item of a tenant's list, as of `seq`. A living job's row can be one survey older than JOB."""

    job_id: str
    tenant_id: str
    request_type: str
    status: str
    current_step_id: str | None
    labels: dict[str, str]
    seq: int
    created_at: datetime
    #: `LetterState` of a job that failed permanently
    dead_letter: str | None = None
    #: normalised source; None if the request named none
    source: str | None = None
    #: start of the wait for quotas or for other jobs; None if it was admitted immediately
    staged_at: datetime | None = None
    admitted_at: datetime | None = None
    ended_at: datetime | None = None
    #: code of the job's error; None if it has not failed
    error_code: str | None = None
    #: time of archiving; None if the ledger has its rows
    archived_at: datetime | None = None
    #: `True` if its ENDED row was written a second time, which happens once
    cleared_again: bool = False
    #: opaque position of this row, for the next page
    cursor: str = ""


class Index(DeadLetters, Purging, Protocol):
    """A tenant's idempotency records, living jobs, lists, dead letters, and ended jobs to clear, in one partition.

    Each method raises LedgerUnavailable.
    """

    async def read_claim(self, tenant: str, claim: str) -> Claim | None: ...

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, admission: AdmissionWrite | None = None
    ) -> None:
        """Wakes the tenant, then writes CLAIM, LIST, CORRELATION, ACTIVE and DUE in one transaction.

        `replacing` is an expired idempotency record. The ACTIVE row has the job's `place`. The transaction has a
        DEP row for each dependency and, with `admission`, the change of the admission state. `move_place` adds the
        WAIT row of a job that waits for quotas.

        Raises AlreadyExists or Conflict if the idempotency record exists, or the admission state changed. The caller
        then reads both again.
        """

    async def reserve_together(
        self, reservations: Sequence[Reservation], admission: AdmissionWrite | None = None
    ) -> None:
        """Reserves several jobs of one tenant in one transaction. Raises errors as `reserve` does."""

    async def close(
        self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = (), counted: bool = False
    ) -> bool:
        """Writes the terminal state of a job into the index. Idempotent.

        - Deletes ACTIVE, DUE and WAIT, updates LIST and the idempotency record, and inserts ENDED.
        - Inserts DEAD for a job that failed permanently, and INCIDENT with the first entry of its log for an incident.
        - Inserts a FREED row if the job's tenant counts jobs (`counted`). Returns `True` if the row was inserted.
        - Moves the earlier ENDED rows of the tenant in `purged`, as `reschedule_clearing` does.

        If the store permanently refuses a row, or a row does not exist, the job is closed with ENDED alone, which then
        has `owed`. `write_owed` writes the other rows. Raises Contended after a conflict at every try.
        """

    async def write_owed(self, job: Job, *, claim_expires_at: datetime) -> list[str]:
        """Writes each row of an ended job that `close` left out. Returns the keys of rows that are still refused.
        Idempotent.
        """

    async def read_active(self, tenant: str, job_id: str) -> ActiveRow | None: ...

    async def move_place(
        self,
        active: ActiveRow,
        place: Place,
        check_at: datetime,
        admission: AdmissionWrite | None = None,
        *,
        settled: str | None = None,
        succeeded: bool = True,
        freed: Freed | None = None,
    ) -> None:
        """Writes ACTIVE with its new place and DUE at `check_at`, and inserts or deletes WAIT, with the change of the
        admission state.

        `settled` is the job whose DEP row for this job is deleted. If `settled` did not succeed, a DEPFAILED row
        replaces the DEP row. Without an admission state, the write is under ACTIVE's ETag. `freed` is the FREED row of
        a job that has ended.

        Raises Conflict or AlreadyExists if a row has changed or does not exist.
        """

    async def move_places(self, moves: Sequence[PlaceMove], admission: AdmissionWrite) -> None:
        """Writes new places of a tenant's jobs, and the change of the admission state, in one transaction.

        Writes ACTIVE, DUE and WAIT of each job. No job may occur twice. Raises errors as `move_place` does.
        """

    async def list_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        """Returns the ids of jobs that wait until this job has ended, in order, after `after`."""

    async def list_failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        """Returns the ids of jobs that waited for this job, which did not succeed, in order, after `after`. Some of
        these jobs may be deleted.
        """

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        """Returns `True` if `dependant` waits until `job_id` has ended."""

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        """Deletes the DEP row of a job that no longer waits, and inserts a DEPFAILED row unless `job_id` `succeeded`.
        Idempotent.
        """

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        """Returns the DUE rows with `check_at` up to `now`, the longest due first, after `after`."""

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        """Changes the time of the sweeper's next check and replaces `looks`, in ACTIVE and DUE in one transaction.

        Does nothing if the row does not exist, or if another sweep changed `check_at` since `active` was read.
        """

    async def restore_waiting(self, active: ActiveRow) -> bool:
        """Writes the lost WAIT row of a job in its waiting queue again. Returns `True` if the row was lost.

        Does nothing if the job changed since `active` was read.
        """

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        """Returns the ACTIVE rows in the order of their job ids, after the id `after`.

        `unread` collects the keys of rows that cannot be decoded. If `unread` is None, such a row raises Undecodable.
        """

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        """Updates LIST, and ACTIVE's columns about the job, to the state of a living job.

        Does nothing if the row changed since `active` was read.
        """

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        """Returns the tenants that can have living jobs or due work."""

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        """Marks a tenant without living jobs as asleep until the next of its ENDED rows is due, or its next POST.

        Does nothing if the tenant has posted since `awake` was read (Race sleep).
        """

    async def read_position(self, share: int) -> SweepPosition:
        """Returns the position at which the last sweep of this share of the tenants stopped."""

    async def write_position(self, share: int, position: SweepPosition) -> None: ...

    async def write_admission(self, admission: AdmissionWrite) -> None:
        """Writes a change of the admission state alone, with the jobs that it admits. Raises Conflict,
        AlreadyExists.
        """

    async def withdraw(self, active: ActiveRow, *, counted: bool = False) -> bool:
        """Deletes CLAIM, ACTIVE, DUE, WAIT and LIST of a job that was never created, in one transaction. Idempotent.

        Inserts ENDED, since the tombstone is cleared like any other job. With `counted`, inserts FREED as `close` does.
        Returns `True` if FREED was inserted. Raises Contended.
        """

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        """Returns ENDED rows with `clear_at` up to `now`, the earliest first, after `after`."""

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        """Moves the ENDED row to another time. Does nothing if the row does not exist."""

    async def clear_again(self, tenant: str, late: Sequence[tuple[ListRow, datetime]], now: datetime) -> None:
        """Wakes the tenant, and writes the ENDED rows of these ended jobs, at most 50, each due at the time in its
        pair.

        The jobs' LIST rows record this clearing. Writes no ENDED row if one of the LIST rows does not exist.
        """

    async def finish_clearing(self, ended: EndedRow) -> None:
        """Deletes the ENDED row of a job that is completely cleared. Idempotent."""

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        """Deletes the idempotency record, unless a request has replaced the record since it was read."""

    async def delete_listing(self, job: Job, archived_at: datetime | None = None) -> None:
        """Deletes LIST, CORRELATION, DEAD, DEPFAILED and INCIDENT with its log. Idempotent.

        With `archived_at`, ARCHIVED replaces LIST, unless the creation of the job was withdrawn.
        """

    async def list_jobs(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        """Returns a tenant's jobs, newest first, created from `since` on and before `until`. Makes one query, in pages
        of at most 1,000 rows.

        Supports no other filter, because any other makes the store read an unlimited number of rows for a page.
        """

    async def list_archived(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        """Returns a tenant's archived jobs, as `list_jobs` does."""

    async def read_listed(
        self, tenant: str, created_at: datetime, job_id: str, *, correlation_id: str | None = None
    ) -> ListRow | None:
        """Returns the LIST row of one job, or None if no row has this job and correlation id.

        Raises LedgerUnavailable.
        """

    async def list_correlated(
        self, tenant: str, correlation_id: str, *, after: str | None, limit: int
    ) -> list[ListRow]:
        """Returns a tenant's jobs with this correlation id. Makes one read for each job.

        Jobs of an earlier release are not found. Raises LedgerUnavailable.
        """

    async def tenants(self) -> list[str]:
        """Returns every tenant (normalised), asleep or awake, that has posted and was not purged."""
