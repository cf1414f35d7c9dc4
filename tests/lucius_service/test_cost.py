"""The cost of results and artifacts, counted at the SDK's requests, as in docs/explanation/scale.md."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.scale import job
from lucius_service.attempts import Attempts, Limits
from lucius_service.directive import Directive
from lucius_service.replies import Sent
from lucius_service.step import Outcome, Task
from lucius_service.work import ThreadWorker
from lucius_service.workspace_io import Workspace
from tests.jobs import ROOT
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import new_directive

#: as in Azure, where the names of accounts are longer than Azurite's addresses
AZURE = "https://stluciusdocs0123456789.blob.core.windows.net"


class Words:
    """Reads its input, as services do, and leaves one result."""

    step_type = "WORDS"
    result_name = "words/result.json"

    def __init__(self, artifacts: int) -> None:
        self.artifacts = artifacts

    def prepare(self) -> None: ...

    def validate(self, payload: Any) -> Any:
        return payload

    def execute(self, task: Task) -> Outcome:
        text = task.read_input().data
        for number in range(self.artifacts):
            task.artifact(f"page-{number}.csv", text, "text/csv")
        return Outcome(task.write(self.result_name, text, "application/json"))


class Replies:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        self.sent.append(reply)
        return Sent(True)

    async def close(self) -> None: ...


@pytest.fixture
def requests(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Requests to the blob store by the type of their price, as the SDK sends them (`BLOB_OTHERS` in prices.json)."""
    counted: Counter[str] = Counter()
    transport = workspace._service._pipeline._transport
    send = transport.send

    def counting(request: Any, **named: Any) -> Any:
        others = request.method == "HEAD" or "comp=metadata" in request.url
        counted["other" if others else request.method] += 1
        return send(request, **named)

    monkeypatch.setattr(transport, "send", counting)
    return counted


async def test_the_model_has_what_a_step_writes_and_reads(
    requests: Counter[str], workspace: Workspace, account: BlobAccount
) -> None:
    """A result and its metadata; the copy of the job's last; and a write for each artifact."""
    uri = account.upload("words.txt", b"one two")

    async def step(*, final: bool = False, artifacts: int = 0) -> tuple[int, int, int, int]:
        """Writes, reads, other requests, and bytes of RESULT without metrics, with a name of an account in Azure."""
        replies = Replies()
        worker = ThreadWorker(Words(artifacts), workspace)
        attempts = Attempts(worker, replies, workspace, Limits(8, 1, 60, 60, None), Words.result_name)
        requests.clear()
        attempts.start()
        fields = new_directive(account, "WORDS", final=final, input_ref={"uri": uri})
        attempt = await attempts.take(Directive.model_validate(fields))
        await attempt.ended.wait()
        await attempts.stop(5)
        ack, result = replies.sent
        assert (ack["type"], result.get("status")) == ("ACK", "SUCCEEDED"), result
        result.pop("metrics")
        body = json.dumps(result).replace(account.uri("", "").rstrip("/"), AZURE)
        return requests["PUT"], requests["GET"], requests["other"], len(body)

    await step(final=True)  # makes the containers
    plain, last, one, two = await step(), await step(final=True), await step(artifacts=1), await step(artifacts=2)
    assert plain == (job.BLOB_WRITES_A_STEP, job.BLOB_READS_A_STEP, job.BLOB_OTHERS_A_STEP, job.RESULT_BYTES)
    assert [after - before for before, after in zip(plain, last, strict=True)] == [
        *(job.BLOB_WRITES_A_COPY, job.BLOB_READS_A_COPY, 0, job.COPY_BYTES)
    ]
    more = [after - before for before, after in zip(one, two, strict=True)]
    assert more[:3] == [1, 0, 0]
    page = " ".join((ROOT / "docs" / "explanation" / "scale.md").read_text("utf-8").split())
    assert f"Each artifact adds one blob write, and {round(more[3], -1)} bytes of RESULT" in page
