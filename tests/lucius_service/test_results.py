"""The destination of a final result: the caller's `output_ref`, and never the workspace instead."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from azure.storage.blob import BlobClient

from lucius_service.directive import Directive
from lucius_service.errors import OUTPUT_EXISTS, REF_UNSUPPORTED, STORAGE_UNAVAILABLE, FailedFinal, FailedRetry
from lucius_service.results import final_uri, publish_result
from lucius_service.step import Task
from lucius_service.testing import Heard
from lucius_service.workspace_io import Owner, Workspace
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


JOB = Owner("acme", "job_1")


def test_a_copy_is_whole_and_keeps_its_type(account: BlobAccount, workspace: Workspace) -> None:
    """The container is made, the blob of an earlier attempt is replaced, and the digest is that of the content."""
    source = workspace.write(account.uri("workspace", "copies"), "a b.json", b"{}", "application/json")
    target = account.uri("results-made", "x/a%20b.json")
    for data in (b"{}", b"[1]" * 2_000_000):
        workspace.write(account.uri("workspace", "copies"), "a b.json", data, "application/json")
        assert workspace.copy(source, target, JOB) == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert account.download(target) == data
    assert account.content_type(target) == "application/json"


class Results:
    """Jobs that publish, each to the same blob."""

    def __init__(self, account: BlobAccount, workspace: Workspace, name: str) -> None:
        self.account, self.workspace = account, workspace
        self.place = account.uri("results", f"owned/{name}/answers.json")

    def directive(self, job: str, **changes: Any) -> Directive:
        fields = new_directive(
            self.account, "PROBE", jobId=job, final=True, **{"output_ref": {"uri": self.place}} | changes
        )
        return Directive.model_validate(fields)

    def publish(self, job: str, data: bytes, **changes: Any) -> dict[str, Any]:
        directive = self.directive(job, **changes)
        at = self.workspace.write(directive.workspace_ref.uri, "answers.json", data, "application/json")
        return publish_result(directive, {"status": "SUCCEEDED", "result_ref": {"uri": at}}, self.workspace)

    @property
    def stored(self) -> bytes:
        return self.account.download(self.place)


@pytest.fixture
def results(account: BlobAccount, workspace: Workspace, request: pytest.FixtureRequest) -> Results:
    return Results(account, workspace, re.sub(r"\W", "-", request.node.name))


def test_another_jobs_result_is_not_replaced(results: Results) -> None:
    """The result of another job, of the same or another tenant, stays unchanged: the step fails permanently."""
    results.publish("job_b", b"1,000 EUR", tenant_id="tenant_b")
    for tenant in ("tenant_a", "tenant_b"):
        with pytest.raises(FailedFinal) as refused:
            results.publish("job_a", b"9,999 EUR", tenant_id=tenant)
        assert refused.value.code == OUTPUT_EXISTS
        assert refused.value.message.startswith("output_ref: ")
        assert "job_b" not in refused.value.message
    assert results.stored == b"1,000 EUR"


def test_a_document_is_not_replaced(results: Results) -> None:
    """A blob that no job wrote has no job id in its metadata."""
    results.account.write(results.place, b"a lease")
    with pytest.raises(FailedFinal, match=OUTPUT_EXISTS):
        results.publish("job_a", b"{}")
    assert results.stored == b"a lease"


def test_attempts_and_redrives_of_a_job_write_the_same_blob(results: Results) -> None:
    """A repeated attempt, a redrive of the job and a redrive of that, although each redrive has a new job id."""
    for number, (job, changes) in enumerate(
        [
            ("job_1", {"tenant_id": "Acme "}),
            ("job_1", {"attempt_no": 2, "tenant_id": "acme"}),
            ("job_2", {"first_job_id": "job_1"}),
            ("job_3", {"first_job_id": "job_1"}),
        ]
    ):
        data = b"%d" % number
        published = results.publish(job, data, **changes)
        assert published["digests"]["output_ref"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert results.stored == data
    with pytest.raises(FailedFinal, match=OUTPUT_EXISTS):
        results.publish("job_2", b"x")


def test_steps_of_a_last_group_write_next_to_each_other(results: Results) -> None:
    """Each step of one job has its own blob, and may write it again."""
    for _ in range(2):
        places = {
            results.publish("j", b"{}", stepId=step, final_index=index)["output_ref"]["uri"]
            for index, step in enumerate(("sum", "list"))
        }
    assert places == {results.place, results.place.replace("answers.json", "answers.list.json")}


def test_ids_that_no_header_carries_are_compared(results: Results) -> None:
    """Metadata is ASCII; ids may be any text."""
    for _ in range(2):
        results.publish("j/\u00e9\n1", b"{}", tenant_id="acm\u00e9")
    with pytest.raises(FailedFinal, match=OUTPUT_EXISTS):
        results.publish("j/\u00e8\n1", b"{}", tenant_id="acm\u00e9")


def before_upload(monkeypatch: pytest.MonkeyPatch, place: str, act: Callable[[], Any], times: int = 1) -> None:
    """Has `act` done before each of the next uploads to `place`, as another writer would."""
    upload, left = BlobClient.upload_blob, [times]

    def first(client: BlobClient, *arguments: Any, **named: Any) -> Any:
        if client.url == place and left[0]:
            left[0] -= 1
            act()
        return upload(client, *arguments, **named)

    monkeypatch.setattr(BlobClient, "upload_blob", first)


#: more than the SDK sends in one request
MANY_BLOCKS = 65 * 2**20


@pytest.mark.parametrize("size", [1, pytest.param(MANY_BLOCKS, marks=pytest.mark.long)], ids=["whole", "blocks"])
def test_of_two_jobs_at_once_one_wins(size: int, results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition is checked by the write itself, of a blob in one request and of one in blocks."""
    directive = results.directive("job_a")
    at = results.workspace.write(directive.workspace_ref.uri, "a.json", b"a" * size, "application/json")
    before_upload(monkeypatch, results.place, lambda: results.publish("job_b", b"b", tenant_id="tenant_b"))
    with pytest.raises(FailedFinal, match=OUTPUT_EXISTS):
        publish_result(directive, {"status": "SUCCEEDED", "result_ref": {"uri": at}}, results.workspace)
    assert results.stored == b"b"


def test_two_attempts_of_a_job_at_once(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both write the blob, one after the other, whether there was one before or not."""
    for number in (1, 3):
        before_upload(monkeypatch, results.place, lambda number=number: results.publish("j", b"%d" % number))
        results.publish("j", b"%d" % (number + 1), attempt_no=2)
        assert results.stored == b"%d" % (number + 1)


def test_another_job_after_the_look_wins(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """With If-Match: between the read of an own blob and its replacement another job may have written it."""

    def taken() -> None:
        client = results.account._client.get_blob_client("results", results.place.partition("/results/")[2])
        client.delete_blob()
        results.publish("job_b", b"b")

    results.publish("job_a", b"1")
    # the first upload fails because the blob exists, the second one replaces it
    calls = iter((lambda: None, taken, lambda: None))
    before_upload(monkeypatch, results.place, lambda: next(calls)(), times=3)
    with pytest.raises(FailedFinal, match=OUTPUT_EXISTS):
        results.publish("job_a", b"2", attempt_no=2)
    assert results.stored == b"b"


def test_a_blob_that_never_rests_is_tried_again_later(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is retried by LUCIUS; nothing loops here."""
    results.publish("j", b"0")
    again = results.account._client.get_blob_client("results", results.place.partition("/results/")[2])
    before_upload(
        monkeypatch,
        results.place,
        lambda: again.set_blob_metadata(Owner("acme", "j").metadata),
        times=100,
    )
    with pytest.raises(FailedRetry, match=STORAGE_UNAVAILABLE):
        results.publish("j", b"1")


def test_another_tenants_result_is_not_read(results: Results) -> None:
    """As input of a step, in any container: its metadata names its tenant. Documents and own results are read."""
    results.publish("job_b", b"{}", tenant_id="Tenant_B")
    document = results.account.upload("owned.txt", b"text")
    for tenant, uri, read in (
        ("tenant_a", results.place, None),
        ("tenant_b", results.place, b"{}"),
        ("tenant_a", document, b"text"),
    ):
        directive = results.directive("job_c", tenant_id=tenant, input_ref={"uri": uri})
        task = Task(directive, None, results.workspace, Heard())
        if read is not None:
            assert task.read_input().data == read
            continue
        with pytest.raises(FailedFinal, match=REF_UNSUPPORTED):
            task.read_input()


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
        # the account refuses such a container, at the first request
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
