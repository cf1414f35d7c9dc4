"""The one client of the ledger's storage account, the version of what it holds, and the mapping of its errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import RequestTooLargeError, TableTransactionError
from azure.data.tables.aio import TableClient, TableServiceClient

from shared.errors import AlreadyExists, Conflict, LedgerRefused, LedgerUnavailable, OtherStoreVersion
from shared.time_limits import STORE, StoreLimits

#: codes that mean "the rows are not as you read them"
_CONFLICTS = {"UpdateConditionNotSatisfied", "ConditionNotMet", "EntityNotFound", "ResourceNotFound"}
_EXISTS = {"EntityAlreadyExists"}
#: what the SDK raises, before anything is sent, for a value that no column holds (`azure.data.tables._serialize`)
_UNSTORABLE = (TypeError, ValueError, OverflowError)

#: of the rows that this release writes and reads; raised where a release cannot read those before
STORE_VERSION = 2
#: of a store with rows and no version
_BEFORE_VERSIONS = 1
#: the row of the tenants' table that says it: its only row in this partition
_SCHEMA = {"PartitionKey": "schema", "RowKey": "schema"}


class TablesAccount:
    """Table clients that create their table on first use, once the store's version is known (R44)."""

    def __init__(self, service: TableServiceClient, version_table: str) -> None:
        self._service = service
        self._version_table = version_table
        self._is_checked = False
        self._ready: dict[str, TableClient] = {}
        self._creating = asyncio.Lock()

    @classmethod
    def connect(
        cls,
        *,
        connection: str | None,
        endpoint: str | None,
        credential: AsyncTokenCredential | None,
        version_table: str,
        limits: StoreLimits = STORE,
    ) -> TablesAccount:
        """`version_table` is the tenants' table, which has the row of the store's version."""
        if connection is not None:
            return cls(TableServiceClient.from_connection_string(connection, **limits.options), version_table)
        if endpoint is None or credential is None:
            raise ValueError("needs a connection string, or an endpoint and a credential")
        return cls(TableServiceClient(endpoint, credential=credential, **limits.options), version_table)

    async def table(self, name: str) -> TableClient:
        """Raises LedgerUnavailable, OtherStoreVersion."""
        if (client := self._ready.get(name)) is not None:
            return client
        async with self._creating:
            try:
                if not self._is_checked:
                    await _check_version(await self._created(self._version_table))
                    self._is_checked = True
                if name not in self._ready:
                    self._ready[name] = await self._created(name)
            except (AlreadyExists, Conflict) as moving:
                # a table that Azure still deletes can be neither made nor read
                raise LedgerUnavailable("a table of the ledger is being deleted") from moving
        return self._ready[name]

    async def _created(self, name: str) -> TableClient:
        async with translate_errors():
            return await self._service.create_table_if_not_exists(name)

    async def close(self) -> None:
        await self._service.close()


async def _check_version(table: TableClient) -> None:
    """Writes this release's version into a store that is new. Raises OtherStoreVersion, LedgerUnavailable."""
    row = await _version_row(table)
    if row is None:
        if await _is_empty(table):
            with contextlib.suppress(AlreadyExists):
                async with translate_errors():
                    await table.create_entity({**_SCHEMA, "version": STORE_VERSION})
        # another process may have begun the store meanwhile: it writes its version first
        row = await _version_row(table)
    found = row["version"] if row is not None else _BEFORE_VERSIONS
    if found != STORE_VERSION:
        raise OtherStoreVersion(found, STORE_VERSION)


async def _is_empty(table: TableClient) -> bool:
    async with translate_errors():
        async for _ in table.list_entities(results_per_page=1):
            return False
    return True


async def _version_row(table: TableClient) -> Any:
    return await read_row(table, _SCHEMA["PartitionKey"], _SCHEMA["RowKey"])


async def read_row(table: TableClient, partition: str, row: str) -> Any:
    """The entity with its metadata, or None if it is not there. Raises LedgerUnavailable."""
    try:
        async with translate_errors():
            return await table.get_entity(partition, row)
    except Conflict as missing:
        if isinstance(missing.__cause__, ResourceNotFoundError):
            return None
        raise


async def transact(table: TableClient, operations: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """One entity-group transaction; gives each row's metadata, in order."""
    async with translate_errors():
        return [dict(meta) for meta in await table.submit_transaction(operations)]


@asynccontextmanager
async def translate_errors() -> AsyncIterator[None]:
    """Maps the SDK's errors. Timeouts, 5xx and lost connections are transient, refused values permanent."""
    try:
        yield
    except RequestTooLargeError as error:
        raise LedgerRefused(str(error.message)) from error
    except (TableTransactionError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError) as error:
        code = str(getattr(error, "error_code", "") or "").split(".")[-1]
        if code in _EXISTS or isinstance(error, ResourceExistsError):
            raise AlreadyExists(code) from error
        if code in _CONFLICTS or isinstance(error, ResourceModifiedError | ResourceNotFoundError):
            raise Conflict(code) from error
        raise _by_status(error) from error
    except HttpResponseError as error:
        raise _by_status(error) from error
    except AzureError as error:
        raise LedgerUnavailable(f"the ledger does not answer: {type(error).__name__}") from error
    except _UNSTORABLE as error:
        # without the SDK's text, which repeats the value
        raise LedgerRefused(f"a value fits no column of the ledger: {type(error).__name__}") from error


def _by_status(error: HttpResponseError) -> Exception:
    if error.status_code == 400:
        return LedgerRefused(str(error.message))
    if error.status_code == 409:
        return AlreadyExists()
    if error.status_code in (404, 412):
        return Conflict()
    return LedgerUnavailable(f"the ledger answered {error.status_code}")
