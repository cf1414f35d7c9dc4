"""The output of the recorder in the host."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.jobs.recorder import recording
from benchmarks.jobs.stack import Invocation
from functions_emulator.host.durable_functions import DurableFunctions
from functions_emulator.host.invoker import Invoker


async def test_each_invocation_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions with their trigger, also one that fails, and batches of episodes; results pass unchanged."""

    async def invoke(self: Any, function: Any, trigger_value: Any, **fields: Any) -> str:
        if fields["trigger_data"] is None:
            raise ZeroDivisionError
        return f"{function.name} ran"

    async def run_orchestrators(self: Any, calls: Any) -> list[str]:
        return ["done" for _ in calls]

    monkeypatch.setattr(Invoker, "invoke", invoke)
    monkeypatch.setattr(DurableFunctions, "run_orchestrators", run_orchestrators)
    out = io.StringIO()
    recording._record_invocations(out)
    reply = SimpleNamespace(name="reply_p3", trigger=SimpleNamespace(type="serviceBusTrigger"))
    host: Any = None
    message = SimpleNamespace(message_id="ACK/job_1/ocr/1")
    assert await Invoker.invoke(host, reply, message, trigger_data={}) == "reply_p3 ran"  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        await Invoker.invoke(host, reply, message, trigger_data=None)  # type: ignore[arg-type]
    assert await DurableFunctions.run_orchestrators(host, [1, 2]) == ["done", "done"]  # type: ignore[list-item]
    ran = [Invocation(*json.loads(line)["ran"]) for line in out.getvalue().splitlines()]
    assert [(each.group, each.times, each.message_id) for each in ran] == [
        ("reply_p3", 1, "ACK/job_1/ocr/1"),
        ("reply_p3", 1, "ACK/job_1/ocr/1"),
        ("durable", 2, None),
    ]
    assert all(each.began <= each.ended for each in ran)


def test_what_it_wraps_is_there() -> None:
    """The host's own methods have the parameters that the recorder passes on."""
    assert Invoker.invoke.__code__.co_varnames[:3] == ("self", "function", "trigger_value")
    assert DurableFunctions.run_orchestrators.__code__.co_varnames[:2] == ("self", "calls")


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (f"{recording.ROOT}/shared/core/job.py", "app"),
        (f"{recording.ROOT}/function_app.py", "app"),
        (f"{recording.ROOT}/packages/functions-emulator/functions_emulator/host/worker.py", "host"),
        (f"{recording.ROOT}/.venv/lib/python3.12/site-packages/azure/servicebus/aio/_client.py", "Microsoft's SDKs"),
        (f"{recording.ROOT}/.venv/lib/python3.12/site-packages/aiohttp/client.py", "other packages"),
        (json.__file__, None),
    ],
)
def test_whose_code_a_file_is(file: str, part: str | None) -> None:
    """Python's own library counts for its caller."""
    assert recording._part(file) == part


def test_a_frame_of_nobody_counts_for_its_caller() -> None:
    """This test is no part, and pytest, which called it, is another package; without a caller it is the loop."""
    assert recording._whose(sys._getframe())[0] == "other packages"
    assert recording._whose(None) == ("event loops and interpreter", None)
