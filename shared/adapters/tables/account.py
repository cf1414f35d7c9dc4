"""The ledger's storage account: its tables, the version of the store, and the client of the SDK."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Unpack

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.data.tables import EntityProperty, RequestTooLargeError, TableEntity
from azure.data.tables.aio import TableClient, TableServiceClient

from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.adapters.tables.table import (
    INT64,
    MAX_OPERATIONS,
    UNSTORABLE,
    Entity,
    NotThere,
    QueryOptions,
    RowOperation,
    Table,
    meaning,
    naming,
)
from shared.errors import AlreadyExists, Conflict, LedgerRefused, LedgerUnavailable, LuciusError, OtherStoreVersion
from shared.time_limits import STORE, StoreLimits

#: version of the rows that this release reads and writes; raise it if a release cannot read earlier rows
STORE_VERSION = 2
#: version of a store that has rows but no version
_BEFORE_VERSIONS = 1
#: row of the tenants' table with the version, the only one in its partition
_SCHEMA = {"PartitionKey": "schema", "RowKey": "schema"}


class TablesAccount:
    """Tables that are created on first use, after a check of the store's version (R44)."""

    def __init__(
        self,
        service: TableServiceClient,
        version_table: str,
        direct: DirectAccount | None = None,
        *,
        other_tables: Sequence[str] = (),
    ) -> None:
        """Sets the account. `direct` is the transport for calls on rows. The SDK creates the tables in any case."""
        self._service = service
        self._direct = direct
        self._version_table = version_table
        self._other_tables = other_tables
        self._is_checked = False
        self._ready: dict[str, Table] = {}
        self._creating = asyncio.Lock()

    @classmethod
    def connect(
        cls,
        *,
        connection: str | None,
        endpoint: str | None,
        credential: AsyncTokenCredential | None,
        version_table: str,
        other_tables: Sequence[str] = (),
        limits: StoreLimits = STORE,
        transport: str = "direct",
    ) -> TablesAccount:
        """Connects to the tables.

        `version_table` is the tenants' table, which has the row of the store's version. `other_tables` are the tables
        with rows of that version. A store is new only if all these tables are empty.

        `transport` is `direct` or `sdk`. Raises ValueError without a connection string if the endpoint or the
        credential is missing. Raises ValueError for a signed URL with `direct`, since `direct` accepts only an account
        key or a credential. With `direct`, a credential requires an https endpoint.
        """
        if connection is not None:
            service = TableServiceClient.from_connection_string(connection, **limits.options)
        elif endpoint is not None and credential is not None:
            service = TableServiceClient(endpoint, credential=credential, **limits.options)
        else:
            raise ValueError("the Table client needs a connection string, or an endpoint and a credential")
        direct = DirectAccount(service.url, service.credential, limits) if transport == "direct" else None
        return cls(service, version_table, direct, other_tables=other_tables)

    @property
    def url(self) -> str:
        """Returns the URL of the account's tables."""
        return str(self._service.url)

    async def table(self, name: str) -> Table:
        """Returns the table after the check of the version. Raises LedgerUnavailable, OtherStoreVersion."""
        if (client := self._ready.get(name)) is not None:
            return client
        async with self._creating:
            try:
                if not self._is_checked:
                    await self._check_version()
                    self._is_checked = True
                if name not in self._ready:
                    self._ready[name] = await self._create(name)
            except (AlreadyExists, Conflict) as moving:
                # a table that Azure is still deleting can be neither created nor read
                raise LedgerUnavailable("a table of the ledger is being deleted") from moving
        return self._ready[name]

    async def open_unchecked(self, name: str) -> Table:
        """Returns the table without a check of the store's version, for a restore. Raises LedgerUnavailable, or
        AlreadyExists while Azure is still deleting a table of that name.
        """
        return await self._create(name)

    async def _check_version(self) -> None:
        """Writes this release's version into a new store. Raises OtherStoreVersion, LedgerUnavailable."""
        table = await self._create(self._version_table)
        row = await _version_row(table)
        if row is None:
            others = [await self._create(name) for name in self._other_tables]
            if all([await _is_empty(each) for each in (table, *others)]):
                with contextlib.suppress(AlreadyExists):
                    await transact(table, [("create", {**_SCHEMA, "version": STORE_VERSION})])
            # a process that starts using the store first writes its version
            row = await _version_row(table)
        found = row["version"] if row is not None else _BEFORE_VERSIONS
        if found != STORE_VERSION:
            raise OtherStoreVersion(found, STORE_VERSION)

    async def _create(self, name: str) -> Table:
        async with translate_errors():
            client = await self._service.create_table_if_not_exists(name)
        return SdkTable(client) if self._direct is None else DirectTable(self._direct, name)

    async def close(self) -> None:
        await self._service.close()
        if self._direct is not None:
            await self._direct.close()


async def _is_empty(table: Table) -> bool:
    async for _ in table.query_entities("PartitionKey ge @first", parameters={"first": ""}, results_per_page=1):
        return False
    return True


async def _version_row(table: Table) -> Entity | None:
    return await read_row(table, _SCHEMA["PartitionKey"], _SCHEMA["RowKey"])


async def read_row(table: Table, partition: str, row: str) -> Entity | None:
    """Reads a row. Returns None if the row does not exist. Raises LedgerUnavailable."""
    try:
        return await table.get_entity(partition, row)
    except NotThere:
        return None


async def transact(table: Table, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
    """Commits one entity-group transaction. Returns each row's metadata, in order. Raises errors as
    `Table.submit_transaction` does.
    """
    if len(operations) > MAX_OPERATIONS:
        # Azurite refuses a larger one with text that the SDK cannot parse
        raise LedgerRefused(f"a transaction has at most {MAX_OPERATIONS} rows")
    metadata = await table.submit_transaction(operations)
    gone = [operation[0] == "delete" for operation in operations]
    if len(metadata) != len(gone) or not all(each or "etag" in new for each, new in zip(gone, metadata, strict=True)):
        raise LedgerUnavailable("the ledger returned only a part of a transaction's results")
    return metadata


class SdkTable:
    """Implementation of `shared.adapters.tables.table.Table` over Azure Tables."""

    def __init__(self, client: TableClient) -> None:
        self._client = client

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        async with translate_errors() as hook:
            return _convert_entity(await self._client.get_entity(partition_key, row_key, raw_request_hook=hook))

    async def query_entities(self, query_filter: str, **options: Unpack[QueryOptions]) -> AsyncIterator[Entity]:
        select = options.get("select")
        async with translate_errors() as hook:
            pages = self._client.query_entities(
                query_filter,
                parameters=dict(options.get("parameters") or {}),
                select=list(select) if select is not None else None,
                results_per_page=options.get("results_per_page"),
                raw_request_hook=hook,
            ).by_page()
        while True:
            async with translate_errors(hook):
                try:
                    page = [_convert_entity(entity) async for entity in await anext(pages)]
                except StopAsyncIteration:
                    return
            for entity in page:
                yield entity

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        with naming(operations):
            async with translate_errors() as hook:
                return [dict(each) for each in await self._client.submit_transaction(operations, raw_request_hook=hook)]

    async def write(self, operation: RowOperation) -> None:
        verb, row, *options = operation
        given = (row["PartitionKey"], row["RowKey"]) if verb == "delete" else (row,)
        with naming([operation]):
            async with translate_errors() as hook:
                await getattr(self._client, f"{verb}_entity")(*given, **dict(*options), raw_request_hook=hook)


def _convert_entity(entity: TableEntity) -> Entity:
    int64 = [name for name, value in entity.items() if isinstance(value, EntityProperty) and value.edm_type == INT64]
    values = {name: _convert_value(value) for name, value in entity.items()}
    return Entity(values, entity.metadata["etag"], int64)


def _convert_value(value: Any) -> Any:
    if isinstance(value, EntityProperty):
        return value.value
    if isinstance(value, datetime):
        # the SDK's subclass also has tenths of a microsecond; a plain datetime compares correctly
        return datetime.combine(value.date(), value.timetz())
    return value


class Sent:
    """A request hook of the SDK that records the sending of the request."""

    def __init__(self) -> None:
        self.is_sent = False

    def __call__(self, _request: object) -> None:
        self.is_sent = True


@asynccontextmanager
async def translate_errors(sent: Sent | None = None) -> AsyncIterator[Sent]:
    """Maps the SDK's errors to errors of LUCIUS: HTTP statuses as `meaning` does, and timeouts, lost connections and
    invalid responses to LedgerUnavailable.

    A malformed response can make the SDK raise any exception. An error of `UNSTORABLE` before the request is sent means
    a value that no column can have, and becomes LedgerRefused.
    """
    sent = sent or Sent()
    try:
        yield sent
    except RequestTooLargeError as error:
        # the error's own status may be that of the whole transaction
        raise meaning(413, None, str(error.message)) from error
    except HttpResponseError as error:
        code = getattr(error, "error_code", None)
        raise meaning(error.status_code, code and str(getattr(code, "value", code)), str(error.message)) from error
    except AzureError as error:
        raise LedgerUnavailable(f"the ledger does not respond: {type(error).__name__}") from error
    except LuciusError:
        raise
    except Exception as error:
        if sent.is_sent:
            raise LedgerUnavailable(f"the ledger sent an invalid response: {type(error).__name__}") from error
        if isinstance(error, UNSTORABLE):
            # without the SDK's text, which repeats the value
            raise LedgerRefused(f"the ledger cannot store a value: {type(error).__name__}") from error
        raise
