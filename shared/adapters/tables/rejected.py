"""`RejectedMessages` over Azure Tables: one partition a day, newest first."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, read_row, translate_errors
from shared.adapters.tables.claim_check import TextStore, offload, restore
from shared.errors import Conflict
from shared.ports.rejected import RejectedMessage, day_partition, row_key


class TablesRejected:
    """See `shared.ports.rejected.RejectedMessages`."""

    def __init__(self, account: TablesAccount, table: str, texts: TextStore) -> None:
        self._account = account
        self._table = table
        self._texts = texts

    async def quarantine(self, message: RejectedMessage) -> None:
        entity: dict[str, Any] = {
            "PartitionKey": day_partition(message.id),
            "RowKey": row_key(message.id),
            "id": message.id,
            "received_at": message.received_at,
            "reason": message.reason,
            "detail": message.detail,
            "lane": message.lane,
            "message_id": message.message_id,
            "sequence_number": (message.sequence_number, "Edm.Int64"),
            "delivery_count": message.delivery_count,
            "body": message.body,
        }
        table = await self._account.table(self._table)
        small = await offload(entity, self._texts)
        async with translate_errors():
            # merged, so that a delivery after the redrive leaves its mark
            await table.upsert_entity(small, mode=UpdateMode.MERGE)

    async def read(self, id_: str) -> RejectedMessage | None:
        entity = await read_row(await self._account.table(self._table), day_partition(id_), row_key(id_))
        return _message(await restore(dict(entity), self._texts)) if entity is not None else None

    async def list_day(self, day: str, *, after: str | None, limit: int) -> list[RejectedMessage]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @day and RowKey gt @after"
        parameters = {"day": day, "after": row_key(after) if after is not None else ""}
        found: list[RejectedMessage] = []
        async with translate_errors():
            async for entity in table.query_entities(query, parameters=parameters, results_per_page=min(limit, 1000)):
                found.append(_message(await restore(dict(entity), self._texts)))
                if len(found) == limit:
                    break
        return found

    async def mark(self, id_: str, *, redriven_at: datetime, outcome: str) -> None:
        row = {
            "PartitionKey": day_partition(id_),
            "RowKey": row_key(id_),
            "redriven_at": redriven_at,
            "redriven_outcome": outcome,
        }
        table = await self._account.table(self._table)
        with contextlib.suppress(Conflict):  # the row is gone by retention
            async with translate_errors():
                await table.update_entity(row, mode=UpdateMode.MERGE)


def _message(entity: Mapping[str, Any]) -> RejectedMessage:
    redriven_at = entity.get("redriven_at")
    number = entity["sequence_number"]
    return RejectedMessage(
        id=entity["id"],
        received_at=_instant(entity["received_at"]),
        reason=entity["reason"],
        detail=entity["detail"],
        lane=entity["lane"],
        message_id=entity["message_id"],
        sequence_number=number if isinstance(number, int) else number.value,
        delivery_count=entity["delivery_count"],
        body=entity["body"],
        redriven_at=_instant(redriven_at) if redriven_at is not None else None,
        redriven_outcome=entity.get("redriven_outcome"),
    )


def _instant(value: datetime) -> datetime:
    return datetime.combine(value.date(), value.timetz())
