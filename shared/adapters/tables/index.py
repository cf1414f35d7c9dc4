"""`Index` over Azure Tables: one partition a tenant."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, read_row, transact
from shared.adapters.tables.active import (
    active_of,
    deletes,
    due_in_line,
    first_check,
    inserts,
    leaves_line,
    moves,
    moves_place,
    settles,
)
from shared.adapters.tables.desks import operations_of
from shared.adapters.tables.ending import ended_entity, ending, gate_of_0_2_0, put_off, rescheduled
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
from shared.adapters.tables.listing import (
    TablesLists,
    changing_columns,
    list_columns,
)
from shared.adapters.tables.table import Operation
from shared.adapters.tables.tenants import TenantRows
from shared.core.canonical import encode_key
from shared.core.gates.places import Place
from shared.core.job import Job
from shared.errors import AlreadyExists, Conflict, Contended
from shared.ports.desks import DeskWrite
from shared.ports.index import (
    FIRST_CLEARING,
    NO_LOOKS,
    ActiveRow,
    AwakeTenant,
    Claim,
    Clearing,
    EndedRow,
    Looks,
    SweepPosition,
)

#: Race sweeps: a sweeper moves what an end deletes; or ends of other jobs the GATE row of release 0.2.0
_MAX_RACES = 8
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.64


class TablesIndex(TablesLists):
    """See `shared.ports.index.Index`."""

    def __init__(
        self,
        account: TablesAccount,
        table: str,
        tenants_table: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives a number from 0 to 1."""
        super().__init__(account, table)
        self._tenants = TenantRows(account, tenants_table)
        self._sleep = sleep
        self._jitter = jitter

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        entity = await read_row(await self._account.table(self._table), encode_key(tenant), claim_row(claim))
        if entity is None:
            return None
        return Claim(
            job_id=entity["job_id"],
            body_hash=entity["body_hash"],
            created_at=entity["created_at"],
            expires_at=entity["expires_at"] if entity.get("expires_at") else None,
            etag=entity.metadata["etag"] or "",
        )

    async def reserve(
        self, job: Job, *, replacing: Claim | None, place: Place | None = None, desk: DeskWrite | None = None
    ) -> None:
        await self._tenants.wake(job.tenant, job.created_at)
        partition = encode_key(job.tenant)
        claim = {
            "PartitionKey": partition,
            "RowKey": claim_row(job.idempotency_hash),
            "job_id": job.job_id,
            "body_hash": job.body_hash,
            "created_at": job.created_at,
        }
        listed = {
            "PartitionKey": partition,
            "RowKey": list_row(job.created_at, job.job_id),
            **list_columns(job),
        }
        if replacing is None:
            claiming: tuple[Any, ...] = ("create", claim)
        else:
            under_etag = {
                "mode": UpdateMode.REPLACE,
                "etag": replacing.etag,
                "match_condition": MatchConditions.IfNotModified,
            }
            claiming = ("update", claim, under_etag)
        operations = [claiming, ("create", listed), *inserts(partition, job, place)]
        operations += [
            ("create", {"PartitionKey": partition, "RowKey": dependant_row(each, job.job_id), "job_id": job.job_id})
            for each in job.dependencies or ()
        ]
        await transact(await self._account.table(self._table), [*operations, *(operations_of(desk) if desk else [])])

    async def read_active(self, tenant: str, job_id: str) -> ActiveRow | None:
        entity = await read_row(await self._account.table(self._table), encode_key(tenant), active_row(job_id))
        return active_of(tenant, entity) if entity is not None else None

    async def move_place(
        self,
        active: ActiveRow,
        place: Place,
        check_at: datetime,
        desk: DeskWrite | None = None,
        *,
        settled: str | None = None,
        succeeded: bool = True,
    ) -> None:
        operations = moves_place(active, place, check_at, under_etag=desk is None)
        if settled is not None:
            operations += settles(active.tenant, settled, active.job_id, succeeded=succeeded)
        await transact(
            await self._account.table(self._table), [*operations, *(operations_of(desk) if desk is not None else [])]
        )

    async def dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        found = await self._range(tenant, dependant_row(job_id, after), f"DEP:{job_id};", limit)
        return [entity["job_id"] for entity in found]

    async def failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        found = await self._range(tenant, failed_dependant_row(job_id, after), f"DEPFAILED:{job_id};", limit)
        return [entity["job_id"] for entity in found]

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        table = await self._account.table(self._table)
        return await read_row(table, encode_key(tenant), dependant_row(job_id, dependant)) is not None

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        # another one took the row
        with contextlib.suppress(Conflict):
            operations = settles(tenant, job_id, dependant, succeeded=succeeded)
            await transact(await self._account.table(self._table), operations)

    async def write_desk(self, desk: DeskWrite) -> None:
        await transact(await self._account.table(self._table), operations_of(desk))

    async def close(self, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = ()) -> None:
        operations = ending(job, claim_expires_at)
        ended_at = job.completed_at or job.updated_at
        # of a job that ends sooner no sweeper has moved the DUE row
        check_at = first_check(job) if ended_at < first_check(job) else None
        partition, later = encode_key(job.tenant), put_off(purged)
        if not await self._end(partition, job.job_id, operations, gated=job.gated, check_at=check_at, at_first=later):
            for one in purged:
                await self.reschedule_clearing(one.row, one.clear_at, purged=True)

    async def close_at_desk(
        self,
        job: Job,
        active: ActiveRow | None,
        desk: DeskWrite,
        *,
        claim_expires_at: datetime,
        purged: Sequence[Clearing] = (),
    ) -> None:
        partition, table = encode_key(job.tenant), await self._account.table(self._table)
        operations = [
            *deletes(partition, job.job_id, active.check_at if active is not None else first_check(job)),
            *leaves_line(partition, active.place if active is not None else None),
            *ending(job, claim_expires_at),
            *put_off(purged),
            *operations_of(desk),
        ]
        await transact(table, [*operations, *(await gate_of_0_2_0(table, partition) if job.gated else [])])

    async def _end(
        self,
        partition: str,
        job_id: str,
        operations: list[Any],
        *,
        gated: bool,
        check_at: datetime | None,
        at_first: Sequence[Operation] = (),
    ) -> bool:
        """One transaction with ACTIVE's end in it; a job that was ended so before stays as it is.

        `check_at`: where its DUE row is thought to stand; None: ACTIVE is asked. `at_first`: what goes with the first
        try, and may be why it failed; whether it went through.
        """
        table = await self._account.table(self._table)
        for race in range(_MAX_RACES):
            if check_at is None:
                active = await read_row(table, partition, active_row(job_id))
                if active is None:
                    return False
                check_at = active["check_at"]
            ending = [*deletes(partition, job_id, check_at), *operations, *(at_first if race == 0 else ())]
            try:
                await transact(table, [*ending, *(await gate_of_0_2_0(table, partition) if gated else [])])
            except (Conflict, AlreadyExists):
                # ACTIVE is gone with all the rest; or a sweeper moved DUE (Race sweeps)
                check_at = None
                if race:
                    await self._wait(race)
            else:
                return race == 0
        raise Contended("the job's DUE row was changed by others at every try")

    async def _wait(self, race: int) -> None:
        await self._sleep(min(_FIRST_WAIT_S * 2**race, _LONGEST_WAIT_S) * self._jitter())

    async def due(self, tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        first = due_row(after.check_at, after.job_id) if after is not None else "DUE:"
        return [active_of(tenant, entity) for entity in await self._range(tenant, first, f"{due_before(now)};", limit)]

    async def list_active(self, tenant: str, *, after: str | None, limit: int) -> list[ActiveRow]:
        found = await self._range(tenant, active_row(after or ""), "ACTIVE;", limit)
        return [active_of(tenant, entity) for entity in found]

    async def refresh_listing(
        self, active: ActiveRow, job: Job, *, unacked: int = 0, unacked_since: datetime | None = None
    ) -> None:
        partition = encode_key(active.tenant)
        mark: dict[str, Any] = {
            "PartitionKey": partition,
            "RowKey": active_row(active.job_id),
            "status": job.status.value,
            "unacked": unacked,
            "listed_seq": job.event_seq,
        }
        if unacked_since is not None:
            mark["unacked_since"] = unacked_since
        listed = {
            "PartitionKey": partition,
            "RowKey": list_row(active.created_at, active.job_id),
            **changing_columns(job),
        }
        # ACTIVE is gone once the job's end is written, and changes with every relisting: so LIST never goes backwards
        unmoved = {"mode": UpdateMode.MERGE, "etag": active.etag, "match_condition": MatchConditions.IfNotModified}
        operations = [("update", mark, unmoved), ("update", listed, {"mode": UpdateMode.MERGE})]
        with contextlib.suppress(Conflict):
            await transact(await self._account.table(self._table), operations)

    async def awake_tenants(self, *, now: datetime) -> list[AwakeTenant]:
        return await self._tenants.awake(now)

    async def put_to_sleep(self, awake: AwakeTenant) -> None:
        ended = await self._range(awake.tenant, "ENDED:", "ENDED;", 1)
        await self._tenants.sleep(awake, ended[0]["clear_at"] if ended else None)

    async def read_position(self, share: int) -> SweepPosition:
        entity = await read_row(await self._account.table(self._table), GUARD_PARTITION, share_row(POSITION_ROW, share))
        if entity is None:
            return SweepPosition()
        listed = (entity["tenant"], entity["job_id"]) if entity["job_id"] else None
        return SweepPosition(entity["look"] or None, entity["clear"] or None, listed)

    async def write_position(self, share: int, position: SweepPosition) -> None:
        tenant, job_id = position.listed or ("", "")
        row = {
            "PartitionKey": GUARD_PARTITION,
            "RowKey": share_row(POSITION_ROW, share),
            "look": position.look or "",
            "clear": position.clear or "",
            "tenant": tenant,
            "job_id": job_id,
        }
        table = await self._account.table(self._table)
        await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def reschedule_check(self, active: ActiveRow, check_at: datetime, *, looks: Looks = NO_LOOKS) -> None:
        partition = encode_key(active.tenant)
        operations = [*moves(partition, active, check_at, looks), *due_in_line(partition, active.place, check_at)]
        # Race sweeps: gone, or moved by another one
        with contextlib.suppress(Conflict, AlreadyExists):
            await transact(await self._account.table(self._table), operations)

    async def withdraw(self, active: ActiveRow, desk: DeskWrite | None = None) -> None:
        partition = encode_key(active.tenant)
        keys = (claim_row(active.claim), list_row(active.created_at, active.job_id))
        operations = [
            *(("delete", {"PartitionKey": partition, "RowKey": key}) for key in keys),
            ("create", ended_entity(partition, active.job_id, active.created_at + FIRST_CLEARING, purged=False)),
        ]
        if desk is None:
            await self._end(partition, active.job_id, operations, gated=active.gated, check_at=active.check_at)
            return
        ending = [*deletes(partition, active.job_id, active.check_at), *leaves_line(partition, active.place)]
        await transact(await self._account.table(self._table), [*ending, *operations, *operations_of(desk)])

    async def due_for_clearing(
        self, tenant: str, *, now: datetime, limit: int, after: EndedRow | None = None
    ) -> list[EndedRow]:
        first = ended_row(after.clear_at, after.job_id) if after is not None else "ENDED:"
        return [
            EndedRow(
                job_id=entity["job_id"],
                tenant=tenant,
                clear_at=entity["clear_at"],
                purged=bool(entity["purged"]),
            )
            for entity in await self._range(tenant, first, f"{ended_before(now)};", limit)
        ]

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime, *, purged: bool = False) -> None:
        operations = rescheduled(encode_key(ended.tenant), ended, clear_at, purged=purged)
        # Race sweeps: gone, or moved by another one to the same instant
        with contextlib.suppress(Conflict, AlreadyExists):
            await transact(await self._account.table(self._table), operations)

    async def finish_clearing(self, ended: EndedRow) -> None:
        await self._delete(ended.tenant, ended_row(ended.clear_at, ended.job_id))

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        await self._delete(tenant, claim_row(claim), etag=held.etag, match_condition=MatchConditions.IfNotModified)

    async def tenants(self) -> list[str]:
        return await self._tenants.all()
