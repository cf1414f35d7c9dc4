"""`Bulks` over Azure Tables: rows of the tenant's partition, and a row of the gates' table while the sweeper looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import first_rows, read_row, transact
from shared.adapters.tables.decoding import decoded, first_decoded
from shared.adapters.tables.keys import (
    BULKS_PARTITION,
    bulk_due_before,
    bulk_due_row,
    bulk_item_row,
    bulk_key_row,
    bulk_row,
    bulk_slot_row,
    bulk_work_row,
)
from shared.adapters.tables.table import MAX_OPERATIONS, Entity, Operation, Tables
from shared.adapters.tables.unknown_members import keep
from shared.core.bulks import MAX_RUNNING, Bulk, BulkAction, BulkItem, BulkState, ItemState, Work
from shared.core.canonical import encode_key
from shared.ports.bulks import BulkKey, BulkSlot, BulkWrite, DueBulk, StoredBulk

_REPLACE, _MERGE = {"mode": UpdateMode.REPLACE}, {"mode": UpdateMode.MERGE}
_BETWEEN = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end"
_BULK_COLUMNS = dict.fromkeys(each.name for each in fields(Bulk))
_MAY_BE_ABSENT = frozenset({"root", "reason", "key", "cursor", "ended_at"})


T = TypeVar("T")


class TablesBulks:
    """See `shared.ports.bulks.Bulks`."""

    def __init__(self, account: Tables, index_table: str, gates_table: str) -> None:
        self._account = account
        self._index_table = index_table
        self._gates_table = gates_table

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        operations: list[Operation] = [("create", _bulk_entity(bulk)), _taking(bulk, slot)]
        if key is not None:
            made_by = {"bulk_id": key.bulk_id, "body_hash": key.body_hash}
            operations.append(("create", {**_key(bulk.tenant, bulk_key_row(key.key)), **made_by}))
        operations += [("create", _work_entity(bulk, each)) for each in work]
        operations += [("create", _item_entity(bulk, each)) for each in items]
        await transact(await self._account.table(self._index_table), operations)

    async def slots(self, tenant: str) -> list[BulkSlot]:
        # strict: a slot that is left out would look free
        return [decoded(_slot_of, each) for each in await self._range(tenant, "BULKSLOT:", "BULKSLOT;", MAX_RUNNING)]

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None:
        entity = await read_row(await self._account.table(self._index_table), encode_key(tenant), bulk_row(bulk_id))
        return (
            StoredBulk(decoded(_bulk_of, entity), entity.metadata["etag"] or "", entity) if entity is not None else None
        )

    async def find_key(self, tenant: str, key: str) -> BulkKey | None:
        entity = await read_row(await self._account.table(self._index_table), encode_key(tenant), bulk_key_row(key))
        return _key_of(key, entity) if entity is not None else None

    async def write(self, change: BulkWrite) -> StoredBulk:
        bulk = change.after
        unmoved = {**_REPLACE, "etag": change.before.etag, "match_condition": MatchConditions.IfNotModified}
        row = keep(change.before.row, _BULK_COLUMNS, _bulk_entity(bulk))
        operations: list[Operation] = [("update", row, unmoved)]
        operations += [("delete", _work_key(bulk, each)) for each in change.finished]
        operations += [("create", _work_entity(bulk, each)) for each in change.added]
        # a merge takes no column out: no code is an empty one
        operations += [
            ("upsert", {**_item_entity(bulk, each), "code": each.code or ""}, _MERGE) for each in change.items
        ]
        operations += [("create", _item_entity(bulk, each)) for each in change.new_items]
        written = await transact(await self._account.table(self._index_table), operations)
        return StoredBulk(bulk, written[0]["etag"], row)

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        # strict: a bulk without work ends
        found = await self._range(tenant, f"BULKWORK:{bulk_id}:", f"BULKWORK:{bulk_id};", limit)
        return [decoded(_work_of, each) for each in found]

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None:
        table = await self._account.table(self._index_table)
        entity = await read_row(table, encode_key(tenant), bulk_item_row(bulk_id, job_id))
        return decoded(_item_of, entity) if entity is not None else None

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        first = bulk_item_row(bulk_id, after or "")
        return await self._first(tenant, first, f"BULKITEM:{bulk_id};", limit, _item_of)

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        return await self._first(tenant, bulk_row(after or ""), "BULK;", limit, _bulk_of)

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        table, partition = await self._account.table(self._index_table), encode_key(bulk.tenant)
        for kind in ("BULKWORK", "BULKITEM"):
            while found := await self._range(
                bulk.tenant, f"{kind}:{bulk.bulk_id}:", f"{kind}:{bulk.bulk_id};", min(limit, MAX_OPERATIONS)
            ):
                await transact(
                    table, [("delete", {"PartitionKey": partition, "RowKey": row["RowKey"]}) for row in found]
                )
                limit -= len(found)
                if limit <= 0:
                    return False
        if bulk.key is not None:
            await table.delete_entity(partition, bulk_key_row(bulk.key))
        await table.delete_entity(partition, bulk_row(bulk.bulk_id))
        return True

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        table = await self._account.table(self._gates_table)
        query = "PartitionKey eq @bulks and RowKey gt @first and RowKey lt @end"
        first = _due_row(after) if after is not None else ""
        parameters = {"bulks": BULKS_PARTITION, "first": first, "end": f"{bulk_due_before(now)};"}
        return await first_decoded(table, query, parameters, limit, _due_of)

    async def put_due(self, due: DueBulk) -> None:
        row = {"PartitionKey": BULKS_PARTITION, "RowKey": _due_row(due), **_columns(due)}
        await (await self._account.table(self._gates_table)).upsert_entity(row, mode=UpdateMode.MERGE)

    async def drop_due(self, due: DueBulk) -> None:
        await (await self._account.table(self._gates_table)).delete_entity(BULKS_PARTITION, _due_row(due))

    async def _range(self, tenant: str, first: str, end: str, limit: int) -> list[Entity]:
        """Rows of the tenant between two keys, both left out; `;` is the character after `:`."""
        parameters = {"tenant": encode_key(tenant), "first": first, "end": end}
        return await first_rows(await self._account.table(self._index_table), _BETWEEN, parameters, limit)

    async def _first(self, tenant: str, first: str, end: str, limit: int, decode: Callable[[Entity], T]) -> list[T]:
        """The same, without rows that cannot be decoded."""
        parameters = {"tenant": encode_key(tenant), "first": first, "end": end}
        return await first_decoded(await self._account.table(self._index_table), _BETWEEN, parameters, limit, decode)


def _key_of(key: str, entity: Entity) -> BulkKey:
    return BulkKey(key=key, bulk_id=entity["bulk_id"], body_hash=entity["body_hash"])


def _taking(bulk: Bulk, slot: BulkSlot) -> Operation:
    row = {**_key(bulk.tenant, bulk_slot_row(slot.number)), "number": slot.number, "bulk_id": bulk.bulk_id}
    if not slot.etag:
        return ("create", row)
    return ("update", row, {**_MERGE, "etag": slot.etag, "match_condition": MatchConditions.IfNotModified})


def _slot_of(entity: Entity) -> BulkSlot:
    return BulkSlot(number=entity["number"], bulk_id=entity["bulk_id"], etag=entity.metadata["etag"] or "")


def _due_of(entity: Entity) -> DueBulk:
    return DueBulk(tenant=entity["tenant"], bulk_id=entity["bulk_id"], due_at=entity["due_at"])


def _work_of(entity: Entity) -> Work:
    return Work(no=int(entity["no"]), job_id=entity["job_id"], dependants_after=entity.get("dependants_after"))


def _due_row(due: DueBulk) -> str:
    return bulk_due_row(due.due_at, due.bulk_id)


def _bulk_entity(bulk: Bulk) -> dict[str, Any]:
    row = {**_key(bulk.tenant, bulk_row(bulk.bulk_id)), **_columns(bulk)}
    return {**row, "filter": json.dumps(dict(bulk.filter), ensure_ascii=False)}


def _bulk_of(entity: Entity) -> Bulk:
    values = {name: entity.get(name) if name in _MAY_BE_ABSENT else entity[name] for name in _BULK_COLUMNS}
    typed = {
        "action": BulkAction(entity["action"]),
        "state": BulkState(entity["state"]),
        "filter": json.loads(entity["filter"]),
    }
    return Bulk(**{**values, **typed})


def _item_entity(bulk: Bulk, item: BulkItem) -> dict[str, Any]:
    return {**_key(bulk.tenant, bulk_item_row(bulk.bulk_id, item.job_id)), **_columns(item)}


def _item_of(entity: Entity) -> BulkItem:
    return BulkItem(
        job_id=entity["job_id"],
        state=ItemState(entity["state"]),
        code=entity.get("code") or None,
        new_job_id=entity.get("new_job_id"),
        tried_at=entity.get("tried_at"),
    )


def _work_key(bulk: Bulk, work: Work) -> dict[str, Any]:
    return _key(bulk.tenant, bulk_work_row(bulk.bulk_id, work.no))


def _work_entity(bulk: Bulk, work: Work) -> dict[str, Any]:
    return {**_work_key(bulk, work), **_columns(work)}


def _key(tenant: str, row: str) -> dict[str, Any]:
    return {"PartitionKey": encode_key(tenant), "RowKey": row}


def _columns(row: Bulk | BulkItem | Work | DueBulk) -> dict[str, Any]:
    """One column for each field that has a value, under the field's name."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
