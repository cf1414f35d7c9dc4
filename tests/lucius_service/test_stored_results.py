"""The stored RESULT of an ended attempt: no delivery repeats the work of the attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lucius_service import replies
from lucius_service.directive import Directive
from lucius_service.errors import STORAGE_DENIED, FailedFinal, FailedRetry
from lucius_service.results import ResultStore, publish_result
from lucius_service.step import declared
from lucius_service.work import Work
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import new_directive
from tests.lucius_service.killed_service import KilledStep

NAME = "probe/out.txt"


class Ended:
    """An attempt whose work has ended, and the blobs of its workspace."""

    def __init__(self, account: BlobAccount, workspace: Workspace, **changes: Any) -> None:
        self.account, self.workspace = account, workspace
        self.directive = Directive.model_validate(new_directive(account, "PROBE", **changes))
        self.base = self.directive.workspace_ref.uri

    def writes(self, data: bytes = b"done", name: str = NAME, **metrics: Any) -> dict[str, Any]:
        """Writes a result, and returns its RESULT."""
        return replies.succeeded(
            self.directive, Work(self.workspace.write(self.base, name, data, "text/plain"), metrics)
        )

    def store(self, name: str = NAME) -> ResultStore:
        """The store of a process."""
        return ResultStore(self.workspace, name)

    @property
    def metadata(self) -> dict[str, str]:
        return self.workspace.metadata(self.base + NAME)

    @property
    def records(self) -> int:
        return self.account.count(f"{self.base}.attempt/")


@pytest.fixture
def ended(account: BlobAccount, workspace: Workspace) -> Ended:
    return Ended(account, workspace)


@pytest.mark.parametrize("metrics", [{}, {"a  key\n": " Zürich\t\u2028 50 % "}, {"x": "y" * 5_000}])
def test_a_result_is_metadata_of_its_blob(ended: Ended, metrics: dict[str, Any]) -> None:
    """Another process finds it, with any text in it; the lease, a secret, is not there, and the content is the same."""
    result = ended.writes(**metrics)
    assert ended.store().find(ended.directive) is None
    assert ended.store().keep(ended.directive, result) == result
    assert ended.store().find(ended.directive) == result
    assert ended.records == 0
    assert ended.directive.lease_id not in json.dumps(ended.metadata)
    assert ended.account.download(ended.base + NAME) == b"done"


@pytest.mark.parametrize("case", ["failed", "too large", "another blob", "no blob", "no name", "immutable blob"])
def test_any_other_result_is_a_blob_of_its_own(ended: Ended, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of two of them, the first one is sent by both deliveries."""
    store = ended.store("" if case == "no name" else NAME)
    match case:
        case "failed":
            ended.writes()
            result = replies.failed(ended.directive, FailedRetry("PROBE_RETRY", "busy"))
        case "another blob":
            result = ended.writes(name="probe/other.txt")
        case "no blob":
            result = replies.succeeded(ended.directive, Work(ended.base + NAME, {}))
        case "immutable blob":
            result = ended.writes()
            transport = ended.workspace._service._pipeline._transport
            send = transport.send

            def refuse(request: Any, **named: Any) -> Any:
                if "comp=metadata" not in request.url:
                    return send(request, **named)
                # Azurite has no immutability policies, so it gets another request
                request.method, request.url = "GET", request.url.split("?")[0]
                response = send(request, **named)
                response.status_code = 409
                return response

            monkeypatch.setattr(transport, "send", refuse)
        case _:
            result = ended.writes(x="y" * (6_000 if case == "too large" else 0))
    assert store.keep(ended.directive, result) == result
    assert store.find(ended.directive) == result
    assert store.keep(ended.directive, result | {"correlation_id": "second"}) == result
    assert (ended.records, ended.metadata) == (1, {})


def test_work_that_is_repeated_has_no_result_yet(ended: Ended) -> None:
    """A process that is killed after it wrote the blob, and before the metadata, leaves no RESULT of older content."""
    ended.store().keep(ended.directive, ended.writes(b"1"))
    ended.writes(b"2")
    assert ended.store().find(ended.directive) is None


def test_of_two_deliveries_at_once_the_result_belongs_to_the_content(ended: Ended) -> None:
    """Both write the blob, then both store their RESULT. LUCIUS takes the first that arrives."""
    first, second = ended.writes(b"1", number=1), ended.writes(b"2", number=2)
    assert [ended.store().keep(ended.directive, each) for each in (first, second)] == [first, second]
    assert ended.store().find(ended.directive) == second
    assert ended.account.download(ended.base + NAME) == b"2"


@pytest.mark.parametrize("name", [None, 7])
def test_the_name_of_a_result_is_a_text(name: Any) -> None:
    """A service with another value does not start."""
    step = KilledStep()
    step.result_name = name
    with pytest.raises(ValueError, match=f"result_name is {name}; it must be a string"):
        declared(step)


@pytest.mark.parametrize("planted", ["another lease", "%ff", "[]", "[" * 5_000])
def test_metadata_of_another_origin_is_no_result(ended: Ended, account: BlobAccount, planted: str) -> None:
    """The work is done then, and its own RESULT stored; a stored blob of this attempt still counts."""
    result = ended.writes()
    if planted == "another lease":
        other = Ended(account, ended.workspace, jobId=ended.directive.jobId)
        ended.store().keep(other.directive, other.writes())
    else:
        ended.workspace.set_metadata(ended.base + NAME, {"lucius_result": planted})
    assert ended.store().find(ended.directive) is None
    failure = replies.failed(ended.directive, FailedRetry("PROBE_RETRY", "busy"))
    ended.store().keep(ended.directive, failure)
    assert ended.store().find(ended.directive) == failure
    ended.store().keep(ended.directive, result)
    assert ended.store().find(ended.directive) == result


def test_a_service_that_may_only_read_cannot_store(ended: Ended, account: BlobAccount) -> None:
    """It finds what is stored; an attempt publishes its RESULT without."""
    result = ended.writes()
    reader = Workspace(account.limited("workspace", "r"), max_input_bytes=100)
    with pytest.raises(FailedFinal, match=STORAGE_DENIED):
        ResultStore(reader, NAME).keep(ended.directive, result)
    ended.store().keep(ended.directive, result)
    assert ResultStore(reader, NAME).find(ended.directive) == result
    reader.close()


def test_the_copy_of_a_result_has_no_stored_result(account: BlobAccount, workspace: Workspace) -> None:
    """The caller's blob has its owner as metadata, also where an attempt that ended is copied again."""
    ended = Ended(account, workspace, final=True)
    result = publish_result(ended.directive, ended.writes(), workspace)
    ended.store().keep(ended.directive, result)
    again = publish_result(ended.directive, ended.writes(), workspace)
    assert again["output_ref"] == result["output_ref"]
    assert set(workspace.metadata(result["output_ref"]["uri"])) == {"lucius_tenant_id", "lucius_job_id"}
