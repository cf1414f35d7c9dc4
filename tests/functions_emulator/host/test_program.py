"""The host as a program: starting, refusing, stopping, restarting, timers."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from functions_emulator.command import add_arguments
from tests.functions_emulator.host.process import APPS, START_TIMEOUT_S, Host, eventually, launch, start_host


@pytest.fixture(scope="module", autouse=True)
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that was stopped while a function hangs. It waits 10 s for the function, while the other tests run."""
    host = start_host("tour", tmp_path_factory.mktemp("hanging"))
    caller = _caller(host, "/sleep-sync?s=300")
    eventually(lambda: host.get("/admin/emulator/running").json() == ["sleep_sync"] or None)
    host.process.send_signal(signal.SIGTERM)
    yield host
    host.kill()
    caller.join()


def _fails(app: Path, folder: Path, *arguments: str | Path, port: int = 0) -> list[str]:
    """Returns the lines on stderr of a host that must not start."""
    process = launch(app, folder / "host.log", *arguments, port=port)
    assert process.wait(timeout=START_TIMEOUT_S) == 1
    assert process.stdout is not None
    assert process.stdout.read() == ""
    process.stdout.close()
    return (folder / "host.log").read_text().splitlines()


def test_functions_that_cannot_be_served_are_named_and_left_out(tmp_path: Path) -> None:
    """The log has one line for each, with the reason; the others are served."""
    host = start_host("faulty", tmp_path)
    try:
        assert host.get("/good").text == "good"
        problems = dict(line.split(": ", 1) for line in host.get("/admin/emulator/problems").json())
    finally:
        host.stop()
    expected = {
        "union_annotation": "must have a plain type",
        "unbound_parameter": "parameters without a binding: other",
        "missing_setting": "'NO_SUCH_SETTING'",
        "bad_schedule": "neither NCRONTAB",
        "missing_connection": "connection setting not found: 'NO_SUCH_CONNECTION'",
        "unknown_trigger": "'eventHubTrigger' is not supported",
        "wrong_context_name": "ctx",
        "sync_client": "must be `async def`",
        "bad_route": "'nope'",
        "same_route": "the function good already has the route",
        "union_return": "the return annotation must be a plain type",
        "wrong_return": "the return annotation int does not fit",
        "wrong_parameter": "cannot be a HttpRequest",
        "unresolved": "name 'NoSuchType' is not defined",
        "good": "used more than once",
    }
    assert set(problems) == set(expected)
    assert {name for name, text in expected.items() if text not in problems[name]} == set()
    assert host.log.count("a function is not served: ") == len(expected)
    (summary,) = re.findall("worker would serve none of this app's functions, because of: (.*)", host.log)
    assert {"union_return", "good", "unresolved", "unbound_parameter"} <= set(summary.split(", "))
    assert not {"missing_setting", "same_route", "bad_route"} & set(summary.split(", "))
    assert "host.json: extensions.eventHubs.batchCheckpointFrequency has no effect in the emulator" in host.log


def test_an_app_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    """The line has file, line and exception, without a stack trace; the exit code is 1."""
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    (tmp_path / "function_app.py").write_text("import azure.functions\nimport no_such_package\n")
    (line,) = _fails(tmp_path, tmp_path)
    assert line == (f"error: {tmp_path}/function_app.py:2: ModuleNotFoundError: No module named 'no_such_package'")


def test_a_folder_that_is_no_app(tmp_path: Path) -> None:
    """A missing host.json is an error of one line."""
    (line,) = _fails(tmp_path / "nothing", tmp_path)
    assert "host.json is missing" in line


def test_an_app_without_its_task_hub_is_one_line(tmp_path: Path) -> None:
    """Microsoft's host serves nothing then (ValidateHubName in AzureStorageOptions.cs of the durable extension)."""
    (tmp_path / "host.json").write_text(
        '{"version": "2.0", "extensions": {"durableTask": {"hubName": "%NO_SUCH_SETTING%"}}}'
    )
    (tmp_path / "function_app.py").write_text("import azure.functions as func\napp = func.FunctionApp()\n")
    (line,) = _fails(tmp_path, tmp_path)
    assert line.startswith("error: host.json: Task hub name '%NO_SUCH_SETTING%' should contain only alphanumeric")


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    """The exit code is 1, and the line has the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        lines = _fails(APPS / "tour", tmp_path, port=port)
    assert any(f"cannot listen on 127.0.0.1:{port}" in line for line in lines)


def test_two_hosts_on_one_data_folder(tmp_path: Path) -> None:
    """The second one refuses to start, with one line, and the first one continues."""
    host = start_host("tour", tmp_path, "--data", tmp_path / "data")
    (tmp_path / "second").mkdir()
    try:
        lines = _fails(APPS / "tour", tmp_path / "second", "--data", tmp_path / "data")
        assert any("another host uses the folder" in line for line in lines)
        assert host.get("/sync").status_code == 200
    finally:
        assert host.stop() == 0


def test_a_stop_lets_running_functions_end(tmp_path: Path) -> None:
    """After SIGTERM a running function can still start an orchestration and respond; the exit code is 0."""
    host = start_host("tour", tmp_path, "--data", tmp_path / "data")
    responses: list[str] = []
    until = tmp_path / "until"
    caller = threading.Thread(target=lambda: responses.append(host.post(f"/start-late?until={until}").text))
    caller.start()
    eventually(lambda: host.get("/admin/emulator/running").json() == ["start_late"] or None)
    host.process.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping" in host.log)
    until.touch()
    assert host.process.wait(START_TIMEOUT_S) == 0
    caller.join()
    assert host.process.stdout is not None
    host.process.stdout.close()
    assert responses == ["late"]
    host = start_host("tour", tmp_path, "--data", tmp_path / "data")
    assert host.wait_for("late")["runtimeStatus"] == "Completed"
    assert host.stop() == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """A second Ctrl-C does not wait for a function that hangs."""
    host = start_host("tour", tmp_path)
    caller = _caller(host, "/sleep-async?s=60")
    eventually(lambda: host.get("/admin/emulator/running").json() == ["sleep_async"] or None)
    host.process.send_signal(signal.SIGINT)
    eventually(lambda: "stopping" in host.log or None)
    host.process.send_signal(signal.SIGINT)
    assert host.process.wait(timeout=START_TIMEOUT_S) == 1
    caller.join()
    assert host.process.stdout is not None
    host.process.stdout.close()


def _caller(host: Host, path: str) -> threading.Thread:
    """A thread that waits for a response, which may never come."""

    def call() -> None:
        with contextlib.suppress(httpx.HTTPError):
            host.get(path)

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_timers_run_on_schedule_and_after_a_gap(tmp_path: Path) -> None:
    """A timer runs by its schedule and at startup, and past due after a restart."""
    seen = tmp_path / "seen.jsonl"
    environment = {"SEEN_FILE": str(seen), "HOURLY": "0 0 * * * *", "AzureWebJobsStorage": ""}

    def lines() -> list[list[object]]:
        return [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []

    host = start_host("timers", tmp_path, "--data", tmp_path / "data", environment=environment)
    eventually(lambda: len([one for one in lines() if one[0] == "every_second"]) >= 2 or None, lambda: host.log)
    eventually(lambda: [one for one in lines() if one[0] == "at_startup"])
    retries = eventually(
        lambda: retried if len(retried := [one for one in lines() if one[0] == "retried"]) == 3 else None
    )
    assert [one[2] for one in retries] == [[0, 2], [1, 2], [2, 2]]
    host.kill()
    before = len(lines())
    eventually(lambda: _seconds_since(seen) > 1.5 or None)
    host = start_host("timers", tmp_path, "--data", tmp_path / "data", environment=environment)
    try:
        eventually(lambda: any(one[:2] == ["every_second", True] for one in lines()[before:]) or None)
        # it runs more often than once a minute, so its schedule is not kept and nothing is past due
        quick = eventually(lambda: [one for one in lines()[before:] if one[0] == "not_monitored"])
        assert {(past_due, json.dumps(status)) for _, past_due, status in quick} == {(False, "{}")}
    finally:
        assert host.stop() == 0


def _seconds_since(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _responds(host: Host, text: str) -> bool:
    try:
        return host.get("/sync?name=bob").text == text
    except httpx.HTTPError:
        return False


def test_watch_serves_changed_code_and_keeps_the_store(tmp_path: Path) -> None:
    """New code is served on the same port; a broken change waits for the next one; an orchestration survives both."""
    app = tmp_path / "app"
    shutil.copytree(APPS / "tour", app)
    script = app / "function_app.py"
    host = start_host(app, tmp_path, "--watch")
    try:
        instance_id = host.start("approval", 600)
        host.wait_for(instance_id, "Running")
        assert _responds(host, "hello bob")
        code = script.read_text()
        script.write_text(code.replace("hello {", "good day {"))
        eventually(lambda: _responds(host, "good day bob"), lambda: host.log)
        script.write_text("this is not Python")
        eventually(lambda: "cannot be served, waiting for the next change" in host.log, lambda: host.log)
        script.write_text(code)
        eventually(lambda: _responds(host, "hello bob"), lambda: host.log)
        host.post(f"/raise/{instance_id}/approve", json=1)
        assert host.wait_for(instance_id)["output"] == "1"
    finally:
        assert host.stop() == 0


def test_a_stop_waits_for_functions_up_to_its_limit(tmp_path: Path) -> None:
    """A request that would be answered within the default time, as a long poll, is ended."""
    host = start_host("tour", tmp_path, "--drain", "0.1")
    caller = _caller(host, "/sleep-async?s=8")
    eventually(lambda: host.get("/admin/emulator/running").json() == ["sleep_async"] or None)
    assert host.stop() == 0
    caller.join()
    assert "stopped while functions were running: sleep_async" in host.log


@pytest.mark.parametrize("drain", ["-1", "soon", "nan", "1e9"])
def test_a_time_that_is_none_is_wrong_usage(drain: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--app", "app", "--drain", drain])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"argument --drain: {drain!r} is not a number from 0 to 3600\n")


def test_a_function_that_hangs_does_not_keep_the_host(hanging: Host) -> None:
    """After the time for running functions the host ends, and logs the running ones."""
    assert hanging.process.wait(timeout=START_TIMEOUT_S) == 0
    assert "stopped while functions were running: sleep_sync" in hanging.log
