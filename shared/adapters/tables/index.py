"""`Index` over Azure Tables: one partition per tenant."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from shared.adapters.tables.active import (
    active_of,
    back_in_line,
    deletes,
    due_in_line,
    first_check,
    leaves_line,
    moves,
    moves_place,
    settle,
)
from shared.adapters.tables.admissions import operations_of
from shared.adapters.tables.decoding import decode_all, decode_entity
from shared.adapters.tables.ending import (
    decode_claim,
    decode_ended,
    ended_entity,
    ending,
    ending_owed,
    make_owed_rows,
    put_off,
    reschedule,
    rows_of,
)
from shared.adapters.tables.keys import (
    GUARD_PARTITION,
    POSITION_ROW,
    active_row,
    claim_row,
    dependant_row,
    due_before,
    due_row,
    ended_before,
    ended_row,
    failed_dependant_row,
    list_row,
    share_row,
)
from shared.adapters.tables.listing import changing_columns
from shared.adapters.tables.places import insert_freed
from shared.adapters.tables.purging import TablesPurging
from shared.adapters.tables.sweep_position import position_entity, position_of
from shared.adapters.tables.table import RowOperation, Tables, delete_row, merge_row, row_at, upsert_row
from shared.adapters.tables.tenants import TenantRows
from shared.core.gates.ends import Freed, is_good
from shared.core.gates.places import Place
from shared.core.jobs.job import Job
from shared.core.records.canonical import encode_key
from shared.errors import AlreadyExists, Conflict, Contended, LedgerRefused
from shared.ports.admissions import AdmissionWrite
from shared.ports.index import (
    AWAKE_AFTER_POST,
    FIRST_CLEARING,
    NO_LOOKS,
    ActiveRow,
    AwakeTenant,
    Claim,
    Clearing,
    EndedRow,
    ListRow,
    Looks,
    PlaceMove,
    Reservation,
)
from shared.ports.sweeps import SweepPosition

#: Race sweeps: maximum tries, since a sweeper moves rows that an end deletes
_MAX_RACES = 8
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.64


@dataclass(frozen=True, kw_only=True)
class _End:
    """The other writes of the transaction that deletes a job's ACTIVE row."""

    rows: list[RowOperation]
    #: used instead of `rows` if one of them is refused or deleted; if it is empty, the job does not end
    owed: list[RowOperation] = field(default_factory=list)
    #: added at the first try only
    extra: Sequence[RowOperation] = ()
    #: time in the FREED row; None means no FREED row
    freed_at: datetime | None = None
    good: bool | None = None


@dataclass(frozen=True)
class _Ended:
    freed: bool = False
    with_extra: bool = False


class TablesIndex(TablesPurging):
    """Implementation of `shared.ports.index.Index` over Azure Tables."""

    def __init__(
        self,
        account: Tables,
        table: str,
        tenants_table: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Sets the tables. `jitter` returns a number from 0 to 1."""
        super().__init__(account, table)
        self._tenants = TenantRows(account, tenants_table)
        self._sleep = sleep
        self._jitter = jitter

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        return await self._rows.find(encode_key(tenant), claim_row(claim), decode_claim)

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, admission: AdmissionWrite | None = None
    ) -> None:
        await self.reserve_together([Reservation(job, replacing, place)], admission)

    async def reserve_together(
        self, reservations: Sequence[Reservation], admission: AdmissionWrite | None = None
    ) -> None:
        first = reservations[0].job
        await self._tenants.wake(first.tenant, first.created_at)
        operations = [operation for each in reservations for operation in rows_of(each)]
        await self._rows.transact([*operations, *(operations_of(admission) if admission else [])])

    async def read_active(self, tenant: str, job_id: str) -> ActiveRow | None:
        return await self._rows.find(encode_key(tenant), active_row(job_id), partial(active_of, tenant))

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
        operations = moves_place(active, place, check_at, under_etag=admission is None)
        if freed is not None:
            operations.append(insert_freed(encode_key(active.tenant), freed))
        if admission is not None:
            operations += operations_of(admission)
        if settled is None:
            await self._rows.transact(operations)
        else:
            await settle(self._rows, operations, active.tenant, settled, active.job_id, succeeded=succeeded)

    async def move_places(self, moves: Sequence[PlaceMove], admission: AdmissionWrite) -> None:
        operations: list[RowOperation] = []
        for each in moves:
            operations += moves_place(each.active, each.place, each.check_at, under_etag=False)
        await self._rows.transact([*operations, *operations_of(admission)])

    async def list_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        found = await self._range(tenant, dependant_row(job_id, after), f"DEP:{job_id};", limit)
        return [entity["RowKey"].removeprefix(dependant_row(job_id, "")) for entity in found]

    async def list_failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        found = await self._range(tenant, failed_dependant_row(job_id, after), f"DEPFAILED:{job_id};", limit)
        return [entity["RowKey"].removeprefix(failed_dependant_row(job_id, "")) for entity in found]

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        return await self._rows.read(encode_key(tenant), dependant_row(job_id, dependant)) is not None

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        # another process took the row
        with contextlib.suppress(Conflict):
            await settle(self._rows, [], tenant, job_id, dependant, succeeded=succeeded)

    async def write_admission(self, admission: AdmissionWrite) -> None:
        await self._rows.transact(operations_of(admission))

    async def close(
        self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = (), counted: bool = False
    ) -> bool:
        # if the job ends sooner, no sweeper has moved its DUE row
        is_as_created = not counted and (job.completed_at or job.updated_at) < first_check(job)
        end = _End(
            rows=ending(job, claim_expires_at),
            owed=ending_owed(job),
            extra=put_off(purged),
            freed_at=(job.completed_at or job.updated_at) if counted else None,
            good=is_good(job),
        )
        ended = await self._end(job.tenant, job.job_id, end, check_at=first_check(job) if is_as_created else None)
        if not ended.with_extra:
            for one in purged:
                await self.reschedule_clearing(one.row, one.clear_at, purged=True)
        return ended.freed

    async def write_owed(self, job: Job, *, claim_expires_at: datetime) -> list[str]:
        refused = []
        listed = await self._rows.read(encode_key(job.tenant), list_row(job.created_at, job.job_id))
        if listed is not None and listed.get("status") == job.status.value:
            # LIST is the last row, and other processes may have changed it since
            return []
        claim = await self.read_claim(job.tenant, job.idempotency_hash)
        is_anothers = claim is not None and claim.job_id != job.job_id
        for operation in make_owed_rows(job, claim_expires_at)[1 if is_anothers else 0 :]:
            try:
                await self._rows.transact([operation])
            except AlreadyExists:
                continue
            except LedgerRefused:
                refused.append(operation[1]["RowKey"])
        return refused

    async def _end(self, tenant: str, job_id: str, end: _End, *, check_at: datetime | None) -> _Ended:
        """Writes the terminal state of a job in one transaction with the deletion of ACTIVE. A job that has already
        ended this way does not change. Raises Contended after `_MAX_RACES` concurrent writes.

        `check_at` is the expected time in the job's DUE row. If `check_at` is None, ACTIVE is read.
        """
        partition = encode_key(tenant)
        rows, extra = end.rows, end.extra
        tried: ActiveRow | None = None
        is_in_line = True
        for race in range(_MAX_RACES):
            freed: Freed | None = None
            if check_at is not None:
                leaving = deletes(partition, job_id, check_at)
            else:
                active = await self.read_active(tenant, job_id)
                if active is None:
                    return _Ended()
                if tried is not None and tried.etag == active.etag and end.owed:
                    # ACTIVE has not moved, so a row that the end changes was deleted: one of `rows`, else its WAIT row
                    is_in_line = rows is not end.owed
                    rows = end.owed
                tried = active if not extra else None
                etag = active.etag if end.freed_at is not None else None
                leaving = [
                    *deletes(partition, job_id, active.check_at, etag=etag),
                    *(leaves_line(partition, active.place) if is_in_line else ()),
                ]
                freed = active.make_freed(end.freed_at, good=end.good) if end.freed_at is not None else None
            operations = [*leaving, *([insert_freed(partition, freed)] if freed is not None else []), *rows, *extra]
            try:
                await self._rows.transact(operations)
            except (Conflict, AlreadyExists):
                # ACTIVE and all others are deleted; or it moved, or a sweeper moved DUE (Race sweeps)
                check_at, extra = None, ()
                if race:
                    await self._wait(race)
            except LedgerRefused:
                if not end.owed or rows is end.owed:
                    raise
                rows, extra, tried = end.owed, (), None
            else:
                return _Ended(freed is not None, with_extra=bool(extra))
        raise Contended("concurrent writers changed the job's rows at every try")

    async def _wait(self, race: int) -> None:
        await self._sleep(min(_FIRST_WAIT_S * 2**race, _LONGEST_WAIT_S) * self._jitter())

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        first = due_row(after.check_at, after.job_id) if after is not None else "DUE:"
        return await self._first(tenant, first, f"{due_before(now)};", limit, partial(active_of, tenant))

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        decode = partial(active_of, tenant)
        if unread is None:
            found = await self._range(tenant, active_row(after or ""), "ACTIVE;", limit)
            return [decode_entity(decode, entity) for entity in found]
        return await self._first(tenant, active_row(after or ""), "ACTIVE;", limit, decode, unread)

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        partition = encode_key(active.tenant)
        mark: dict[str, Any] = {
            **row_at(partition, active_row(active.job_id)),
            "status": job.status.value,
            "unacked": unacked,
            "listed_seq": job.event_seq,
        }
        if unacked_since is not None:
            mark["unacked_since"] = unacked_since
        listed = {**row_at(partition, list_row(active.created_at, active.job_id)), **changing_columns(job)}
        # ACTIVE is deleted once the job's end is written, and each refresh changes it, so LIST never goes backwards
        operations = [merge_row(mark, active.etag), merge_row(listed)]
        with contextlib.suppress(Conflict):
            await self._rows.transact(operations)

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        return await self._tenants.awake(now)

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        ended = await self._first(awake.tenant, "ENDED:", "ENDED;", 1, lambda row: decode_ended(awake.tenant, row))
        await self._tenants.sleep(awake, ended[0].clear_at if ended else None)

    async def read_position(self, share: int) -> SweepPosition:
        entity = await self._rows.read(GUARD_PARTITION, share_row(POSITION_ROW, share))
        # without a position, a sweep starts from the beginning
        found = decode_all(position_of, [entity] if entity is not None else [])
        return found[0] if found else SweepPosition()

    async def write_position(self, share: int, position: SweepPosition) -> None:
        await self._rows.write(upsert_row(position_entity(share, position)))

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        partition = encode_key(active.tenant)
        operations = [*moves(partition, active, check_at, looks), *due_in_line(partition, active.place, check_at)]
        # Race sweeps: deleted, or moved by another process
        with contextlib.suppress(Conflict, AlreadyExists):
            await self._rows.transact(operations)

    async def restore_waiting(self, active: ActiveRow) -> bool:
        operations, partition = back_in_line(active), encode_key(active.tenant)
        if not operations or await self._rows.read(partition, operations[-1][1]["RowKey"]) is not None:
            return False
        try:
            await self._rows.transact(operations)
        except (Conflict, AlreadyExists):
            # admitted, moved or ended between the two reads
            return False
        return True

    async def withdraw(self, active: ActiveRow, *, counted: bool = False) -> bool:
        partition = encode_key(active.tenant)
        keys = (claim_row(active.claim), list_row(active.created_at, active.job_id))
        rows: list[RowOperation] = [
            *(delete_row(partition, key) for key in keys),
            ("create", ended_entity(partition, active.job_id, active.created_at + FIRST_CLEARING, purged=False)),
        ]
        # if LIST or CLAIM is already deleted
        owed: list[RowOperation] = rows[-1:]
        end = _End(rows=rows, owed=owed, freed_at=active.created_at if counted else None)
        ended = await self._end(active.tenant, active.job_id, end, check_at=None if counted else active.check_at)
        return ended.freed

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        first = ended_row(after.clear_at, after.job_id) if after is not None else "ENDED:"
        return await self._first(tenant, first, f"{ended_before(now)};", limit, partial(decode_ended, tenant))

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        operations = reschedule(encode_key(ended.tenant), ended, clear_at, purged=purged)
        # Race sweeps: deleted, or moved by another process to the same time
        with contextlib.suppress(Conflict, AlreadyExists):
            await self._rows.transact(operations)

    async def clear_again(self, tenant: str, late: Sequence[tuple[ListRow, datetime]], now: datetime) -> None:
        await self._tenants.wake(tenant, now)
        partition, operations = encode_key(tenant), list[RowOperation]()
        for row, clear_at in late:
            listed = {**row_at(partition, row.cursor), "cleared_again": True}
            ended = ended_entity(partition, row.job_id, clear_at, purged=True)
            operations += [
                merge_row(listed),
                upsert_row(ended),
            ]
        # Race archived: one of the jobs was just deleted
        with contextlib.suppress(Conflict):
            await self._rows.transact(operations)

    async def finish_clearing(self, ended: EndedRow) -> None:
        await self._delete(ended.tenant, ended_row(ended.clear_at, ended.job_id))

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        await self._delete(tenant, claim_row(claim), held.etag)

    async def tenants(self) -> list[str]:
        return await self._tenants.all()

    async def forget_tenant(self, tenant: str, now: datetime) -> bool:
        return await self._tenants.forget(tenant, now - AWAKE_AFTER_POST)
