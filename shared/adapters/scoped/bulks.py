"""The bulks as one caller reaches them (R24): those of other tenants do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.access.caller import Caller
from shared.adapters.scoped.reach import Reach, check_seen, sweeper_only
from shared.core.bulks import Bulk, BulkItem, Work
from shared.ports.bulks import BulkKey, Bulks, BulkSlot, BulkWrite, DueBulk, StoredBulk


class TenantBulks:
    """See `shared.ports.bulks.Bulks`. What only the sweeper and the queue's function do is refused."""

    def __init__(self, bulks: Bulks, caller: Caller, *, moving: bool = False) -> None:
        self._bulks = bulks
        self._reach = Reach(caller, moving)

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        self._reach.check_move(bulk.tenant)
        await self._bulks.create(bulk, slot=slot, key=key, work=work, items=items)

    async def slots(self, tenant: str) -> list[BulkSlot]:
        return await self._of(tenant).slots(tenant)

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None:
        return await self._of(tenant).read(tenant, bulk_id)

    async def find_key(self, tenant: str, key: str) -> BulkKey | None:
        return await self._of(tenant).find_key(tenant, key)

    async def write(self, change: BulkWrite) -> StoredBulk:
        self._reach.check_move(change.after.tenant)
        return await self._bulks.write(change)

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        raise sweeper_only()

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None:
        return await self._of(tenant).read_item(tenant, bulk_id, job_id)

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        return await self._of(tenant).items(tenant, bulk_id, after=after, limit=limit)

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        return await self._of(tenant).list_bulks(tenant, after=after, limit=limit)

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        raise sweeper_only()

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        raise sweeper_only()

    async def put_due(self, due: DueBulk) -> None:
        self._reach.check_move(due.tenant)
        await self._bulks.put_due(due)

    async def drop_due(self, due: DueBulk) -> None:
        raise sweeper_only()

    def _of(self, tenant: str) -> Bulks:
        check_seen(self._reach.sees(tenant))
        return self._bulks
