"""Reads inputs and writes artefacts, as blobs. Synchronous, for worker threads."""

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

#: short faults of storage are retried here for a few seconds; LUCIUS retries the step after longer ones
STORAGE_CONNECT_TIMEOUT_S = 5
STORAGE_READ_TIMEOUT_S = 60
#: the container of workspaces that the template of LUCIUS makes
_WORKSPACE = "workspace"


@dataclass(frozen=True)
class Document:
    """The content of a blob."""

    uri: str
    data: bytes

    @property
    def name(self) -> str:
        """The last segment of its path."""
        return unquote(urlsplit(self.uri).path).rsplit("/", 1)[-1]


class Workspace:
    """The one blob account that a service may use, with its connection string or its managed identity."""

    def __init__(self, connection: str, *, endpoint: str = "", max_input_bytes: int) -> None:
        """`endpoint` counts where `connection` is empty. Raises ValueError for a malformed connection string."""
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
        """Reads a blob. Raises FailedFinal, and FailedRetry where storage does not respond."""
        blob = self._blob(uri)
        with _storage_faults():
            try:
                download = blob.download_blob(max_concurrency=1)
                if download.size > self._max_input_bytes:
                    limit = self._max_input_bytes // 2**20
                    raise FailedFinal(INPUT_TOO_LARGE, f"the input has {download.size} bytes; the limit is {limit} MiB")
                data = download.readall()
            except ResourceNotFoundError:
                raise FailedFinal(INPUT_NOT_FOUND, f"blob not found: {uri}") from None
        if not data:
            raise FailedFinal(INPUT_EMPTY, f"the blob {uri} has no content")
        return Document(uri, data)

    def write(self, base_uri: str, name: str, data: bytes, content_type: str) -> str:
        """Writes `name` under `base_uri` and returns its uri. Overwrites what an earlier delivery left."""
        uri = f"{base_uri.rstrip('/')}/{quote(name)}"
        self._upload(uri, data, content_type, overwrite=True)
        return uri

    def write_once(self, base_uri: str, name: str, data: bytes, content_type: str) -> bytes:
        """Writes `name` under `base_uri` unless it exists. Returns the content that is stored afterwards."""
        uri = f"{base_uri.rstrip('/')}/{quote(name)}"
        try:
            self._upload(uri, data, content_type, overwrite=False)
        except ResourceExistsError:
            return self.read(uri).data
        return data

    def find(self, base_uri: str, name: str) -> bytes | None:
        """The content of `name` under `base_uri`; None where it does not exist."""
        try:
            return self.read(f"{base_uri.rstrip('/')}/{quote(name)}").data
        except FailedFinal as fault:
            if fault.code == INPUT_NOT_FOUND:
                return None
            raise

    def check(self) -> None:
        """Raises FailedRetry or FailedFinal where the container of workspaces does not respond."""
        with _storage_faults():
            # a right on this container alone covers it; the first write makes one that is not there yet
            blobs = self._service.get_container_client(_WORKSPACE).list_blobs(
                results_per_page=1, timeout=STORAGE_CONNECT_TIMEOUT_S
            )
            with suppress(ResourceNotFoundError):
                next(blobs.by_page(), None)

    def close(self) -> None:
        self._service.close()

    def _upload(self, uri: str, data: bytes, content_type: str, *, overwrite: bool) -> None:
        blob = self._blob(uri)
        settings = ContentSettings(content_type=content_type)
        with _storage_faults():
            try:
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)
            except ResourceNotFoundError:
                # the first writer creates the container
                container = self._service.get_container_client(blob.container_name)
                with suppress(ResourceExistsError):
                    container.create_container()
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)

    def _blob(self, uri: str) -> BlobClient:
        """Refuses other accounts: a caller's uri must not send this service's credential to another host."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise FailedFinal(REF_UNSUPPORTED, "the reference is not a uri") from None
        root_path = self._root.path.rstrip("/") + "/"
        same = (parts.scheme.lower(), parts.netloc.lower()) == (self._root.scheme.lower(), self._root.netloc.lower())
        if not same or not parts.path.startswith(root_path) or parts.query or parts.fragment:
            where = f"{self._root.scheme}://{self._root.netloc}{root_path}"
            raise FailedFinal(REF_UNSUPPORTED, f"only blobs under {where} can be used, without a query: {uri[:300]}")
        container, _, name = unquote(parts.path[len(root_path) :]).partition("/")
        if not container or not name or any(part in (".", "..") for part in (container, *name.split("/"))):
            raise FailedFinal(REF_UNSUPPORTED, f"the reference does not name a blob: {uri[:300]}")
        return self._service.get_blob_client(container, name)


@contextmanager
def _storage_faults() -> Iterator[None]:
    """Translates errors of the SDK to StepFailed. The caller handles existing and missing blobs."""
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
