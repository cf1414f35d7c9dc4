"""`SweepMarks` over Azure Tables: one row of the index table."""

from __future__ import annotations

from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, read_row
from shared.adapters.tables.keys import GUARD_PARTITION
from shared.ports.index import SweepMark

_ROW = "SWEEP"


class TablesSweepMark:
    """See `shared.ports.index.SweepMarks`."""

    def __init__(self, account: TablesAccount, table: str) -> None:
        self._account = account
        self._table = table

    async def write(self, mark: SweepMark) -> None:
        row = {
            "PartitionKey": GUARD_PARTITION,
            "RowKey": _ROW,
            "ended_at": mark.ended_at,
            "looked_at": mark.looked_at,
            "actions": mark.actions,
            "more": mark.more,
        }
        table = await self._account.table(self._table)
        await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def read(self) -> SweepMark | None:
        entity = await read_row(await self._account.table(self._table), GUARD_PARTITION, _ROW)
        if entity is None:
            return None
        return SweepMark(
            ended_at=entity["ended_at"],
            looked_at=int(entity["looked_at"]),
            actions=int(entity["actions"]),
            more=bool(entity["more"]),
        )
