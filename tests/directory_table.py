"""The directory's partition in memory, for the real adapter: counts reads, and fails on request of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from shared.adapters.tables.directory import TablesDirectory
from shared.adapters.tables.table import Entity, NotThere, RowOperation
from tests.fake_tables import FakeAccount, FakeTable

Row = dict[str, Any]


def size_of(row: Mapping[str, Any]) -> int:
    """Returns the bytes that Azure Tables counts for a row of this partition, whose columns are texts, numbers or
    timestamps.

    https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
    """
    keys = ("PartitionKey", "RowKey")
    size = 4 + sum(2 * len(row[name]) for name in keys)
    for name, value in row.items():
        if name not in keys:
            text = 4 + len(value.encode("utf-16-le")) if isinstance(value, str) else 0
            size += 8 + 2 * len(name) + (text or (8 if isinstance(value, datetime) else 4))
    return size


class DirectoryTable(FakeTable):
    """The partition of the directory. It counts its requests and rows."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "gates")
        #: requests of each kind
        self.reads, self.queries, self.transactions = 0, 0, 0
        #: rows that were read, a query or a read of no row as one, and the same in rows of 1 KiB
        self.entities = self.kibs = 0
        #: is called with `read`, `query` or `transaction`, and the key or the first key, before its effect
        self.before: Callable[[str, str], None] = lambda kind, key: None
        #: is called after a transaction has taken effect
        self.after: Callable[[], None] = lambda: None

    async def table(self, name: str) -> DirectoryTable:
        """The table, as `TablesAccount` gives it."""
        return self

    @property
    def rows(self) -> dict[str, Row]:
        """Its rows by key."""
        return {row["RowKey"]: dict(row) for row in self.all_rows}

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        await asyncio.sleep(0)
        self.before("read", row_key)
        self.reads += 1
        try:
            found = await super().get_entity(partition_key, row_key)
        except NotThere:
            self._count([])
            raise
        self._count([found])
        return found

    async def query_entities(self, query_filter: str, **options: Any) -> AsyncIterator[Entity]:
        await asyncio.sleep(0)
        self.before("query", options["parameters"].get("first", ""))
        self.queries += 1
        found = [entity async for entity in super().query_entities(query_filter, **options)]
        self._count(found)
        for entity in found:
            yield entity

    def _count(self, found: Sequence[Row]) -> None:
        self.entities += max(1, len(found))
        self.kibs += max(1, sum(-(-size_of(row) // 1024) for row in found))

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        self.before("transaction", operations[0][1]["RowKey"])
        self.transactions += 1
        done = await super().submit_transaction(operations)
        self.after()
        return done


def directory_over(table: DirectoryTable) -> TablesDirectory:
    account: Any = table
    return TablesDirectory(account, "gates")
