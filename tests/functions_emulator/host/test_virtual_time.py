"""The virtual clock: the host's timers and the app's own time advance together."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from azure.servicebus import ServiceBusMessage

from functions_emulator.host.virtual_time import parse_duration
from tests.functions_emulator.host.process import START_TIMEOUT_S, Host, eventually, start_host
from tests.functions_emulator.host.service_bus_app import CONFIG, MessageLog, environment, send
from tests.servicebus_emulator.process import Bus, start_bus


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25)]
)
def test_durations(text: str, seconds: float) -> None:
    """A duration is numbers with units."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "15", "m", "15m ", "1y"])
def test_bad_durations(text: str) -> None:
    """The error has an example."""
    with pytest.raises(ValueError, match="15m"):
        parse_duration(text)


def test_five_hours_pass_timer_by_timer(tmp_path: Path) -> None:
    """In a few real seconds the app reads the clock five times, an hour apart; a timer comes up to a second early."""
    host = start_host("tour", tmp_path, "--virtual-clock", "--data", tmp_path / "data")
    try:
        instance_id = host.start("hourly", 5)
        response = host.post("/admin/emulator/advance", json={"by": "5h1m"})
        assert response.status_code == 200, response.text
        ended = host.status(instance_id)
        assert ended["runtimeStatus"] == "Completed"
        wall = [datetime.fromisoformat(one[0]) for one in ended["output"]]
        gaps = [later - earlier for earlier, later in pairwise(wall)]
        assert all(timedelta(minutes=59, seconds=59) <= gap < timedelta(hours=1, minutes=1) for gap in gaps)
        assert all(abs(one[1] - at.timestamp()) < 60 for one, at in zip(ended["output"], wall, strict=True))
        assert host.post("/admin/emulator/advance", json={"by": "soon"}).status_code == 400
        before = datetime.fromisoformat(host.get("/admin/emulator/time").json()["now"])
        host.kill()
        host = start_host("tour", tmp_path, "--virtual-clock", "--data", tmp_path / "data")
        after = datetime.fromisoformat(host.get("/admin/emulator/time").json()["now"])
        assert timedelta() < after - before < timedelta(minutes=5)
    finally:
        assert host.stop() == 0


def test_a_killed_hosts_activity_comes_back_after_five_virtual_minutes(tmp_path: Path) -> None:
    """With the timeouts of host.json the next host does not run it before, and logs the end of its wait."""
    data, own = tmp_path / "data", {"EMULATOR_VISIBILITY_TIMEOUT": ""}
    # the third commit is that of the activity's result
    host = start_host(
        "tour", tmp_path, "--virtual-clock", "--data", data, "--fault", "kill-before-commit=3", environment=own
    )
    with contextlib.suppress(httpx.TransportError):  # it may die before it has responded
        host.start("chain", "x", "job")
    host.process.wait(START_TIMEOUT_S)
    host = start_host("tour", tmp_path, "--virtual-clock", "--data", data, environment=own)
    try:
        assert "a killed host had received 1 messages and activity calls. They are delivered again by" in host.log
        assert host.post("/admin/emulator/advance", json={"by": "4m"}).status_code == 200
        assert host.status("job")["runtimeStatus"] == "Running"
        assert host.post("/admin/emulator/advance", json={"by": "1m"}).status_code == 200
        assert host.wait_for("job")["output"] == ["X", {"word": "x", "by": "whisper"}]
    finally:
        assert host.stop() == 0


def test_timer_triggers_run_once_an_occurrence(tmp_path: Path) -> None:
    """During three virtual seconds a timer of one second runs each time, and never past due."""
    seen_file = tmp_path / "seen.jsonl"
    settings = {"SEEN_FILE": str(seen_file), "HOURLY": "0 0 * * * *"}
    host = start_host("timers", tmp_path, "--virtual-clock", environment=settings)
    try:
        response = host.post("/admin/emulator/advance", json={"by": "3s"})
        assert response.status_code == 200, response.text
        lines = [json.loads(line) for line in seen_file.read_text().splitlines()]
        ticks = [one for one in lines if one[0] == "every_second"]
        assert len(ticks) >= 3
        assert not any(one[1] for one in ticks)
    finally:
        assert host.stop() == 0


def test_without_the_option_time_cannot_be_advanced(host: Host) -> None:
    """The response is 409 and names the option."""
    response = host.post("/admin/emulator/advance", json={"by": "1h"})
    assert (response.status_code, response.json()) == (
        409,
        {"error": "the clock cannot be advanced; start the host with --virtual-clock"},
    )


def test_the_bus_comes_along(tmp_path: Path) -> None:
    """Before, between and after three advances of the host and the bus, each message is handled once and settled."""
    config = tmp_path / "Config.json"
    config.write_text(json.dumps(CONFIG))
    bus = start_bus("--config", config, "--virtual-clock")
    received = MessageLog(tmp_path / "messages.jsonl")
    host = start_host("bus", tmp_path, "--virtual-clock", environment=environment(bus, received))
    try:
        for number in range(4):
            send(bus, "work", ServiceBusMessage(f"work-{number}"))
            eventually(lambda number=number: received.of(f"work-{number}"), lambda: host.log)
            # an advance would end the lock of one that is not settled yet
            eventually(lambda: _active(bus, "work") == 0, lambda: f"{host.log}\n{bus.get('/entities')}")
            if number < 3:
                response = host.post("/admin/emulator/advance", json={"by": "10m", "bus": bus.admin_url})
                assert response.status_code == 200, response.text
        assert sorted(line["body"] for line in received.lines) == [f"work-{number}" for number in range(4)]
    finally:
        assert host.stop() == 0
        bus.stop()


def _active(bus: Bus, queue: str) -> int:
    entity = bus.get("/entities")[queue]
    return int(entity["active"])
