"""`Heads` over Azure Tables: DAY rows and a COMPLETE row in a tenant's partition of the feed's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from shared.adapters.tables.decoding import decode_entity, row_as
from shared.adapters.tables.keys import COMPLETE_ROW, heads_before
from shared.adapters.tables.table import Entity, Tables, replace_row, row_at
from shared.adapters.tables.table_rows import TableRows, between, from_key
from shared.core.audit.heads import DayHead
from shared.core.records.canonical import encode_key
from shared.errors import AlreadyExists, Conflict
from shared.ports.heads import Completed

#: day before any head
_FIRST_DAY = date(2000, 1, 1)


class TablesHeads:
    """Implementation of `shared.ports.heads.Heads` over Azure Tables."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)

    async def list_days(
        self, tenant: str, first: date, last: date, *, after: str = "", limit: int
    ) -> list[tuple[str, DayHead]]:
        # `;` is the character after `:`
        end = f"{heads_before(last)};"
        partition = encode_key(tenant)
        query = between(partition, after, end) if after else from_key(partition, heads_before(first), end)
        # strict: a page is signed as complete
        return [(str(row["RowKey"]), decode_entity(_head_of, row)) for row in await self._rows.first(query, limit)]

    async def remove_before(self, tenant: str, day: date, *, limit: int) -> int:
        query = from_key(encode_key(tenant), heads_before(_FIRST_DAY), heads_before(day))
        return await self._rows.delete_all(await self._rows.first(query, limit))

    async def read_completed(self, tenant: str) -> Completed:
        return await self._rows.find(encode_key(tenant), COMPLETE_ROW, _decode_completed) or Completed()

    async def write_completed(self, tenant: str, completed: Completed) -> Completed:
        row: dict[str, Any] = {
            **row_at(encode_key(tenant), COMPLETE_ROW),
            "until": completed.until or "",
            "goal": completed.goal or "",
            "after": completed.after,
        }
        try:
            (metadata,) = await self._rows.transact(
                [replace_row(row, completed.etag) if completed.etag else ("create", row)]
            )
        except AlreadyExists as taken:
            raise Conflict from taken
        return replace(completed, etag=metadata["etag"])


def _head_of(row: Entity) -> DayHead:
    _, day, name = str(row["RowKey"]).split(":", 2)
    at = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
    return DayHead(name=name, day=at.date(), seq=int(row["seq"]), hash=str(row["hash"]))


def _decode_completed(row: Entity) -> Completed:
    return row_as(
        Completed,
        row,
        until=row.get("until") or None,
        goal=row.get("goal") or None,
        after=str(row["after"]),
        etag=row.etag,
    )
