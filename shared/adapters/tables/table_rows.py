"""The rows of one table, as the stores read and write them. The table is created on first use."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from shared.adapters.tables.account import read_row, transact
from shared.adapters.tables.decoding import decode_entity, leave_out
from shared.adapters.tables.table import Entity, RowOperation, Tables, delete_row
from shared.errors import Conflict, Undecodable

T = TypeVar("T")

#: maximum rows that one query leaves out, so that it ends in a store of another release
MAX_LEFT_OUT = 1000


class Query(NamedTuple):
    """An OData filter with its parameters."""

    text: str
    parameters: dict[str, Any]

    def having(self, clause: str, **parameter: Any) -> Query:
        """Returns the query for rows that also match the clause."""
        return Query(f"{self.text} and {clause}", {**self.parameters, **parameter})


def all_of(partition: str) -> Query:
    """Returns the query for a partition."""
    return Query("PartitionKey eq @partition", {"partition": partition})


def between(partition: str, first: str, end: str) -> Query:
    """Returns the query for rows between two keys, excluding both keys. `;` is the character after `:`."""
    return all_of(partition).having("RowKey gt @first and RowKey lt @end", first=first, end=end)


def from_key(partition: str, first: str, end: str) -> Query:
    """Returns the query for rows from key `first` on and before key `end`."""
    return all_of(partition).having("RowKey ge @first and RowKey lt @end", first=first, end=end)


class TableRows:
    """The rows of a table, which is created on first use.

    Each method raises LedgerUnavailable if the store does not give a valid response. A write also raises the errors of
    `Table`.
    """

    def __init__(self, account: Tables, name: str) -> None:
        self.account = account
        self.name = name

    async def read(self, partition: str, row: str) -> Entity | None:
        """Returns a row, or None if the row does not exist."""
        return await read_row(await self.account.table(self.name), partition, row)

    async def find(self, partition: str, row: str, decode: Callable[[Entity], T]) -> T | None:
        """Returns the object of a row, or None if the row does not exist. Raises Undecodable."""
        entity = await self.read(partition, row)
        return decode_entity(decode, entity) if entity is not None else None

    async def query(self, query: Query, **options: Any) -> AsyncIterator[Entity]:
        """Yields the rows in the order of their keys."""
        table = await self.account.table(self.name)
        async for entity in table.query_entities(query.text, parameters=query.parameters, **options):
            yield entity

    async def first(self, query: Query, limit: int) -> list[Entity]:
        """Returns at most `limit` rows, in the order of their keys."""
        found: list[Entity] = []
        async for entity in self.query(query, results_per_page=min(limit, 1000)):
            found.append(entity)
            if len(found) == limit:
                break
        return found

    async def read_decoded(
        self,
        query: Query,
        limit: int | None,
        decode: Callable[[Entity], T | None],
        unread: list[str] | None = None,
        **options: Any,
    ) -> list[T]:
        """Returns the objects of the first rows that can be decoded, at most `limit`, in key order.

        `decode` returns None for a row that does not belong to the list. The query continues past such rows and
        undecodable rows, so a page is shorter than its limit only at the end of its range. `unread` gets the keys of
        rows that cannot be decoded. Raises Undecodable after `MAX_LEFT_OUT` of these rows.
        """
        found: list[T] = []
        left_out = 0
        page = min(limit, 1000) if limit is not None else None
        async for entity in self.query(query, results_per_page=page, **options):
            try:
                if (one := decode_entity(decode, entity)) is not None:
                    found.append(one)
            except Undecodable as row:
                left_out += 1
                if left_out > MAX_LEFT_OUT:
                    raise
                leave_out(row, unread)
            if len(found) == limit:
                break
        return found

    async def transact(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        """Commits one transaction. Returns the metadata of each row, in order."""
        return await transact(await self.account.table(self.name), operations)

    async def write(self, operation: RowOperation) -> None:
        """Writes one row outside of a transaction."""
        await (await self.account.table(self.name)).write(operation)

    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        """Deletes a row. Does nothing if the row does not exist. With `etag`, does nothing if the row has changed."""
        with contextlib.suppress(Conflict):
            await self.write(delete_row(partition, row, etag))

    async def delete_all(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Deletes the rows, which are at most 100 rows of one partition, by their keys. Returns the number of `rows`.

        Deletes no row if another process has deleted one of the rows.
        """
        deletes = [delete_row(row["PartitionKey"], row["RowKey"]) for row in rows]
        if deletes:
            with contextlib.suppress(Conflict):
                await self.transact(deletes)
        return len(deletes)
