"""The directory's partition in memory, for the real adapter: counts what is read, and fails when a test says so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from azure.data.tables import UpdateMode

from shared.adapters.tables.directory import TablesDirectory
from shared.adapters.tables.table import Entity, NotThere, Operation
from shared.errors import AlreadyExists, Conflict

Row = dict[str, Any]


def size_of(row: Mapping[str, Any]) -> int:
    """Bytes that Azure Tables counts for a row of this partition, all of whose columns are texts, numbers or instants.

    https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
    """
    keys = ("PartitionKey", "RowKey")
    size = 4 + sum(2 * len(row[name]) for name in keys)
    for name, value in row.items():
        if name not in keys:
            text = 4 + len(value.encode("utf-16-le")) if isinstance(value, str) else 0
            size += 8 + 2 * len(name) + (text or (8 if isinstance(value, datetime) else 4))
    return size


class DirectoryTable:
    """See `shared.adapters.tables.table.Table`: one partition, with the conditions of Azure Tables."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._etags: dict[str, str] = {}
        self._numbers = itertools.count(1)
        #: requests of each kind
        self.reads, self.queries, self.transactions = 0, 0, 0
        #: rows that were read, a query or a read of no row as one, and the same in rows of 1 KiB
        self.entities = self.kibs = 0
        #: is called with `read`, `query` or `transaction`, and the key or the first key, before it takes effect
        self.before: Callable[[str, str], None] = lambda kind, key: None
        #: is called after a transaction has taken effect
        self.after: Callable[[], None] = lambda: None

    async def table(self, name: str) -> DirectoryTable:
        """The table, as `TablesAccount` gives it."""
        return self

    def put(self, row: Row) -> None:
        """A row past the adapter."""
        self.rows[row["RowKey"]], self._etags[row["RowKey"]] = row, str(next(self._numbers))

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        await asyncio.sleep(0)
        self.before("read", row_key)
        self.reads += 1
        if row_key not in self.rows:
            self._count([])
            raise NotThere
        self._count([self.rows[row_key]])
        return Entity(self.rows[row_key], self._etags[row_key])

    async def query_entities(self, query_filter: str, *, parameters: Mapping[str, Any], **_: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        first = parameters.get("first", "")
        self.before("query", first)
        self.queries += 1
        keys = sorted(key for key in self.rows if first <= key < parameters.get("end", "~"))
        self._count([self.rows[key] for key in keys])
        for key in keys:
            yield Entity(self.rows[key], self._etags[key])

    def _count(self, found: Sequence[Row]) -> None:
        self.entities += max(1, len(found))
        self.kibs += max(1, sum(-(-size_of(row) // 1024) for row in found))

    async def submit_transaction(self, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        self.before("transaction", operations[0][1]["RowKey"])
        self.transactions += 1
        for verb, row, *options in operations:
            etag = options[0].get("etag") if options else None
            known = self._etags.get(row["RowKey"])
            if verb == "create" and known is not None:
                raise AlreadyExists
            if verb in ("update", "delete") and known is None:
                raise NotThere
            if etag is not None and etag != known:
                raise Conflict
        for verb, row, *options in operations:
            if verb == "delete":
                del self.rows[row["RowKey"]], self._etags[row["RowKey"]]
                continue
            merges = options and options[0]["mode"] is UpdateMode.MERGE
            self.put({**(self.rows.get(row["RowKey"], {}) if merges else {}), **row})
        self.after()
        return [{"etag": self._etags.get(row["RowKey"])} for _, row, *_ in operations]


def directory_over(table: DirectoryTable) -> TablesDirectory:
    account: Any = table
    return TablesDirectory(account, "gates")
