"""Common durable patterns, over real HTTP."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.functions_emulator.host.process import Host, eventually, start_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    environment = {"EMULATOR_COLLECT_GARBAGE": "50ms"}
    running = start_host("samples", folder, "--data", folder / "data", environment=environment)
    yield running
    stalls = running.stalls
    assert running.stop() == 0
    assert stalls == []


def run(host: Host, name: str, value: Any) -> Any:
    """Returns the output of an orchestration; polls for one that outlasts the app's wait."""
    response = host.post(f"/api/run/{name}", json=value)
    if response.status_code == 202:
        return host.wait_for(response.json()["id"])["output"]
    return response.json() if response.status_code == 200 else response.json()["output"]


def test_a_counter_entity_by_its_client(host: Host) -> None:
    """Signals change the state, a read returns it, and a destructed entity does not exist."""
    assert host.get("/api/counters/a").status_code == 404
    for _ in range(3):
        assert host.post("/api/counters/a/add", json=2).status_code == 202
    eventually(lambda: host.get("/api/counters/a").text == "6", lambda: host.log)
    host.post("/api/counters/a/reset")
    eventually(lambda: host.get("/api/counters/a").status_code == 404, lambda: host.log)


def test_a_counter_entity_by_an_orchestration(host: Host) -> None:
    """A call returns the entity's result after earlier signals; an unknown operation raises."""
    assert run(host, "count_twice", "b") == [11, "a counter does not dance"]


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [([4711], "verified"), ([1, 4711], "verified"), ([1, 2, 3], "too many tries"), ([], "too late")],
)
def test_somebody_verifies_a_phone(host: Host, tmp_path: Path, answers: list[int], outcome: str) -> None:
    """The code is in the inbox; the result depends on the codes that are typed in."""
    phone = {"number": "555", "inbox": str(tmp_path / "inbox"), "seconds": 0.3 if outcome == "too late" else 600}
    started = host.post("/runtime/webhooks/durabletask/orchestrators/verify_phone", json=phone).json()
    inbox = tmp_path / "inbox"
    # a file that is being written is there before its text is
    message = eventually(lambda: inbox.exists() and inbox.read_text(), lambda: host.log)
    assert json.loads(message) == {"to": "555", "code": 4711}
    for number, answer in enumerate(answers):
        path = started["sendEventPostUri"].removeprefix(host.url).replace("{eventName}", f"answer-{number}")
        assert host.post(path, json=answer).status_code == 202
    assert host.wait_for(started["id"])["output"] == outcome


def test_files_are_backed_up_side_by_side(host: Host, tmp_path: Path) -> None:
    """Each file is copied, and the sum of the sizes is returned: the response is the output, when it ends in time."""
    source = tmp_path / "from"
    for name, size in (("a", 10), ("b/c", 200), ("b/d", 3000)):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"x" * size)
    plan = {"from": str(source), "to": str(tmp_path / "to")}
    response = eventually(
        lambda: ended if (ended := host.post("/api/run/back_up", json=plan)).status_code != 202 else None
    )
    assert (response.status_code, response.json()) == (200, {"files": 3, "bytes": 3210})
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "c", "d"]


def test_sub_orchestrations_are_tried_again_as_a_whole(host: Host, tmp_path: Path) -> None:
    """Two devices are set up, one after two failures; a device that never is fails the parent with its reason."""
    log = str(tmp_path / "log")
    fine = [{"name": "one", "fails": 0, "log": log}, {"name": "two", "fails": 2, "log": log}]
    assert run(host, "set_up_all", fine) == ["one after 1", "two after 3"]
    assert "three does not answer" in run(host, "set_up_all", [{"name": "three", "fails": 9, "log": log}])
    assert Path(log).read_text().split().count("three") == 3


def test_a_monitor_looks_until_it_finds(host: Host) -> None:
    """It makes durable HTTP calls and waits by timers in turn, until the light is green."""
    watched = {"url": f"{host.url}/api/light", "expected": "green", "seconds": 60}
    response = host.post("/api/run/monitor", json=watched)
    assert response.status_code == 202
    path = response.json()["statusQueryGetUri"].removeprefix(host.url)

    def looked() -> bool:
        history = host.status(response.json()["id"], showHistory="true")["historyEvents"]
        return any(event["EventType"] == "TaskCompleted" for event in history)

    eventually(looked, lambda: host.log)
    assert host.get("/api/light/green").text == "green"
    output = eventually(lambda: host.get(path).json()["output"], lambda: host.log)
    assert (output["found"], output["status"]) == (True, 200)
    assert output["looks"] > 1


def test_durable_http_that_cannot_connect_fails_the_call(host: Host) -> None:
    """The output of the orchestration has the URL of the refused connection."""
    watched = {"url": "http://127.0.0.1:9/", "expected": "x", "seconds": 60}

    def failed() -> Any:
        """Returns the response, which reports the failure if it ends in time."""
        response = host.post("/api/run/monitor", json=watched)
        return response if response.status_code != 202 else None

    response = eventually(failed)
    assert response.status_code == 500
    assert "http://127.0.0.1:9/" in response.json()["output"]


def test_a_function_is_cut_off_at_function_timeout(host: Host) -> None:
    """After the four seconds of host.json the response is 500, and the log has the reason."""
    assert host.get("/api/hang").status_code == 500
    assert "hang failed" in host.log
    assert "functionTimeout (4 s)" in host.log
    assert "hang begins" not in host.log  # host.json shows warnings of this function


def test_a_task_that_waits_for_bytes_without_a_timer_is_lost(host: Host) -> None:
    """Nothing refers to an invocation's task, so it is collected, and its caller gets 500 after functionTimeout.

    azure_functions_worker/dispatcher.py of Microsoft's worker 4.34 keeps no task (`__poll_grpc`). A timer holds the
    task, so the same wait under `asyncio.timeout` ends.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = f"/api/wait-for-bytes/{silent.getsockname()[1]}"
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(host.get, path)
            assert host.get(f"{path}/1.5").text == "timed out"
            assert lost.result().status_code == 500
    eventually(lambda: "Task was destroyed but it is pending!" in host.log)
    assert "wait_for_bytes failed" in host.log


def test_a_function_that_raises_cancelled_error_never_ends(host: Host) -> None:
    """It has no outcome until functionTimeout: Microsoft's worker catches `Exception` alone."""
    assert host.get("/api/cancelled").status_code == 500
    assert re.search(r"cancelled failed, .*functionTimeout \(4 s\)", host.log)


def test_log_lines_carry_function_and_invocation(host: Host) -> None:
    """A log line of the app and of its SDKs has the function's name and the invocation id."""
    host.get("/api/light/yellow")
    assert re.search(r"INFO \[light [0-9a-f-]{36}\] the light is yellow", host.log)
    assert re.search(r"INFO \[light [0-9a-f-]{36}\] an SDK asks for yellow", host.log)
