"""Whether the blob account answers."""

from __future__ import annotations

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError
from azure.storage.blob.aio import BlobServiceClient

from shared.adapters.blobs import CONTAINER
from shared.errors import LedgerUnavailable


class BlobProbe:
    """One look at one container: what a data role allows, unlike the account's own properties."""

    def __init__(self, service: BlobServiceClient) -> None:
        self._service = service

    @classmethod
    def connect(
        cls, *, connection: str | None, endpoint: str | None, credential: AsyncTokenCredential | None
    ) -> BlobProbe:
        # no retries: whoever asks wants to know how it is now
        if connection is not None:
            return cls(BlobServiceClient.from_connection_string(connection, retry_total=0))
        if endpoint is None or credential is None:
            raise ValueError("needs a connection string, or an endpoint and a credential")
        return cls(BlobServiceClient(endpoint, credential=credential, retry_total=0))

    async def check(self) -> None:
        """Raises LedgerUnavailable; a container that nobody needed yet is no fault."""
        try:
            await self._service.get_container_client(CONTAINER).exists()
        except AzureError as error:
            raise LedgerUnavailable(f"the blobs do not answer: {type(error).__name__}") from error
