"""The faults of `--fault`, and that an app survives them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from functions_emulator.durable.events import Kind
from functions_emulator.host.errors import HostError
from functions_emulator.host.faults import parse_faults
from tests.functions_emulator.durable.hub import Hub
from tests.functions_emulator.host.process import APPS, SOON_S, Host, eventually, launch, start_host


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with three faults; its virtual clock makes the delay of events independent of the machine's load."""
    faults = ("--fault", "run-twice=flaky", "--fault", "delay-events=5m", "--fault", "drop-answer=1")
    host = start_host("tour", tmp_path_factory.mktemp("faulty"), "--virtual-clock", *faults)
    yield host
    assert host.stop() == 0


@pytest.fixture(scope="module", autouse=True)
def dropped(faulty: Host) -> httpx.Response:
    """The app's response to the first call of the durable client, which gets no response itself."""
    return faulty.post("/start/chain?id=job", json="x")


@pytest.mark.parametrize("commit", [2, 4, *(pytest.param(commit, marks=pytest.mark.long) for commit in (3, 5))])
def test_a_kill_around_any_commit_loses_nothing(tmp_path: Path, commit: int) -> None:
    """A host dies before the n-th commit of a job, the next one right after that commit; the third ends the job."""
    data = tmp_path / "data"
    host = start_host("tour", tmp_path, "--data", data, "--fault", f"kill-before-commit={commit}")
    try:
        host.start("chain", "x", "job")
    except httpx.TransportError:
        pass  # it died before it could respond
    except AssertionError:
        pass  # the app's durable client got no response
    assert _exit_code(host.process) == -signal.SIGKILL
    # at its start it continues the job, so that its first commit is the missing one
    second = launch(APPS / "tour", tmp_path / "second.log", "--data", data, "--fault", "kill-after-commit=1")
    assert _exit_code(second) == -signal.SIGKILL
    host = start_host("tour", tmp_path, "--data", data)
    try:
        ended = host.wait_for("job")
        assert ended["output"] == ["X", {"word": "x", "by": "whisper"}]
    finally:
        assert host.stop() == 0


def _exit_code(process: subprocess.Popen[str]) -> int:
    code = process.wait(timeout=SOON_S)
    if process.stdout is not None:
        process.stdout.close()
    return code


def test_an_activity_can_be_made_to_run_twice(faulty: Host, tmp_path: Path) -> None:
    """An activity runs twice, as "at least once" allows, and the orchestration gets one result."""
    ended = faulty.wait_for(faulty.start("failing", {"file": str(tmp_path / "attempts"), "fails": 0}))
    assert ended["runtimeStatus"] == "Completed"
    assert len((tmp_path / "attempts").read_text().splitlines()) == 2


def test_events_can_be_delayed(faulty: Host) -> None:
    """A timer that is due before the delayed event wins."""
    timed_out, completed = faulty.start("approval", 60), faulty.start("approval", 3600)
    for instance_id in (timed_out, completed):
        assert faulty.post(f"/raise/{instance_id}/approve", json=1).status_code == 202
    assert faulty.post("/admin/emulator/advance", json={"by": "2m"}).status_code == 200
    assert faulty.wait_for(timed_out)["output"] == "timed out"
    assert faulty.status(completed)["runtimeStatus"] == "Running"
    assert faulty.post("/admin/emulator/advance", json={"by": "4m"}).status_code == 200
    assert faulty.wait_for(completed)["output"] == "1"


def test_a_response_can_be_lost_after_its_effect(faulty: Host, dropped: httpx.Response) -> None:
    """The caller gets an error, but the orchestration was started."""
    assert dropped.status_code == 409  # the app's status for any failure
    ended = eventually(lambda: faulty.wait_for("job"))
    assert ended["runtimeStatus"] == "Completed"


@pytest.mark.parametrize("option", ["kill-after-commit", "nothing=1", "drop-answer=x", "delay-events=5"])
def test_a_wrong_fault_is_named(option: str) -> None:
    """The error names the option."""
    with pytest.raises(HostError, match="--fault"):
        parse_faults([option])


def test_events_can_be_shuffled() -> None:
    """Each event arrives later by its own part of the duration, in another order that is the same in every run."""

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
