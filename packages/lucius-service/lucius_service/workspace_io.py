"""Reads inputs, writes artifacts and copies results, as blobs. The methods are synchronous, for worker threads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobClient, BlobServiceClient, ContentSettings, LinearRetry, StorageErrorCode

from lucius_service.append_blob import AppendBlob
from lucius_service.errors import (
    INPUT_EMPTY,
    INPUT_NOT_FOUND,
    INPUT_TOO_LARGE,
    OUTPUT_EXISTS,
    REF_UNSUPPORTED,
    SERVICE_FAULT,
    STORAGE_UNAVAILABLE,
    FailedFinal,
    FailedRetry,
)
from lucius_service.storage_faults import storage_faults

#: seconds for a connection; short faults of storage are retried here, and LUCIUS retries the step after longer ones
STORAGE_CONNECT_TIMEOUT_S = 5
STORAGE_READ_TIMEOUT_S = 60
#: container of workspaces that LUCIUS's template creates
_WORKSPACE = "workspace"
#: metadata of a final result's blob with its owner, percent-encoded since metadata is ASCII
_TENANT, _JOB = "lucius_tenant_id", "lucius_job_id"
#: maximum tries to write a result while other writers change its blob
_COPY_TRIES = 5


@dataclass(frozen=True)
class Owner:
    """The job that a result belongs to, as in the metadata of its blob."""

    tenant_id: str
    #: id of the job; for a redrive, of the first job in its chain
    job_id: str

    @property
    def metadata(self) -> dict[str, str]:
        """Returns the metadata for a result's blob."""
        return {_TENANT: _encoded_tenant(self.tenant_id), _JOB: quote(self.job_id, safe="")}


@dataclass(frozen=True)
class Document:
    """The content of a blob, with the blob's URI."""

    uri: str
    data: bytes

    @property
    def name(self) -> str:
        """Returns the last segment of the blob's path."""
        return unquote(urlsplit(self.uri).path).rsplit("/", 1)[-1]


class Workspace:
    """The only blob account that a service can use, by a connection string or the service's managed identity."""

    def __init__(self, connection: str, *, endpoint: str = "", max_input_bytes: int) -> None:
        """Connects with `connection`, or with `endpoint` if `connection` is empty. Raises ValueError for a malformed
        connection string or endpoint.
        """
        options: dict[str, Any] = {
            "retry_policy": LinearRetry(backoff=2, retry_total=2, random_jitter_range=0),
            "connection_timeout": STORAGE_CONNECT_TIMEOUT_S,
            "read_timeout": STORAGE_READ_TIMEOUT_S,
        }
        if connection:
            self._service = BlobServiceClient.from_connection_string(connection, **options)
        else:
            # imported late: not needed with connection strings
            from azure.identity import DefaultAzureCredential

            self._service = BlobServiceClient(endpoint, credential=DefaultAzureCredential(), **options)
        self._root = urlsplit(self._service.url)
        self._max_input_bytes = max_input_bytes

    def read(self, uri: str, tenant_id: str | None = None) -> Document:
        """Reads a blob. Raises FailedFinal if the blob is missing, empty, larger than `max_input_bytes` or in another
        account, or if storage denies access. Raises FailedRetry if storage is unavailable.

        With `tenant_id`, results of other tenants raise FailedFinal. If `tenant_id` is None, reads any blob.
        """
        blob = self._blob(uri)
        with storage_faults():
            try:
                download = blob.download_blob(max_concurrency=1)
                owner = (download.properties.metadata or {}).get(_TENANT)
                if tenant_id is not None and owner not in (None, _encoded_tenant(tenant_id)):
                    raise FailedFinal(REF_UNSUPPORTED, f"the reference names another tenant's result: {uri[:300]}")
                if download.size > self._max_input_bytes:
                    limit = self._max_input_bytes // 2**20
                    raise FailedFinal(INPUT_TOO_LARGE, f"the input has {download.size} bytes; the limit is {limit} MiB")
                data = download.readall()
            except ResourceNotFoundError:
                raise FailedFinal(INPUT_NOT_FOUND, f"blob not found: {uri}") from None
        if not data:
            raise FailedFinal(INPUT_EMPTY, f"the blob {uri} has no content")
        return Document(uri, data)

    def write(self, base_uri: str, name: str, data: bytes | BinaryIO, content_type: str) -> str:
        """Writes `name` under `base_uri` and returns its URI. Replaces an existing blob.

        A file as `data` is read in parts, from its beginning.
        """
        uri = blob_uri(base_uri, name)
        self._upload(uri, data, content_type, overwrite=True)
        return uri

    def write_once(self, base_uri: str, name: str, data: bytes, content_type: str) -> bytes:
        """Writes `name` under `base_uri` unless the blob exists. Returns the content that is stored afterwards."""
        uri = blob_uri(base_uri, name)
        try:
            self._upload(uri, data, content_type, overwrite=False)
        except ResourceExistsError:
            return self.read(uri).data
        return data

    def metadata(self, uri: str) -> dict[str, str]:
        """Returns the metadata of a blob, or {} if the blob is missing."""
        with storage_faults():
            try:
                return self._blob(uri).get_blob_properties().metadata or {}
            except ResourceNotFoundError:
                return {}

    def set_metadata(self, uri: str, metadata: dict[str, str]) -> bool:
        """Replaces the metadata of a blob, which changes its ETag. Returns `False` if the blob is missing, or cannot be
        changed, for instance under an immutability policy.
        """
        with storage_faults():
            try:
                self._blob(uri).set_blob_metadata(metadata)
            except (ResourceNotFoundError, ResourceExistsError):  # the latter is any 409
                return False
        return True

    def copy(self, source_uri: str, target_uri: str, owner: Owner) -> str:
        """Copies a blob of any size with its content type. Returns `sha256:{hex}` of its content.

        The copy has `owner` as metadata. Only a blob of the same job is replaced. The write is conditional, so if two
        jobs write at the same time, one write fails.

        A blob is replaced as a whole. A reader sees the previous content or the complete copy. Storage checks each part
        by its MD5. Raises FailedFinal(OUTPUT_EXISTS) and other StepFailed.
        """
        source, target = self._blob(source_uri), self._blob(target_uri)
        replaced: str | None = None
        with storage_faults():
            for _ in range(_COPY_TRIES):
                try:
                    return _copied(source, target, owner, replaced)
                except ResourceNotFoundError:
                    self._make_container(target)
                    replaced = None
                except HttpResponseError as error:
                    if not _was_changed(error):
                        raise
                    replaced = _replaceable(target, owner)
        raise FailedRetry(
            STORAGE_UNAVAILABLE, f"other writers changed {target_uri[:300]} at each of {_COPY_TRIES} tries"
        )

    def check_reference(self, uri: str, workspace_uri: str) -> None:
        """Raises FailedFinal if the attempt that works in `workspace_uri` must not use blobs under `uri`.

        The attempt must not use blobs of another account or in the workspace of another tenant. The folder of a tenant
        is the first three segments of `workspace_ref`: container, system and tenant.
        """
        own = self._path(workspace_uri).split("/")[:3]
        path = self._path(uri).split("/")
        if len(own) == 3 and path[0] == own[0] and path[:3] != own:
            raise FailedFinal(REF_UNSUPPORTED, f"the reference is in another tenant's workspace: {uri[:300]}")

    def find(self, base_uri: str, name: str) -> bytes | None:
        """Returns the content of `name` under `base_uri`, or None if the blob does not exist."""
        try:
            return self.read(blob_uri(base_uri, name)).data
        except FailedFinal as fault:
            if fault.code == INPUT_NOT_FOUND:
                return None
            raise

    def append_blob(self, uri: str) -> AppendBlob:
        """Returns the blob at `uri` for appends. Raises FailedFinal if `uri` does not name a blob of this storage
        account.
        """
        return AppendBlob(self._blob(uri), self._make_container)

    def tenant_folder(self, workspace_uri: str, container: str) -> str:
        """Returns the URI of the tenant's folder in another container, for the attempt that works in `workspace_uri`.

        The tenant is the third segment of the URI's path, as in `check_reference`.
        """
        tenant = self._path(workspace_uri).split("/")[2]
        root = f"{self._root.scheme}://{self._root.netloc}{self._root.path.rstrip('/')}"
        return f"{root}/{container}/{quote(tenant, safe='=')}"

    def check(self) -> None:
        """Checks that storage allows access to the container of workspaces, which can be missing.

        Raises FailedRetry if storage is unavailable. Raises FailedFinal if storage denies access.
        """
        with storage_faults():
            # a right on this container is enough; the first write creates a missing one
            blobs = self._service.get_container_client(_WORKSPACE).list_blobs(
                results_per_page=1, timeout=STORAGE_CONNECT_TIMEOUT_S
            )
            with suppress(ResourceNotFoundError):
                next(blobs.by_page(), None)

    def close(self) -> None:
        self._service.close()

    def _upload(self, uri: str, data: bytes | BinaryIO, content_type: str, *, overwrite: bool) -> None:
        blob = self._blob(uri)
        settings = ContentSettings(content_type=content_type)
        with storage_faults():
            try:
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)
            except ResourceNotFoundError:
                self._make_container(blob)
                if not isinstance(data, bytes):
                    data.seek(0)
                blob.upload_blob(data, overwrite=overwrite, content_settings=settings)

    def _make_container(self, blob: BlobClient) -> None:
        """Creates the container at the first write. A service without that right uses an existing container."""
        container = self._service.get_container_client(blob.container_name)
        with suppress(ResourceExistsError):
            container.create_container()

    def _blob(self, uri: str) -> BlobClient:
        container, _, name = self._path(uri).partition("/")
        if not name:
            raise FailedFinal(REF_UNSUPPORTED, f"the reference does not name a blob: {uri[:300]}")
        return self._service.get_blob_client(container, name)

    def _path(self, uri: str) -> str:
        """Returns the decoded `container/name`. Refuses other accounts, since a caller's URI must not send this
        service's credential to another host.
        """
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise FailedFinal(REF_UNSUPPORTED, "the reference is not a URI") from None
        root_path = self._root.path.rstrip("/") + "/"
        same = (parts.scheme.lower(), parts.netloc.lower()) == (self._root.scheme.lower(), self._root.netloc.lower())
        if not same or not parts.path.startswith(root_path) or parts.query or parts.fragment:
            where = f"{self._root.scheme}://{self._root.netloc}{root_path}"
            raise FailedFinal(REF_UNSUPPORTED, f"only blobs under {where} can be used, without a query: {uri[:300]}")
        path = unquote(parts.path[len(root_path) :])
        if not path.partition("/")[0] or any(part in (".", "..") for part in path.split("/")):
            raise FailedFinal(REF_UNSUPPORTED, f"the reference does not name a blob: {uri[:300]}")
        return path


def blob_uri(base_uri: str, name: str) -> str:
    """Returns the URI of `name` under `base_uri`."""
    return f"{base_uri.rstrip('/')}/{quote(name)}"


def _copied(source: BlobClient, target: BlobClient, owner: Owner, replaced: str | None) -> str:
    """Copies over the blob with the ETag `replaced`. None means that no blob may exist.

    Raises ResourceNotFoundError if the container of `target` is missing, and errors for which `_was_changed` is true.
    Raises FailedRetry if the source does not exist.
    """
    try:
        download = source.download_blob(max_concurrency=1)
    except ResourceNotFoundError:
        raise FailedRetry(SERVICE_FAULT, f"the step wrote no blob at {source.url}") from None
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        for chunk in download.chunks():
            digest.update(chunk)
            yield chunk

    condition: dict[str, Any] = {}
    if replaced is not None:
        condition = {"etag": replaced, "match_condition": MatchConditions.IfNotModified}
    target.upload_blob(
        chunks(),
        length=download.size,
        metadata=owner.metadata,
        # False: If-None-Match *
        overwrite=replaced is not None,
        validate_content=True,
        content_settings=ContentSettings(content_type=download.properties.content_settings.content_type),
        **condition,
    )
    return f"sha256:{digest.hexdigest()}"


def _was_changed(error: HttpResponseError) -> bool:
    """Returns True if a conditional write failed because another writer was first."""
    # the commit of another writer removes the uncommitted blocks
    lost_blocks = getattr(error, "error_code", None) == StorageErrorCode.INVALID_BLOCK_LIST
    return lost_blocks or isinstance(error, ResourceExistsError | ResourceModifiedError)


def _replaceable(target: BlobClient, owner: Owner) -> str | None:
    """Returns the ETag of a blob that `owner` can replace, or None if no blob exists. Raises
    FailedFinal(OUTPUT_EXISTS).
    """
    try:
        found = target.get_blob_properties()
    except ResourceNotFoundError:
        return None
    if (found.metadata or {}).get(_JOB) != owner.metadata[_JOB]:
        what = "another writer's blob exists; name a folder, or a blob that does not exist"
        raise FailedFinal(OUTPUT_EXISTS, f"{what}: {target.url[:300]}")
    return str(found.etag)


def _encoded_tenant(tenant_id: str) -> str:
    """Returns the tenant in the form in which LUCIUS compares tenants: trimmed and in lower case, encoded."""
    return quote(tenant_id.strip().lower(), safe="")
