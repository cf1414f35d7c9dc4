"""Blobs: texts of the ledger that exceed a table property, the archive of ended jobs, exports, and the check that the
account responds.
"""

from __future__ import annotations

import asyncio
import contextlib

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

from shared.errors import DataLost, LedgerUnavailable
from shared.time_limits import STORE, StoreLimits

CONTAINER = "lucius-ledger"
ARCHIVE = "lucius-archive"
EXPORTS = "lucius-exports"


def blob_service(
    *,
    connection: str | None,
    endpoint: str | None,
    credential: AsyncTokenCredential | None,
    limits: StoreLimits = STORE,
) -> BlobServiceClient:
    """Connects with a connection string, or with an endpoint and a credential. Raises ValueError if both are
    missing.
    """
    if connection is not None:
        return BlobServiceClient.from_connection_string(connection, **limits.blob_options)
    if endpoint is None or credential is None:
        raise ValueError("the blob client needs a connection string, or an endpoint and a credential")
    return BlobServiceClient(endpoint, credential=credential, **limits.blob_options)


class CreatedContainer:
    """A container that this process creates before its first use."""

    def __init__(self, service: BlobServiceClient, name: str) -> None:
        self._service = service
        self._name = name
        self._is_there = False
        self._creating = asyncio.Lock()

    async def ensure(self) -> None:
        """Creates the container once, if the container does not exist. Raises AzureError."""
        async with self._creating:
            if not self._is_there:
                with contextlib.suppress(ResourceExistsError):
                    await self._service.create_container(self._name)
                self._is_there = True


class BlobTexts:
    """Implementation of `shared.adapters.tables.claim_check.TextStore` and `shared.ports.ledger.Archive` over Azure
    Blob Storage.
    """

    def __init__(self, service: BlobServiceClient, container: str = CONTAINER) -> None:
        self._service = service
        self._container = container
        self._created = CreatedContainer(service, container)

    @classmethod
    def connect(
        cls,
        *,
        connection: str | None,
        endpoint: str | None,
        credential: AsyncTokenCredential | None,
        container: str = CONTAINER,
        limits: StoreLimits = STORE,
    ) -> BlobTexts:
        service = blob_service(connection=connection, endpoint=endpoint, credential=credential, limits=limits)
        return cls(service, container)

    async def put(self, name: str, text: str) -> None:
        await self.put_bytes(name, text.encode("utf-8"))

    async def put_bytes(self, name: str, content: bytes) -> None:
        try:
            await self._created.ensure()
            client = self._service.get_blob_client(self._container, name)
            await client.upload_blob(content, overwrite=True)
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the blob storage failed: {type(error).__name__}") from error

    async def get(self, name: str) -> str:
        return (await self.get_bytes(name)).decode("utf-8")

    async def get_bytes(self, name: str) -> bytes:
        try:
            stream = await self._service.get_blob_client(self._container, name).download_blob()
            return bytes(await stream.readall())
        except ResourceNotFoundError as error:
            raise DataLost(name) from error
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the blob storage failed: {type(error).__name__}") from error

    async def folders(self) -> list[str]:
        """Returns the first segment of the blobs' names, without duplicates, in order. Raises LedgerUnavailable."""
        try:
            await self._created.ensure()
            container = self._service.get_container_client(self._container)
            return [each.name.rstrip("/") async for each in container.walk_blobs(delimiter="/")]
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the blob storage failed: {type(error).__name__}") from error

    async def read(self, name: str, limit: int) -> bytes:
        try:
            client = self._service.get_blob_client(self._container, name)
            return bytes(await (await client.download_blob(offset=0, length=limit)).readall())
        except ResourceNotFoundError as error:
            raise DataLost(name) from error
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the archive failed: {type(error).__name__}") from error

    async def remove(self, prefix: str, *, limit: int | None = None) -> bool:
        removed = 0
        try:
            await self._created.ensure()
            container = self._service.get_container_client(self._container)
            async for blob in container.list_blobs(name_starts_with=prefix, results_per_page=limit):
                with contextlib.suppress(ResourceNotFoundError):
                    await container.delete_blob(blob.name)
                removed += 1
                if removed == limit:
                    return True
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the blob storage failed: {type(error).__name__}") from error
        return False

    async def check(self) -> None:
        """Reads the container's properties, since a data role cannot read the properties of the account.

        Raises LedgerUnavailable. A container that does not exist yet is not an error.
        """
        try:
            await self._service.get_container_client(self._container).exists()
        except AzureError as error:
            raise LedgerUnavailable(f"a call to the blob storage failed: {type(error).__name__}") from error

    async def close(self) -> None:
        await self._service.close()
