"""`python -m emulator up` as a process."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.up import children
from emulator.up.ports import choose
from tests import running_stack
from tests.running_stack import ROOT, STOP_TIMEOUT_S, RunningStack
from tests.waiting import is_gone, wait_until

SERVICES = set(children.service_names())
CHILDREN = {"azurite", "bus", "host"} | SERVICES
#: for a document that is watched to its end
JOB_TIMEOUT_S = 120


def pids_of(stack: RunningStack) -> list[int]:
    return [child["pid"] for child in stack.children().values()]


def refused(*options: str) -> str:
    """Returns the one line of an `up` that cannot start."""
    run = subprocess.run(
        [sys.executable, "-m", "emulator", "up", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STOP_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    return run.stderr


def test_everything_serves_when_it_is_ready(stack: RunningStack) -> None:
    """At the ready line the API responds, the bus is healthy, Azurite has the samples, and each child is up."""
    assert stack.http.get("/v1/health/ready").json()["status"] == "ready"
    assert stack.http.get(f"{stack.admin}/health").json()["status"] == "ok"
    assert set(stack.children()) == CHILDREN
    assert all(child["ready"] and child["starts"] >= 1 for child in stack.children().values())
    uploaded = '/devstoreaccount1/documents/samples/minutes-scan.pdf HTTP/1.1" 201'
    # a log follows the process that writes it
    wait_until(lambda: uploaded in stack.log("azurite"), "the samples were not uploaded")


def test_a_folder_in_use_is_refused(stack: RunningStack) -> None:
    """A second stack on the same folder ends with the process id of the first and the option for another folder."""
    line = refused("--data", str(stack.data), "--api-port", "0", "--bus-port", "0", "--azurite-port", "0")
    assert f"in use by a stack (process {stack.process.pid})" in line
    assert "--data" in line


def test_a_busy_port_is_refused(stack: RunningStack, tmp_path: Path) -> None:
    """A port in use ends the start with the command for another one, before any child starts."""
    port = stack.ports.api
    line = refused("--data", str(tmp_path), "--api-port", str(port), "--bus-port", "0", "--azurite-port", "0")
    assert line.startswith(f"up: port {port} is in use, ")
    assert line.endswith(": .venv/bin/lucius up --api-port 0\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["x", "-1", "65536"])
def test_a_port_that_is_none_is_wrong_usage(word: str) -> None:
    """An invalid port is refused by name."""
    run = subprocess.run(
        [sys.executable, "-m", "emulator", "up", f"--api-port={word}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STOP_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 2
    assert f"'{word}' is not a port" in run.stderr


def test_a_second_stack_its_kill_and_its_successor(stack: RunningStack, tmp_path: Path) -> None:
    """Two stacks run side by side. SIGKILL of `up` ends its children, and the next stack uses its folder and ports.

    The orderly stop of that one leaves no process and no port, and the first stack keeps running.
    """
    free = choose(argparse.Namespace(api_port=0, bus_port=0, admin_port=0, azurite_port=0, traces=False, auth=False))
    ports = [f"--{name}-port={getattr(free, name)}" for name in ("api", "bus", "admin", "azurite")]
    killed = running_stack.start(tmp_path, "--without-services", ports=ports)
    assert killed.http.get("/v1/health/live").status_code == 200
    assert stack.http.get("/v1/health/live").status_code == 200
    assert set(killed.children()) == CHILDREN - SERVICES
    pids = pids_of(killed)
    # only Linux signals a child that its parent was killed
    killed.process.send_signal(signal.SIGKILL if sys.platform == "linux" else signal.SIGTERM)
    killed.process.wait(STOP_TIMEOUT_S)
    second = running_stack.start(tmp_path, "--without-services", ports=ports)  # at once: it waits for the dying
    assert all(is_gone(pid) for pid in pids)
    pids = pids_of(second)
    assert second.stop() == 0
    assert all(is_gone(pid) for pid in pids)
    for url in (second.api, second.bus, second.admin, second.blob, second.table):
        port = int(url.split(":")[2].split("/")[0])
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert stack.http.get("/v1/health/live").status_code == 200


@pytest.mark.parametrize(
    ("stage", "how"),
    [
        # earlier stops are those of the demo: tests/stack/test_demo.py
        ("host", signal.SIGINT),
        *(
            pytest.param(stage, how, marks=pytest.mark.long)
            for stage in ("bus", "azurite", "host")
            for how in (signal.SIGINT, signal.SIGTERM)
            if (stage, how) != ("host", signal.SIGINT)
        ),
    ],
)
def test_a_stop_while_starting_leaves_nothing(tmp_path: Path, stage: str, how: signal.Signals) -> None:
    """A signal at any stage of the start stops the started children: exit 0, no ready line, no process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator", "up", "--data", str(tmp_path)]
        + [f"--{name}-port=0" for name in ("api", "bus", "admin", "azurite")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    state = tmp_path / "up.json"

    def started() -> dict[str, int]:
        children = json.loads(state.read_text())["children"] if state.exists() else {}
        return {name: child["pid"] for name, child in children.items() if child["pid"]}

    wait_until(lambda: stage in started(), f"{stage} was not started", poll_s=0.05)
    pids = started().values()
    process.send_signal(how)
    assert process.wait(STOP_TIMEOUT_S) == 0
    assert process.stdout is not None
    assert process.stdout.read() == ""
    assert all(is_gone(pid) for pid in pids)


def test_a_second_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    """After a second Ctrl-C the stack waits for nothing, and no process remains."""
    running = running_stack.start(tmp_path, "--without-services")
    pids = pids_of(running)
    running.pause("host")  # would take long to drain
    os.kill(running.children()["bus"]["pid"], signal.SIGSTOP)
    running.process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in (tmp_path / "up.stderr").read_text(), "the first Ctrl-C was not heard")
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(STOP_TIMEOUT_S) in (0, 130)
    wait_until(lambda: all(is_gone(pid) for pid in pids), "a child outlived the second Ctrl-C")


@pytest.mark.needs("curl")
def test_the_two_commands_can_be_pasted(stack: RunningStack) -> None:
    """The `curl` and the `lucius submit` that `up` prints work unchanged."""

    def printed() -> tuple[str, str] | None:
        """Returns both commands once the output has them as whole lines."""
        lines = (stack.data / "up.stderr").read_text().splitlines(keepends=True)
        curl = [line for line in lines if line.startswith("curl ") and line.endswith("\n")]
        lucius = [line for line in lines if " submit " in line and "--watch" in line and line.endswith("\n")]
        return (curl[0], lucius[0]) if curl and lucius else None

    curl, lucius = wait_until(printed, "the commands were not printed")
    for command, words in ((curl, '"jobId"'), (lucius, "400 litres")):
        done = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
