"""`Answers` over Azure Tables: one row a platform service, in the table of the directory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from azure.data.tables import UpdateMode

from shared.adapters.tables.decoding import first_decoded
from shared.adapters.tables.keys import SERVICES_PARTITION
from shared.adapters.tables.table import Entity, Tables
from shared.core.canonical import encode_key
from shared.ports.sweeps import Heard

#: stands for "not silent": a merge takes no column out
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class TablesAnswers:
    """See `shared.ports.sweeps.Answers`."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._account = account
        self._gates_table = gates_table

    async def note(self, service: str, at: datetime) -> None:
        await self._merge(service, answered_at=at)

    async def mark(self, service: str, silent_since: datetime | None) -> None:
        await self._merge(service, silent_since=silent_since or _NEVER)

    async def read(self) -> dict[str, Heard]:
        table = await self._account.table(self._gates_table)
        query = "PartitionKey eq @services"
        return dict(await first_decoded(table, query, {"services": SERVICES_PARTITION}, None, _heard_of))

    async def _merge(self, service: str, **columns: Any) -> None:
        table = await self._account.table(self._gates_table)
        row = {"PartitionKey": SERVICES_PARTITION, "RowKey": f"SERVICE:{encode_key(service)}", "service": service}
        await table.upsert_entity({**row, **columns}, mode=UpdateMode.MERGE)


def _heard_of(row: Entity) -> tuple[str, Heard]:
    since = row.get("silent_since")
    return row["service"], Heard(row.get("answered_at"), None if since == _NEVER else since)
