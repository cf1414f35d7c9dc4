"""Azure Tables in memory, under the app's own adapters: rows, ETags, transactions of one partition, and their errors.

It has the interface of `shared.adapters.tables.table.Table`. `watch` sees every row before it is read or written; so a
test injects a fault by the row's key.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.table import INT64, MAX_OPERATIONS, Entity, NotThere, Operation, naming
from shared.errors import AlreadyExists, Conflict, LedgerRefused

#: of one row: the service's maximum is 1 MiB with a UTF-16 text of at most 64 KiB a column
_MAX_TEXT = 32 * 1024
_MAX_COLUMNS = 252

Values = dict[str, Any]
#: table, partition, row, verb (`read`, `create`, `update`, `upsert`, `delete`), and whether the write names an ETag
Watch = Callable[[str, str, str, str, bool], Awaitable[None]]


async def _unwatched(table: str, partition: str, row: str, verb: str, under_etag: bool) -> None:
    """Sees nothing."""


class Row:
    """A stored row; `longs` are the names of its columns of the type `INT64`."""

    __slots__ = ("etag", "longs", "values")

    def __init__(self, values: Values, etag: str, longs: frozenset[str] = frozenset()) -> None:
        self.values, self.etag, self.longs = values, etag, longs

    @property
    def entity(self) -> Entity:
        """The row as the adapters read it."""
        return Entity(self.values, self.etag, self.longs)


class Partition:
    """Rows by key, and the keys in their order."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.keys: list[str] = []

    def put(self, key: str, row: Row) -> None:
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = row

    def remove(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class FakeAccount:
    """Gives tables as `shared.adapters.tables.account.TablesAccount` does."""

    def __init__(self) -> None:
        self.tables: dict[str, FakeTable] = {}
        #: calls by partition, those alone for which `counts` is true
        self.calls: Counter[str] = Counter()
        self.counts: Callable[[], bool] = lambda: True
        self.watch: Watch = _unwatched
        self._etags = itertools.count(1)

    async def table(self, name: str) -> FakeTable:
        return self.of(name)

    def of(self, name: str) -> FakeTable:
        """The table of that name."""
        if name not in self.tables:
            self.tables[name] = FakeTable(self, name)
        return self.tables[name]

    def count(self, partition: str) -> None:
        if self.counts():
            self.calls[partition] += 1

    def etag(self) -> str:
        return f'W/"{next(self._etags)}"'

    def rows(self) -> Iterator[tuple[str, str, str, Row]]:
        """Each table, partition, row key and row."""
        for name, table in self.tables.items():
            for partition, part in table.partitions.items():
                yield from ((name, partition, key, part.rows[key]) for key in [*part.keys])


class FakeTable:
    """See `shared.adapters.tables.table.Table`."""

    def __init__(self, account: FakeAccount, name: str) -> None:
        self._account = account
        self.name = name
        self.partitions: defaultdict[str, Partition] = defaultdict(Partition)

    @property
    def all_rows(self) -> list[Entity]:
        """Every row, as the adapters read it."""
        return [row.entity for part in self.partitions.values() for row in part.rows.values()]

    def put(self, row: Mapping[str, Any]) -> None:
        """Stores a row as it is, past the adapters and past `watch`, whatever was there."""
        longs = frozenset(row.int64) if isinstance(row, Entity) else frozenset[str]()
        values, typed = _columns(row)
        self.partitions[row["PartitionKey"]].put(row["RowKey"], Row(values, self._account.etag(), longs | typed))

    def amend(self, partition: str, key: str, columns: Mapping[str, Any]) -> None:
        """Changes columns past the adapters and past `watch`; the ETag stays. A column that is None goes."""
        values = self.partitions[partition].rows[key].values
        values |= columns
        for name in [name for name, value in columns.items() if value is None]:
            del values[name]

    def remove(self, partition: str, key: str) -> None:
        """Removes a row past the adapters and past `watch`."""
        self.partitions[partition].remove(key)

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        self._account.count(partition_key)
        await self._account.watch(self.name, partition_key, row_key, "read", False)
        row = self.partitions[partition_key].rows.get(row_key)
        if row is None:
            raise NotThere("ResourceNotFound")
        return row.entity

    async def query_entities(
        self,
        query_filter: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        select: Sequence[str] | None = None,
        results_per_page: int | None = None,
    ) -> AsyncIterator[Entity]:
        is_match = [(column, op, (parameters or {})[name]) for column, op, name in _clauses(query_filter)]
        partitions = [value for column, op, value in is_match if column == "PartitionKey" and op == "eq"]
        self._account.count(partitions[0] if partitions else "")
        found = self._found(partitions[0] if partitions else None, is_match)
        for partition, key, _ in found:
            await self._account.watch(self.name, partition, key, "read", False)
            if (row := self.partitions[partition].rows.get(key)) is None:
                continue
            if select is None:
                yield row.entity
            else:
                yield Entity({name: row.values[name] for name in select if name in row.values}, None, row.longs)

    def _found(self, partition: str | None, clauses: list[tuple[str, str, Any]]) -> list[tuple[str, str, Row]]:
        of_keys = [(op, value) for column, op, value in clauses if column == "RowKey"]
        of_values = [
            each for each in clauses if each[0] != "RowKey" and (partition is None or each[0] != "PartitionKey")
        ]
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
                row = part.rows[key]
                if all(_holds(key, op, value) for op, value in of_keys) and all(
                    _holds(row.values.get(column), op, value) for column, op, value in of_values
                ):
                    found.append((name, key, row))
        return found

    async def submit_transaction(self, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        if not 0 < len(operations) <= MAX_OPERATIONS:
            raise LedgerRefused("InvalidInput")
        given = [_given(operation) for operation in operations]
        partition = given[0][1]["PartitionKey"]
        keys = [row["RowKey"] for _, row, *_ in given]
        if any(row["PartitionKey"] != partition for _, row, *_ in given) or len({*keys}) < len(keys):
            raise LedgerRefused("InvalidDuplicateRow, or a transaction of more than one partition")
        self._account.count(partition)
        with naming(operations):
            for place, (verb, row, _, _, etag) in enumerate(given):
                try:
                    await self._account.watch(self.name, partition, row["RowKey"], verb, etag is not None)
                except LedgerRefused as refused:
                    # as the service says it
                    raise LedgerRefused(f"{place}:{refused}") from refused
        part = self.partitions[partition]
        for verb, row, _, _, etag in given:
            _check(part, verb, row["RowKey"], etag)
        return [self._write(part, verb, row, longs, mode) for verb, row, longs, mode, _ in given]

    async def _one(self, operation: Operation) -> None:
        verb, row, longs, mode, etag = _given(operation)
        partition = row["PartitionKey"]
        self._account.count(partition)
        with naming([operation]):
            await self._account.watch(self.name, partition, row["RowKey"], verb, etag is not None)
        part = self.partitions[partition]
        if verb == "delete" and row["RowKey"] not in part.rows:
            return
        _check(part, verb, row["RowKey"], etag)
        self._write(part, verb, row, longs, mode)

    async def upsert_entity(self, entity: Mapping[str, Any], mode: UpdateMode = UpdateMode.MERGE) -> None:
        await self._one(("upsert", entity, {"mode": mode}))

    async def update_entity(
        self,
        entity: Mapping[str, Any],
        mode: UpdateMode = UpdateMode.MERGE,
        *,
        etag: str | None = None,
        match_condition: MatchConditions | None = None,
    ) -> None:
        await self._one(("update", entity, {"mode": mode, "etag": etag, "match_condition": match_condition}))

    async def delete_entity(
        self,
        partition_key: str,
        row_key: str,
        *,
        etag: str | None = None,
        match_condition: MatchConditions | None = None,
    ) -> None:
        row = {"PartitionKey": partition_key, "RowKey": row_key}
        await self._one(("delete", row, {"etag": etag, "match_condition": match_condition}))

    def _write(
        self, part: Partition, verb: str, row: Values, longs: frozenset[str], mode: UpdateMode
    ) -> dict[str, Any]:
        key = row["RowKey"]
        if verb == "delete":
            part.remove(key)
            return {}
        known = part.rows.get(key)
        merged = known is not None and verb in ("update", "upsert") and mode is UpdateMode.MERGE
        if merged and known is not None:
            row, longs = {**known.values, **row}, (known.longs - {*row}) | longs
        part.put(key, Row(row, self._account.etag(), longs))
        return {"etag": part.rows[key].etag}


@cache
def _clauses(query_filter: str) -> tuple[tuple[str, str, str], ...]:
    """Column, operator and parameter of each; all hold together."""
    found = []
    for clause in query_filter.split(" and "):
        column, op, name = clause.split(" ")
        if op not in ("eq", "ge", "gt", "lt", "le") or not name.startswith("@"):
            raise NotImplementedError(clause)
        found.append((column, op, name[1:]))
    return tuple(found)


def _holds(value: Any, op: str, other: Any) -> bool:
    if value is None or type(value) is not type(other):
        # a column that is not there, or of another type, matches no clause
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


def _given(operation: Operation) -> tuple[str, Values, frozenset[str], UpdateMode, str | None]:
    verb, row, *rest = operation
    options = rest[0] if rest else {}
    etag = options.get("etag") if options.get("match_condition") is MatchConditions.IfNotModified else None
    values, longs = _columns(row)
    if len(values) > _MAX_COLUMNS:
        raise LedgerRefused("TooManyProperties")
    untyped = [name for name, value in values.items() if type(value) is int and abs(value) >= 2**31]
    assert longs.issuperset(untyped), f"a number past 32 bits needs the type {INT64}: {untyped}"
    return verb, values, longs, options.get("mode", UpdateMode.MERGE), etag


def _columns(row: Mapping[str, Any]) -> tuple[Values, frozenset[str]]:
    """The values of the columns, and the names of those that are given with the type `INT64`."""
    values = {name: _plain(value) for name, value in row.items() if value is not None}
    return values, frozenset(name for name, value in row.items() if isinstance(value, tuple) and value[1] == INT64)


def _plain(value: Any) -> Any:
    if type(value) is str or isinstance(value, bool | int | float):
        if type(value) is str and len(value) > _MAX_TEXT:
            raise LedgerRefused("PropertyValueTooLarge")
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, tuple):
        # a number with its Edm type
        return value[0]
    raise LedgerRefused(f"no column holds a {type(value).__name__}")


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
