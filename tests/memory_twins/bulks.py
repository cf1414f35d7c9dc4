"""The bulks in this process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared.core.bulks import Bulk, BulkItem, Work
from shared.errors import AlreadyExists, Conflict
from shared.ports.bulks import BulkKey, BulkSlot, BulkWrite, DueBulk, StoredBulk


class MemoryBulks:
    """See `shared.ports.bulks.Bulks`."""

    def __init__(self) -> None:
        self._bulks: dict[tuple[str, str], StoredBulk] = {}
        self._keys: dict[tuple[str, str], BulkKey] = {}
        self._items: dict[tuple[str, str], dict[str, BulkItem]] = {}
        self._work: dict[tuple[str, str], dict[int, Work]] = {}
        self._due: set[DueBulk] = set()
        self._slots: dict[tuple[str, int], BulkSlot] = {}
        self._etags = itertools.count(1)

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        place, taken = (bulk.tenant, bulk.bulk_id), self._slots.get((bulk.tenant, slot.number))
        if place in self._bulks or (key is not None and (bulk.tenant, key.key) in self._keys):
            raise AlreadyExists
        if (taken.etag if taken is not None else "") != slot.etag:
            raise Conflict
        self._slots[bulk.tenant, slot.number] = replace(slot, bulk_id=bulk.bulk_id, etag=str(next(self._etags)))
        if key is not None:
            self._keys[bulk.tenant, key.key] = key
        self._put(bulk)
        self._items[place] = {each.job_id: each for each in items}
        self._work[place] = {each.no: each for each in work}

    async def slots(self, tenant: str) -> list[BulkSlot]:
        return [slot for (owner, _), slot in sorted(self._slots.items()) if owner == tenant]

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None:
        return self._bulks.get((tenant, bulk_id))

    async def find_key(self, tenant: str, key: str) -> BulkKey | None:
        return self._keys.get((tenant, key))

    async def write(self, change: BulkWrite) -> StoredBulk:
        place = (change.after.tenant, change.after.bulk_id)
        found, items, work = self._bulks.get(place), self._items.get(place, {}), self._work.get(place, {})
        if found is None or found.etag != change.before.etag:
            raise Conflict
        if any(each.no not in work for each in change.finished):
            raise Conflict
        if any(each.job_id in items for each in change.new_items) or any(each.no in work for each in change.added):
            raise AlreadyExists
        for gone in change.finished:
            del work[gone.no]
        work.update({each.no: each for each in change.added})
        items.update({each.job_id: each for each in (*change.items, *change.new_items)})
        return self._put(change.after)

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        return [work for _, work in sorted(self._work.get((tenant, bulk_id), {}).items())][:limit]

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None:
        return self._items.get((tenant, bulk_id), {}).get(job_id)

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        rows = sorted(self._items.get((tenant, bulk_id), {}).items())
        return [item for job_id, item in rows if job_id > (after or "")][:limit]

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        rows = sorted((id_, stored.bulk) for (owner, id_), stored in self._bulks.items() if owner == tenant)
        return [bulk for id_, bulk in rows if id_ > (after or "")][:limit]

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        place = (bulk.tenant, bulk.bulk_id)
        work, items = self._work.get(place, {}), self._items.get(place, {})
        for no in sorted(work)[:limit]:
            del work[no]
            limit -= 1
        for job_id in sorted(items)[:limit]:
            del items[job_id]
            limit -= 1
        if limit <= 0:
            return False
        self._bulks.pop(place, None)
        if bulk.key is not None:
            self._keys.pop((bulk.tenant, bulk.key), None)
        return True

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        found = sorted((each for each in self._due if each.due_at <= now), key=_due_order)
        return [each for each in found if after is None or _due_order(each) > _due_order(after)][:limit]

    async def put_due(self, due: DueBulk) -> None:
        self._due.add(due)

    async def drop_due(self, due: DueBulk) -> None:
        self._due.discard(due)

    def _put(self, bulk: Bulk) -> StoredBulk:
        stored = StoredBulk(bulk, str(next(self._etags)))
        self._bulks[bulk.tenant, bulk.bulk_id] = stored
        return stored


def _due_order(due: DueBulk) -> tuple[datetime, str]:
    return due.due_at, due.bulk_id
