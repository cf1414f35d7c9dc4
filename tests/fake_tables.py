"""The app's tables in memory with means for tests: rows that are changed past the adapters, counts, and faults.

`watch` sees every row before it is read or written, so that a test injects a fault by the row's key.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from shared.adapters.memory_tables import MemoryAccount, MemoryTable, Partition, StoredRow, Values, columns_of
from shared.adapters.tables.table import Entity, RowOperation, naming, put_row
from shared.adapters.tables.table_rows import TableRows
from shared.errors import LedgerRefused

__all__ = ["FakeAccount", "FakeTable", "StoredRow"]

#: table, partition, row, verb (`read`, `create`, `update`, `upsert`, `delete`), and whether the write names an ETag
Watch = Callable[[str, str, str, str, bool], Awaitable[None]]


async def _unwatched(table: str, partition: str, row: str, verb: str, under_etag: bool) -> None:
    """Sees nothing."""


class FakeAccount(MemoryAccount):
    """Counts the calls of its tables, and has them watched.

    `committed` is called after each transaction, and after each write of a single row, with the table's name.
    """

    tables: dict[str, FakeTable]  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        #: calls by partition, those alone for which `counts` is true
        self.calls: Counter[str] = Counter()
        self.counts: Callable[[], bool] = lambda: True
        self.watch: Watch = _unwatched
        self.committed: Callable[[str, Sequence[RowOperation]], None] = lambda *_: None

    async def table(self, name: str) -> FakeTable:
        return self.of(name)

    def of(self, name: str) -> FakeTable:
        if name not in self.tables:
            self.tables[name] = FakeTable(self, name)
        return self.tables[name]


class FakeTable(MemoryTable):
    """See the module."""

    account: FakeAccount

    def __init__(self, account: FakeAccount, name: str) -> None:
        super().__init__(account, name)
        #: by kind of row, each is called with partition and row key of a row that changes; `""`: every kind
        self.on_change: defaultdict[str, list[Callable[[str, str], None]]] = defaultdict(list)

    @property
    def all_rows(self) -> list[Entity]:
        """Every row, as the adapters read it."""
        return [row.entity for part in self.partitions.values() for row in part.rows.values()]

    def row(self, partition: str, key: str) -> Entity | None:
        """Returns a row past `watch`."""
        found = self.partitions[partition].rows.get(key)
        return found.entity if found is not None else None

    def put(self, row: Mapping[str, Any]) -> None:
        """Stores a row, past the adapters and past `watch`, replacing any other."""
        longs = frozenset(row.int64) if isinstance(row, Entity) else frozenset[str]()
        values, typed = columns_of(row)
        self.partitions[row["PartitionKey"]].put(row["RowKey"], StoredRow(values, self.account.etag(), longs | typed))
        self._changed(row["PartitionKey"], row["RowKey"])

    def amend(self, partition: str, key: str, columns: Mapping[str, Any]) -> None:
        """Changes columns past the adapters and past `watch`; the ETag stays. Removes a column that is None."""
        values = self.partitions[partition].rows[key].values
        values |= columns
        for name in [name for name, value in columns.items() if value is None]:
            del values[name]
        self._changed(partition, key)

    def remove(self, partition: str, key: str) -> None:
        """Removes a row past the adapters and past `watch`."""
        self.partitions[partition].remove(key)
        self._changed(partition, key)

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        self._note_call(partition_key)
        if self.account.watch is not _unwatched:
            await self.account.watch(self.name, partition_key, row_key, "read", False)
        return await super().get_entity(partition_key, row_key)

    async def query_entities(self, query_filter: str, **options: Any) -> AsyncIterator[Entity]:  # type: ignore[override]
        parameters = options.get("parameters") or {}
        named = query_filter.split(" and ")[0].split(" ")
        self._note_call(parameters[named[2][1:]] if named[:2] == ["PartitionKey", "eq"] else "")
        select = options.get("select")
        for partition, key in self._keys_found(query_filter, parameters):
            if self.account.watch is not _unwatched:
                await self.account.watch(self.name, partition, key, "read", False)
            if (row := self.partitions[partition].rows.get(key)) is None:
                continue
            if select is None:
                yield row.entity
            else:
                yield Entity({name: row.values[name] for name in select if name in row.values}, None, row.longs)

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        self._note_call(operations[0][1]["PartitionKey"] if operations else "")
        with naming(operations):
            for place, operation in enumerate(operations):
                try:
                    await self._watched(operation)
                except LedgerRefused as refused:
                    # with the service's text
                    raise LedgerRefused(f"{place}:{refused}") from refused
        metadata = await super().submit_transaction(operations)
        self.account.committed(self.name, operations)
        return metadata

    async def write(self, operation: RowOperation) -> None:
        self._note_call(operation[1]["PartitionKey"])
        with naming([operation]):
            await self._watched(operation)
        await super().write(operation)
        self.account.committed(self.name, [operation])

    def _write(self, part: Partition, verb: str, row: Values, *rest: Any) -> dict[str, Any]:
        metadata = super()._write(part, verb, row, *rest)
        self._changed(row["PartitionKey"], row["RowKey"])
        return metadata

    def _changed(self, partition: str, key: str) -> None:
        for kind in (key.partition(":")[0], ""):
            for each in self.on_change.get(kind, ()):
                each(partition, key)

    async def _watched(self, operation: RowOperation) -> None:
        if self.account.watch is _unwatched:
            return
        verb, row, *rest = operation
        under_etag = bool(rest) and rest[0].get("match_condition") is not None
        await self.account.watch(self.name, row["PartitionKey"], row["RowKey"], verb, under_etag)

    def _note_call(self, partition: str) -> None:
        if self.account.counts():
            self.account.calls[partition] += 1


def compare_no_etag(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Lets each transaction of a table overwrite concurrent writes: a planted fault."""
    real = TableRows.transact

    async def transact(rows: TableRows, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        if rows.name == table:
            operations = [(verb, row) if verb == "delete" else put_row(row) for verb, row, *_ in operations]
        return await real(rows, operations)

    monkeypatch.setattr(TableRows, "transact", transact)
