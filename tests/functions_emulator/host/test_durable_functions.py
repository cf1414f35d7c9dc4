"""Orchestrations of an app on the unmodified SDK, over real HTTP."""

from __future__ import annotations

import importlib
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dateutil.parser
import pytest

from functions_emulator.host.durable_functions import use_fast_timestamps
from tests.functions_emulator.host.process import Host, eventually, start_host

API = "/runtime/webhooks/durabletask"
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("orchestrator", "value", "output"),
    [
        ("chain", "Hi", ["HI", {"word": "hi", "by": "whisper"}]),
        ("fan_out", ["a", "b", "c"], ["A", "B", "C"]),
        ("sleeper", 0.2, "awake"),
        ("approval", 0.2, "timed out"),
        ("parent", ["X"], [["X", {"word": "x", "by": "whisper"}]]),
        ("countdown", 2, "lift-off"),
    ],
)
def test_orchestrations_complete(host: Host, orchestrator: str, value: Any, output: Any) -> None:
    """Chaining, fan-out, timers, sub-orchestrations and continue_as_new give their results."""
    ended = host.wait_for(host.start(orchestrator, value))
    assert (ended["runtimeStatus"], ended["output"]) == ("Completed", output)


@pytest.mark.parametrize(("zone", "expected"), [("UTC", "tzlocal()"), ("Europe/Berlin", "tzutc()")])
def test_the_clock_of_an_orchestrator_has_the_sdks_time_zone(
    zone: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`current_utc_datetime` has the value of the SDK's own parser, which on Azure, in UTC, has `tzlocal()`.

    The SDK parses by dateutil (models/history/HistoryEvent.py of azure-functions-durable 1.7), which takes the zone of
    the machine for a text with `Z` where that zone is called UTC (`_build_tzaware` of dateutil/parser/_parser.py).
    """
    sdk = importlib.import_module("azure.durable_functions.models.history.HistoryEvent")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        monkeypatch.setattr(sdk, "dt_parse", dateutil.parser.parse)
        assert use_fast_timestamps()
        for text in ("2026-03-01T12:00:00.000000Z", "2026-07-01T00:00:00.123456Z"):
            parsed, expected_value = sdk.dt_parse(text), dateutil.parser.parse(text)
            assert (repr(parsed), parsed) == (repr(expected_value), expected_value)
            assert repr(parsed.tzinfo) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


def test_retries_run_until_success(host: Host, tmp_path: Path) -> None:
    """The third attempt succeeds, and there were exactly three."""
    plan = {"file": str(tmp_path / "attempts"), "fails": 2}
    ended = host.wait_for(host.start("retrying", plan))
    assert (ended["runtimeStatus"], ended["output"]) == ("Completed", 3)


def test_a_failure_carries_the_exception(host: Host, tmp_path: Path) -> None:
    """The output of a failed orchestration has the activity's exception, and its stack in the extension's JSON."""
    ended = host.wait_for(host.start("failing", {"file": str(tmp_path / "attempts"), "fails": 9}))
    assert ended["runtimeStatus"] == "Failed"
    reason, details = ended["output"].split(" \n ", 1)
    assert reason == "Orchestrator function 'failing' failed: Activity function 'flaky' failed:  ValueError: attempt 1"
    stack = json.loads(details)["InnerException"]["RemoteStackTrace"]
    assert stack.startswith("Traceback (most recent call last):")
    assert stack.endswith("ValueError: attempt 1\n")


def test_an_event_through_the_sdks_client(host: Host) -> None:
    """`raise_event` wakes the orchestration, with JSON text as payload; a finished one refuses events."""
    instance_id = host.start("approval", 600)
    host.wait_for(instance_id, "Running")
    assert host.post(f"/raise/{instance_id}/approve", json={"by": "me"}).status_code == 202
    ended = host.wait_for(instance_id)
    assert (ended["runtimeStatus"], ended["output"]) == ("Completed", '{"by": "me"}')
    assert host.post(f"/raise/{instance_id}/approve", json=1).status_code == 410
    assert host.post("/raise/nobody/approve", json=1).status_code == 410


def test_the_management_urls_work(host: Host) -> None:
    """sendEventPostUri, statusQueryGetUri and purgeHistoryDeleteUri of the starter's response."""
    urls = host.post("/start/approval", json=600).json()
    path = {name: url.removeprefix(host.url) for name, url in urls.items()}
    pending = host.get(path["statusQueryGetUri"])
    assert pending.status_code == 202
    assert "Location" in pending.headers
    assert host.request("DELETE", path["purgeHistoryDeleteUri"]).status_code == 412
    sent = host.post(path["sendEventPostUri"].replace("{eventName}", "approve"), json={"raw": True})
    assert sent.status_code == 202
    assert host.wait_for(urls["id"])["output"] == {"raw": True}
    assert host.get(path["statusQueryGetUri"]).status_code == 200
    assert host.request("DELETE", path["purgeHistoryDeleteUri"]).json() == {"instancesDeleted": 1}
    assert host.get(path["statusQueryGetUri"]).status_code == 404


def test_terminate_suspend_resume_over_http(host: Host) -> None:
    """Each operation changes the status; a finished instance is 410, an unknown one 404."""
    instance_id = host.start("approval", 600)
    one = f"{API}/instances/{instance_id}"
    host.wait_for(instance_id, "Running")
    assert host.post(f"{one}/suspend?reason=r").status_code == 202
    host.wait_for(instance_id, "Suspended")
    assert host.post(f"{one}/resume?reason=r").status_code == 202
    host.wait_for(instance_id, "Running")
    assert host.post(f"{one}/terminate?reason=enough").status_code == 202
    assert host.wait_for(instance_id)["output"] == "enough"
    assert host.post(f"{one}/terminate?reason=again").status_code == 410
    assert host.post(f"{API}/instances/nobody/suspend").status_code == 404


def test_starting_twice(host: Host) -> None:
    """The id of a live instance is 409; an unknown orchestrator is 202 and fails, and so is an id with `@`."""
    host.start("approval", 600, "twice")
    assert host.post("/start/approval?id=twice", json=1).status_code == 409
    assert host.post(f"{API}/orchestrators/nowhere/@home").status_code == 202
    ended = host.wait_for("@home")
    assert ended["runtimeStatus"] == "Failed"
    assert "'nowhere' doesn't exist" in ended["output"]
    assert host.post(f"{API}/orchestrators/chain/a%2Fb").status_code == 404
    assert host.post(f"{API}/instances/@home/restart").status_code == 400


def test_durable_functions_can_be_run_manually(host: Host, tmp_path: Path) -> None:
    """A manual call starts an orchestrator, runs an activity and an HTTP function, with its input."""
    started = host.post("/admin/functions/chain", json={"input": "Hi"})
    assert started.status_code == 202
    assert host.wait_for(started.json()["id"])["output"] == ["HI", {"word": "hi", "by": "whisper"}]
    plan = {"file": str(tmp_path / "attempts"), "fails": 0}
    assert host.post("/admin/functions/flaky", json={"input": plan}).status_code == 202
    eventually((tmp_path / "attempts").exists, lambda: host.log)
    assert host.post("/admin/functions/boom", json={"input": ""}).status_code == 202
    eventually(lambda: "boom failed, invocation" in host.log)


def test_listing_and_paging(host: Host) -> None:
    """Instances are found by prefix and status, in pages."""
    for number in range(3):
        host.wait_for(host.start("chain", "x", f"page-{number}"))
    query = {"instanceIdPrefix": "page-", "runtimeStatus": "Completed", "top": "2"}
    first = host.get(f"{API}/instances", params=query)
    assert [one["instanceId"] for one in first.json()] == ["page-0", "page-1"]
    token = {"x-ms-continuation-token": first.headers["x-ms-continuation-token"]}
    rest = host.get(f"{API}/instances", params=query, headers=token)
    assert [one["instanceId"] for one in rest.json()] == ["page-2"]
    assert rest.headers["x-ms-continuation-token"] == ""


def test_starting_by_the_api_and_waiting_for_the_end(host: Host) -> None:
    """With timeout and pollingInterval the response is the output, or the links if that takes too long."""
    start = f"{API}/orchestrators"
    waiting = {"timeout": "20", "pollingInterval": "0.05"}
    assert host.post(f"{start}/sleeper", params=waiting, json=0.1).json() == "awake"
    pending = host.post(f"{start}/approval", params={"timeout": "0.2", "pollingInterval": "0.05"}, json=600)
    assert pending.status_code == 202
    assert host.post(f"{start}/sleeper", params={"timeout": "1", "pollingInterval": "2"}, json=1).status_code == 400
    one = f"{API}/instances/{pending.json()['id']}"
    assert host.post(f"{one}/raiseEvent/approve", content="1").status_code == 400  # not application/json
    assert host.post(f"{one}/raiseEvent/approve", content="{", headers=JSON).status_code == 400
    assert host.post(f"{one}/raiseEvent/approve", json=1).status_code == 202
    host.wait_for(pending.json()["id"])
    again = host.post(f"{one}/restart", params={"restartWithNewInstanceId": "false"})
    assert again.json()["id"] == pending.json()["id"]
    assert host.post(f"{one}/terminate").status_code == 202
    host.wait_for(pending.json()["id"])
    assert host.post(f"{one}/rewind").status_code == 410
    assert host.post(f"{API}/instances/nobody/restart").status_code == 400
    assert host.post(f"{API}/instances/nobody/rewind").status_code == 404


def test_entities_are_listed(host: Host) -> None:
    """By name, in pages, with states on request; a signal may have a text as input."""
    for key in ("a", "b", "c"):
        assert host.post(f"{API}/entities/total/list-{key}", params={"op": "add"}, json=2).status_code == 202
        eventually(lambda key=key: host.get(f"{API}/entities/total/list-{key}").status_code == 200)
    query = {"top": "2", "fetchState": "true"}
    first = host.get(f"{API}/entities/Total", params=query)
    assert [(one["entityId"], one["state"]) for one in first.json()] == [
        ({"name": "total", "key": "list-a"}, 2),
        ({"name": "total", "key": "list-b"}, 2),
    ]
    token = {"x-ms-continuation-token": first.headers["x-ms-continuation-token"]}
    (last,) = host.get(f"{API}/entities", params={"top": "2"}, headers=token).json()
    assert last["entityId"]["key"] == "list-c"
    assert "state" not in last


def test_the_history_can_be_shown(host: Host) -> None:
    """showHistory lists the events, with outputs on request."""
    instance_id = host.start("chain", "x")
    host.wait_for(instance_id)
    events = host.status(instance_id, showHistory="true", showHistoryOutput="true")["historyEvents"]
    assert [one["EventType"] for one in events] == [
        "ExecutionStarted",
        "TaskCompleted",
        "TaskCompleted",
        "ExecutionCompleted",
    ]
    assert [one.get("FunctionName") for one in events][:3] == ["chain", "shout", "whisper"]
    assert events[1]["Result"] == "X"


@pytest.mark.parametrize(
    ("jobs", "step_count", "kills"),
    [(12, 4, 3), pytest.param(200, 8, 20, marks=[pytest.mark.long, pytest.mark.timeout(1800)])],
)
def test_killed_hosts_lose_nothing(tmp_path: Path, jobs: int, step_count: int, kills: int) -> None:
    """Killed during jobs, sub-orchestrations, timers, retries and entities, each orchestration ends with its result."""
    data = tmp_path / "data"
    host = start_host("tour", tmp_path, "--data", data)
    ids = [host.start("steps", step_count, f"job-{number}") for number in range(jobs)]
    others: dict[str, Any] = {}
    luck = random.Random(jobs)
    for kill in range(kills):
        others |= _start_others(host, kill, tmp_path)
        _raise_some(host, luck.sample(ids, len(ids) // 3), step_count)
        host.kill()
        host = start_host("tour", tmp_path, "--data", data)
    try:
        expected = [[f"STEP-{index}", "true"] for index in range(step_count)]

        def all_done() -> bool:
            # Pending: messages that a killed host had taken are not visible again yet
            left = [one for one in ids if host.status(one)["runtimeStatus"] in ("Pending", "Running")]
            _raise_some(host, left, step_count)
            return not left

        eventually(all_done, lambda: host.log[-2000:], within=600)
        for one in ids:
            ended = host.status(one)
            assert (ended["runtimeStatus"], ended["output"]) == ("Completed", expected)
        for one, output in others.items():
            ended = host.wait_for(one, within=120)
            assert (one, ended["runtimeStatus"]) == (one, "Completed")
            assert output in (None, ended["output"])
        total = eventually(lambda: host.get(f"{API}/entities/total/all").json() == 2 * kills or None, within=60)
        assert total
        assert host.stalls == []
    finally:
        assert host.stop() == 0


def _start_others(host: Host, kill: int, folder: Path) -> dict[str, Any]:
    """Starts one orchestration of each kind; returns their outputs by id, `None` if it depends on the kills."""
    words = [f"w{kill}", "x"]
    shouted = [word.upper() for word in words]
    plan = {"file": str(folder / f"attempts-{kill}"), "fails": 2}
    kinds = {
        "parent": (words, [[word, {"word": word.lower(), "by": "whisper"}] for word in shouted]),
        "fan_out": (words, shouted),
        "countdown": (3, "lift-off"),
        "sleeper": (1, "awake"),
        "tally": ("all", "counted"),
        "retrying": (plan, None),
    }
    for kind, (value, _) in kinds.items():
        host.start(kind, value, f"{kind}-{kill}")
    return {f"{kind}-{kill}": output for kind, (_, output) in kinds.items()}


def _raise_some(host: Host, ids: list[str], step_count: int) -> None:
    """Raises the next event of each instance by the app, whether the instance waits for it already or not."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: _raise_next(host, one, step_count), ids))


def _raise_next(host: Host, instance_id: str, step_count: int) -> None:
    history = host.status(instance_id, showHistory="true").get("historyEvents") or []
    # by name: one that was hidden by a kill has been raised twice
    raised = {event["Name"] for event in history if event["EventType"] == "EventRaised"}
    left = (name for name in (f"done:{step}" for step in range(step_count)) if name not in raised)
    if (name := next(left, None)) is not None:
        host.post(f"/raise/{instance_id}/{name}", json=True)
