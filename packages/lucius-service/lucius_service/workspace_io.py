"""Blobs in and out: inputs, and artefacts in the layout of S3 13.3. Synchronous: called from worker threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobClient, BlobServiceClient, ContentSettings, LinearRetry

from lucius_service.errors import (
    INPUT_EMPTY,
    INPUT_NOT_FOUND,
    INPUT_TOO_LARGE,
    REF_UNSUPPORTED,
    STORAGE_DENIED,
    STORAGE_UNAVAILABLE,
    FailedFinal,
    FailedRetry,
)

#: a storage hiccup is waited out for a few seconds here; a longer one is the orchestrator's to retry
STORAGE_CONNECT_TIMEOUT_S = 5
STORAGE_READ_TIMEOUT_S = 60


@dataclass(frozen=True)
class Document:
    """A blob that was read."""

    uri: str
    data: bytes

    @property
    def name(self) -> str:
        """The last part of its path."""
        return unquote(urlsplit(self.uri).path).rsplit("/", 1)[-1]


class Workspace:
    """The one blob account that a service may use, under the credential of its own connection or its own identity."""

    def __init__(self, connection: str, *, endpoint: str = "", max_input_bytes: int) -> None:
        """`endpoint` counts where there is no connection string. Raises ValueError for what is none."""
        options: dict[str, Any] = {
            "retry_policy": LinearRetry(backoff=2, retry_total=2, random_jitter_range=0),
            "connection_timeout": STORAGE_CONNECT_TIMEOUT_S,
            "read_timeout": STORAGE_READ_TIMEOUT_S,
        }
        if connection:
            self._service = BlobServiceClient.from_connection_string(connection, **options)
        else:
            self._service = BlobServiceClient(endpoint, credential=DefaultAzureCredential(), **options)
        self._root = urlsplit(self._service.url)
        self._max_input_bytes = max_input_bytes

    def read(self, uri: str) -> Document:
        """Raises FailedFinal for what will not come right by itself, FailedRetry for what may."""
        blob = self._blob(uri)
        with _storage_faults():
            try:
                download = blob.download_blob(max_concurrency=1)
                if download.size > self._max_input_bytes:
                    limit = self._max_input_bytes // 2**20
                    raise FailedFinal(INPUT_TOO_LARGE, f"the input has {download.size} bytes; {limit} MiB are taken")
                data = download.readall()
            except ResourceNotFoundError:
                raise FailedFinal(INPUT_NOT_FOUND, f"there is no blob {uri}") from None
        if not data:
            raise FailedFinal(INPUT_EMPTY, f"the blob {uri} has no content")
        return Document(uri, data)

    def write(self, base_uri: str, name: str, data: bytes, content_type: str) -> str:
        """Writes `name` under `base_uri`, over what an earlier delivery of the attempt may have left. Gives its uri."""
        uri = f"{base_uri.rstrip('/')}/{quote(name)}"
        self._upload(uri, data, content_type, overwrite=True)
        return uri

    def write_once(self, base_uri: str, name: str, data: bytes, content_type: str) -> bytes:
        """Writes `name` unless it is there; gives what is there afterwards."""
        uri = f"{base_uri.rstrip('/')}/{quote(name)}"
        try:
            self._upload(uri, data, content_type, overwrite=False)
        except ResourceExistsError:
            return self.read(uri).data
        return data

    def find(self, base_uri: str, name: str) -> bytes | None:
        """What is at `name` under `base_uri`; None: nothing."""
        try:
            return self.read(f"{base_uri.rstrip('/')}/{quote(name)}").data
        except FailedFinal as fault:
            if fault.code == INPUT_NOT_FOUND:
                return None
            raise

    def check(self) -> None:
        """Raises FailedRetry or FailedFinal where the account does not answer."""
        with _storage_faults():
            # what the right to read blobs covers; the account's properties would need one on the account itself
            next(self._service.list_containers(results_per_page=1, timeout=STORAGE_CONNECT_TIMEOUT_S).by_page(), None)

    def close(self) -> None:
        self._service.close()

    def _upload(self, uri: str, data: bytes, content_type: str, *, overwrite: bool) -> None:
        blob = self._blob(uri)
        settings = ContentSettings(content_type=content_type)
        with _storage_faults():
            try:
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)
            except ResourceNotFoundError:
                # the container is made by whoever comes first
                container = self._service.get_container_client(blob.container_name)
                with suppress(ResourceExistsError):
                    container.create_container()
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)

    def _blob(self, uri: str) -> BlobClient:
        """Only our own account is reached: anything else would send our credential's bearer where a caller likes."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise FailedFinal(REF_UNSUPPORTED, "the reference is no uri") from None
        root_path = self._root.path.rstrip("/") + "/"
        same = (parts.scheme.lower(), parts.netloc.lower()) == (self._root.scheme.lower(), self._root.netloc.lower())
        if not same or not parts.path.startswith(root_path) or parts.query or parts.fragment:
            where = f"{self._root.scheme}://{self._root.netloc}{root_path}"
            raise FailedFinal(REF_UNSUPPORTED, f"only blobs under {where} can be used, without a query: {uri[:300]}")
        container, _, name = unquote(parts.path[len(root_path) :]).partition("/")
        if not container or not name or any(part in (".", "..") for part in (container, *name.split("/"))):
            raise FailedFinal(REF_UNSUPPORTED, f"the reference names no blob: {uri[:300]}")
        return self._service.get_blob_client(container, name)


@contextmanager
def _storage_faults() -> Iterator[None]:
    """The SDK's errors as ours. An existing or missing blob is for the caller to judge."""
    try:
        yield
    except (ResourceExistsError, ResourceNotFoundError):
        raise
    except ClientAuthenticationError as error:
        raise FailedFinal(STORAGE_DENIED, f"the storage account refused the service ({error.status_code})") from error
    except HttpResponseError as error:
        status = error.status_code or 0
        if 400 <= status < 500 and status not in (408, 412, 429):
            raise FailedFinal(STORAGE_DENIED, f"the storage account answered {status} ({error.reason})") from error
        raise FailedRetry(STORAGE_UNAVAILABLE, f"the storage account answered {status} ({error.reason})") from error
    except (AzureError, OSError) as error:
        raise FailedRetry(
            STORAGE_UNAVAILABLE, f"the storage account is out of reach ({type(error).__name__})"
        ) from error
