"""`Kept` over blobs: the container `lucius-anchors`, which is immutable in Azure, and the same in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, Callable

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

from shared.errors import LedgerUnavailable
from shared.ports.signing import Kept
from shared.settings import Settings
from shared.time_limits import STORE

CONTAINER = "lucius-anchors"
#: `InvalidRange`: an offset at or past the end
_PAST_END = 416


def kept_of(settings: Settings, identity: Callable[[], AsyncTokenCredential]) -> Kept:
    """Returns the files in the account for anchors, by default in the account with long strings."""
    if settings.storage_backend == "memory":
        return KeptInMemory()
    own = settings.audit_blob_endpoint
    connection = settings.blob_connection if own is None else None
    credential = identity() if connection is None else None
    return KeptBlobs.connect(connection=connection, endpoint=own or settings.blob_endpoint, credential=credential)


class KeptBlobs:
    """See `shared.ports.signing.Kept`."""

    def __init__(self, service: BlobServiceClient) -> None:
        self._service = service
        self._created = False
        self._creating = asyncio.Lock()

    @classmethod
    def connect(
        cls, *, connection: str | None, endpoint: str | None, credential: AsyncTokenCredential | None
    ) -> KeptBlobs:
        if connection is not None:
            return cls(BlobServiceClient.from_connection_string(connection, **STORE.blob_options))
        if endpoint is None or credential is None:
            raise ValueError("needs a connection string, or an endpoint and a credential")
        return cls(BlobServiceClient(endpoint, credential=credential, **STORE.blob_options))

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        client = self._service.get_blob_client(CONTAINER, name)
        try:
            await self._create_container()
            # its blocks are committed together, if there is no blob of this name then
            await client.upload_blob(content, overwrite=False)
        except ResourceExistsError:
            return False
        except AzureError as error:
            raise _unavailable(error) from error
        return True

    async def read(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        client = self._service.get_blob_client(CONTAINER, name)
        try:
            stream = await client.download_blob(offset=offset, length=length)
            return bytes(await stream.readall())
        except ResourceNotFoundError:
            return None
        except HttpResponseError as error:
            if error.status_code == _PAST_END:
                return b""
            raise _unavailable(error) from error
        except AzureError as error:
            raise _unavailable(error) from error

    async def names(self, prefix: str) -> list[str]:
        container = self._service.get_container_client(CONTAINER)
        try:
            return [name async for name in container.list_blob_names(name_starts_with=prefix)]
        except ResourceNotFoundError:
            return []
        except AzureError as error:
            raise _unavailable(error) from error

    async def close(self) -> None:
        await self._service.close()

    async def _create_container(self) -> None:
        async with self._creating:
            if not self._created:
                with contextlib.suppress(ResourceExistsError):
                    await self._service.create_container(CONTAINER)
                self._created = True


def _unavailable(error: AzureError) -> LedgerUnavailable:
    return LedgerUnavailable(f"the container {CONTAINER} does not answer: {type(error).__name__}")


class KeptInMemory:
    """See `shared.ports.signing.Kept`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        whole = b"".join([part async for part in content])
        return self.files.setdefault(name, whole) is whole

    async def read(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        whole = self.files.get(name)
        return whole[offset:][:length] if whole is not None else None

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(prefix))
