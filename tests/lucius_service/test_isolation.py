"""Work in a child process: it ends at its limits, and costs no other attempt more than a new child."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker
from tests.lucius_service.service_process import PROBE, Service, launch


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Service]:
    """Yields a service whose work is killed after four seconds without a heartbeat, or above 0.5 GiB."""
    settings = {**environment, "LUCIUS_SERVICE_MEMORY_MIB": "512", "LUCIUS_SERVICE_LANES": "0"}
    service = launch((*PROBE, "isolated"), tmp_path_factory.mktemp("isolated") / "isolated.log", settings)
    try:
        service.wait_ready("isolated")
        yield service
    finally:
        service.close()


def outcome(invoker: Invoker, payload: dict[str, Any], **changes: Any) -> dict[str, Any]:
    directive = invoker.directive("ISOLATED", payload, **changes)
    invoker.send(directive, "ISOLATED")
    return invoker.result(directive["jobId"])


def pid(invoker: Invoker) -> int:
    return int(outcome(invoker, {"metrics": "pid"})["metrics"]["pid"])


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("then", "status", "code", "words"),
    [
        ("hang", "FAILED_FINAL", "LIMIT_EXCEEDED", "the work reported nothing for 4 s"),
        ("memory", "FAILED_FINAL", "LIMIT_EXCEEDED", "memory"),
        ("crash", "FAILED_RETRY", "SERVICE_FAULT", "SIGABRT"),
    ],
)
def test_what_meets_a_limit_costs_one_child(
    then: str, status: str, code: str, words: str, isolated: Service, invoker: Invoker
) -> None:
    """The RESULT names the limit, the child is gone, and the next attempt is done by another."""
    before = pid(invoker)
    result = outcome(invoker, {"then": then})
    assert (status, code) == (result["status"], result["error"]["code"])
    assert words in result["error"]["message"]
    assert before != pid(invoker)
    invoker.wait(lambda: not alive(before), "end of the child")


@pytest.mark.parametrize("then", ["final", "retry", "bug"])
def test_a_failure_keeps_the_child(then: str, isolated: Service, invoker: Invoker) -> None:
    """The step's error reaches the RESULT as from a thread; the models stay loaded."""
    before = pid(invoker)
    result = outcome(invoker, {"then": then})
    assert result["error"]["code"] == {"bug": "SERVICE_FAULT"}.get(then, f"PROBE_{then.upper()}")
    assert "secret" not in result["error"]["message"]
    assert before == pid(invoker)


def test_the_childs_words_reach_log_and_result(isolated: Service, invoker: Invoker, account: BlobAccount) -> None:
    """Artifacts, digests and log lines pass through the parent; a final result is copied by it."""
    uri = account.upload("in.txt", b"in")
    result = outcome(invoker, {"artifact": True}, input_ref={"uri": uri}, final=True)
    assert [each["name"] for each in result["artifacts"]] == ["page 1.csv"]
    assert set(result["digests"]) == {"result_ref", "output_ref"}
    assert account.download(result["output_ref"]["uri"]) == b"done"
    invoker.wait(lambda: "isolated: one artifact" in isolated.log.read_text(), "the child's line")


def test_children_end_with_their_service(isolated: Service, invoker: Invoker) -> None:
    """SIGKILL of the service ends its child, also one that keeps the interpreter's lock. It is the last test here."""
    child = pid(invoker)
    directive = invoker.directive("ISOLATED", {"then": "hang"})
    invoker.send(directive, "ISOLATED")
    invoker.wait(lambda: invoker.runs(directive) == 1, "the run")
    isolated.kill()
    invoker.wait(lambda: not alive(child), "end of the child")
