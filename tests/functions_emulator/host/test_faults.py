"""Faults on demand, and that the app comes through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from functions_emulator.durable.events import Kind
from functions_emulator.host.errors import HostError
from functions_emulator.host.faults import parse_faults
from tests.functions_emulator.durable.hub import Hub
from tests.functions_emulator.host.process import SOON_S, eventually, start_host


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", [2, 3, 4, 5])
def test_a_kill_around_any_commit_loses_nothing(tmp_path: Path, moment: str, commit: int) -> None:
    """The host dies around its n-th commit; started again, the job ends with its result."""
    data = tmp_path / "data"
    host = start_host("tour", tmp_path, "--data", data, "--fault", f"kill-{moment}-commit={commit}")
    try:
        host.start("chain", "x", "job")
    except httpx.TransportError:
        pass  # it died before it could answer
    except AssertionError:
        pass  # the app's own client lost its answer
    assert host.process.wait(timeout=SOON_S) == -9
    assert host.process.stdout is not None
    host.process.stdout.close()
    host = start_host("tour", tmp_path, "--data", data)
    try:
        ended = host.wait_for("job")
        assert ended["output"] == ["X", {"word": "x", "by": "whisper"}]
    finally:
        assert host.stop() == 0


def test_an_activity_can_be_made_to_run_twice(tmp_path: Path) -> None:
    """What "at least once" may do: two runs, one result."""
    host = start_host("tour", tmp_path, "--fault", "run-twice=flaky")
    try:
        ended = host.wait_for(host.start("failing", {"file": str(tmp_path / "attempts"), "fails": 0}))
        assert ended["runtimeStatus"] == "Completed"
        assert len((tmp_path / "attempts").read_text().splitlines()) == 2
    finally:
        assert host.stop() == 0


def test_events_can_be_delayed(tmp_path: Path) -> None:
    """A timer that is due before the delayed event wins."""
    host = start_host("tour", tmp_path, "--fault", "delay-events=5s")
    try:
        timed_out, completed = host.start("approval", 1), host.start("approval", 600)
        for one in (timed_out, completed):
            assert host.post(f"/raise/{one}/approve", json=1).status_code == 202
        assert host.wait_for(timed_out)["output"] == "timed out"
        assert host.wait_for(completed)["output"] == "1"
    finally:
        assert host.stop() == 0


def test_an_answer_can_be_lost_after_its_effect(tmp_path: Path) -> None:
    """The caller sees a broken call; the orchestration was started all the same."""
    host = start_host("tour", tmp_path, "--fault", "drop-answer=1")
    try:
        assert host.post("/start/chain?id=job", json="x").status_code == 409  # the app's word for any failure
        ended = eventually(lambda: host.wait_for("job"))
        assert ended["runtimeStatus"] == "Completed"
    finally:
        assert host.stop() == 0


@pytest.mark.parametrize("option", ["kill-after-commit", "nothing=1", "drop-answer=x", "delay-events=5"])
def test_a_wrong_fault_is_named(option: str) -> None:
    """One line with the fault."""
    with pytest.raises(HostError, match="--fault"):
        parse_faults([option])


def test_events_can_be_shuffled() -> None:
    """Each arrives later by its own part of the time, in another order than they were sent, always the same."""

    def collects(context: Any) -> Any:
        return (yield context.task_all([context.wait_for_external_event(name) for name in "abcdef"]))

    def arrivals() -> list[str]:
        hub = Hub({"collects": collects})
        client = parse_faults(["shuffle-events=10s"]).client(hub.engine, None, replace_running=False)
        instance_id = hub.start("collects", instance_id="one")
        hub.run()
        for name in "abcdef":
            client.raise_event(instance_id, name, "1")
        hub.run()
        assert Kind.EVENT_RAISED not in hub.kinds(instance_id)
        hub.advance(seconds=10)
        history = hub.client.history(hub.status(instance_id))
        return [event.data["Name"] for event in history if event.kind is Kind.EVENT_RAISED]

    first = arrivals()
    assert sorted(first) == list("abcdef")
    assert first != list("abcdef")
    assert arrivals() == first
