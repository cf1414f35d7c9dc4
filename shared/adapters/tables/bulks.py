"""`Bulks` over Azure Tables: rows in the tenant's partition, and a row in the quotas' table while the sweeper must
check the bulk operation.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from shared.adapters.tables.decoding import decode_entity, row_as
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
from shared.adapters.tables.table import (
    MAX_OPERATIONS,
    Entity,
    RowOperation,
    Tables,
    delete_row,
    merge_row,
    replace_row,
    row_at,
    upsert_row,
)
from shared.adapters.tables.table_rows import TableRows, all_of, between
from shared.adapters.tables.unknown_members import keep
from shared.core.bulks import MAX_RUNNING, Bulk, BulkAction, BulkItem, BulkState, ItemState, Work
from shared.core.records.canonical import encode_key
from shared.errors import Conflict
from shared.ports.bulks import BulkKey, BulkSlot, BulkWrite, DueBulk, StoredBulk

_COUNTS = ("matched", "done", "refused", "listed", "last_no", "fruitless", "wait_s")
_BULK_COLUMNS = dict.fromkeys(each.name for each in fields(Bulk))


class TablesBulks:
    """Implementation of `shared.ports.bulks.Bulks` over Azure Tables."""

    def __init__(self, account: Tables, index_table: str, gates_table: str) -> None:
        self._index = TableRows(account, index_table)
        self._gates = TableRows(account, gates_table)

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        operations: list[RowOperation] = [("create", _bulk_entity(bulk)), _taking(bulk, slot)]
        if key is not None:
            made_by = {"bulk_id": key.bulk_id, "body_hash": key.body_hash}
            operations.append(("create", {**_key(bulk.tenant, bulk_key_row(key.key)), **made_by}))
        operations += [("create", _work_entity(bulk, each)) for each in work]
        operations += [("create", _item_entity(bulk, each)) for each in items]
        await self._index.transact(operations)

    async def slots(self, tenant: str) -> list[BulkSlot]:
        # strict: a slot that is left out would look free
        found = await self._range(tenant, "BULKSLOT:", "BULKSLOT;", MAX_RUNNING)
        return [decode_entity(partial(row_as, BulkSlot), each) for each in found]

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None:
        return await self._index.find(encode_key(tenant), bulk_row(bulk_id), _decode_stored)

    async def find_key(self, tenant: str, key: str) -> BulkKey | None:
        entity = await self._index.read(encode_key(tenant), bulk_key_row(key))
        return row_as(BulkKey, entity, key=key) if entity is not None else None

    async def _own_key(self, bulk: Bulk) -> Entity | None:
        """Returns the row of the bulk operation's idempotency key. Returns None if there is no key, or a later bulk
        operation has the key.
        """
        key = await self._index.read(encode_key(bulk.tenant), bulk_key_row(bulk.key)) if bulk.key is not None else None
        return key if key is not None and key["bulk_id"] == bulk.bulk_id else None

    async def write(self, change: BulkWrite) -> StoredBulk:
        bulk = change.after
        row = keep(change.before.row, _BULK_COLUMNS, _bulk_entity(bulk))
        operations: list[RowOperation] = [replace_row(row, change.before.etag)]
        operations += [
            delete_row(encode_key(bulk.tenant), bulk_work_row(bulk.bulk_id, each.no)) for each in change.finished
        ]
        operations += [("create", _work_entity(bulk, each)) for each in change.added]
        # a merge cannot remove a column, so no code is stored as ""
        operations += [upsert_row({**_item_entity(bulk, each), "code": each.code or ""}) for each in change.items]
        operations += [("create", _item_entity(bulk, each)) for each in change.new_items]
        if change.releases_key and (key := await self._own_key(bulk)) is not None:
            operations.append(delete_row(encode_key(bulk.tenant), key["RowKey"], key.etag))
        written = await self._index.transact(operations)
        return StoredBulk(bulk, written[0]["etag"], row)

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        # strict: a bulk operation without work ends
        found = await self._range(tenant, f"BULKWORK:{bulk_id}:", f"BULKWORK:{bulk_id};", limit)
        return [decode_entity(partial(row_as, Work), each) for each in found]

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None:
        return await self._index.find(encode_key(tenant), bulk_item_row(bulk_id, job_id), _item_of)

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        first, end = bulk_item_row(bulk_id, after or ""), f"BULKITEM:{bulk_id};"
        return await self._index.read_decoded(between(encode_key(tenant), first, end), limit, _item_of)

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        query = between(encode_key(tenant), bulk_row(after or ""), "BULK;")
        return await self._index.read_decoded(query, limit, _bulk_of)

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        for kind in ("BULKWORK", "BULKITEM"):
            while found := await self._range(
                bulk.tenant, f"{kind}:{bulk.bulk_id}:", f"{kind}:{bulk.bulk_id};", min(limit, MAX_OPERATIONS)
            ):
                await self._index.transact([delete_row(row["PartitionKey"], row["RowKey"]) for row in found])
                limit -= len(found)
                if limit <= 0:
                    return False
        if (key := await self._own_key(bulk)) is not None:
            with contextlib.suppress(Conflict):
                await self._index.transact([delete_row(encode_key(bulk.tenant), key["RowKey"], key.etag)])
        await self._index.delete(encode_key(bulk.tenant), bulk_row(bulk.bulk_id))
        return True

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        first = _due_row(after) if after is not None else ""
        query = between(BULKS_PARTITION, first, f"{bulk_due_before(now)};")
        return await self._gates.read_decoded(query, limit, partial(row_as, DueBulk))

    async def put_due(self, due: DueBulk) -> None:
        row = {**row_at(BULKS_PARTITION, _due_row(due)), **_columns(due)}
        await self._gates.write(upsert_row(row))

    async def drop_due(self, due: DueBulk) -> None:
        await self._gates.delete(BULKS_PARTITION, _due_row(due))

    async def drop_due_before(self, bulk: Bulk) -> None:
        query = all_of(BULKS_PARTITION).having("tenant eq @tenant", tenant=bulk.tenant)
        async for row in self._gates.query(query):
            # ids sort the newest first; a younger bulk operation may have no other row yet
            if row["RowKey"].rpartition(":")[2] > bulk.bulk_id:
                await self._gates.delete(BULKS_PARTITION, row["RowKey"])

    async def _range(self, tenant: str, first: str, end: str, limit: int) -> list[Entity]:
        return await self._index.first(between(encode_key(tenant), first, end), limit)


def _decode_stored(entity: Entity) -> StoredBulk:
    return StoredBulk(_bulk_of(entity), entity.etag, entity)


def _taking(bulk: Bulk, slot: BulkSlot) -> RowOperation:
    row = {**_key(bulk.tenant, bulk_slot_row(slot.number)), "number": slot.number, "bulk_id": bulk.bulk_id}
    if not slot.etag:
        return ("create", row)
    return merge_row(row, slot.etag)


def _due_row(due: DueBulk) -> str:
    return bulk_due_row(due.due_at, due.bulk_id)


def _bulk_entity(bulk: Bulk) -> dict[str, Any]:
    row = {**_key(bulk.tenant, bulk_row(bulk.bulk_id)), **_columns(bulk)}
    return {**row, "filter": json.dumps(dict(bulk.filter), ensure_ascii=False)}


def _bulk_of(entity: Entity) -> Bulk:
    return row_as(
        Bulk,
        entity,
        reason=entity.get("reason"),
        **{name: entity[name] for name in _COUNTS},
        action=BulkAction(entity["action"]),
        state=BulkState(entity["state"]),
        filter=json.loads(entity["filter"]),
    )


def _item_entity(bulk: Bulk, item: BulkItem) -> dict[str, Any]:
    return {**_key(bulk.tenant, bulk_item_row(bulk.bulk_id, item.job_id)), **_columns(item)}


def _item_of(entity: Entity) -> BulkItem:
    return row_as(BulkItem, entity, state=ItemState(entity["state"]), code=entity.get("code") or None)


def _work_entity(bulk: Bulk, work: Work) -> dict[str, Any]:
    return {**_key(bulk.tenant, bulk_work_row(bulk.bulk_id, work.no)), **_columns(work)}


def _key(tenant: str, row: str) -> dict[str, Any]:
    return row_at(encode_key(tenant), row)


def _columns(row: Bulk | BulkItem | Work | DueBulk) -> dict[str, Any]:
    """Returns one column for each field with a value, under the field's name."""
    values = {name: value for name, value in vars(row).items() if value is not None}
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
