"""Common durable patterns, each run through real HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.emulator.host.process import Host, eventually, start_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    running = start_host("samples", folder, "--data", folder / "data")
    yield running
    stalls = running.stalls
    assert running.stop() == 0
    assert stalls == []


def test_a_counter_entity_by_its_client(host: Host) -> None:
    """Signals change the state, reading shows it, and a destructed entity is gone."""
    assert host.get("/api/counters/a").status_code == 404
    for _ in range(3):
        assert host.post("/api/counters/a/add", json=2).status_code == 202
    eventually(lambda: host.get("/api/counters/a").text == "6", lambda: host.log)
    host.post("/api/counters/a/reset")
    eventually(lambda: host.get("/api/counters/a").status_code == 404, lambda: host.log)


def test_a_counter_entity_by_an_orchestration(host: Host) -> None:
    """A call returns the entity's result after earlier signals; an unknown operation raises."""
    answer = host.post("/api/run/count_twice", json="b")
    assert answer.json() == [11, "a counter does not dance"]


def test_a_monitor_looks_until_it_finds(host: Host) -> None:
    """Durable HTTP calls and timers in turn, until the light is green."""
    watched = {"url": f"{host.url}/api/light", "wanted": "green", "seconds": 60}
    answer = host.post("/api/run/monitor", json=watched)
    assert answer.status_code == 202
    path = answer.json()["statusQueryGetUri"].removeprefix(host.url)
    assert host.get("/api/light/green").text == "green"
    output = eventually(lambda: host.get(path).json()["output"], lambda: host.log)
    assert (output["found"], output["status"]) == (True, 200)
    assert output["looks"] > 1


def test_durable_http_that_cannot_connect_fails_the_call(host: Host) -> None:
    """A refused connection is a failed activity, told in the output."""
    watched = {"url": "http://127.0.0.1:9/", "wanted": "x", "seconds": 60}
    answer = host.post("/api/run/monitor", json=watched)
    assert answer.status_code == 500
    assert "http://127.0.0.1:9/" in answer.json()["output"]


def test_a_function_is_cut_off_at_function_timeout(host: Host) -> None:
    """host.json's four seconds are over: 500, and the log says why."""
    assert host.get("/api/hang").status_code == 500
    assert "hang failed" in host.log
    assert "functionTimeout (4 s)" in host.log


def test_log_lines_carry_function_and_invocation(host: Host) -> None:
    """What user code logs is told apart by the invocation's id."""
    host.get("/api/light/yellow")
    assert re.search(r"INFO \[light [0-9a-f-]{36}\] the light is yellow", host.log)
