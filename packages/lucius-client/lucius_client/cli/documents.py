"""Documents in the blob store: uploads before a job, and results after the job."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import BlobClient, BlobServiceClient, ContentSettings

from lucius_client.cli.exits import DependencyUnreachable, UsageError
from lucius_client.results import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, RETRY

SETTING = "LUCIUS_BLOB_CONNECTION"
_DEVELOPMENT_ENDPOINT = f"http://127.0.0.1:10000/{DEVELOPMENT_ACCOUNT}"
_DEVELOPMENT = (
    f"DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};"
    f"BlobEndpoint={_DEVELOPMENT_ENDPOINT};"
)
_UPLOADS = "documents"
_RESULTS = "results"


class Documents:
    """A tenant's folders in one blob account. Uploads raise DependencyUnreachable if the account does not respond
    or refuses the upload.
    """

    def __init__(self, connection: str | None = None, *, tenant: str = "demo") -> None:
        """Connects with a connection string. None means `LUCIUS_BLOB_CONNECTION`, else Azurite on this machine."""
        self._folder = _folder(tenant)
        connection = connection or configured() or _DEVELOPMENT
        try:
            self._client = BlobServiceClient.from_connection_string(connection, **RETRY)
        except ValueError as error:
            raise UsageError(
                f"{SETTING} is not a storage connection string: {error}; copy the string from the storage account"
            ) from error
        self.endpoint = self._client.url.rstrip("/")

    @classmethod
    def of_azurite(cls, endpoint: str) -> Documents:
        """Returns the documents of the tenant `demo` in Azurite's development account at the URL `endpoint`."""
        return cls(_DEVELOPMENT.replace(_DEVELOPMENT_ENDPOINT, endpoint))

    @property
    def results_uri(self) -> str:
        """Returns the URI of the tenant's folder for results. Jobs write their output below this URI."""
        return f"{self.endpoint}/{_RESULTS}/{quote(self._folder)}"

    def uri_of(self, path: Path) -> str:
        """Returns the URI that the file will have after its upload."""
        return str(self._blob(path, _content(path)).url)

    def upload(self, path: Path) -> str:
        """Uploads a file and returns the blob's URI. The blob's path has a hash of the content. Raises UsageError."""
        content = _content(path)
        kind = ContentSettings(content_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream")
        try:
            for container in (_UPLOADS, _RESULTS):
                with suppress(ResourceExistsError):
                    self._client.create_container(container)
            blob = self._blob(path, content)
            blob.upload_blob(content, overwrite=True, content_settings=kind)
        except AzureError as error:
            raise self._unreachable(error) from error
        return str(blob.url)

    def read_json(self, uri: str) -> Any:
        """Returns the JSON document at `uri`. Returns None if `uri` is not a blob of this account, or the blob is not
        readable JSON.
        """
        path = urlsplit(uri).path.removeprefix(urlsplit(self.endpoint).path).lstrip("/")
        container, _, name = unquote(path).partition("/")
        if not uri.startswith(self.endpoint + "/") or not name:
            return None
        try:
            return json.loads(self._client.get_blob_client(container, name).download_blob().readall())
        except (AzureError, ValueError):
            return None

    def _blob(self, path: Path, content: bytes) -> BlobClient:
        name = f"{self._folder}/{hashlib.sha256(content).hexdigest()[:16]}/{path.name}"
        return self._client.get_blob_client(_UPLOADS, name)

    def _unreachable(self, error: AzureError) -> DependencyUnreachable:
        reason = str(error.message).splitlines()[0] if error.message else type(error).__name__
        return DependencyUnreachable(
            f"the blob store at {self.endpoint} failed ({reason}); name another blob store with {SETTING}"
        )


def configured() -> str | None:
    """Returns `LUCIUS_BLOB_CONNECTION`, or None if the variable is unset or is `UseDevelopmentStorage=true`."""
    connection = os.environ.get(SETTING, "").strip()
    return None if connection.rstrip(";").lower() in ("", "usedevelopmentstorage=true") else connection


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name another file") from error


def _folder(tenant: str) -> str:
    """Returns the name of the tenant's folder, which is the value of `{tenant}` in LUCIUS_ALLOWED_REF_HOSTS.

    The name is in lower case, and has `=XX` for each byte of a character that is unsafe in a path.
    """
    name = tenant.strip().lower()
    return re.sub(r"[^A-Za-z0-9_.~@ -]", lambda char: "".join(f"={byte:02X}" for byte in char[0].encode()), name)
