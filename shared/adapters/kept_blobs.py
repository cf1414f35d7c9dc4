"""Implementations of `shared.ports.signing.Kept`: blobs in the container `lucius-anchors`, which is immutable in Azure,
and in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterable

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

from shared.adapters.blobs import CreatedContainer, blob_service
from shared.errors import LedgerUnavailable

CONTAINER = "lucius-anchors"
#: status `InvalidRange`, for an offset at or past the end
_PAST_END = 416


class KeptBlobs:
    """Implementation of `shared.ports.signing.Kept` over Azure Blob Storage."""

    def __init__(self, service: BlobServiceClient) -> None:
        self._service = service
        self._created = CreatedContainer(service, CONTAINER)

    @classmethod
    def connect(
        cls, *, connection: str | None, endpoint: str | None, credential: AsyncTokenCredential | None
    ) -> KeptBlobs:
        return cls(blob_service(connection=connection, endpoint=endpoint, credential=credential))

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        client = self._service.get_blob_client(CONTAINER, name)
        try:
            await self._created.ensure()
            # the blob's blocks are committed together, only if there is no blob of this name then
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


def _unavailable(error: AzureError) -> LedgerUnavailable:
    return LedgerUnavailable(f"a call to the container {CONTAINER} failed: {type(error).__name__}")


class KeptInMemory:
    """Implementation of `shared.ports.signing.Kept` in memory."""

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
