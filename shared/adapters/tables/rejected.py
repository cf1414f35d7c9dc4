"""`RejectedMessages` over Azure Tables: newest first, one partition a day, and one a tenant with the lines of its list.

So neither a list nor a removal looks at a row that it does not need, however many there are: each is one range of keys.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import date, datetime, timedelta
from typing import Any

from azure.data.tables import UpdateMode

from shared.adapters.tables.account import read_row
from shared.adapters.tables.claim_check import SUFFIX, TextStore, offload, restore
from shared.adapters.tables.decoding import decoded, first_decoded
from shared.adapters.tables.table import Table, Tables
from shared.core.canonical import digest
from shared.errors import Conflict, DataLost
from shared.ports.rejected import RejectedMessage, Rejection, day_partition, row_key, row_keys_between

_KEYS = ("PartitionKey", "RowKey", "tenant")
_LISTED = ["PartitionKey", "RowKey", *(field.name for field in fields(Rejection))]
#: removals at the same time: each is two or three calls
_AT_ONCE = 16


class TablesRejected:
    """See `shared.ports.rejected.RejectedMessages`."""

    def __init__(self, account: Tables, table: str, texts: TextStore) -> None:
        self._account = account
        self._table = table
        self._texts = texts

    async def quarantine(self, message: RejectedMessage) -> None:
        line: dict[str, Any] = {
            "RowKey": row_key(message.id),
            "id": message.id,
            "received_at": message.received_at,
            "reason": message.reason,
            "detail": message.detail,
            "lane": message.lane,
            "message_id": message.message_id,
            "sequence_number": (message.sequence_number, "Edm.Int64"),
            "delivery_count": message.delivery_count,
        }
        if message.tenant is not None:
            line["tenant"] = message.tenant
        table = await self._account.table(self._table)
        day, *tenants = _partitions(message.id, message.tenant)
        rows = [await offload({"PartitionKey": day, **line, "body": message.body}, self._texts)]
        rows += [{"PartitionKey": partition, **line} for partition in tenants]
        for row in rows:
            # merged, so that a delivery after the redrive leaves its mark
            await table.upsert_entity(row, mode=UpdateMode.MERGE)

    async def read(self, id_: str) -> RejectedMessage | None:
        entity = await read_row(await self._account.table(self._table), day_partition(id_), row_key(id_))
        if entity is None:
            return None
        try:
            return decoded(_message, await restore(entity, self._texts))
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
        """Rows between two keys, newest first, without their bodies."""
        table = await self._account.table(self._table)
        query = "PartitionKey eq @partition and RowKey gt @start and RowKey lt @end"
        parameters = {"partition": partition, "start": start, "end": end}
        return await first_decoded(table, query, parameters, limit, _rejection, select=_LISTED)

    async def mark(self, message: Rejection, *, redriven_at: datetime, outcome: str) -> None:
        table = await self._account.table(self._table)
        for partition in _partitions(message.id, message.tenant):
            row = {
                "PartitionKey": partition,
                "RowKey": row_key(message.id),
                "redriven_at": redriven_at,
                "redriven_outcome": outcome,
            }
            with contextlib.suppress(Conflict):  # the row is gone by retention
                await table.update_entity(row, mode=UpdateMode.MERGE)

    async def delete_before(self, day: date, *, limit: int) -> int:
        table = await self._account.table(self._table)
        # the partitions of tenants sort after those of days
        query, parameters = "PartitionKey lt @day", {"day": f"{day:%Y%m%d}"}
        found: list[dict[str, Any]] = []
        async for entity in table.query_entities(query, parameters=parameters, results_per_page=min(limit, 1000)):
            found.append({name: entity[name] for name in entity if name in _KEYS or name.endswith(SUFFIX)})
            if len(found) == limit:
                break
        semaphore = asyncio.Semaphore(_AT_ONCE)

        async def delete(row: dict[str, Any]) -> None:
            async with semaphore:
                await self._delete(table, row)

        await asyncio.gather(*map(delete, found))
        return len(found)

    async def _delete(self, table: Table, row: dict[str, Any]) -> None:
        """The row of its day goes last: killed before, the next call finds it again."""
        for name in row:
            if name.endswith(SUFFIX):
                await self._texts.remove(row[name])
        tenants = [_tenant_partition(row["tenant"])] if "tenant" in row else []
        for partition in (*tenants, row["PartitionKey"]):
            with contextlib.suppress(Conflict):  # another sweep was faster
                await table.delete_entity(partition, row["RowKey"])


def _partitions(id_: str, tenant: str | None) -> list[str]:
    """Of the message's row, and of its line in the list of its tenant, if it names one."""
    return [day_partition(id_), *([_tenant_partition(tenant)] if tenant is not None else [])]


def _tenant_partition(tenant: str) -> str:
    # a digest, since the name is a stranger's text of any characters
    return f"tenant_{digest(tenant)}"


def _message(entity: Mapping[str, Any]) -> RejectedMessage:
    return RejectedMessage(**asdict(_rejection(entity)), body=entity["body"])


def _rejection(entity: Mapping[str, Any]) -> Rejection:
    return Rejection(
        id=entity["id"],
        received_at=entity["received_at"],
        reason=entity["reason"],
        detail=entity["detail"],
        lane=entity["lane"],
        message_id=entity["message_id"],
        sequence_number=entity["sequence_number"],
        delivery_count=entity["delivery_count"],
        tenant=entity.get("tenant"),
        redriven_at=entity.get("redriven_at"),
        redriven_outcome=entity.get("redriven_outcome"),
    )
