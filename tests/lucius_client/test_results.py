"""Results read by both clients from a real store.

How it would fail: a job without a result; a blob that is gone, is another's, or changes while it is read; a store that
is away; a result too large for memory; a URI that brings the caller's token somewhere else.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.storage.blob import BlobServiceClient

from lucius_client import NoResult, ResultForbidden, ResultGone, ResultUnreadable, StoreUnreachable
from lucius_client.models import Job
from lucius_client.results import MAX_IN_MEMORY, RETRY, OpenResult
from tests.lucius_client import samples
from tests.lucius_client.conftest import EitherClient
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import RunningStack

MIB = 1024 * 1024


@pytest.fixture
def store(stack: RunningStack) -> Iterator[BlobServiceClient]:
    with BlobServiceClient.from_connection_string(stack.storage_connection) as store:
        yield store


def put(store: BlobServiceClient, tenant: str, content: bytes) -> str:
    """The URI of a result with this content, in a folder of this test's own."""
    blob = store.get_blob_client("results", f"{tenant}/a b/größe.json")
    blob.upload_blob(content, overwrite=True)
    return blob.url


def job(uri: str, **changes: Any) -> dict[str, Any]:
    return samples.job("SUCCEEDED") | {"final_output": {"uri": uri}} | changes


async def test_the_content_comes_from_the_callers_place(
    either: EitherClient, store: BlobServiceClient, tenant: str
) -> None:
    """By id or by model, in memory or into a file of the caller's, in pieces that are read one after another."""
    content = bytes(range(256)) * (9 * MIB // 256)
    uri = put(store, tenant, content)
    with serving(CannedResponse(200, job(uri))) as api:
        result = await either.call(api.url, lambda client: client.result("job_1"))
        assert (result.content == content, result.uri, result.size) == (True, uri, len(content))
        assert result.media_type == "application/octet-stream"
        out = io.BytesIO()
        read = await either.call(api.url, lambda client: client.result(Job.model_validate(job(uri)), out=out))
        assert (out.getvalue() == content, read.content) == (True, b"")
        assert len(api.requests) == 1
    assert max(len(piece) for piece in OpenResult(Job.model_validate(job(uri))).chunks()) <= 4 * MIB


@pytest.mark.parametrize("status", ["QUEUED", "IN_PROGRESS", "PAUSED", "FAILED_FINAL", "CANCELLED"])
async def test_a_job_without_a_result_has_none(either: EitherClient, status: str) -> None:
    """The error has the job; nothing is read."""
    with serving(CannedResponse(200, samples.job(status))) as api:
        with pytest.raises(NoResult, match=status) as none:
            await either.call(api.url, lambda client: client.result("job_1"))
        assert none.value.job.status == status


def read(uri: str, credential: Any = None, **changes: Any) -> OpenResult:
    return OpenResult(Job.model_validate(job(uri, **changes)), credential)


def test_an_empty_result_is_one(store: BlobServiceClient, tenant: str) -> None:
    """A blob without a byte is read as such."""
    result = read(put(store, tenant, b""))
    assert (result.size, list(result.chunks())) == (0, [])


def test_a_result_that_is_gone_has_its_day(store: BlobServiceClient, stack: RunningStack, tenant: str) -> None:
    """No blob, or not even its container."""
    put(store, tenant, b"x")
    with pytest.raises(ResultGone, match=r"blob not found: \S+; replay the job$"):
        read(f"{stack.blob}/results/{tenant}/none.json")
    with pytest.raises(ResultGone, match=r"\(retention ends on 2026-02-26\)"):
        read(f"{stack.blob}/{tenant}/none.json", final_output_expires_at="2026-02-26T10:00:00Z")


def test_a_credential_that_may_not_read_is_refused(store: BlobServiceClient, stack: RunningStack, tenant: str) -> None:
    """A connection string is valid for blobs of its own account only, and an invalid one is an error."""
    uri = put(store, tenant, b"x")
    with pytest.raises(ResultForbidden, match="your credential cannot read"):
        read(uri, stack.storage_connection.replace("AccountKey=", "AccountKey=AAAA"))
    other = "DefaultEndpointsProtocol=https;AccountName=another;AccountKey=AAAA"
    assert b"".join(read(uri, other).chunks()) == b"x"
    with pytest.raises(ResultUnreadable, match="malformed"):
        read(uri, "nonsense")


def test_a_store_that_is_away_is_no_result_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read from an unavailable store can be repeated."""
    monkeypatch.setitem(RETRY, "retry_total", 0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(StoreUnreachable):
            read(f"http://127.0.0.1:{nobody.getsockname()[1]}/devstoreaccount1/results/x")


def test_a_result_that_changes_is_not_mixed(store: BlobServiceClient, tenant: str) -> None:
    """The pieces are of one version, or there is an error."""
    uri = put(store, tenant, b"a" * 9 * MIB)
    pieces = read(uri).chunks()
    assert set(next(pieces)) == {ord("a")}
    put(store, tenant, b"b" * 9 * MIB)
    with pytest.raises(ResultUnreadable, match="changed during the read"):
        list(pieces)


async def test_memory_is_bounded(either: EitherClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result over 64 MiB is read into a file only."""
    monkeypatch.setattr(OpenResult, "__init__", lambda self, *_: setattr(self, "uri", "https://a/b/c"))
    monkeypatch.setattr(OpenResult, "size", MAX_IN_MEMORY + 1)
    with pytest.raises(ResultUnreadable, match="name a file as `out`"):
        await either.call("http://127.0.0.1:1", lambda client: client.result(Job.model_validate(job("https://a/b/c"))))


class Asked:
    """A credential that counts requests, and has no token."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        from azure.core.exceptions import ClientAuthenticationError

        self.scopes += scopes
        raise ClientAuthenticationError("not logged in\nsecond line")


@pytest.mark.parametrize(
    "uri",
    [
        "https://acme.blob.core.windows.net/results/a.json",
        "https://acme.dfs.core.windows.net/results/a.json",
        "https://acme.z12.blob.storage.azure.net/results/a.json",
        "https://acme.blob.core.chinacloudapi.cn:443/results/a.json",
        "abfss://results@acme.dfs.core.windows.net/a.json",
    ],
)
def test_azure_gets_the_callers_token(uri: str) -> None:
    """The token is sent to each host name of Azure Storage; without a login the error names the login."""
    credential = Asked()
    with pytest.raises(ResultForbidden, match="`az login`") as refused:
        read(uri, credential)
    assert credential.scopes == ["https://storage.azure.com/.default"]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/results/a.json",
        "http://acme.blob.core.windows.net/results/a.json",
        "https://acme.blob.core.windows.net.evil.example/results/a.json",
        "https://acme.blob.core.windows.net@evil.example/results/a.json",
        "https://acme.blob.core.windows.net:8443/results/a.json",
        "https://user@acme.blob.core.windows.net/results/a.json",
        "https://evil.example/acme.blob.core.windows.net/a.json",
        "https://acme.blob.core.windows.net/results",
        "https://acme.blob.core.windows.net/results/folder/",
        "https://[::1/results/a.json",
        "https://acme.blob.core.windows.net:x/results/a.json",
        "http://127.0.0.1.evil.example/devstoreaccount1/results/a.json",
        "http://evil.example/devstoreaccount1/results/a.json",
        "file:///etc/passwd",
        "s3://bucket/key",
    ],
)
def test_nobody_else_does(uri: str) -> None:
    """A service chose the URI: no token, no key of Azurite and no request is sent to another host."""
    credential = Asked()
    with pytest.raises(ResultUnreadable, match=r"is not a blob of Azure|is not the URI of a blob|malformed") as refused:
        read(uri, credential)
    assert type(refused.value) is ResultUnreadable
    assert credential.scopes == []
