"""`Hooks` over Azure Tables: beside the feed of a tenant, and one partition that lists the tenants with hooks."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, first_rows, read_row, transact
from shared.adapters.tables.feed import event_entity, head_operation, list_tenant
from shared.adapters.tables.hook_rows import delivery_entity, delivery_key, delivery_of, hook_entity, hook_of
from shared.adapters.tables.keys import (
    HOOK_TENANTS_PARTITION,
    delivery_row,
    hook_log_row,
    hook_row,
    pending_row,
)
from shared.adapters.tables.log_rows import entries_of, entry_entity
from shared.adapters.tables.table import Entity, Operation, Table
from shared.core.canonical import encode_key
from shared.core.webhooks import Delivery, DeliveryState, HookEntry
from shared.errors import AlreadyExists, Conflict
from shared.ports.feed import Head
from shared.ports.hooks import HookTenant, HookWrite, Place, StoredDelivery, StoredHook

_RANGE = "PartitionKey eq @partition and RowKey gt @first and RowKey lt @end"
#: more than a tenant may have
_MAX_HOOKS = 100


class TablesHooks:
    """See `shared.ports.hooks.Hooks`."""

    def __init__(self, account: TablesAccount, table: str) -> None:
        self._account = account
        self._name = table

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        row = await read_row(await self._table(), encode_key(tenant), hook_row(hook_id))
        return _stored(row) if row is not None else None

    async def all_of(self, tenant: str) -> list[StoredHook]:
        return [_stored(row) for row in await self._rows(tenant, "HOOK:", "HOOK;", _MAX_HOOKS)]

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
        found = await self._rows(tenant, hook_log_row(hook_id, after), f"HOOKLOG:{hook_id};", limit)
        return entries_of(HookEntry, found)

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
                return _delivery(row)
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
        if due_before is None:
            return [_delivery(row) for row in await self._rows(tenant, first, f"{prefix};", limit)]
        parameters = {"partition": encode_key(tenant), "first": first, "end": f"{prefix};", "due_before": due_before}
        query = f"{_RANGE} and due_at lt @due_before"
        return [_delivery(row) for row in await first_rows(await self._table(), query, parameters, limit)]

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "PENDING")

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "DELIVERY")

    async def _hooks_with(self, tenant: str, kind: str) -> list[str]:
        found: list[str] = []
        first = f"{kind}:"
        while rows := await self._rows(tenant, first, f"{kind};", 1):
            found.append(rows[0]["hook_id"])
            first = f"{kind}:{found[-1]};"
        return found

    async def ended(
        self, tenant: str, hook_id: str, *, state: DeliveryState | None = None, after: Place | None = None, limit: int
    ) -> list[StoredDelivery]:
        prefix = f"DELIVERY:{hook_id}"
        first = delivery_row(hook_id, *after) if after is not None else f"{prefix}:"
        more = {"state": state.value} if state is not None else {}
        return [_delivery(row) for row in await self._rows(tenant, first, f"{prefix};", limit, **more)]

    async def remove(self, tenant: str, hook_id: str, *, before: datetime, after: Place, limit: int) -> Place | None:
        # what is kept, which may be very many, is not looked through
        first, end = delivery_row(hook_id, *after), f"DELIVERY:{hook_id};"
        parameters = {"partition": encode_key(tenant), "first": first, "end": end, "before": before}
        rows = await first_rows(await self._table(), f"{_RANGE} and ended_at lt @before", parameters, limit)
        if await self._drop(rows) < limit:
            return None
        last = delivery_of(rows[-1])
        return last.number, last.name

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        return await self._drop(await self._rows(tenant, f"PENDING:{hook_id}:", f"PENDING:{hook_id};", limit))

    async def note(self, tenant: str, now: datetime) -> None:
        row = {"PartitionKey": HOOK_TENANTS_PARTITION, "RowKey": encode_key(tenant), "tenant": tenant, "noted_at": now}
        await (await self._table()).upsert_entity(row, mode=UpdateMode.REPLACE)

    async def noted(self) -> list[HookTenant]:
        table, parameters = await self._table(), {"partition": HOOK_TENANTS_PARTITION}
        return [
            HookTenant(tenant=row["tenant"], noted_at=row["noted_at"], etag=row.metadata["etag"] or "")
            async for row in table.query_entities("PartitionKey eq @partition", parameters=parameters)
        ]

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

    async def _rows(self, tenant: str, first: str, end: str, limit: int, **equal: str) -> list[Entity]:
        query = "".join([_RANGE, *(f" and {name} eq @{name}" for name in equal)])
        parameters = {"partition": encode_key(tenant), "first": first, "end": end, **equal}
        return await first_rows(await self._table(), query, parameters, limit)

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
        found.append(("update", hook_entity(partition, after), {"mode": UpdateMode.REPLACE, **_under(before.etag)}))
    if (entry := write.entry) is not None:
        found.append(("create", entry_entity(partition, hook_log_row(entry.hook_id, entry.seq), entry)))
    return found


def _of_delivery(partition: str, before: StoredDelivery | None, after: Delivery) -> list[Operation]:
    row = delivery_entity(partition, after)
    if before is None:
        return [("create", row)]
    key = delivery_key(before.delivery)
    if key == row["RowKey"]:
        return [("update", row, {"mode": UpdateMode.REPLACE, **_under(before.etag)})]
    return [("delete", {"PartitionKey": partition, "RowKey": key}, _under(before.etag)), ("create", row)]


def _under(etag: str) -> dict[str, Any]:
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _stored(row: Entity) -> StoredHook:
    return StoredHook(hook=hook_of(row), etag=row.metadata["etag"] or "")


def _delivery(row: Entity) -> StoredDelivery:
    return StoredDelivery(delivery=delivery_of(row), etag=row.metadata["etag"] or "")
