"""Reads the result of a job from the blob at `final_output`, with the caller's own credential.

The module needs the extra `results` (azure-storage-blob, azure-identity), and imports these packages when a result is
read. A service chose the URI, so the caller's token goes only to Azure's own storage hosts, over https.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import SplitResult, unquote, urlsplit

from lucius_client.errors import NoResult, ResultForbidden, ResultGone, ResultUnreadable, StoreUnreachable
from lucius_client.models import Job

if TYPE_CHECKING:  # needs the extra, only to read results
    from azure.storage.blob import BlobClient, StorageStreamDownloader

#: maximum bytes of a result in memory
MAX_IN_MEMORY = 64 * 1024 * 1024
#: name of Azurite's development account, the same on every machine and public
#: (https://learn.microsoft.com/azure/storage/common/storage-connect-azurite)
DEVELOPMENT_ACCOUNT = "devstoreaccount1"
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#: a local store responds immediately or is not running; the SDK's default waits begin at 15 s
RETRY: dict[str, Any] = {"retry_total": 2, "initial_backoff": 1, "increment_base": 1}

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: blob and dfs endpoints of an account, in each cloud and with a DNS zone
#: (https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-endpoints)
_AZURE = re.compile(
    r"([a-z0-9]{3,24}(?:-secondary)?(?:\.z\d{1,2})?)\.(?:blob|dfs)"
    r"\.((?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))|storage\.azure\.net)"
)
_SCOPE = "https://storage.azure.com/.default"
_CHUNK = 4 * 1024 * 1024
_UNEXPECTED = 500


@dataclass(frozen=True)
class Result:
    """The result of a job, as read from its blob."""

    uri: str
    #: media type of its blob; None if the blob has none
    media_type: str | None
    #: size in bytes
    size: int
    #: content; empty if it was written to a file of the caller
    content: bytes


class OpenResult:
    """A result that exists and has not been read. `chunks` reads the opened version once.

    The constructor and `chunks` raise NoResult, ResultUnreadable (also ResultGone, ResultForbidden) and
    StoreUnreachable.
    """

    def __init__(self, job: Job, credential: Any = None) -> None:
        """Opens the blob. `credential` is a credential of azure-identity, or a connection string for the blobs of one
        account. None means Azurite's well-known key on this machine, and `DefaultAzureCredential` for Azure.
        """
        self.uri = _output(job)
        self._kept_until = job.final_output_expires_at
        blob = _blob(self.uri, credential)
        if hasattr(blob.credential, "get_token"):  # the SDK would ask for one three times, seconds apart
            self._safely(lambda: blob.credential.get_token(_SCOPE))
        self._stream: StorageStreamDownloader[bytes] = self._safely(blob.download_blob)

    @property
    def media_type(self) -> str | None:
        """Returns the media type of the blob, or None if the blob has no media type."""
        kind = self._stream.properties.content_settings.content_type
        return str(kind) if kind else None

    @property
    def size(self) -> int:
        """Returns the size in bytes."""
        return int(self._stream.size)

    def chunks(self) -> Iterator[bytes]:
        """Yields the content in pieces of up to 4 MiB."""
        pieces = self._safely(self._stream.chunks)
        while (piece := self._safely(lambda: next(pieces, None))) is not None:
            yield piece

    def _safely(self, act: Any) -> Any:
        from azure.core.exceptions import AzureError, HttpResponseError

        try:
            return act()
        except HttpResponseError as error:
            raise self._refusal(error.status_code, getattr(error, "error_code", None), error) from error
        except AzureError as error:
            raise StoreUnreachable(
                f"the store of {self.uri} does not respond: {_first_line(error)}; read the result again"
            ) from error

    def _refusal(self, status: int | None, code: Any, error: Exception) -> Exception:
        why = str(getattr(code, "value", code) or status or _first_line(error))
        if status == 404:
            kept = f" (retention ends on {self._kept_until:%Y-%m-%d})" if self._kept_until else ""
            return ResultGone(self.uri, f"blob not found: {self.uri}{kept}; replay the job")
        if status is None:  # no token, so the request was never sent
            return ResultForbidden(self.uri, f"no credential for {self.uri}; run `az login` ({why})")
        if status in (401, 403):
            return ResultForbidden(self.uri, f"your credential cannot read {self.uri} ({why}); use another credential")
        if status == 412:
            return ResultUnreadable(self.uri, f"{self.uri} changed during the read; read the result again")
        if status >= _UNEXPECTED or status == 429:
            return StoreUnreachable(f"the store of {self.uri} failed or is busy: {why}; read the result again")
        return ResultUnreadable(self.uri, f"{self.uri} cannot be read ({why}); read the result with another tool")


def read_result(job: Job, out: BinaryIO | None, credential: Any) -> Result:
    """Reads the result of `job` to `out` or into memory.

    Raises errors as OpenResult does, and ResultUnreadable if `out` is None and the result has more than 64 MiB.
    """
    opened = OpenResult(job, credential)
    content = b""
    if out is not None:
        for piece in opened.chunks():
            out.write(piece)
    elif opened.size > MAX_IN_MEMORY:
        raise ResultUnreadable(
            opened.uri, f"{opened.uri} has {opened.size} bytes, more than 64 MiB; name a file as `out`"
        )
    else:
        content = b"".join(opened.chunks())
    return Result(opened.uri, opened.media_type, opened.size, content)


def _output(job: Job) -> str:
    if job.status in ("FAILED_FINAL", "CANCELLED"):
        why = f" ({job.error_code})" if job.error_code else ""
        raise NoResult(
            job,
            f"job {job.jobId} ended {job.status}{why} and has no result; redrive the job, or submit its request again",
        )
    if job.status != "SUCCEEDED" or job.final_output is None:
        raise NoResult(job, f"job {job.jobId} is {job.status} and has no result yet; wait until the job ends")
    return job.final_output.uri


def _blob(uri: str, credential: Any) -> BlobClient:
    try:
        from azure.storage.blob import BlobClient, BlobServiceClient
    except ImportError as missing:
        raise ResultUnreadable(uri, f"package not found ({missing}); install `lucius-client[results]`") from missing
    options: dict[str, Any] = {**RETRY, "max_single_get_size": _CHUNK, "max_chunk_get_size": _CHUNK}
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises if the port is not a number
        if isinstance(credential, str):
            service = BlobServiceClient.from_connection_string(credential, **options)
            if uri.startswith(service.url.rstrip("/") + "/"):
                return service.get_blob_client(*_names(uri, uri[len(service.url.rstrip("/")) :]))
            credential = None
    except ValueError as error:
        raise ResultUnreadable(uri, f"{uri} or the connection string is malformed: {error}") from error
    account, path, key = _place(uri, parts)
    return BlobClient(account, *_names(uri, path), credential=key or credential or _default(uri), **options)


def _place(uri: str, parts: SplitResult) -> tuple[str, str, str | None]:
    """Returns the account's URL, the path in the account, and the account's key if the key is public."""
    host, scheme = (parts.hostname or "").rstrip("."), parts.scheme.lower()
    azurite = f"/{DEVELOPMENT_ACCOUNT}"
    plain = parts.username is None and parts.password is None
    if plain and scheme in ("http", "https") and host in _LOOPBACK and parts.path.startswith(f"{azurite}/"):
        return f"{scheme}://{parts.netloc}{azurite}", parts.path.removeprefix(azurite), DEVELOPMENT_KEY
    if (known := _AZURE.fullmatch(host)) and parts.port in (None, 443):
        account = f"https://{known[1]}.blob.{known[2]}"
        if plain and scheme == "https":
            return account, parts.path, None
        if scheme == "abfss" and parts.username and parts.password is None:
            return account, f"/{parts.username}{parts.path}", None
    raise ResultUnreadable(uri, f"{uri} is not a blob of Azure Storage over https; read the result with another tool")


def _names(uri: str, path: str) -> tuple[str, str]:
    container, _, name = unquote(urlsplit(path).path).lstrip("/").partition("/")
    if not container or not name or name.endswith("/"):
        raise ResultUnreadable(uri, f"{uri} is not the URI of a blob: the path must have a container and a blob name")
    return container, name


def _default(uri: str) -> Any:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as missing:
        raise ResultUnreadable(uri, f"package not found ({missing}); install `lucius-client[results]`") from missing
    return DefaultAzureCredential()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
