"""Webhooks' rows and their queue in this process: for tests and for a stack without Azurite."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from shared.adapters.tables.hook_rows import delivery_key
from shared.adapters.tables.keys import delivery_row, pending_row
from shared.core.webhooks.webhooks import Delivery, DeliveryState, HookEntry
from shared.errors import Conflict
from shared.ports.feed import FeedEvent, Head
from shared.ports.hooks import HookTenant, HookWrite, Place, StoredDelivery, StoredHook


class _Feed(Protocol):
    """Whose HEAD orders those who write."""

    def check_head(self, tenant: str, head: Head) -> None:
        """Raises Conflict."""

    def move_head(self, tenant: str, head: Head, events: Sequence[FeedEvent]) -> Head: ...


class MemoryHooks:
    """See `shared.ports.hooks.Hooks`; beside a feed, whose HEAD it shares."""

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed
        self._hooks: dict[tuple[str, str], StoredHook] = {}
        self._log: dict[tuple[str, str], list[HookEntry]] = {}
        #: by tenant and row key
        self._deliveries: dict[tuple[str, str], StoredDelivery] = {}
        self._noted: dict[str, HookTenant] = {}
        self._etags = itertools.count(1)

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        return self._hooks.get((tenant, hook_id))

    async def all_of(self, tenant: str) -> list[StoredHook]:
        return [stored for (of, _), stored in sorted(self._hooks.items()) if of == tenant]

    async def write(self, write: HookWrite) -> Head | None:
        tenant = write.tenant
        hook_id = write.after.id if write.after is not None else write.before.hook.id if write.before else ""
        if write.head is not None:
            self._feed.check_head(tenant, write.head)
        if (write.after or write.before) and self._hooks.get((tenant, hook_id)) != write.before:
            raise Conflict
        for before, after in write.deliveries:
            found = self._deliveries.get((tenant, delivery_key(before.delivery if before else after)))
            if found != before:
                raise Conflict
            if before is not None and delivery_key(before.delivery) != delivery_key(after):
                self._check_free(tenant, after)
        if write.after is not None:
            self._hooks[tenant, hook_id] = StoredHook(hook=write.after, etag=str(next(self._etags)))
        elif write.before is not None:
            del self._hooks[tenant, hook_id]
        if write.entry is not None:
            self._log.setdefault((tenant, write.entry.hook_id), []).append(write.entry)
        for before, after in write.deliveries:
            if before is not None:
                del self._deliveries[tenant, delivery_key(before.delivery)]
            self.enter(tenant, [after])
        if write.head is None:
            return None
        number = write.events[-1].number if write.events else write.head.number
        return self._feed.move_head(tenant, replace(write.head, number=number, hooks=write.hooks), write.events)

    def enter(self, tenant: str, deliveries: Sequence[Delivery]) -> None:
        """Their rows, which are not there yet."""
        for each in deliveries:
            self._deliveries[tenant, delivery_key(each)] = StoredDelivery(delivery=each, etag=str(next(self._etags)))

    def _check_free(self, tenant: str, delivery: Delivery) -> None:
        if (tenant, delivery_key(delivery)) in self._deliveries:
            raise Conflict

    async def log(self, tenant: str, hook_id: str, *, after: int, limit: int) -> list[HookEntry]:
        return [entry for entry in self._log.get((tenant, hook_id), []) if entry.seq > after][:limit]

    async def hooks_with_log(self, tenant: str) -> list[str]:
        return sorted(hook_id for (of, hook_id), log in self._log.items() if of == tenant and log)

    async def drop_log(
        self, tenant: str, hook_id: str, *, to: int | None = None, before: datetime | None = None, limit: int
    ) -> int:
        log = self._log.get((tenant, hook_id), [])
        gone = [each for each in log if (to is None or each.seq <= to) and (before is None or each.at < before)][:limit]
        self._log[tenant, hook_id] = [each for each in log if each not in gone]
        return len(gone)

    async def delivery(self, tenant: str, hook_id: str, number: int, name: str) -> StoredDelivery | None:
        keys = (pending_row(hook_id, number, name), delivery_row(hook_id, number, name))
        return next((found for key in keys if (found := self._deliveries.get((tenant, key))) is not None), None)

    async def pending(
        self,
        tenant: str,
        hook_id: str | None,
        *,
        after: Place | None = None,
        due_before: datetime | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        prefix = f"PENDING:{hook_id}:" if hook_id is not None else "PENDING:"
        first = pending_row(hook_id, *after) if hook_id is not None and after is not None else ""
        found = self._of(tenant, prefix, first)
        if due_before is not None:
            found = [each for each in found if each.delivery.due_at is not None and each.delivery.due_at < due_before]
        return found[:limit]

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        return sorted({each.delivery.hook_id for each in self._of(tenant, "PENDING:")})

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        return sorted({each.delivery.hook_id for each in self._of(tenant, "DELIVERY:")})

    async def ended(
        self, tenant: str, hook_id: str, *, state: DeliveryState | None = None, after: Place | None = None, limit: int
    ) -> list[StoredDelivery]:
        found = self._of(tenant, f"DELIVERY:{hook_id}:", delivery_row(hook_id, *after) if after is not None else "")
        return [each for each in found if state in (None, each.delivery.state)][:limit]

    def _of(self, tenant: str, prefix: str, after: str = "") -> list[StoredDelivery]:
        keys = sorted(key for of, key in self._deliveries if of == tenant and key.startswith(prefix) and key > after)
        return [self._deliveries[tenant, key] for key in keys]

    async def remove(self, tenant: str, hook_id: str, *, before: datetime, after: Place, limit: int) -> Place | None:
        older = self._of(tenant, f"DELIVERY:{hook_id}:", delivery_row(hook_id, *after))
        found = [each for each in older if (each.delivery.ended_at or before) < before][:limit]
        if self._drop(tenant, found) < limit:
            return None
        return found[-1].delivery.number, found[-1].delivery.name

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        return self._drop(tenant, self._of(tenant, f"PENDING:{hook_id}:")[:limit])

    def _drop(self, tenant: str, found: Sequence[StoredDelivery]) -> int:
        for each in found:
            del self._deliveries[tenant, delivery_key(each.delivery)]
        return len(found)

    async def note(self, tenant: str, now: datetime) -> None:
        self._noted[tenant] = HookTenant(tenant=tenant, noted_at=now, etag=str(next(self._etags)))

    async def noted(self) -> list[HookTenant]:
        return [self._noted[tenant] for tenant in sorted(self._noted)]

    async def forget(self, noted: HookTenant) -> None:
        if self._noted.get(noted.tenant) == noted:
            del self._noted[noted.tenant]
