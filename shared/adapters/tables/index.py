"""`Index` over Azure Tables: one partition a tenant."""

from __future__ import annotations

import contextlib
import heapq
import json
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, read_row, transact, translate_errors
from shared.adapters.tables.keys import (
    GATE_ROW,
    GUARD_PARTITION,
    GUARD_ROW,
    RELISTED_ROW,
    TENANTS_PARTITION,
    active_row,
    claim_row,
    ended_before,
    ended_row,
    list_row,
)
from shared.adapters.tables.listing import changing_columns, list_columns, list_query, listed_of
from shared.adapters.tables.table import Table
from shared.core.canonical import encode_key
from shared.core.job import Job
from shared.errors import AlreadyExists, Conflict, Contended, GateFull
from shared.ports.index import FIRST_CHECK, FIRST_CLEARING, ActiveRow, Claim, EndedRow, Guard, ListRow


async def gate_operation(table: Table, partition: str, change: int, limit: int | None) -> tuple[Any, ...]:
    """The operation that counts up or down, under the ETag of what was read. Raises GateFull, LedgerUnavailable."""
    entity = await read_row(table, partition, GATE_ROW)
    active = entity["active"] if entity is not None else 0
    if limit is not None and change > 0 and active >= limit:
        raise GateFull
    row = {"PartitionKey": partition, "RowKey": GATE_ROW, "active": max(0, active + change)}
    if entity is None:
        return ("create", row)
    under_etag = {
        "mode": UpdateMode.REPLACE,
        "etag": entity.metadata["etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    return ("update", row, under_etag)


#: Race gate: two ends of the same tenant's jobs at once, and the slower one reads the gate again
_MAX_GATE_RACES = 20


#: due jobs of one tenant among which the longest due are chosen
MAX_DUE = 5000


class TablesIndex:
    """See `shared.ports.index.Index`."""

    def __init__(self, account: TablesAccount, table: str, tenants_table: str) -> None:
        self._account = account
        self._table = table
        self._tenants_table = tenants_table
        self._known_tenants: set[str] = set()

    async def read_claim(self, tenant: str, claim: str) -> Claim | None:
        entity = await read_row(await self._account.table(self._table), encode_key(tenant), claim_row(claim))
        if entity is None:
            return None
        return Claim(
            job_id=entity["job_id"],
            body_hash=entity["body_hash"],
            created_at=_instant(entity["created_at"]),
            expires_at=_instant(entity["expires_at"]) if entity.get("expires_at") else None,
            etag=entity.metadata["etag"] or "",
        )

    async def reserve(self, job: Job, *, replacing: Claim | None, tenant_limit: int | None = None) -> None:
        await self._know(job.tenant)
        partition = encode_key(job.tenant)
        claim = {
            "PartitionKey": partition,
            "RowKey": claim_row(job.idempotency_hash),
            "job_id": job.job_id,
            "body_hash": job.body_hash,
            "created_at": job.created_at,
        }
        active = {
            "PartitionKey": partition,
            "RowKey": active_row(job.job_id),
            "job_id": job.job_id,
            "claim": job.idempotency_hash,
            "created_at": job.created_at,
            "check_at": job.created_at + FIRST_CHECK,
            "mode": job.mode,
            "gated": job.gated,
            "sent_seq": 0,
            "listed_seq": job.event_seq,
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
        operations = [claiming, ("create", active), ("create", listed)]
        table = await self._account.table(self._table)
        if job.gated:
            operations.append(await gate_operation(table, partition, 1, tenant_limit))
        await transact(table, operations)

    async def close(self, job: Job, *, claim_expires_at: datetime) -> None:
        partition = encode_key(job.tenant)
        listed = {
            "PartitionKey": partition,
            "RowKey": list_row(job.created_at, job.job_id),
            **changing_columns(job),
        }
        claim = {
            "PartitionKey": partition,
            "RowKey": claim_row(job.idempotency_hash),
            "expires_at": claim_expires_at,
        }
        operations = [
            ("delete", {"PartitionKey": partition, "RowKey": active_row(job.job_id)}),
            ("update", listed, {"mode": UpdateMode.MERGE}),
            ("update", claim, {"mode": UpdateMode.MERGE}),
            ("create", _ended(partition, job.job_id, (job.completed_at or job.updated_at) + FIRST_CLEARING)),
        ]
        await self._end(partition, job.job_id, operations, gated=job.gated)

    async def _end(self, partition: str, job_id: str, operations: list[Any], *, gated: bool) -> None:
        """One transaction with ACTIVE's end in it; a job that was ended so before stays as it is."""
        table = await self._account.table(self._table)
        for _ in range(_MAX_GATE_RACES):
            gate = [await gate_operation(table, partition, -1, None)] if gated else []
            try:
                await transact(table, [*operations, *gate])
            except (Conflict, AlreadyExists):
                # Race gate: either ACTIVE is gone, in one transaction like this, or another job moved the gate
                if not gated or await read_row(table, partition, active_row(job_id)) is None:
                    return
            else:
                return
        raise Contended("the tenant's gate was changed by others at every try")

    async def count_gated(self, tenant: str) -> int:
        entity = await read_row(await self._account.table(self._table), encode_key(tenant), GATE_ROW)
        return int(entity["active"]) if entity is not None else 0

    async def count_active(self) -> dict[str, int]:
        table = await self._account.table(self._table)
        counts: dict[str, int] = {}
        async with translate_errors():
            async for entity in table.query_entities(
                "RowKey gt @first and RowKey lt @end",
                parameters={"first": "ACTIVE:", "end": "ACTIVE;"},
                select=["mode"],
            ):
                counts[entity["mode"]] = counts.get(entity["mode"], 0) + 1
        return counts

    async def write_guard(self, guard: Guard) -> None:
        row = {
            "PartitionKey": GUARD_PARTITION,
            "RowKey": GUARD_ROW,
            "active": json.dumps(guard.active),
            "counted_at": guard.counted_at,
        }
        table = await self._account.table(self._table)
        async with translate_errors():
            await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def read_guard(self) -> Guard | None:
        entity = await read_row(await self._account.table(self._table), GUARD_PARTITION, GUARD_ROW)
        return Guard(json.loads(entity["active"]), _instant(entity["counted_at"])) if entity is not None else None

    async def due(self, tenant: str, *, now: datetime, limit: int) -> list[ActiveRow]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end and check_at le @now"
        parameters = {"tenant": encode_key(tenant), "first": "ACTIVE:", "end": "ACTIVE;", "now": now}
        # rows are in the order of their keys: taken so, a tenant with many due jobs would never see its last ones
        rows = [_active(tenant, entity) for entity in await _first(table, query, parameters, max(limit, MAX_DUE))]
        return heapq.nsmallest(limit, rows, key=lambda active: active.check_at)

    async def list_active(self, tenant: str, *, after: str | None, limit: int) -> list[ActiveRow]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end"
        parameters = {"tenant": encode_key(tenant), "first": active_row(after or ""), "end": "ACTIVE;"}
        return [_active(tenant, entity) for entity in await _first(table, query, parameters, limit)]

    async def refresh_listing(self, active: ActiveRow, job: Job) -> None:
        partition = encode_key(active.tenant)
        mark = {"PartitionKey": partition, "RowKey": active_row(active.job_id), "listed_seq": job.event_seq}
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

    async def read_listing_position(self) -> tuple[str, str] | None:
        entity = await read_row(await self._account.table(self._table), GUARD_PARTITION, RELISTED_ROW)
        return (entity["tenant"], entity["job_id"]) if entity is not None and entity["job_id"] else None

    async def write_listing_position(self, position: tuple[str, str] | None) -> None:
        tenant, job_id = position or ("", "")
        row = {"PartitionKey": GUARD_PARTITION, "RowKey": RELISTED_ROW, "tenant": tenant, "job_id": job_id}
        table = await self._account.table(self._table)
        async with translate_errors():
            await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def reschedule_check(
        self, active: ActiveRow, check_at: datetime, *, looks: int = 0, look_no: int = 0
    ) -> None:
        row = {
            "PartitionKey": encode_key(active.tenant),
            "RowKey": active_row(active.job_id),
            "check_at": check_at,
            "looks": looks,
            "look_no": look_no,
        }
        table = await self._account.table(self._table)
        with contextlib.suppress(Conflict):
            async with translate_errors():
                await table.update_entity(row, mode=UpdateMode.MERGE)

    async def withdraw(self, active: ActiveRow) -> None:
        partition = encode_key(active.tenant)
        keys = (claim_row(active.claim), active_row(active.job_id), list_row(active.created_at, active.job_id))
        operations = [
            *(("delete", {"PartitionKey": partition, "RowKey": key}) for key in keys),
            ("create", _ended(partition, active.job_id, active.created_at + FIRST_CLEARING)),
        ]
        await self._end(partition, active.job_id, operations, gated=active.gated)

    async def due_for_clearing(self, tenant: str, *, now: datetime, limit: int) -> list[EndedRow]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end"
        # `;` is the character after `:`
        parameters = {"tenant": encode_key(tenant), "first": "ENDED:", "end": f"{ended_before(now)};"}
        found: list[EndedRow] = []
        async with translate_errors():
            async for entity in table.query_entities(query, parameters=parameters, results_per_page=min(limit, 1000)):
                clear_at = _instant(entity["clear_at"])
                found.append(EndedRow(job_id=entity["job_id"], tenant=tenant, clear_at=clear_at))
                if len(found) == limit:
                    break
        return found

    async def reschedule_clearing(self, ended: EndedRow, clear_at: datetime) -> None:
        partition = encode_key(ended.tenant)
        old = {"PartitionKey": partition, "RowKey": ended_row(ended.clear_at, ended.job_id)}
        new = _ended(partition, ended.job_id, clear_at)
        # Race sweeps: gone, or moved by another one to the same instant
        with contextlib.suppress(Conflict, AlreadyExists):
            await transact(await self._account.table(self._table), [("delete", old), ("create", new)])

    async def finish_clearing(self, ended: EndedRow) -> None:
        await self._delete(ended.tenant, ended_row(ended.clear_at, ended.job_id))

    async def delete_claim(self, tenant: str, claim: str, held: Claim) -> None:
        await self._delete(tenant, claim_row(claim), etag=held.etag, match_condition=MatchConditions.IfNotModified)

    async def delete_listing(self, job: Job) -> None:
        await self._delete(job.tenant, list_row(job.created_at, job.job_id))

    async def _delete(self, tenant: str, row: str, **condition: Any) -> None:
        table = await self._account.table(self._table)
        with contextlib.suppress(Conflict):
            async with translate_errors():
                await table.delete_entity(encode_key(tenant), row, **condition)

    async def list_jobs(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ListRow]:
        table = await self._account.table(self._table)
        query, parameters = list_query(encode_key(tenant), after, since, until)
        return [listed_of(entity) for entity in await _first(table, query, parameters, limit)]

    async def tenants(self) -> list[str]:
        table = await self._account.table(self._tenants_table)
        async with translate_errors():
            rows = table.query_entities("PartitionKey eq @tenants", parameters={"tenants": TENANTS_PARTITION})
            return [entity["tenant"] async for entity in rows]

    async def _know(self, tenant: str) -> None:
        """Written before the tenant's first row, so that a sweep finds every partition."""
        if tenant in self._known_tenants:
            return
        table = await self._account.table(self._tenants_table)
        async with translate_errors():
            await table.upsert_entity(
                {"PartitionKey": TENANTS_PARTITION, "RowKey": encode_key(tenant), "tenant": tenant}
            )
        self._known_tenants.add(tenant)


async def _first(table: Table, query: str, parameters: dict[str, Any], limit: int) -> list[Any]:
    """At most `limit` entities, in the order of their keys. Raises LedgerUnavailable."""
    found: list[Any] = []
    async with translate_errors():
        async for entity in table.query_entities(query, parameters=parameters, results_per_page=min(limit, 1000)):
            found.append(entity)
            if len(found) == limit:
                break
    return found


def _active(tenant: str, entity: Any) -> ActiveRow:
    return ActiveRow(
        job_id=entity["job_id"],
        tenant=tenant,
        claim=entity["claim"],
        created_at=_instant(entity["created_at"]),
        check_at=_instant(entity["check_at"]),
        gated=bool(entity.get("gated")),
        looks=int(entity.get("looks", 0)),
        look_no=int(entity.get("look_no", 0)),
        listed_seq=int(entity.get("listed_seq", 0)),
        etag=entity.metadata["etag"] or "",
    )


def _ended(partition: str, job_id: str, clear_at: datetime) -> dict[str, Any]:
    row = ended_row(clear_at, job_id)
    return {"PartitionKey": partition, "RowKey": row, "job_id": job_id, "clear_at": clear_at}


def _instant(value: datetime) -> datetime:
    return datetime.combine(value.date(), value.timetz())
