"""The files of runs as blobs: container `runs` in the account of documents and workspaces (decision 62)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobSasPermissions, UserDelegationKey, generate_blob_sas
from azure.storage.blob.aio import BlobClient, BlobServiceClient

from shared.adapters.blobs import blob_service
from shared.core.records.canonical import encode_key
from shared.errors import RunsUnavailable
from shared.ports.runs import LogPart, RunArtifact

CONTAINER = "runs"
MAX_ARTIFACTS = 1000
#: lifetime of the key that signs links; many links use one key
_KEY_LIFE = timedelta(hours=1)
#: maximum difference between the clocks of this machine and of storage
_SKEW = timedelta(minutes=5)
#: HTTP status if the range starts at or after the end of the blob
_NOTHING_THERE = 416


class BlobRuns:
    """Implementation of `shared.ports.runs.RunFiles` over Azure Blob Storage."""

    def __init__(self, service: BlobServiceClient, now: Callable[[], datetime]) -> None:
        self._service = service
        self._now = now
        self._key: UserDelegationKey | None = None
        self._key_until: datetime | None = None

    @classmethod
    def connect(
        cls,
        *,
        connection: str | None,
        endpoint: str,
        credential: AsyncTokenCredential | None,
        now: Callable[[], datetime],
    ) -> BlobRuns:
        """Connects to the storage. `endpoint` is used if `connection` is None."""
        return cls(blob_service(connection=connection, endpoint=endpoint, credential=credential), now)

    async def read_log(self, tenant: str, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart | None:
        blob = self._blob(tenant, job_id, f"{attempt}.log")
        with _unavailable():
            try:
                download = await blob.download_blob(offset=offset, length=limit)
                return LogPart(await download.readall(), download.properties.last_modified)
            except ResourceNotFoundError:
                return None
            except HttpResponseError as error:
                if error.status_code != _NOTHING_THERE:
                    raise
                return LogPart(b"", None)

    async def artifacts(self, tenant: str, job_id: str, attempt: int) -> list[RunArtifact]:
        folder = f"{_folder(tenant, job_id)}/{attempt}/"
        container, found = self._service.get_container_client(CONTAINER), []
        with _unavailable():
            try:
                pages = container.list_blobs(name_starts_with=folder, results_per_page=MAX_ARTIFACTS).by_page()
                async for page in pages:
                    async for blob in page:
                        media_type = blob.content_settings.content_type or "application/octet-stream"
                        name = blob.name.removeprefix(folder)
                        found.append(RunArtifact(name, blob.size, media_type, blob.last_modified))
                    break
            except ResourceNotFoundError:
                pass  # no run has written a file yet
        return found

    async def link(self, tenant: str, job_id: str, attempt: int, name: str, *, until: datetime) -> str:
        blob = self._blob(tenant, job_id, f"{attempt}/{name}")
        account_key = getattr(self._service.credential, "account_key", None)
        with _unavailable():
            key = await self._delegation_key(until) if account_key is None else None
        signature = generate_blob_sas(
            self._service.account_name or "",
            CONTAINER,
            blob.blob_name,
            account_key=account_key,
            user_delegation_key=key,
            permission=BlobSasPermissions(read=True),
            expiry=until,
            # the storage account must not serve a tenant's file as a web page
            content_disposition=f'attachment; filename="{name}"',
            protocol="https" if blob.url.startswith("https:") else None,
        )
        return f"{blob.url}?{signature}"

    async def _delegation_key(self, until: datetime) -> UserDelegationKey:
        """Returns a key that signs links valid until that time."""
        if self._key is None or self._key_until is None or self._key_until < until:
            key_until = self._now() + _KEY_LIFE
            self._key = await self._service.get_user_delegation_key(self._now() - _SKEW, key_until)
            self._key_until = key_until
        return self._key

    def _blob(self, tenant: str, job_id: str, name: str) -> BlobClient:
        return self._service.get_blob_client(CONTAINER, f"{_folder(tenant, job_id)}/{name}")


def _folder(tenant: str, job_id: str) -> str:
    """Returns the run's folder as the runner names it, with the tenant's name as in the workspace."""
    return f"{encode_key(tenant)}/{job_id}"


@contextmanager
def _unavailable() -> Iterator[None]:
    """Turns errors of storage into RunsUnavailable. The caller handles a missing blob."""
    try:
        yield
    except ResourceNotFoundError:
        raise
    except AzureError as error:
        raise RunsUnavailable(f"a call to the storage of runs failed: {type(error).__name__}") from error
