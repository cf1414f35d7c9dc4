"""Reads and writes of the one blob account that a service may use."""

from __future__ import annotations

import re

import pytest

from lucius_service.errors import FailedFinal, FailedRetry
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount


def test_what_is_written_is_read(account: BlobAccount, workspace: Workspace) -> None:
    """The uri of an artefact gives its content, also with spaces and non-ASCII names; a second write replaces it."""
    base = account.uri("workspace", "lucius/acm%C3%A9/j%20b/OCR/1/")
    uri = workspace.write(base, "ocr/some text.json", b"one", "application/json")
    assert base + "ocr/some%20text.json" == uri
    assert workspace.read(uri).data == b"one"
    workspace.write(base, "ocr/some text.json", b"two", "application/json")
    assert workspace.read(uri).data == b"two"
    assert workspace.read(uri).name == "some text.json"


def test_write_once_keeps_the_first(account: BlobAccount, workspace: Workspace) -> None:
    """If two writers store one blob, the first content stays, and both get it."""
    base = account.uri("workspace", "once")
    assert workspace.find(base, "mark") is None
    assert workspace.write_once(base, "mark", b"first", "text/plain") == b"first"
    assert workspace.write_once(base, "mark", b"second", "text/plain") == b"first"
    assert workspace.find(base, "mark") == b"first"


def test_a_missing_container_is_made(account: BlobAccount, workspace: Workspace) -> None:
    """The first writer creates the container."""
    base = account.uri("made-on-demand", "a/b")
    assert workspace.read(workspace.write(base, "c", b"x", "text/plain")).data == b"x"


@pytest.mark.parametrize("container", ["documents", "no-such-container"])
def test_a_missing_blob_fails_for_good(container: str, account: BlobAccount, workspace: Workspace) -> None:
    """A missing blob is FAILED_FINAL, whether its container exists or not."""
    with pytest.raises(FailedFinal, match="INPUT_NOT_FOUND"):
        workspace.read(account.uri(container, "nothing.pdf"))


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.com/documents/a.pdf",
        "{root}",
        "{root}/documents",
        "{root}/documents/",
        "{root}/documents/a.pdf?sig=x",
        "{root}/documents/a.pdf#part",
        "{root}/documents/../secrets/a.pdf",
        "{root}/documents/%2e%2e/a.pdf",
        "{root}evil/documents/a.pdf",
        "{root_other_port}/documents/a.pdf",
        "http://user@{host}/documents/a.pdf",
        "file:///etc/passwd",
        "//documents/a.pdf",
        "documents/a.pdf",
        "http://[::1/a",
        "",
    ],
)
def test_only_the_configured_account_is_reached(uri: str, account: BlobAccount, workspace: Workspace) -> None:
    """Another host, account or scheme, a query, or a path with `..` is refused before a request is sent."""
    root = account.url
    host = root.removeprefix("http://")
    text = uri.format(root=root, host=host, root_other_port=re.sub(r":(\d+)/", ":1/", root))
    with pytest.raises(FailedFinal, match="REF_UNSUPPORTED"):
        workspace.read(text)


def test_storage_out_of_reach_may_come_back() -> None:
    """A refused connection is retryable, after a few seconds of retries by the SDK."""
    connection = (
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=c2VjcmV0;"
        "BlobEndpoint=http://127.0.0.1:9/devstoreaccount1;"
    )
    workspace = Workspace(connection, max_input_bytes=100)
    with pytest.raises(FailedRetry, match="STORAGE_UNAVAILABLE"):
        workspace.read("http://127.0.0.1:9/devstoreaccount1/documents/a.pdf")


def test_a_right_on_the_workspaces_alone_is_enough(account: BlobAccount) -> None:
    """The check wants no right on the account, and notices where the one on workspaces is missing."""
    Workspace(account.limited("workspace", "rl"), max_input_bytes=100).check()
    with pytest.raises(FailedFinal, match="STORAGE_DENIED"):
        Workspace(account.limited("documents", "rl"), max_input_bytes=100).check()


def test_a_wrong_key_fails_for_good(account: BlobAccount) -> None:
    """A refused credential is FAILED_FINAL, and the message does not contain the key."""
    wrong = re.sub(r"AccountKey=[^;]+", "AccountKey=d3Jvbmcga2V5", account.connection)
    uri = account.upload("there.txt", b"x")
    with pytest.raises(FailedFinal, match="STORAGE_DENIED") as failed:
        Workspace(wrong, max_input_bytes=100).read(uri)
    assert "d3Jvbmcga2V5" not in failed.value.message
