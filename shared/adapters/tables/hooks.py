"""`Hooks` over Azure Tables: beside the feed of a tenant, and one partition that lists the tenants with hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import first_rows, read_row, transact
from shared.adapters.tables.decoding import all_decoded, decoded, first_decoded
from shared.adapters.tables.feed import event_entity, head_operation, list_tenant
from shared.adapters.tables.hook_rows import delivery_entity, delivery_key, delivery_of, hook_entity, hook_of
from shared.adapters.tables.keys import (
    HOOK_TENANTS_PARTITION,
    delivery_row,
    hook_log_row,
    hook_row,
    pending_row,
)
from shared.adapters.tables.log_rows import entry_entity, entry_of
from shared.adapters.tables.table import Entity, Operation, Table, Tables
from shared.adapters.tables.unknown_members import keep
from shared.core.canonical import encode_key
from shared.core.webhooks.webhooks import Delivery, DeliveryState, HookEntry
from shared.errors import AlreadyExists, Conflict
from shared.ports.feed import Head
from shared.ports.hooks import HookTenant, HookWrite, Place, StoredDelivery, StoredHook

_RANGE = "PartitionKey eq @partition and RowKey gt @first and RowKey lt @end"
#: more than a tenant may have
_MAX_HOOKS = 100
_DELIVERY_COLUMNS = dict.fromkeys(each.name for each in fields(Delivery))
T = TypeVar("T")


class TablesHooks:
    """See `shared.ports.hooks.Hooks`."""

    def __init__(self, account: Tables, table: str) -> None:
        self._account = account
        self._name = table

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        row = await read_row(await self._table(), encode_key(tenant), hook_row(hook_id))
        return decoded(_stored, row) if row is not None else None

    async def all_of(self, tenant: str) -> list[StoredHook]:
        # strict: without a webhook in the list its deliveries would be removed, and the feed would create none
        return [decoded(_stored, row) for row in await self._rows(tenant, "HOOK:", "HOOK;", _MAX_HOOKS)]

    async def write(self, write: HookWrite) -> Head | None:
        partition = encode_key(write.tenant)
        operations: list[Operation] = []
        head: Head | None = None
        if write.head is not None:
            number = write.events[-1].number if write.events else write.head.number
            head = replace(write.head, number=number, hooks=write.hooks)
            operations.append(head_operation(partition, write.head, head))
        operations += _of_hook(partition, write)
        operations += [("create", event_entity(partition, event)) for event in write.events]
        for before, after in write.deliveries:
            operations += _of_delivery(partition, before, after)
        table = await self._table()
        if write.head is not None:
            await list_tenant(table, write.tenant, write.head)
        try:
            metadata = await transact(table, operations)
        except AlreadyExists as taken:
            raise Conflict from taken
        return replace(head, etag=metadata[0]["etag"]) if head is not None else None

    async def log(self, tenant: str, hook_id: str, *, after: int, limit: int) -> list[HookEntry]:
        first, decode = hook_log_row(hook_id, after), entry_of(HookEntry)
        return await self._first(_RANGE, tenant, first, f"HOOKLOG:{hook_id};", limit, decode)

    async def hooks_with_log(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "HOOKLOG")

    async def drop_log(
        self, tenant: str, hook_id: str, *, to: int | None = None, before: datetime | None = None, limit: int
    ) -> int:
        end = hook_log_row(hook_id, to + 1) if to is not None else f"HOOKLOG:{hook_id};"
        parameters: dict[str, Any] = {"partition": encode_key(tenant), "first": f"HOOKLOG:{hook_id}:", "end": end}
        query = _RANGE
        if before is not None:
            query, parameters = f"{query} and at lt @before", {**parameters, "before": before}
        return await self._drop(await first_rows(await self._table(), query, parameters, limit))

    async def delivery(self, tenant: str, hook_id: str, number: int, name: str) -> StoredDelivery | None:
        table = await self._table()
        for key in (pending_row(hook_id, number, name), delivery_row(hook_id, number, name)):
            if (row := await read_row(table, encode_key(tenant), key)) is not None:
                return decoded(_delivery, row)
        return None

    async def pending(
        self,
        tenant: str,
        hook_id: str | None,
        *,
        after: Place | None = None,
        due_before: datetime | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        prefix = f"PENDING:{hook_id}" if hook_id is not None else "PENDING"
        first = pending_row(hook_id, *after) if hook_id is not None and after is not None else f"{prefix}:"
        query = _RANGE if due_before is None else f"{_RANGE} and due_at lt @due_before"
        more = {} if due_before is None else {"due_before": due_before}
        return await self._first(query, tenant, first, f"{prefix};", limit, _delivery, **more)

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "PENDING")

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "DELIVERY")

    async def _hooks_with(self, tenant: str, kind: str) -> list[str]:
        found: list[str] = []
        first = f"{kind}:"
        while rows := await self._rows(tenant, first, f"{kind};", 1):
            found.append(rows[0]["RowKey"].split(":")[1])
            first = f"{kind}:{found[-1]};"
        return found

    async def ended(
        self, tenant: str, hook_id: str, *, state: DeliveryState | None = None, after: Place | None = None, limit: int
    ) -> list[StoredDelivery]:
        prefix = f"DELIVERY:{hook_id}"
        first = delivery_row(hook_id, *after) if after is not None else f"{prefix}:"
        query = _RANGE if state is None else f"{_RANGE} and state eq @state"
        more = {} if state is None else {"state": state.value}
        return await self._first(query, tenant, first, f"{prefix};", limit, _delivery, **more)

    async def remove(self, tenant: str, hook_id: str, *, before: datetime, after: Place, limit: int) -> Place | None:
        # what is kept, which may be very many, is not looked through
        first, end = delivery_row(hook_id, *after), f"DELIVERY:{hook_id};"
        parameters = {"partition": encode_key(tenant), "first": first, "end": end, "before": before}
        rows = await first_rows(await self._table(), f"{_RANGE} and ended_at lt @before", parameters, limit)
        if await self._drop(rows) < limit:
            return None
        # the rows are removed: if the last one cannot be decoded, an earlier start finds the same rows
        known = all_decoded(delivery_of, rows)
        return (known[-1].number, known[-1].name) if known else after

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        return await self._drop(await self._rows(tenant, f"PENDING:{hook_id}:", f"PENDING:{hook_id};", limit))

    async def note(self, tenant: str, now: datetime) -> None:
        row = {"PartitionKey": HOOK_TENANTS_PARTITION, "RowKey": encode_key(tenant), "tenant": tenant, "noted_at": now}
        await (await self._table()).upsert_entity(row, mode=UpdateMode.MERGE)

    async def noted(self) -> list[HookTenant]:
        table, parameters = await self._table(), {"partition": HOOK_TENANTS_PARTITION}
        return await first_decoded(table, "PartitionKey eq @partition", parameters, None, _noted_of)

    async def forget(self, noted: HookTenant) -> None:
        with contextlib.suppress(Conflict):
            await (await self._table()).delete_entity(
                HOOK_TENANTS_PARTITION,
                encode_key(noted.tenant),
                etag=noted.etag,
                match_condition=MatchConditions.IfNotModified,
            )

    async def _table(self) -> Table:
        return await self._account.table(self._name)

    async def _rows(self, tenant: str, first: str, end: str, limit: int) -> list[Entity]:
        parameters = {"partition": encode_key(tenant), "first": first, "end": end}
        return await first_rows(await self._table(), _RANGE, parameters, limit)

    async def _first(
        self, query: str, tenant: str, first: str, end: str, limit: int, decode: Callable[[Entity], T], **more: Any
    ) -> list[T]:
        """Returns the rows that can be decoded; `more` are other parameters of the query."""
        parameters = {"partition": encode_key(tenant), "first": first, "end": end, **more}
        return await first_decoded(await self._table(), query, parameters, limit, decode)

    async def _drop(self, rows: list[Entity]) -> int:
        keys = [{"PartitionKey": row["PartitionKey"], "RowKey": row["RowKey"]} for row in rows]
        if keys:
            # another one may be at it, and has removed the same
            with contextlib.suppress(Conflict):
                await transact(await self._table(), [("delete", key) for key in keys])
        return len(keys)


def _of_hook(partition: str, write: HookWrite) -> list[Operation]:
    before, after, found = write.before, write.after, list[Operation]()
    if after is None and before is not None:
        found.append(("delete", {"PartitionKey": partition, "RowKey": hook_row(before.hook.id)}, _under(before.etag)))
    elif after is not None and before is None:
        found.append(("create", hook_entity(partition, after)))
    elif after is not None and before is not None:
        row = keep(before.row, hook_entity(partition, before.hook), hook_entity(partition, after), whole=["filter"])
        found.append(("update", row, {"mode": UpdateMode.REPLACE, **_under(before.etag)}))
    if (entry := write.entry) is not None:
        found.append(("create", entry_entity(partition, hook_log_row(entry.hook_id, entry.seq), entry)))
    return found


def _of_delivery(partition: str, before: StoredDelivery | None, after: Delivery) -> list[Operation]:
    row = delivery_entity(partition, after)
    if before is None:
        return [("create", row)]
    row = keep(before.row, _DELIVERY_COLUMNS, row)
    key = delivery_key(before.delivery)
    if key == row["RowKey"]:
        return [("update", row, {"mode": UpdateMode.REPLACE, **_under(before.etag)})]
    return [("delete", {"PartitionKey": partition, "RowKey": key}, _under(before.etag)), ("create", row)]


def _under(etag: str) -> dict[str, Any]:
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _stored(row: Entity) -> StoredHook:
    return StoredHook(hook=hook_of(row), etag=row.metadata["etag"] or "", row=row)


def _delivery(row: Entity) -> StoredDelivery:
    return StoredDelivery(delivery=delivery_of(row), etag=row.metadata["etag"] or "", row=row)


def _noted_of(row: Entity) -> HookTenant:
    return HookTenant(tenant=row["tenant"], noted_at=row["noted_at"], etag=row.metadata["etag"] or "")
