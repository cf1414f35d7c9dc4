"""Azure Tables in memory: rows, ETags, transactions of one partition, and the service's errors.

With `LUCIUS_STORAGE_BACKEND=memory`, the adapters of `shared.adapters.tables` use these tables and `MemoryTexts`. All
contents are lost when the process ends.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, Unpack

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.table import INT64, MAX_OPERATIONS, Entity, NotThere, QueryOptions, RowOperation, naming
from shared.errors import AlreadyExists, Conflict, DataLost, LedgerRefused

#: maximum characters of a text column; the service accepts 64 KiB of UTF-16
_MAX_TEXT = 32 * 1024
_MAX_COLUMNS = 252

Values = dict[str, Any]


class StoredRow:
    """A stored row. `longs` has the names of its columns of type `INT64`."""

    __slots__ = ("etag", "longs", "values")

    def __init__(self, values: Values, etag: str, longs: frozenset[str] = frozenset()) -> None:
        self.values, self.etag, self.longs = values, etag, longs

    @property
    def entity(self) -> Entity:
        """Returns a copy of the row, as the adapters read it."""
        return Entity(self.values, self.etag, self.longs)


class Partition:
    """Rows by key, with their keys in order."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredRow] = {}
        self.keys: list[str] = []

    def put(self, key: str, row: StoredRow) -> None:
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = row

    def remove(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class MemoryAccount:
    """Tables in memory by name, in place of `shared.adapters.tables.account.TablesAccount`."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self._etags = itertools.count(1)

    async def table(self, name: str) -> MemoryTable:
        return self.of(name)

    def of(self, name: str) -> MemoryTable:
        """Returns the table, and creates it on first use."""
        if name not in self.tables:
            self.tables[name] = MemoryTable(self, name)
        return self.tables[name]

    def etag(self) -> str:
        """Returns an ETag that no row has yet."""
        return f'W/"{next(self._etags)}"'

    def rows(self) -> Iterator[tuple[str, str, str, StoredRow]]:
        """Yields table name, partition key, row key and row, in key order within a partition."""
        for name, table in self.tables.items():
            for partition, part in table.partitions.items():
                yield from ((name, partition, key, part.rows[key]) for key in [*part.keys])


class MemoryTable:
    """Implementation of `shared.adapters.tables.table.Table` in memory. No method waits, so each method except a query
    is atomic in its event loop. Other tasks can run between two rows of a query.
    """

    def __init__(self, account: MemoryAccount, name: str) -> None:
        self.account = account
        self.name = name
        self.partitions: defaultdict[str, Partition] = defaultdict(Partition)

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        row = self.partitions[partition_key].rows.get(row_key)
        if row is None:
            raise NotThere("ResourceNotFound")
        return row.entity

    async def query_entities(self, query_filter: str, **options: Unpack[QueryOptions]) -> AsyncIterator[Entity]:
        select = options.get("select")
        for partition, key in self._keys_found(query_filter, options.get("parameters") or {}):
            # the row may have been deleted while the reader waited
            if (row := self.partitions[partition].rows.get(key)) is None:
                continue
            if select is None:
                yield row.entity
            else:
                yield Entity({name: row.values[name] for name in select if name in row.values}, None, row.longs)

    def _keys_found(self, query_filter: str, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        clauses = [(column, op, parameters[name]) for column, op, name in _clauses(query_filter)]
        partition = next((value for column, op, value in clauses if column == "PartitionKey" and op == "eq"), None)
        of_keys = [(op, value) for column, op, value in clauses if column == "RowKey"]
        of_values = [each for each in clauses if each[0] != "RowKey" and (partition is None or each[0] != _PARTITION)]
        found = []
        for name in [partition] if partition is not None else sorted(self.partitions):
            part = self.partitions[name]
            keys = part.keys
            for op, value in of_keys:
                if op in ("ge", "gt"):
                    keys = keys[bisect_left(keys, value) :]
                elif op == "lt":
                    keys = keys[: bisect_left(keys, value)]
            for key in keys:
                values = part.rows[key].values
                if all(_holds(key, op, value) for op, value in of_keys) and all(
                    _holds(values.get(column), op, value) for column, op, value in of_values
                ):
                    found.append((name, key))
        return found

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        if not 0 < len(operations) <= MAX_OPERATIONS:
            raise LedgerRefused("InvalidInput")
        given = [_parse_operation(operation) for operation in operations]
        partition = given[0][1][_PARTITION]
        keys = {row["RowKey"] for _, row, *_ in given}
        if any(row[_PARTITION] != partition for _, row, *_ in given) or len(keys) < len(given):
            raise LedgerRefused("InvalidDuplicateRow, or a transaction of more than one partition")
        part = self.partitions[partition]
        for verb, row, _, _, etag in given:
            _check(part, verb, row["RowKey"], etag)
        return [self._write(part, verb, row, longs, mode) for verb, row, longs, mode, _ in given]

    async def write(self, operation: RowOperation) -> None:
        with naming([operation]):
            verb, row, longs, mode, etag = _parse_operation(operation)
        part = self.partitions[row[_PARTITION]]
        if verb == "delete" and row["RowKey"] not in part.rows:
            return
        _check(part, verb, row["RowKey"], etag)
        self._write(part, verb, row, longs, mode)

    def _write(
        self, part: Partition, verb: str, row: Values, longs: frozenset[str], mode: UpdateMode
    ) -> dict[str, Any]:
        key = row["RowKey"]
        if verb == "delete":
            part.remove(key)
            return {}
        known = part.rows.get(key)
        if known is not None and verb in ("update", "upsert") and mode is UpdateMode.MERGE:
            row, longs = {**known.values, **row}, (known.longs - {*row}) | longs
        part.put(key, StoredRow(row, self.account.etag(), longs))
        return {"etag": part.rows[key].etag}


class MemoryTexts:
    """Implementation of `shared.adapters.tables.claim_check.TextStore` and `shared.ports.ledger.Archive` in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def put(self, name: str, text: str) -> None:
        self.kept[name] = text

    async def get(self, name: str) -> str:
        if name not in self.kept:
            raise DataLost(name)
        return self.kept[name]

    async def read(self, name: str, limit: int) -> bytes:
        return (await self.get(name)).encode()[:limit]

    async def remove(self, prefix: str, *, limit: int | None = None) -> bool:
        found = [name for name in self.kept if name.startswith(prefix)][:limit]
        for name in found:
            del self.kept[name]
        return len(found) == limit


_PARTITION = "PartitionKey"


@cache
def _clauses(query_filter: str) -> tuple[tuple[str, str, str], ...]:
    """Returns column, operator and parameter of each clause. A row must match all clauses."""
    found = []
    for clause in query_filter.split(" and "):
        column, op, name = clause.split(" ")
        if op not in ("eq", "ge", "gt", "lt", "le") or not name.startswith("@"):
            raise NotImplementedError(clause)
        found.append((column, op, name[1:]))
    return tuple(found)


def _holds(value: Any, op: str, other: Any) -> bool:
    if value is None or type(value) is not type(other):
        # a missing column, or one of another type, matches no clause
        return False
    match op:
        case "eq":
            return bool(value == other)
        case "ge":
            return bool(value >= other)
        case "gt":
            return bool(value > other)
        case "lt":
            return bool(value < other)
    return bool(value <= other)


def _parse_operation(operation: RowOperation) -> tuple[str, Values, frozenset[str], UpdateMode, str | None]:
    verb, row, *rest = operation
    options = rest[0] if rest else {}
    etag = options.get("etag") if options.get("match_condition") is MatchConditions.IfNotModified else None
    values, longs = columns_of(row)
    if len(values) > _MAX_COLUMNS:
        raise LedgerRefused("TooManyProperties")
    untyped = [name for name, value in values.items() if type(value) is int and abs(value) >= 2**31]
    assert longs.issuperset(untyped), f"a number above 32 bits needs the type {INT64}: {untyped}"
    return verb, values, longs, options.get("mode", UpdateMode.MERGE), etag


def columns_of(row: Mapping[str, Any]) -> tuple[Values, frozenset[str]]:
    """Returns the values of the columns, and the names of the columns of type `INT64`.

    Raises LedgerRefused for a value that a column cannot have.
    """
    values: Values = {}
    longs: list[str] = []
    for name, value in row.items():
        kind = type(value)
        if kind is str:
            if len(value) > _MAX_TEXT:
                raise LedgerRefused("PropertyValueTooLarge")
            values[name] = value
        elif kind is bool or kind is int:
            values[name] = value
        elif value is not None:
            values[name] = _convert_value(value)
            if kind is tuple and value[1] == INT64:
                longs.append(name)
    return values, frozenset(longs)


def _convert_value(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, tuple):
        # a number with its Edm type
        return value[0]
    raise LedgerRefused(f"a column cannot store a {type(value).__name__}")


def _check(part: Partition, verb: str, key: str, etag: str | None) -> None:
    known = part.rows.get(key)
    if verb == "create":
        if known is not None:
            raise AlreadyExists("EntityAlreadyExists")
    elif verb in ("update", "delete"):
        if known is None:
            raise NotThere("ResourceNotFound")
        if etag is not None and etag != known.etag:
            raise Conflict("UpdateConditionNotSatisfied")
