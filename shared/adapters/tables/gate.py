"""GATE: a tenant's active jobs, counted in the very transactions that begin and end them (DESIGN 3)."""

from __future__ import annotations

from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from shared.adapters.tables.account import read_row
from shared.adapters.tables.keys import GATE_ROW
from shared.errors import LimitReached


async def gate_operation(table: TableClient, partition: str, change: int, limit: int | None) -> tuple[Any, ...]:
    """The operation that counts up or down, under the ETag of what was read. Raises LimitReached, LedgerUnavailable."""
    entity = await read_row(table, partition, GATE_ROW)
    active = entity["active"] if entity is not None else 0
    if limit is not None and change > 0 and active >= limit:
        raise LimitReached
    row = {"PartitionKey": partition, "RowKey": GATE_ROW, "active": max(0, active + change)}
    if entity is None:
        return ("create", row)
    under_etag = {
        "mode": UpdateMode.REPLACE,
        "etag": entity.metadata["etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    return ("update", row, under_etag)
