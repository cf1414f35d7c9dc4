"""`Hooks` over Azure Tables: rows next to the tenant's feed, and one partition with the tenants whose webhooks the
sweeper checks.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from functools import partial

from shared.adapters.tables.decoding import decode_all, decode_entity, row_as
from shared.adapters.tables.feed import feed_event_entity, head_operation, list_tenant
from shared.adapters.tables.hook_rows import delivery_entity, delivery_key, delivery_of, hook_entity, hook_of
from shared.adapters.tables.keys import (
    HOOK_TENANTS_PARTITION,
    delivery_row,
    hook_log_row,
    hook_row,
    pending_row,
)
from shared.adapters.tables.log_rows import entry_entity, entry_of
from shared.adapters.tables.table import Entity, RowOperation, Tables, delete_row, replace_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows, all_of, between
from shared.adapters.tables.unknown_members import keep
from shared.core.records.canonical import encode_key
from shared.core.webhooks.webhooks import Delivery, DeliveryState, HookEntry
from shared.errors import AlreadyExists, Conflict
from shared.ports.feed import Head
from shared.ports.hooks import DeliveryPosition, HookTenant, HookWrite, StoredDelivery, StoredHook

#: limit of a query, higher than the maximum webhooks of a tenant
_MAX_HOOKS = 100
_DELIVERY_COLUMNS = dict.fromkeys(each.name for each in fields(Delivery))


class TablesHooks:
    """Implementation of `shared.ports.hooks.Hooks` over Azure Tables."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        return await self._rows.find(encode_key(tenant), hook_row(hook_id), _decode_hook)

    async def all_of(self, tenant: str) -> list[StoredHook]:
        # strict: if a webhook were left out, its deliveries would be deleted, and the feed would create none
        return [decode_entity(_decode_hook, row) for row in await self._first(tenant, "HOOK:", "HOOK;", _MAX_HOOKS)]

    async def write(self, write: HookWrite) -> Head | None:
        partition = encode_key(write.tenant)
        operations: list[RowOperation] = []
        head: Head | None = None
        if write.head is not None:
            number = write.events[-1].number if write.events else write.head.number
            head = replace(write.head, number=number, hooks=write.hooks)
            operations.append(head_operation(partition, write.head, head))
        operations += _of_hook(partition, write)
        operations += [("create", feed_event_entity(partition, event)) for event in write.events]
        for before, after in write.deliveries:
            operations += _of_delivery(partition, before, after)
        if write.head is not None:
            await list_tenant(self._rows, write.tenant, write.head)
        try:
            metadata = await self._rows.transact(operations)
        except AlreadyExists as taken:
            raise Conflict from taken
        return replace(head, etag=metadata[0]["etag"]) if head is not None else None

    async def log(self, tenant: str, hook_id: str, *, after: int, limit: int) -> list[HookEntry]:
        query = between(encode_key(tenant), hook_log_row(hook_id, after), f"HOOKLOG:{hook_id};")
        return await self._rows.read_decoded(query, limit, entry_of(HookEntry))

    async def hooks_with_log(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "HOOKLOG")

    async def drop_log(
        self, tenant: str, hook_id: str, *, to: int | None = None, before: datetime | None = None, limit: int
    ) -> int:
        end = hook_log_row(hook_id, to + 1) if to is not None else f"HOOKLOG:{hook_id};"
        query = between(encode_key(tenant), f"HOOKLOG:{hook_id}:", end)
        if before is not None:
            query = query.having("at lt @before", before=before)
        return await self._rows.delete_all(await self._rows.first(query, limit))

    async def delivery(self, tenant: str, hook_id: str, number: int, name: str) -> StoredDelivery | None:
        for key in (pending_row(hook_id, number, name), delivery_row(hook_id, number, name)):
            if (found := await self._rows.find(encode_key(tenant), key, _decode_delivery)) is not None:
                return found
        return None

    async def pending(
        self,
        tenant: str,
        hook_id: str | None,
        *,
        after: DeliveryPosition | None = None,
        due_before: datetime | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        prefix = f"PENDING:{hook_id}" if hook_id is not None else "PENDING"
        first = pending_row(hook_id, *after) if hook_id is not None and after is not None else f"{prefix}:"
        query = between(encode_key(tenant), first, f"{prefix};")
        if due_before is not None:
            query = query.having("due_at lt @due_before", due_before=due_before)
        return await self._rows.read_decoded(query, limit, _decode_delivery)

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "PENDING")

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        return await self._hooks_with(tenant, "DELIVERY")

    async def _hooks_with(self, tenant: str, kind: str) -> list[str]:
        found: list[str] = []
        first = f"{kind}:"
        while rows := await self._first(tenant, first, f"{kind};", 1):
            found.append(rows[0]["RowKey"].split(":")[1])
            first = f"{kind}:{found[-1]};"
        return found

    async def list_ended(
        self,
        tenant: str,
        hook_id: str,
        *,
        state: DeliveryState | None = None,
        after: DeliveryPosition | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        prefix = f"DELIVERY:{hook_id}"
        first = delivery_row(hook_id, *after) if after is not None else f"{prefix}:"
        query = between(encode_key(tenant), first, f"{prefix};")
        if state is not None:
            query = query.having("state eq @state", state=state.value)
        return await self._rows.read_decoded(query, limit, _decode_delivery)

    async def remove(
        self, tenant: str, hook_id: str, *, before: datetime, after: DeliveryPosition, limit: int
    ) -> DeliveryPosition | None:
        # skips retained deliveries, which can be very many
        first, end = delivery_row(hook_id, *after), f"DELIVERY:{hook_id};"
        query = between(encode_key(tenant), first, end).having("ended_at lt @before", before=before)
        rows = await self._rows.first(query, limit)
        if await self._rows.delete_all(rows) < limit:
            return None
        # the rows are deleted: if the last one cannot be decoded, an earlier start finds the same rows
        known = decode_all(delivery_of, rows)
        return (known[-1].number, known[-1].name) if known else after

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        return await self._rows.delete_all(
            await self._first(tenant, f"PENDING:{hook_id}:", f"PENDING:{hook_id};", limit)
        )

    async def note(self, tenant: str, now: datetime) -> None:
        row = {**row_at(HOOK_TENANTS_PARTITION, encode_key(tenant)), "tenant": tenant, "noted_at": now}
        await self._rows.write(upsert_row(row))

    async def list_noted(self) -> list[HookTenant]:
        return await self._rows.read_decoded(all_of(HOOK_TENANTS_PARTITION), None, partial(row_as, HookTenant))

    async def forget(self, noted: HookTenant) -> None:
        await self._rows.delete(HOOK_TENANTS_PARTITION, encode_key(noted.tenant), noted.etag)

    async def _first(self, tenant: str, first: str, end: str, limit: int) -> list[Entity]:
        return await self._rows.first(between(encode_key(tenant), first, end), limit)


def _of_hook(partition: str, write: HookWrite) -> list[RowOperation]:
    before, after, found = write.before, write.after, list[RowOperation]()
    if after is None and before is not None:
        found.append(delete_row(partition, hook_row(before.hook.id), before.etag))
    elif after is not None and before is None:
        found.append(("create", hook_entity(partition, after)))
    elif after is not None and before is not None:
        row = keep(before.row, hook_entity(partition, before.hook), hook_entity(partition, after), whole=["filter"])
        found.append(replace_row(row, before.etag))
    if (entry := write.entry) is not None:
        found.append(("create", entry_entity(partition, hook_log_row(entry.hook_id, entry.seq), entry)))
    return found


def _of_delivery(partition: str, before: StoredDelivery | None, after: Delivery) -> list[RowOperation]:
    row = delivery_entity(partition, after)
    if before is None:
        return [("create", row)]
    row = keep(before.row, _DELIVERY_COLUMNS, row)
    key = delivery_key(before.delivery)
    if key == row["RowKey"]:
        return [replace_row(row, before.etag)]
    return [delete_row(partition, key, before.etag), ("create", row)]


def _decode_hook(row: Entity) -> StoredHook:
    return StoredHook(hook=hook_of(row), etag=row.etag, row=row)


def _decode_delivery(row: Entity) -> StoredDelivery:
    return StoredDelivery(delivery=delivery_of(row), etag=row.etag, row=row)
