"""Blobs in and out of the one account that a service may use."""

from __future__ import annotations

import re

import pytest

from lucius_service.errors import FailedFinal, FailedRetry
from lucius_service.workspace_io import Workspace
from tests.lucius_service.step_runner import StepRunner


def test_what_is_written_is_read(runner: StepRunner) -> None:
    """An artefact's uri leads back to its content, with names as they come; a second write replaces it."""
    base = runner.invoker.uri("workspace", "lucius/acm%C3%A9/j%20b/OCR/1/")
    uri = runner.workspace.write(base, "ocr/some text.json", b"one", "application/json")
    assert base + "ocr/some%20text.json" == uri
    assert runner.workspace.read(uri).data == b"one"
    runner.workspace.write(base, "ocr/some text.json", b"two", "application/json")
    assert runner.workspace.read(uri).data == b"two"
    assert runner.workspace.read(uri).name == "some text.json"


def test_write_once_keeps_the_first(runner: StepRunner) -> None:
    """Of two writers the first one's content stands, and both learn it."""
    base = runner.invoker.uri("workspace", "once")
    assert runner.workspace.find(base, "mark") is None
    assert runner.workspace.write_once(base, "mark", b"first", "text/plain") == b"first"
    assert runner.workspace.write_once(base, "mark", b"second", "text/plain") == b"first"
    assert runner.workspace.find(base, "mark") == b"first"


def test_a_missing_container_is_made(runner: StepRunner) -> None:
    """The first to write makes the container."""
    base = runner.invoker.uri("made-on-demand", "a/b")
    assert runner.workspace.read(runner.workspace.write(base, "c", b"x", "text/plain")).data == b"x"


@pytest.mark.parametrize("container", ["documents", "no-such-container"])
def test_a_missing_blob_fails_for_good(container: str, runner: StepRunner) -> None:
    """Whether the container is there or not."""
    with pytest.raises(FailedFinal, match="INPUT_NOT_FOUND"):
        runner.workspace.read(runner.invoker.uri(container, "nothing.pdf"))


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
def test_only_our_own_account_is_reached(uri: str, runner: StepRunner) -> None:
    """Another host, account, scheme, a query or a path that climbs is refused before anything is sent."""
    root = runner.invoker.blobs.url.rstrip("/")
    host = root.removeprefix("http://")
    text = uri.format(root=root, host=host, root_other_port=re.sub(r":(\d+)/", ":1/", root))
    with pytest.raises(FailedFinal, match="REF_UNSUPPORTED"):
        runner.workspace.read(text)


def test_storage_out_of_reach_may_come_back() -> None:
    """Nobody listens there: retryable, after a few seconds of the SDK's own tries."""
    connection = (
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=c2VjcmV0;"
        "BlobEndpoint=http://127.0.0.1:9/devstoreaccount1;"
    )
    workspace = Workspace(connection, max_input_bytes=100)
    with pytest.raises(FailedRetry, match="STORAGE_UNAVAILABLE"):
        workspace.read("http://127.0.0.1:9/devstoreaccount1/documents/a.pdf")


def test_a_wrong_key_fails_for_good(blob_connection: str, runner: StepRunner) -> None:
    """The account refuses: another attempt would meet the same, and the key is not told."""
    wrong = re.sub(r"AccountKey=[^;]+", "AccountKey=d3Jvbmcga2V5", blob_connection)
    uri = runner.invoker.upload("there.txt", b"x")
    with pytest.raises(FailedFinal, match="STORAGE_DENIED") as failed:
        Workspace(wrong, max_input_bytes=100).read(uri)
    assert "d3Jvbmcga2V5" not in failed.value.message
