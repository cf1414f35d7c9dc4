"""The ledger, the index and the rejected messages in this process: for tests and for a stack without Azurite.

They pass the same tests as the tables. Nothing here survives a restart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared.adapters.tables.keys import due_row, ended_row
from shared.core.gates.desk import Candidate
from shared.core.gates.ends import Freed, is_good
from shared.core.gates.places import Place, PlaceState, let_in
from shared.core.jobs.job import Event, Job, Record
from shared.errors import AlreadyExists, Conflict
from shared.ports.desks import DeskWrite
from shared.ports.index import (
    FIRST_CHECK,
    FIRST_CLEARING,
    NO_LOOKS,
    WAKE_LASTS,
    ActiveRow,
    AwakeTenant,
    Claim,
    Clearing,
    EndedRow,
    ListRow,
    Looks,
    PlaceMove,
    Reservation,
    first_clearing,
)
from shared.ports.ledger import Stored
from shared.ports.sweeps import SweepPosition
from tests.memory_twins.desks import MemoryDesks
from tests.memory_twins.lists import MemoryLists


class MemoryLedger:
    """See `shared.ports.ledger.Ledger`."""

    def __init__(self) -> None:
        self._jobs: dict[str, Stored] = {}
        self._events: dict[str, list[Event]] = {}
        self._etags = itertools.count(1)

    async def read(self, job_id: str) -> Stored | None:
        return self._jobs.get(job_id)

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        stored = self._jobs.get(job_id)
        return None if stored is None else (stored.record.job.event_seq, stored.record.job.status.terminal)

    async def create(self, record: Record, event: Event) -> Stored:
        if record.job.job_id in self._jobs:
            raise AlreadyExists
        self._events[record.job.job_id] = [event]
        return self._put(record)

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        job_id = after.job.job_id
        if job_id not in self._jobs or self._jobs[job_id].etag != before.etag:
            raise Conflict
        self._events[job_id] += events
        return self._put(after)

    async def remove(self, stored: Stored) -> None:
        job_id = stored.record.job.job_id
        if job_id not in self._jobs or self._jobs[job_id].etag != stored.etag:
            raise Conflict
        del self._jobs[job_id]
        await self.delete_remainder(job_id)

    async def delete_remainder(self, job_id: str) -> None:
        self._events.pop(job_id, None)

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        return next((event for event in self._events.get(job_id, []) if event.cause_id == cause_id), None)

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        return [event for event in self._events.get(job_id, []) if event.seq > after_seq][:limit]

    def _put(self, record: Record) -> Stored:
        stored = Stored(record, str(next(self._etags)))
        self._jobs[record.job.job_id] = stored
        return stored


class MemoryIndex(MemoryLists):
    """See `shared.ports.index.Index`."""

    def __init__(self) -> None:
        super().__init__()
        #: in the same partition, and part of its transactions
        self.desks = MemoryDesks()
        self._claims: dict[tuple[str, str], Claim] = {}
        self._active: dict[tuple[str, str], ActiveRow] = {}
        self._ended: dict[str, EndedRow] = {}
        self._positions: dict[int, SweepPosition] = {}
        self._tenants: dict[str, AwakeTenant] = {}
        #: of tenants that sleep until then; None: until they post
        self._asleep_until: dict[str, datetime | None] = {}
        self._etags = itertools.count(1)

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        return self._claims.get((tenant, claim))

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, desk: DeskWrite | None = None
    ) -> None:
        await self.reserve_together([Reservation(job, replacing, place)], desk)

    async def reserve_together(self, reservations: Sequence[Reservation], desk: DeskWrite | None = None) -> None:
        for each in reservations:
            self._wake(each.job.tenant, each.job.created_at)
            found = self._claims.get((each.job.tenant, each.job.idempotency_hash))
            if each.replacing is None and found is not None:
                raise AlreadyExists
            if each.replacing is not None and (found is None or found.etag != each.replacing.etag):
                raise Conflict
        if desk is not None:
            self.desks.check(desk)
            self._apply(desk)
        for each in reservations:
            self._insert(each)

    def _insert(self, reservation: Reservation) -> None:
        job = reservation.job
        self._claims[job.tenant, job.idempotency_hash] = Claim(
            job_id=job.job_id,
            body_hash=job.body_hash,
            created_at=job.created_at,
            expires_at=None,
            etag=str(next(self._etags)),
        )
        self._active[job.tenant, job.job_id] = ActiveRow(
            job_id=job.job_id,
            tenant=job.tenant,
            claim=job.idempotency_hash,
            created_at=job.created_at,
            check_at=job.created_at + FIRST_CHECK,
            source=Candidate.of(job).source,
            priority=job.priority,
            place=reservation.place,
            request_type=job.request_type,
            mode=job.mode,
            status=job.status.value,
            listed_seq=job.event_seq,
        )
        for each in job.dependencies or ():
            self._dependants.setdefault((job.tenant, each), set()).add(job.job_id)
        self._list(job)

    def _wake(self, tenant: str, now: datetime) -> None:
        known = self._tenants.get(tenant)
        if known is None or tenant in self._asleep_until or now - known.posted_at >= WAKE_LASTS:
            self._tenants[tenant] = AwakeTenant(tenant=tenant, posted_at=now, etag=str(next(self._etags)))
            self._asleep_until.pop(tenant, None)

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        def is_awake(tenant: str) -> bool:
            until = self._asleep_until.get(tenant)
            return tenant not in self._asleep_until or (until is not None and until <= now)

        return [row for tenant, row in self._tenants.items() if is_awake(tenant)]

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        if self._tenants.get(awake.tenant) == awake:
            ended = (each.clear_at for each in self._ended.values() if each.tenant == awake.tenant)
            self._asleep_until[awake.tenant] = min(ended, default=None)
            self._tenants[awake.tenant] = replace(awake, etag=str(next(self._etags)))

    async def close(
        self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = (), counted: bool = False
    ) -> bool:
        for each in purged:
            await self.reschedule_clearing(each.row, each.clear_at, purged=True)
        active = self._active.pop((job.tenant, job.job_id), None)
        if active is None:
            return False
        at, key = job.completed_at or job.updated_at, (job.tenant, job.idempotency_hash)
        freed = self._leave(active, at if counted else None, is_good(job))
        is_whole = key in self._claims and self._is_listed(job)
        if is_whole:
            self._list_end(job)
            self._claims[key] = replace(self._claims[key], expires_at=claim_expires_at, etag=str(next(self._etags)))
        clear_at = first_clearing(job).clear_at if is_whole else at
        self._put_ended(job.tenant, job.job_id, clear_at, owed=not is_whole)
        return freed

    async def write_owed(self, job: Job, *, claim_expires_at: datetime) -> list[str]:
        claim = self._claims.get((job.tenant, job.idempotency_hash))
        if claim is None or claim.job_id == job.job_id:
            self._claims[job.tenant, job.idempotency_hash] = Claim(
                job_id=job.job_id,
                body_hash=job.body_hash,
                created_at=job.created_at,
                expires_at=claim_expires_at,
                etag=str(next(self._etags)),
            )
        if not self._is_listed(job):
            self._list(job)
        self._list_end(job)
        return []

    def _leave(self, active: ActiveRow, at: datetime | None, good: bool | None = None) -> bool:
        """WAIT out, and with `at` FREED in; whether it came."""
        self.desks.leave_line(active)
        freed = active.freed(at, good=good) if at is not None else None
        if freed is not None:
            self.desks.free(active.tenant, freed)
        return freed is not None

    async def read_active(self, tenant: str, job_id: str) -> ActiveRow | None:
        return self._active.get((tenant, job_id))

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
        key = (active.tenant, active.job_id)
        found = self._active.get(key)
        if found is None or found.check_at != active.check_at or (desk is None and found.etag != active.etag):
            raise Conflict
        awaited = (active.tenant, settled or "")
        if settled is not None and active.job_id not in self._dependants.get(awaited, set()):
            raise Conflict
        if desk is not None:
            self.desks.check(desk)
            self._apply(desk)
        if settled is not None:
            await self.drop_dependant(*awaited, active.job_id, succeeded=succeeded)
        if freed is not None:
            self.desks.free(active.tenant, freed)
        self._move(PlaceMove(found, place, check_at))

    async def move_places(self, moves: Sequence[PlaceMove], desk: DeskWrite) -> None:
        for each in moves:
            found = self._active.get((each.active.tenant, each.active.job_id))
            if found is None or found.check_at != each.active.check_at:
                raise Conflict
        self.desks.check(desk)
        self._apply(desk)
        for each in moves:
            found = self._active[each.active.tenant, each.active.job_id]
            self._move(replace(each, active=found))

    def _move(self, move: PlaceMove) -> None:
        row = move.active
        self.desks.leave_line(row)
        changed = replace(row, place=move.place, check_at=move.check_at, etag=str(next(self._etags)))
        self._active[row.tenant, row.job_id] = changed
        self.desks.stand_in_line(changed)

    async def write_desk(self, desk: DeskWrite) -> None:
        self.desks.check(desk)
        self._apply(desk)

    def _apply(self, write: DeskWrite) -> None:
        """The rows that a desk moves beside its own."""
        changed = (*((each, None) for each in write.let_in), *write.relined)
        for waiting, _ in changed:
            row = self._active.get((write.after.tenant, waiting.candidate.job_id))
            if row is None or row.place is None or row.place.line != waiting.line:
                # it has ended, or left the line: its WAIT row is gone
                raise Conflict
        for waiting, line in changed:
            key = (write.after.tenant, waiting.candidate.job_id)
            row = self._active[key]
            assert row.place is not None
            if line is None and row.check_at != waiting.due_at:
                # the transaction deletes the DUE row that stands there
                raise Conflict
            self.desks.leave_line(row)
            inside = let_in(write.after, row.place)
            self._active[key] = replace(
                row,
                place=inside if line is None else replace(row.place, state=PlaceState.WAITING, line=line),
                check_at=write.check_at if line is None else row.check_at,
                etag=str(next(self._etags)),
            )
            self.desks.stand_in_line(self._active[key])
        self.desks.put(write)

    def _put_ended(self, tenant: str, job_id: str, clear_at: datetime, *, owed: bool = False) -> None:
        row = EndedRow(job_id=job_id, tenant=tenant, clear_at=clear_at, owed=owed)
        self._ended[ended_row(clear_at, job_id)] = row

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        first = ended_row(after.clear_at, after.job_id) if after is not None else ""
        rows = sorted(self._ended.items())
        return [row for key, row in rows if row.tenant == tenant and row.clear_at <= now and key > first][:limit]

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        if self._ended.pop(ended_row(ended.clear_at, ended.job_id), None) is not None:
            row = replace(ended, clear_at=clear_at, purged=purged, owed=False)
            self._ended[ended_row(clear_at, ended.job_id)] = row

    async def clear_again(self, tenant: str, late: Sequence[tuple[ListRow, datetime]], now: datetime) -> None:
        self._wake(tenant, now)
        listed, keys = self._listed.get(tenant, {}), [row.cursor for row, _ in late]
        if any(key not in listed for key in keys):
            return
        for key, (row, clear_at) in zip(keys, late, strict=True):
            listed[key] = replace(listed[key], cleared_again=True)
            ended = EndedRow(job_id=row.job_id, tenant=tenant, clear_at=clear_at, purged=True)
            self._ended[ended_row(clear_at, row.job_id)] = ended

    async def finish_clearing(self, ended: EndedRow) -> None:
        self._ended.pop(ended_row(ended.clear_at, ended.job_id), None)

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        found = self._claims.get((tenant, claim))
        if found is not None and found.etag == held.etag:
            del self._claims[tenant, claim]

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        first = due_row(after.check_at, after.job_id) if after is not None else ""
        due = {
            # a DUE row does not say where the job stands
            due_row(row.check_at, job_id): replace(row, place=None)
            for (owner, job_id), row in self._active.items()
            if owner == tenant and row.check_at <= now
        }
        return [due[key] for key in sorted(due) if key > first][:limit]

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        key = (active.tenant, active.job_id)
        found = self._active.get(key)
        if found is not None and found.check_at == active.check_at:
            self._active[key] = replace(found, check_at=check_at, looks=dict(looks), etag=str(next(self._etags)))
            if active.place is not None:
                self.desks.stand_in_line(self._active[key])

    async def restore_waiting(self, active: ActiveRow) -> bool:
        # its row in the waiting queue is a copy that moves with it
        return False

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        rows = sorted(self._active.items())
        return [row for (owner, job_id), row in rows if owner == tenant and job_id > (after or "")][:limit]

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        key = (active.tenant, active.job_id)
        found = self._active.get(key)
        if found is not None and found.etag == active.etag:
            self._active[key] = replace(
                found,
                status=job.status.value,
                unacked=unacked,
                unacked_since=unacked_since,
                listed_seq=job.event_seq,
                etag=str(next(self._etags)),
            )
            self._list_again(job)

    async def read_position(self, share: int) -> SweepPosition:
        return self._positions.get(share, SweepPosition())

    async def write_position(self, share: int, position: SweepPosition) -> None:
        self._positions[share] = position

    async def withdraw(self, active: ActiveRow, *, counted: bool = False) -> bool:
        found = self._active.pop((active.tenant, active.job_id), None)
        if found is None:
            return False
        self._claims.pop((active.tenant, active.claim), None)
        self._unlist(active.tenant, active.created_at, active.job_id)
        self._put_ended(active.tenant, active.job_id, active.created_at + FIRST_CLEARING)
        return self._leave(found, active.created_at if counted else None)

    async def tenants(self) -> list[str]:
        return list(self._tenants)
