"""`RejectedMessages` over Azure Tables: one partition per day, newest first, and one per tenant with the tenant's list
items.

Lists and deletions read ranges of keys, and so only the necessary rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from shared.adapters.tables.claim_check import SUFFIX, TextStore, offload, restore
from shared.adapters.tables.decoding import decode_entity, row_as
from shared.adapters.tables.table import Entity, Tables, merge_row, row_at, upsert_row
from shared.adapters.tables.table_rows import Query, TableRows, all_of, between
from shared.core.records.canonical import digest
from shared.errors import Conflict, DataLost
from shared.ports.rejected import RejectedMessage, Rejection, day_partition, row_key, row_keys_between

_LISTED = ["PartitionKey", "RowKey", *(field.name for field in fields(Rejection))]
#: maximum concurrent deletions of messages
_AT_ONCE = 16


class TablesRejected:
    """Implementation of `shared.ports.rejected.RejectedMessages` over Azure Tables."""

    def __init__(self, account: Tables, table: str, texts: TextStore) -> None:
        self._rows = TableRows(account, table)
        self._texts = texts

    async def quarantine(self, message: RejectedMessage) -> None:
        known = {name: value for name, value in vars(message).items() if name != "body" and value is not None}
        line = {**known, "RowKey": row_key(message.id), "sequence_number": (message.sequence_number, "Edm.Int64")}
        day, *tenants = _partitions(message.id, message.tenant)
        rows = [await offload({"PartitionKey": day, **line, "body": message.body}, self._texts)]
        rows += [{"PartitionKey": partition, **line} for partition in tenants]
        for row in rows:
            # merged, so that a repeated delivery keeps the mark of a redrive
            await self._rows.write(upsert_row(row))

    async def read(self, id_: str) -> RejectedMessage | None:
        entity = await self._rows.read(day_partition(id_), row_key(id_))
        if entity is None:
            return None
        try:
            return decode_entity(_message, await restore(entity, self._texts))
        except DataLost as lost:
            raise DataLost(lost.blob, entity.get("tenant")) from lost

    async def list_days(
        self, first: date, last: date, *, tenant: str | None, after: str | None, limit: int
    ) -> list[Rejection]:
        if tenant is not None:
            newest, oldest = row_keys_between(first, last)
            start = max(newest, row_key(after) if after is not None else "")
            return await self._range(_tenant_partition(tenant), start, oldest, limit)
        found: list[Rejection] = []
        until = day_partition(after) if after is not None else None
        for back in range((last - first).days + 1):
            day = f"{last - timedelta(days=back):%Y%m%d}"
            if until is None or day <= until:
                start = row_key(after) if after is not None and day == until else ""
                found += await self._range(day, start, ":", limit - len(found))
            if len(found) == limit:
                break
        return found

    async def _range(self, partition: str, start: str, end: str, limit: int) -> list[Rejection]:
        """Returns rows between two keys, newest first, without their bodies."""
        query = between(partition, start, end)
        return await self._rows.read_decoded(query, limit, partial(row_as, Rejection), select=_LISTED)

    async def mark(self, message: Rejection, *, redriven_at: datetime, outcome: str) -> None:
        for partition in _partitions(message.id, message.tenant):
            row = {**row_at(partition, row_key(message.id)), "redriven_at": redriven_at, "redriven_outcome": outcome}
            with contextlib.suppress(Conflict):  # the retention has deleted the row
                await self._rows.write(merge_row(row))

    async def delete_before(self, day: date, *, limit: int) -> int:
        # the partitions of tenants sort after those of days
        found = await self._rows.first(Query("PartitionKey lt @day", {"day": f"{day:%Y%m%d}"}), limit)
        semaphore = asyncio.Semaphore(_AT_ONCE)

        async def delete(row: Entity) -> None:
            async with semaphore:
                await self._delete(row)

        await asyncio.gather(*map(delete, found))
        return len(found)

    async def purge(self, tenant: str, *, limit: int) -> int:
        lines = await self._rows.first(all_of(_tenant_partition(tenant)), limit)
        for line in lines:
            whole = await self._rows.read(day_partition(line["id"]), line["RowKey"])
            # if another process deletes the message, only its list item is left
            await self._delete(line if whole is None else await self._without_shared(whole))
        return len(lines)

    async def _without_shared(self, row: Entity) -> Entity:
        """Returns the row without the names of blobs that other messages of the day also use. Equal bodies share a
        blob.
        """
        kept = Entity(row, row.etag, row.int64)
        for name in [each for each in row if each.endswith(SUFFIX)]:
            same = all_of(row["PartitionKey"]).having(f"{name} eq @blob", blob=row[name])
            if len(await self._rows.first(same, 2)) > 1:
                del kept[name]
        return kept

    async def _delete(self, row: Entity) -> None:
        """Deletes a message. The row in the partition of the message's day is deleted last, so after a crash the next
        call finds the message again.
        """
        for name in row:
            if name.endswith(SUFFIX):
                await self._texts.remove(row[name])
        tenants = [_tenant_partition(row["tenant"])] if "tenant" in row else []
        for partition in (*tenants, row["PartitionKey"]):
            await self._rows.delete(partition, row["RowKey"])


def _partitions(id_: str, tenant: str | None) -> list[str]:
    """Returns the partitions of the message's row and, if the message names a tenant, of the item in the tenant's
    list.
    """
    return [day_partition(id_), *([_tenant_partition(tenant)] if tenant is not None else [])]


def _tenant_partition(tenant: str) -> str:
    # a digest, since an unknown sender chose the name
    return f"tenant_{digest(tenant)}"


def _message(entity: Mapping[str, Any]) -> RejectedMessage:
    return row_as(RejectedMessage, entity)
