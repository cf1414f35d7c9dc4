"""Where a final result goes: the caller's `output_ref`, and never the workspace in its stead."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lucius_service.directive import Directive
from lucius_service.errors import FailedFinal
from lucius_service.results import final_uri
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker, new_directive
from tests.lucius_service.service_process import SharedProbe


@pytest.mark.parametrize(
    ("output", "index", "expected"),
    [
        ("{out}", 0, "{out}/j%2F1/probe/out.txt"),
        ("{out}/", 0, "{out}/j%2F1/probe/out.txt"),
        ("{out}/v1.0/", 0, "{out}/v1.0/j%2F1/probe/out.txt"),
        ("{out}", 1, "{out}/j%2F1/probe/probe/out.txt"),
        ("{out}/a/answer.json", 0, "{out}/a/answer.json"),
        ("{out}/a/answer%2Ejson", 0, "{out}/a/answer%2Ejson"),
        ("{out}/a/answer.json", 2, "{out}/a/answer.probe.txt"),
    ],
)
def test_the_place_of_a_final_result(output: str, index: int, expected: str, account: BlobAccount) -> None:
    """Below a folder and the job's id, or the blob that is named; later steps of a last group are next to the first."""
    out = account.uri("results", "r")
    fields = new_directive(account, "PROBE", jobId="j/1", final=True, final_index=index)
    directive = Directive.model_validate(fields | {"output_ref": {"uri": output.format(out=out)}})
    result = directive.workspace_ref.uri + "probe/out.txt"
    assert expected.format(out=out) == final_uri(directive, result)


def test_a_result_outside_the_workspace_keeps_its_last_segment(account: BlobAccount) -> None:
    """A step may give a blob that it did not write."""
    directive = Directive.model_validate(new_directive(account, "PROBE", final=True, output_ref="http://h/a/out"))
    assert final_uri(directive, "http://h/a/b/c.pdf") == f"http://h/a/out/{directive.jobId}/c.pdf"


def test_a_copy_is_whole_and_keeps_its_type(account: BlobAccount, workspace: Workspace) -> None:
    """The container is made, a blob of another job is replaced, and the digest is that of the content."""
    source = workspace.write(account.uri("workspace", "copies"), "a b.json", b"{}", "application/json")
    target = account.uri("results-made", "x/a%20b.json")
    for data in (b"{}", b"[1]" * 2_000_000):
        workspace.write(account.uri("workspace", "copies"), "a b.json", data, "application/json")
        assert workspace.copy(source, target) == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert account.download(target) == data
    assert account.content_type(target) == "application/json"


@pytest.mark.parametrize("name", ["lucius/other/j/PROBE/1/", "lucius/other.txt", "else/acme/"])
def test_another_tenants_workspace_is_refused(name: str, account: BlobAccount, workspace: Workspace) -> None:
    """In the container of workspaces only the folder of the attempt's own tenant may be named."""
    own = account.uri("workspace", "lucius/acme/j/PROBE/1/")
    workspace.check_reference(account.uri("workspace", "lucius/acme/other/OCR/2/ocr/text.json"), own)
    workspace.check_reference(account.uri("results", name), own)
    with pytest.raises(FailedFinal, match="REF_UNSUPPORTED"):
        workspace.check_reference(account.uri("workspace", name), own)


def test_a_final_result_lies_where_the_caller_asked(
    shared_probe: SharedProbe, invoker: Invoker, account: BlobAccount
) -> None:
    """RESULT names the copy and the workspace; a second attempt writes the same blob, a step that is not final none."""
    shared_probe.current()
    job = invoker.directive()["jobId"]
    place = f"{account.uri('results', job)}/{job}/probe/out.txt"
    expected = {"output_ref": f"sha256:{hashlib.sha256(b'done').hexdigest()}"}
    for attempt in (1, 2):
        directive = invoker.directive(jobId=job, attempt_no=attempt, final=True)
        invoker.send(directive)
        result = invoker.result(job, attempt)
        assert (result["status"], result["output_ref"]) == ("SUCCEEDED", {"uri": place})
        assert result["result_ref"]["uri"].startswith(directive["workspace_ref"]["uri"])
        assert expected.items() <= result["digests"].items()
    assert account.download(place) == b"done"
    assert account.count(account.uri("results", job)) == 1
    plain = invoker.directive()
    invoker.send(plain)
    assert "output_ref" not in invoker.result(plain["jobId"])
    assert account.count(account.uri("results", plain["jobId"])) == 0


@pytest.mark.parametrize(
    ("output", "worked"),
    [
        (None, 0),
        ({"uri": "https://elsewhere.blob.core.windows.net/results"}, 0),
        ({"uri": "{root}/workspace/lucius/other/out"}, 0),
        # the account refuses such a container, and only when it is asked
        ({"uri": "{root}/UPPER/out"}, 1),
    ],
)
def test_an_output_that_cannot_be_written_fails_the_step(
    output: Any, worked: int, shared_probe: SharedProbe, invoker: Invoker, account: BlobAccount
) -> None:
    """The RESULT fails with a reason that names `output_ref`, before the work where that can be known."""
    shared_probe.current()
    if output is not None:
        output = {"uri": output["uri"].format(root=account.url)}
    directive = invoker.directive(final=True, output_ref=output)
    invoker.send(directive)
    result = invoker.result(directive["jobId"])
    assert result["status"] == "FAILED_FINAL", result
    assert "output_ref" in result["error"]["message"]
    assert "result_ref" not in result
    assert invoker.runs(directive) == worked
