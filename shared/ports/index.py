"""The index: a tenant's claims, active jobs, list, and ended jobs that are to be cleared."""

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

#: an ACTIVE row is first looked at when a job that nothing went wrong with is past its start
FIRST_CHECK = timedelta(minutes=1)

#: after a job's end, before the sweeper clears the histories that no later end has cleared
FIRST_CLEARING = timedelta(hours=1)
#: the same of a job whose end opens an incident: the sweeper sees to it that the list of open ones has it
FIRST_CLEARING_OF_INCIDENT = timedelta(minutes=1)

#: how long a process relies on having woken a tenant
WAKE_LASTS = timedelta(minutes=5)
#: a tenant that posted within it is not put to sleep: far longer than `WAKE_LASTS` and a creation together
AWAKE_AFTER_POST = timedelta(hours=1)

#: step id to (number of a look, looks in a row)
Looks = Mapping[str, tuple[int, int]]
NO_LOOKS: Looks = {}


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
    #: when the sweeper looks at the job next: its DUE row stands there; written by the sweeper alone
    check_at: datetime
    #: of each step that was behind: the look that its orchestration waited for, and how many in a row it did not hear
    looks: Looks = field(default_factory=dict)
    #: from here on of `list_active` alone, since a DUE row has none of it; below `mode` as of event `listed_seq`
    request_type: str = ""
    mode: str = ""
    status: str = ""
    #: attempts INITIATED and not ACKed, and since when the oldest of them is
    unacked: int = 0
    unacked_since: datetime | None = None
    #: the event that its LIST row is as of
    listed_seq: int = 0
    #: of its protocol; 0: an earlier release wrote the row
    protocol_version: int = 0
    #: normalised; None: the request named none
    source: str | None = None
    priority: str = "normal"
    #: None: no gate concerned the job when it was created
    place: Place | None = None
    etag: str = ""
    #: as it is stored, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def counted_place(self) -> Place:
        """Returns its position. A job to which no quota applied at its creation is active."""
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

    def freed(self, at: datetime, *, good: bool | None = None) -> Freed | None:
        """Returns what its removal leaves for the tenant's counts. None: they do not count it."""
        place = self.counted_place
        if place.state is PlaceState.ENDED or place.uncounted:
            return None
        return Freed(place=place, created_at=self.created_at, freed_at=at, is_placed=self.place is not None, good=good)


@dataclass(frozen=True, kw_only=True)
class EndedRow:
    """An ENDED row: a job that ended, and from when on the next part of it is to be cleared away."""

    job_id: str
    tenant: str
    clear_at: datetime
    #: the histories of its orchestrations are gone
    purged: bool = False
    #: the store refused its LIST, CLAIM, DEAD or INCIDENT row when it ended
    owed: bool = False
    #: as it is stored, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


def first_clearing(job: Job) -> EndedRow:
    """Makes the ENDED row with which a job ends."""
    after = FIRST_CLEARING_OF_INCIDENT if escalates(job) else FIRST_CLEARING
    return EndedRow(job_id=job.job_id, tenant=job.tenant, clear_at=(job.completed_at or job.updated_at) + after)


@dataclass(frozen=True)
class Clearing:
    """The histories of an ended job are purged: where its row goes now."""

    row: EndedRow
    clear_at: datetime


@dataclass(frozen=True)
class Reservation:
    """The rows of a new job in its tenant's partition."""

    job: Job
    #: an expired claim that gives way
    replacing: Claim | None = None
    #: where gates concern the job
    place: Place | None = None


@dataclass(frozen=True)
class PlaceMove:
    """A job that moves at its tenant's quotas."""

    active: ActiveRow
    place: Place
    #: where its DUE row goes
    check_at: datetime


@dataclass(frozen=True, kw_only=True)
class AwakeTenant:
    """A tenant to which the sweeper may owe something."""

    tenant: str
    #: its last POST, or up to five minutes before it
    posted_at: datetime
    etag: str = ""


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
    #: a `LetterState` of a job that failed for good
    dead_letter: str | None = None
    #: normalised; None: the request named none
    source: str | None = None
    #: None: its gates let it in at once
    staged_at: datetime | None = None
    admitted_at: datetime | None = None
    ended_at: datetime | None = None
    #: None: the ledger has its rows
    archived_at: datetime | None = None
    #: its ENDED row was written a second time, which happens once
    cleared_again: bool = False
    #: opaque position of this row, for the next page
    cursor: str = ""


class Index(DeadLetters, Purging, Protocol):
    """A tenant's claims, active jobs, list and dead letters, in one partition. Each method raises LedgerUnavailable."""

    async def read_claim(self, tenant: str, claim: str) -> Claim | None: ...

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, admission: AdmissionWrite | None = None
    ) -> None:
        """Wakes the tenant; then CLAIM, ACTIVE, DUE and LIST in one transaction; `replacing` is an expired claim that
        gives way. Where gates concern the job, its `place` and the change of the `admission` are part of it; so is a
        DEP row for each job that it depends on.

        Raises AlreadyExists or Conflict where the claim is taken, or the admission state moved (look again).
        """

    async def reserve_together(
        self, reservations: Sequence[Reservation], admission: AdmissionWrite | None = None
    ) -> None:
        """Reserves several jobs of one tenant in one transaction. Raises as `reserve`."""

    async def close(
        self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = (), counted: bool = False
    ) -> bool:
        """Writes a job's end into the index: deletes ACTIVE, DUE and WAIT, updates LIST, sets the claim's end, inserts
        ENDED. For a job that failed for good it inserts DEAD, and for an incident INCIDENT with the first entry of its
        log.

        `counted`: its tenant counts jobs, so a FREED row is inserted; returns whether it was. `purged`, of earlier ends
        of the tenant, are moved as by `reschedule_clearing`, in the same transaction. If the store refuses a row for
        good, or one does not exist, the job is closed without it, and its ENDED row says `owed`. Idempotent. Raises
        Contended after a conflict at every try.
        """

    async def write_owed(self, job: Job, *, claim_expires_at: datetime) -> list[str]:
        """Writes each row of a job's end that `close` left out; returns the keys of those still refused. Idempotent."""

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
        """Writes ACTIVE with its new position, DUE at `check_at`, and inserts or deletes WAIT, with the change of the
        admission state.

        `settled`: the job whose DEP row for this one is deleted; unless it `succeeded`, a DEPFAILED row replaces it.
        Without an admission state the write is under ACTIVE's ETag. `freed`: the FREED row of a job that has ended.
        Raises Conflict or AlreadyExists if a row has changed or does not exist.
        """

    async def move_places(self, moves: Sequence[PlaceMove], admission: AdmissionWrite) -> None:
        """Writes ACTIVE of each job with its new position, DUE and WAIT, in one transaction with the change of the
        admission state.

        All jobs are of one tenant, none of them twice. Raises as `move_place`.
        """

    async def dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        """Ids of jobs that wait for the end of this one, in order, past `after`."""

    async def failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        """Ids of jobs that waited for this one, which did not succeed; in order, past `after`, some may be gone."""

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        """Returns whether `dependant` waits for the end of `job_id`."""

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        """Deletes the DEP row of a job that no longer waits, and inserts a DEPFAILED row unless `job_id` `succeeded`.
        Idempotent.
        """

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        """Returns active jobs whose `check_at` has come, the longest due first, after `after`."""

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        """Moves the sweeper's next look, with ACTIVE and DUE in one transaction.

        Nothing happens where the row is gone, or `check_at` is not as in `active`: another sweep moved it.
        """

    async def restore_waiting(self, active: ActiveRow) -> bool:
        """Writes the lost row of a job in its waiting queue again; returns whether it was lost.

        Nothing happens if the job moved since `active` was read.
        """

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        """Returns active jobs in the order of their ids, after the id `after`.

        `unread` collects the keys of rows that cannot be decoded. None: such a row raises Undecodable.
        """

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        """Brings LIST, and what ACTIVE says of the job, to where a living job stands.

        Nothing happens if the row moved since `active` was read.
        """

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        """Returns the tenants that have active jobs or due work."""

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        """Marks a tenant without active jobs as asleep until the next of its ENDED rows is due, or its next POST.

        Race sleep: does nothing if the tenant has posted since `awake` was read.
        """

    async def read_position(self, share: int) -> SweepPosition:
        """Returns where the last sweep of this share of the tenants stopped."""

    async def write_position(self, share: int, position: SweepPosition) -> None: ...

    async def write_admission(self, admission: AdmissionWrite) -> None:
        """Writes a change of the admission state alone, with the jobs that it admits. Raises Conflict,
        AlreadyExists.
        """

    async def withdraw(self, active: ActiveRow, *, counted: bool = False) -> bool:
        """Deletes CLAIM, ACTIVE, DUE, WAIT and LIST of a job that was never created, in one transaction. Idempotent.

        ENDED is inserted with it: the tombstone is cleared like every other job. `counted`: FREED too, as by `close`;
        returns whether it was. Raises Contended.
        """

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        """Returns ENDED rows whose `clear_at` has come, the earliest first, after `after`."""

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        """Moves the row; nothing happens if it is gone."""

    async def clear_again(self, tenant: str, late: Sequence[tuple[ListRow, datetime]], now: datetime) -> None:
        """Wakes the tenant, and writes ENDED rows of these ended jobs, at most 50, each due at its instant; their LIST
        rows say so. Nothing happens if one of these is gone.
        """

    async def finish_clearing(self, ended: EndedRow) -> None:
        """Deletes the ENDED row, since nothing is left to clear. Idempotent."""

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        """Deletes the claim under its ETag, so that a request that replaces it wins."""

    async def delete_listing(self, job: Job, archived_at: datetime | None = None) -> None:
        """Deletes LIST, CORRELATION, DEAD, DEPFAILED and INCIDENT with its log. Idempotent.

        `archived_at`: ARCHIVED replaces LIST, unless the creation of the job was withdrawn.
        """

    async def list_jobs(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        """Returns a tenant's jobs, newest first, created from `since` on and before `until`: one query of at most 1,000
        rows.

        It has no other filter: the store would read an unlimited number of rows to fill a page.
        """

    async def list_archived(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        """Returns a tenant's archived jobs, as `list_jobs`."""

    async def read_listed(
        self, tenant: str, created_at: datetime, job_id: str, *, correlation_id: str | None = None
    ) -> ListRow | None:
        """Returns the row of one job in the list. None: there is none, or the job has another correlation id.

        Raises LedgerUnavailable.
        """

    async def list_correlated(
        self, tenant: str, correlation_id: str, *, after: str | None, limit: int
    ) -> list[ListRow]:
        """Returns a tenant's jobs with this correlation id, as `list_jobs`: one query, and one read for each job. Jobs
        of an earlier release have no row that leads to them. Raises LedgerUnavailable.
        """

    async def tenants(self) -> list[str]:
        """Returns every tenant (normalised) that ever posted, asleep or awake."""
