"""A store of another release is refused, and nothing is written into it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from azure.data.tables.aio import TableClient, TableServiceClient

from shared.adapters.tables.account import STORE_VERSION, TablesAccount
from shared.errors import LedgerUnavailable, OtherStoreVersion


class Store:
    """A separate store in a shared Azurite."""

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self.tenants = f"tenants{uuid.uuid4().hex[:12]}"
        self.ledger = f"ledger{uuid.uuid4().hex[:12]}"
        self._service = TableServiceClient.from_connection_string(connection)
        self._accounts: list[TablesAccount] = []

    def account(self) -> TablesAccount:
        """As another process has it."""
        account = TablesAccount.connect(
            connection=self._connection,
            endpoint=None,
            credential=None,
            version_table=self.tenants,
            other_tables=[self.ledger],
        )
        self._accounts.append(account)
        return account

    async def table(self) -> TableClient:
        return await self._service.create_table_if_not_exists(self.tenants)

    async def version(self) -> int | None:
        rows = [row async for row in (await self.table()).query_entities("PartitionKey eq 'schema'")]
        return rows[0]["version"] if rows else None

    async def close(self) -> None:
        for account in self._accounts:
            await account.close()
        await self._service.close()


@pytest.fixture
async def store(azurite: str) -> AsyncIterator[Store]:
    store = Store(azurite)
    yield store
    await store.close()


async def test_a_new_store_gets_the_version_once(store: Store) -> None:
    """Eight processes that begin at once all get in, and so does one that comes later."""
    await asyncio.gather(*(store.account().table(store.tenants) for _ in range(8)))
    assert await store.version() == STORE_VERSION
    await (await store.table()).create_entity({"PartitionKey": "tenants", "RowKey": "a", "tenant": "a"})
    await store.account().table(store.tenants)


async def test_a_store_from_before_versions_is_refused(store: Store) -> None:
    """Tenants without a version: one line with the remedy, at every try, and the store does not change."""
    await (await store.table()).create_entity({"PartitionKey": "tenants", "RowKey": "a", "tenant": "a"})
    account = store.account()
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match=r"have version 1, .* needs version 2; .*`make reset`") as refused:
            await account.table(store.tenants)
    assert "\n" not in str(refused.value)
    assert await store.version() is None


async def test_a_store_of_a_later_release_is_refused(store: Store) -> None:
    """Its version is named."""
    await (await store.table()).create_entity({"PartitionKey": "schema", "RowKey": "schema", "version": 3})
    with pytest.raises(LedgerUnavailable, match="have version 3"):
        await store.account().table(store.tenants)


async def test_an_old_ledger_with_a_new_table_of_tenants_is_no_new_store(store: Store) -> None:
    """A tenants' table that was deleted, or has another name by a setting, makes nothing of the ledger's rows new."""
    ledger = await store._service.create_table_if_not_exists(store.ledger)
    await ledger.create_entity({"PartitionKey": "job_1", "RowKey": "JOB"})
    with pytest.raises(OtherStoreVersion):
        await store.account().table(store.ledger)
    assert await store.version() is None
