"""The interface of one table: the methods of the SDK's `TableClient` that the adapters need.

Two implementations use Azure, with the same behaviour (R45): `account.SdkTable` over the SDK, and `direct.DirectTable`
over HTTP. Both return plain values (times in UTC, whole numbers as `int`) and raise the errors of `shared.errors`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypedDict, Unpack

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.errors import AlreadyExists, Conflict, LedgerRefused, LedgerUnavailable, LuciusError, Undecodable

#: `("create" | "update" | "upsert" | "delete", row)`, optionally with keyword arguments of that method of the SDK's
#: `TableClient`
RowOperation = tuple[Any, ...]

#: maximum operations of one entity-group transaction
MAX_OPERATIONS = 100

#: errors before a request is sent, for a value that a column cannot have
UNSTORABLE = (TypeError, ValueError, OverflowError)

#: type of a whole number past 32 bits; `(number, INT64)` writes one
INT64 = "Edm.Int64"


class Entity(dict[str, Any]):
    """A row with its keys, without its `Timestamp`. Reading a missing column raises Undecodable."""

    def __init__(self, values: Mapping[str, Any], etag: str | None, int64: Collection[str] = ()) -> None:
        super().__init__(values)
        #: `etag`: None if the store returned none, as for selected columns
        self.metadata = {"etag": etag}
        #: names of columns of type `INT64`
        self.int64 = int64

    @property
    def etag(self) -> str:
        """Returns the ETag, or "" if the store returned none."""
        return self.metadata["etag"] or ""

    def __missing__(self, name: str) -> Any:
        raise Undecodable(key_of(self), f"the row has no column {name}")


def row_at(partition: str, row: str) -> dict[str, Any]:
    """Returns the key columns of a row."""
    return {"PartitionKey": partition, "RowKey": row}


def merge_row(row: Mapping[str, Any], etag: str | None = None) -> RowOperation:
    """Returns the operation that changes these columns of an existing row. With `etag`, the operation fails if the row
    has changed.
    """
    return ("update", row, {"mode": UpdateMode.MERGE, **_match_etag(etag)})


def replace_row(row: Mapping[str, Any], etag: str | None = None) -> RowOperation:
    """Returns the operation that replaces an existing row completely. With `etag`, the operation fails if the row has
    changed.
    """
    return ("update", row, {"mode": UpdateMode.REPLACE, **_match_etag(etag)})


def upsert_row(row: Mapping[str, Any]) -> RowOperation:
    """Returns the operation that changes these columns of a row, or creates the row."""
    return ("upsert", row, {"mode": UpdateMode.MERGE})


def put_row(row: Mapping[str, Any]) -> RowOperation:
    """Returns the operation that creates the row, or replaces it completely."""
    return ("upsert", row, {"mode": UpdateMode.REPLACE})


def delete_row(partition: str, row: str, etag: str | None = None) -> RowOperation:
    """Returns the operation that deletes a row. With `etag`, the operation fails if the row has changed."""
    return ("delete", row_at(partition, row), _match_etag(etag))


def _match_etag(etag: str | None) -> dict[str, Any]:
    return {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def key_of(row: Mapping[str, Any]) -> str:
    """Returns partition and row key, for logs and errors."""
    return f"{row.get('PartitionKey')} {row.get('RowKey')}"


class NotThere(Conflict):
    """The row does not exist."""


class QueryOptions(TypedDict, total=False):
    """Keyword arguments of `Table.query_entities`."""

    parameters: Mapping[str, Any] | None
    select: Sequence[str] | None
    results_per_page: int | None


class Table(Protocol):
    """A table. Methods return plain values. Each method raises LedgerUnavailable if the store does not give a valid
    response.
    """

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        """Returns a row. Raises NotThere."""

    def query_entities(self, query_filter: str, **options: Unpack[QueryOptions]) -> AsyncIterator[Entity]:
        """Yields rows in key order. `@name` in the filter, as a separate word, stands for the parameter of that
        name.
        """

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        """Commits all operations or none. The transaction is not repeated after a lost response, since the store may
        have committed it.

        Returns a mapping for each operation, with the row's new `etag` unless the row was deleted. Raises Conflict,
        AlreadyExists, LedgerRefused.
        """

    async def write(self, operation: RowOperation) -> None:
        """Updates, upserts or deletes a row outside of a transaction. After a lost response, a replacement or deletion
        is repeated, and a merge is not.

        Does nothing if a row to delete does not exist. Raises Conflict, LedgerRefused.
        """


class Tables(Protocol):
    """The tables of one storage account: `account.TablesAccount`, or `shared.adapters.memory_tables.MemoryAccount`."""

    async def table(self, name: str) -> Table:
        """Returns the table, and creates it on first use. Raises LedgerUnavailable, OtherStoreVersion."""


@contextmanager
def naming(operations: Sequence[RowOperation]) -> Iterator[None]:
    """Adds the key of the refused row to LedgerRefused.

    The store names a row of a transaction by its position from 0, as `3:`. Without a position, the key is that of the
    first row.
    """
    try:
        yield
    except LedgerRefused as refused:
        place = _PLACE.match(str(refused))
        number = int(place[1]) if place is not None else 0
        row = operations[number if number < len(operations) else 0][1]
        raise LedgerRefused(f"{row['PartitionKey']} {row['RowKey']}: {refused}") from refused


_PLACE = re.compile(r"(\d{1,2}):")


def meaning(status: int | None, code: str | None, message: str) -> LuciusError:
    """Returns the error of a refused request, from its status and the Table service's error code."""
    if status in (400, 413):
        return LedgerRefused(message)
    # a response without a code is not from the Table service, and shows nothing about rows
    if status == 409 and code:
        return AlreadyExists(code)
    if status == 404 and code:
        return NotThere(code)
    if status == 412 and code:
        return Conflict(code)
    return LedgerUnavailable(f"the ledger returned {status}")
