"""Webhooks' rows of the tenants that one request reaches (R24)."""

from __future__ import annotations

from datetime import datetime

from shared.access.caller import Caller
from shared.adapters.scoped.reach import Reach, check_seen, sweeper_only
from shared.core.webhooks.webhooks import DeliveryState, HookEntry
from shared.ports.feed import Head
from shared.ports.hooks import Hooks, HookTenant, HookWrite, Place, StoredDelivery, StoredHook


class TenantHooks:
    """See `shared.ports.hooks.Hooks`."""

    def __init__(self, hooks: Hooks, caller: Caller, *, moving: bool = False) -> None:
        self._hooks = hooks
        self._reach = Reach(caller, moving)

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        return await self._of(tenant).read(tenant, hook_id)

    async def all_of(self, tenant: str) -> list[StoredHook]:
        return await self._of(tenant).all_of(tenant)

    async def write(self, write: HookWrite) -> Head | None:
        hooks = self._of(write.tenant)
        self._reach.check_move(write.tenant)
        return await hooks.write(write)

    async def log(self, tenant: str, hook_id: str, *, after: int, limit: int) -> list[HookEntry]:
        return await self._of(tenant).log(tenant, hook_id, after=after, limit=limit)

    async def delivery(self, tenant: str, hook_id: str, number: int, name: str) -> StoredDelivery | None:
        return await self._of(tenant).delivery(tenant, hook_id, number, name)

    async def pending(
        self,
        tenant: str,
        hook_id: str | None,
        *,
        after: Place | None = None,
        due_before: datetime | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        return await self._of(tenant).pending(tenant, hook_id, after=after, due_before=due_before, limit=limit)

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        return await self._of(tenant).hooks_with_pending(tenant)

    async def ended(
        self, tenant: str, hook_id: str, *, state: DeliveryState | None = None, after: Place | None = None, limit: int
    ) -> list[StoredDelivery]:
        return await self._of(tenant).ended(tenant, hook_id, state=state, after=after, limit=limit)

    async def note(self, tenant: str, now: datetime) -> None:
        await self._of(tenant).note(tenant, now)

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        raise sweeper_only()

    async def remove(self, tenant: str, hook_id: str, *, before: datetime, after: Place, limit: int) -> Place | None:
        raise sweeper_only()

    async def hooks_with_log(self, tenant: str) -> list[str]:
        raise sweeper_only()

    async def drop_log(
        self, tenant: str, hook_id: str, *, to: int | None = None, before: datetime | None = None, limit: int
    ) -> int:
        raise sweeper_only()

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        raise sweeper_only()

    async def noted(self) -> list[HookTenant]:
        raise sweeper_only()

    async def forget(self, noted: HookTenant) -> None:
        raise sweeper_only()

    def _of(self, tenant: str) -> Hooks:
        check_seen(self._reach.sees(tenant))
        return self._hooks
