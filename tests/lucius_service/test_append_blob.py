"""Append blobs in Azurite: each byte is there once, and only one process writes."""

from __future__ import annotations

import pytest

from lucius_service.append_blob import Overtaken
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount


def test_a_repeated_append_writes_nothing_twice(account: BlobAccount, workspace: Workspace) -> None:
    """The response to an append can be lost; the same bytes are then appended again."""
    uri = account.uri("made-for-logs", "a/1.log")
    blob = workspace.append_blob(uri)
    assert not blob.open()
    assert blob.create("text/plain")
    blob.append(b"one\n")
    blob.size = 0
    blob.append(b"one\n")
    blob.append(b"two\n")
    assert workspace.read(uri).data == b"one\ntwo\n"


def test_who_appends_takes_the_blob_over(account: BlobAccount, workspace: Workspace) -> None:
    """The process before cannot append any more, not even the same length."""
    uri = account.uri("runs", "a/2.log")
    old, new = workspace.append_blob(uri), workspace.append_blob(uri)
    assert old.create("text/plain")
    assert not new.create("text/plain")
    old.append(b"old\n")
    with pytest.raises(Overtaken):
        new.append(b"new\n")
    assert new.open()
    new.append(b"new\n")
    with pytest.raises(Overtaken):
        old.append(b"old\n")
    assert workspace.read(uri).data == b"old\nnew\n"


def test_another_container_has_the_same_folder_of_the_tenant(account: BlobAccount, workspace: Workspace) -> None:
    own = account.uri("workspace", "lucius/acme=20ltd/job_1/PACK/1/")
    assert workspace.tenant_folder(own, "runs") == account.uri("runs", "acme=20ltd")
