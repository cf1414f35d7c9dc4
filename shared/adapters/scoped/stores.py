"""The stores as one caller reaches them (R24): jobs and messages that it may not see do not exist in them.

A caller that sees every tenant need not be one that moves their jobs. So each write asks for the tenant again, and a
request that moves (`Route.moves`) is refused at its first read of a job that it may only see.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from shared.access.caller import Caller
from shared.adapters.scoped.reach import Reach, check_seen, sweeper_only
from shared.core.gates.admission import Waiting
from shared.core.gates.ends import Freed
from shared.core.gates.log import LogEntry
from shared.core.gates.places import Place
from shared.core.gates.rules import EVERY, Gate, GateState, Rule
from shared.core.incidents import Settlement
from shared.core.jobs.job import Event, Job, Record
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.ports.dead_letters import DeadRow, LetterState
from shared.ports.desks import Desks, DeskWrite, DirectoryRows, LogPlace, StoredDesk
from shared.ports.feed import Feed, FeedEvent, FeedIdentity, FeedWrite, Head
from shared.ports.index import (
    NO_LOOKS,
    ActiveRow,
    AwakeTenant,
    Claim,
    Clearing,
    EndedRow,
    Index,
    ListRow,
    Looks,
    PlaceMove,
    Reservation,
)
from shared.ports.ledger import Ledger, Stored
from shared.ports.rejected import RejectedMessage, RejectedMessages, Rejection
from shared.ports.sweeps import SweepPosition


class TenantLedger:
    """See `shared.ports.ledger.Ledger`. One a request: events are given only of jobs that this one has read."""

    def __init__(self, ledger: Ledger, caller: Caller, *, moving: bool = False) -> None:
        self._ledger = ledger
        self._reach = Reach(caller, moving)
        #: job id to tenant, of the jobs that were read
        self._seen: dict[str, str] = {}

    async def read(self, job_id: str) -> Stored | None:
        try:
            stored = await self._ledger.read(job_id)
        except (DataLost, Undecodable, UnknownStatus) as lost:
            if self._reach.takes(lost.tenant_id):
                raise
            return None
        if stored is None or not self._reach.takes(stored.record.job.tenant_id):
            return None
        self._seen[job_id] = stored.record.job.tenant_id
        return stored

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        return await self._ledger.end_of(job_id) if job_id in self._seen else None

    async def create(self, record: Record, event: Event) -> Stored:
        self._reach.check_move(record.job.tenant_id)
        stored = await self._ledger.create(record, event)
        self._seen[record.job.job_id] = record.job.tenant_id
        return stored

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        self._check_move(before.record.job.job_id)
        return await self._ledger.commit(before, after, events)

    async def remove(self, stored: Stored) -> None:
        self._check_move(stored.record.job.job_id)
        await self._ledger.remove(stored)

    async def delete_remainder(self, job_id: str) -> None:
        self._check_move(job_id)
        await self._ledger.delete_remainder(job_id)

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        return await self._ledger.find_event(job_id, cause_id) if job_id in self._seen else None

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        if job_id not in self._seen:
            return []
        return await self._ledger.events(job_id, after_seq=after_seq, limit=limit)

    def _check_move(self, job_id: str) -> None:
        check_seen(job_id in self._seen)
        self._reach.check_move(self._seen[job_id])


class TenantIndex:
    """See `shared.ports.index.Index`. What only the sweeper does is refused, since a sweep is of every tenant."""

    def __init__(self, index: Index, caller: Caller, *, moving: bool = False) -> None:
        self._index = index
        self._reach = Reach(caller, moving)

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        return await self._of(tenant).read_claim(tenant, claim)

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, desk: DeskWrite | None = None
    ) -> None:
        self._reach.check_move(job.tenant)
        await self._index.reserve(job, replacing=replacing, place=place, desk=desk)

    async def reserve_together(self, reservations: Sequence[Reservation], desk: DeskWrite | None = None) -> None:
        for each in reservations:
            self._reach.check_move(each.job.tenant)
        await self._index.reserve_together(reservations, desk)

    async def close(
        self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = (), counted: bool = False
    ) -> bool:
        for tenant in (job.tenant, *(each.row.tenant for each in purged)):
            self._reach.check_move(tenant)
        return await self._index.close(job, claim_expires_at=claim_expires_at, purged=purged, counted=counted)

    async def write_owed(self, job: Job, *, claim_expires_at: datetime) -> list[str]:
        raise sweeper_only()

    async def read_active(self, tenant: str, job_id: str) -> ActiveRow | None:
        return await self._of(tenant).read_active(tenant, job_id)

    async def move_place(
        self,
        active: ActiveRow,
        place: Place,
        check_at: datetime,
        desk: DeskWrite | None = None,
        *,
        settled: str | None = None,
        succeeded: bool = True,
        freed: Freed | None = None,
    ) -> None:
        self._reach.check_move(active.tenant)
        await self._index.move_place(active, place, check_at, desk, settled=settled, succeeded=succeeded, freed=freed)

    async def move_places(self, moves: Sequence[PlaceMove], desk: DeskWrite) -> None:
        for each in moves:
            self._reach.check_move(each.active.tenant)
        await self._index.move_places(moves, desk)

    async def dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        return await self._of(tenant).dependants(tenant, job_id, limit=limit, after=after)

    async def failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        return await self._of(tenant).failed_dependants(tenant, job_id, limit=limit, after=after)

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        return await self._of(tenant).is_dependant(tenant, job_id, dependant)

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        self._reach.check_move(tenant)
        await self._index.drop_dependant(tenant, job_id, dependant, succeeded=succeeded)

    async def write_desk(self, desk: DeskWrite) -> None:
        self._reach.check_move(desk.after.tenant)
        await self._index.write_desk(desk)

    async def list_jobs(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ListRow]:
        return await self._of(tenant).list_jobs(tenant, after=after, limit=limit, since=since, until=until)

    async def dead_letters(
        self, tenant: str, *, after: str | None, limit: int, since: datetime | None = None
    ) -> list[DeadRow]:
        return await self._of(tenant).dead_letters(tenant, after=after, limit=limit, since=since)

    async def end_dead_letter(
        self, job: Job, state: LetterState, settlement: Settlement | None = None
    ) -> LetterState | None:
        self._reach.check_move(job.tenant)
        return await self._index.end_dead_letter(job, state, settlement)

    async def tenants(self) -> list[str]:
        return [tenant for tenant in await self._index.tenants() if self._reach.sees(tenant)]

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        raise sweeper_only()

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        raise sweeper_only()

    async def restore_waiting(self, active: ActiveRow) -> bool:
        raise sweeper_only()

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        # the first job at a desk counts those that are there already
        return await self._of(tenant).list_active(tenant, after=after, limit=limit, unread=unread)

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        raise sweeper_only()

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        raise sweeper_only()

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        raise sweeper_only()

    async def read_position(self, share: int) -> SweepPosition:
        raise sweeper_only()

    async def write_position(self, share: int, position: SweepPosition) -> None:
        raise sweeper_only()

    async def withdraw(self, active: ActiveRow, *, counted: bool = False) -> bool:
        raise sweeper_only()

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        raise sweeper_only()

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        await self._of(ended.tenant).reschedule_clearing(ended, clear_at, purged=purged)

    async def clear_again(self, tenant: str, late: Sequence[tuple[ListRow, datetime]], now: datetime) -> None:
        raise sweeper_only()

    async def finish_clearing(self, ended: EndedRow) -> None:
        raise sweeper_only()

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        raise sweeper_only()

    async def delete_listing(self, job: Job) -> None:
        raise sweeper_only()

    def _of(self, tenant: str) -> Index:
        check_seen(self._reach.sees(tenant))
        return self._index


class TenantDesks:
    """See `shared.ports.desks.Desks`. A tenant's gates may be changed by whoever may move its jobs."""

    def __init__(self, desks: Desks, caller: Caller, *, moving: bool = False) -> None:
        self._desks = desks
        self._reach = Reach(caller, moving)

    async def read(self, tenant: str) -> StoredDesk | None:
        return await self._of(tenant).read(tenant)

    async def first_waiting(self, tenant: str, line: int, limit: int) -> list[Waiting]:
        return await self._of(tenant).first_waiting(tenant, line, limit)

    async def freed(
        self, tenant: str, *, after: Freed | None = None, limit: int, unread: list[str] | None = None
    ) -> list[Freed]:
        return await self._of(tenant).freed(tenant, after=after, limit=limit, unread=unread)

    async def drop_freed(self, tenant: str, job_id: str) -> None:
        self._reach.check_move(tenant)
        await self._desks.drop_freed(tenant, job_id)

    async def log(self, tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        return await self._of(tenant).log(tenant, gate_id, after=after, limit=limit)

    async def log_places(self, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        raise sweeper_only()

    async def drop_log(self, tenant: str, places: Sequence[LogPlace]) -> None:
        raise sweeper_only()

    # the directory is of all tenants, and of no job: every process reads it to know whose gates it must ask

    async def versions(self) -> dict[str, int]:
        return await self._desks.versions()

    async def group(self, name: str) -> DirectoryRows:
        return await self._desks.group(name)

    async def groups(self) -> dict[str, DirectoryRows]:
        return await self._desks.groups()

    async def directory(self) -> DirectoryRows:
        return await self._desks.directory()

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        self._reach.check_move(tenant)
        await self._desks.enter_tenant(tenant, since)

    async def remove_tenant(self, tenant: str) -> None:
        self._reach.check_move(tenant)
        await self._desks.remove_tenant(tenant)

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        self._reach.check_move(EVERY)
        await self._desks.put_default(gate, rule, since)

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        self._reach.check_move(EVERY)
        await self._desks.put_over_all(gate, state, since)

    async def note_settings(self, since: datetime | None) -> None:
        # what the settings of this process say, whoever asks first
        await self._desks.note_settings(since)

    def _of(self, tenant: str) -> Desks:
        check_seen(self._reach.sees(tenant))
        return self._desks


class TenantRejected:
    """See `shared.ports.rejected.RejectedMessages`. One a request: only messages that it has read can be marked."""

    def __init__(self, rejected: RejectedMessages, caller: Caller, *, moving: bool = False) -> None:
        self._rejected = rejected
        self._reach = Reach(caller, moving)
        #: message id to tenant, of the messages that were read
        self._seen: dict[str, str | None] = {}

    async def quarantine(self, message: RejectedMessage) -> None:
        await self._rejected.quarantine(message)

    async def read(self, id_: str) -> RejectedMessage | None:
        try:
            message = await self._rejected.read(id_)
        except DataLost as lost:
            if self._reach.takes(lost.tenant_id):
                raise
            return None
        if message is None or not self._reach.takes(message.tenant):
            return None
        self._seen[id_] = message.tenant
        return message

    async def list_days(
        self, first: date, last: date, *, tenant: str | None, after: str | None, limit: int
    ) -> list[Rejection]:
        return await self._rejected.list_days(first, last, tenant=self._reach.only(tenant), after=after, limit=limit)

    async def mark(self, message: Rejection, *, redriven_at: datetime, outcome: str) -> None:
        check_seen(message.id in self._seen)
        self._reach.check_move(self._seen[message.id])
        await self._rejected.mark(message, redriven_at=redriven_at, outcome=outcome)

    async def delete_before(self, day: date, *, limit: int) -> int:
        raise sweeper_only()


class TenantFeed:
    """See `shared.ports.feed.Feed`. A request reads it, and nothing else."""

    def __init__(self, feed: Feed, caller: Caller) -> None:
        self._feed = feed
        self._reach = Reach(caller, moving=False)

    async def identity(self) -> FeedIdentity:
        # of the table, and of no tenant
        return await self._feed.identity()

    async def head(self, tenant: str) -> Head:
        return await self._of(tenant).head(tenant)

    async def seen(self, tenant: str, job_id: str) -> int:
        return await self._of(tenant).seen(tenant, job_id)

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        return await self._of(tenant).events(tenant, after=after, limit=limit)

    async def tenants(self) -> list[str]:
        raise sweeper_only()

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        raise sweeper_only()

    async def write(self, write: FeedWrite) -> Head:
        raise sweeper_only()

    async def forget(self, tenant: str, job_id: str) -> None:
        raise sweeper_only()

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        raise sweeper_only()

    def _of(self, tenant: str) -> Feed:
        check_seen(self._reach.sees(tenant))
        return self._feed
