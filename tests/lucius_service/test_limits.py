"""Limits of work on a thread, and its cancellation by responses of LUCIUS over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lucius_service import attempts as module
from lucius_service.attempts import Attempts, Limits
from lucius_service.directive import Directive
from lucius_service.errors import CANCELLED, FailedFinal
from lucius_service.replies import Sent
from lucius_service.step import Outcome, Task
from lucius_service.work import ThreadWorker
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import new_directive

WAIT_S = 60


@dataclass
class Sender:
    """Keeps replies, and answers heartbeats with `answer`."""

    answer: Sent = field(default_factory=lambda: Sent(True))
    replies: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        self.replies.append(reply)
        return self.answer if reply["type"] == "HEARTBEAT" else Sent(True)

    async def close(self) -> None: ...

    def kinds(self) -> list[str]:
        return [reply["type"] for reply in self.replies]


class Stubborn:
    """Works until it is released; `listens`: or until it is cancelled."""

    step_type = "STUBBORN"

    def __init__(self, *, listens: bool, busy: bool = False) -> None:
        self.listens = listens
        self.busy = busy
        self.release = threading.Event()

    def prepare(self) -> None: ...

    def validate(self, payload: Any) -> Any:
        return payload

    def execute(self, task: Task) -> Outcome:
        while not self.release.wait(0.02) and not (self.listens and task.cancelled):
            if self.busy:
                task.still_working()
        return Outcome(task.write("out", b"x", "text/plain"))


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For work that never stops by itself."""
    monkeypatch.setattr(module, "STOP_GRACE_S", 0.3)


async def serve(
    step: Stubborn,
    sender: Sender,
    account: BlobAccount,
    workspace: Workspace,
    count: int = 1,
    *,
    attempt_max_s: float = 30,
    silent_s: float | None = None,
    heartbeat_by: Callable[[Any], float | None] | None = None,
    release: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """The RESULTs of `count` directives; the step is released for those after the first."""
    limits = Limits(10, 1, heartbeat_s=0.05, attempt_max_s=attempt_max_s, silent_s=silent_s, heartbeat_by=heartbeat_by)
    attempts = Attempts(ThreadWorker(step, workspace), sender, workspace, limits)
    attempts.start()
    try:
        for number in range(count):
            taken = await attempts.take(Directive.model_validate(new_directive(account, "STUBBORN")))
            await asyncio.wait_for(taken.ended.wait(), WAIT_S)
            if number == 0:
                step.release.set()
    finally:
        await attempts.stop(0)
        step.release.set()
    return [reply for reply in sender.replies if reply["type"] == "RESULT"]


@pytest.mark.parametrize("listens", [True, False])
async def test_hung_work_ends_its_attempt_and_its_heartbeats(
    listens: bool, account: BlobAccount, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its maximum time the attempt fails, though its thread continues; the service processes the next attempt."""
    monkeypatch.setattr(module, "STOP_GRACE_S", WAIT_S if listens else 0.3)
    sender, step = Sender(), Stubborn(listens=listens, busy=True)
    first, second = await serve(step, sender, account, workspace, 2, attempt_max_s=3, silent_s=2.5)
    if not listens:
        assert (first["status"], first["error"]["code"]) == ("FAILED_FINAL", "LIMIT_EXCEEDED")
        assert "longer than 3 s" in first["error"]["message"]
    else:
        assert first["status"] == "SUCCEEDED"  # it stopped by itself, and its work counts
    assert second["status"] == "SUCCEEDED"
    assert "HEARTBEAT" in sender.kinds()


async def test_an_error_of_the_record_loses_no_result(
    account: BlobAccount, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RESULT is sent, heartbeats end, and the service works on the next attempt."""

    def fails(*_: Any) -> bytes:
        raise RuntimeError("a defect")

    monkeypatch.setattr(workspace, "write_once", fails)
    step = Stubborn(listens=False)
    step.release.set()
    results = await serve(step, Sender(), account, workspace, 2)
    assert [result["status"] for result in results] == ["SUCCEEDED"] * 2


@pytest.mark.usefixtures("short_grace")
async def test_silence_is_a_limit_where_it_is_declared(account: BlobAccount, workspace: Workspace) -> None:
    """Heartbeats of work that reports nothing end, and so does the attempt."""
    (result,) = await serve(Stubborn(listens=False), Sender(), account, workspace, silent_s=0.2)
    assert (result["status"], result["error"]["code"]) == ("FAILED_FINAL", "LIMIT_EXCEEDED")
    assert "the work reported nothing for 0.2 s" in result["error"]["message"]


@pytest.mark.usefixtures("short_grace")
async def test_a_heartbeats_answer_cancels(account: BlobAccount, workspace: Workspace) -> None:
    """If LUCIUS responds that the job has ended, `cancelled` is set, and no heartbeat follows."""
    sender = Sender(Sent(True, FailedFinal(CANCELLED, "the job is CANCELLING")))
    (result,) = await serve(Stubborn(listens=False), sender, account, workspace)
    assert (result["status"], result["error"]["code"]) == ("FAILED_FINAL", "CANCELLED")
    assert sender.kinds() == ["ACK", "HEARTBEAT", "RESULT"]


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("cadence", [WAIT_S, None])
async def test_the_payload_may_choose_the_cadence(
    cadence: float | None, account: BlobAccount, workspace: Workspace
) -> None:
    """None: that of the settings."""
    sender = Sender()
    await serve(Stubborn(listens=False), sender, account, workspace, attempt_max_s=2, heartbeat_by=lambda _: cadence)
    assert ("HEARTBEAT" in sender.kinds()) == (cadence is None)
