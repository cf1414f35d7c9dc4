"""The local stack under measurement, and its figures: requests, episodes, CPU, memory, invocations."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.jobs.recorder import SETTING
from emulator.up.parent_death import end_with_parent
from scripts.demo.operations import storage_operations

ROOT = Path(__file__).parents[2]
#: kinds of history events (the extension's EventType): an episode began, an activity was scheduled
_EPISODE, _ACTIVITY = 12, 4


@dataclass(frozen=True)
class Invocation:
    """A function that ran in the host. `began` and `ended` are times of `time.monotonic`. `message_id` is the id of its
    trigger message.

    `times` is the number of episodes of an orchestrator's batch, else 1.
    """

    name: str
    trigger: str
    began: float
    ended: float
    times: int
    message_id: str | None

    @property
    def group(self) -> str:
        """Returns the scale group on Flex Consumption: `http`, `durable`, or the function's own name."""
        if self.trigger == "httpTrigger":
            return "http"
        return "durable" if self.trigger in ("orchestrationTrigger", "activityTrigger") else self.name


class Stack:
    """A process of `python -m emulator up` without services, in its own folder. The constructor raises SystemExit if
    the stack does not start.

    With `recorded`, the host records each invocation and the CPU time of each function. The recording itself uses CPU
    time. `events` is the value of `LUCIUS_EVENTS`. None means the value in the environment, or `off`.
    """

    def __init__(self, data: Path, *, recorded: bool = False, events: str | None = None) -> None:
        free = [word for name in ("api", "bus", "admin", "azurite") for word in (f"--{name}-port", "0")]
        # The sweep runs once a year, so that none falls into a measurement. The counts of a job exclude its events.
        environment = {"LUCIUS_EVENTS": "off", **os.environ, "LUCIUS_SWEEP_SCHEDULE": "0 0 0 1 1 *"}
        if events is not None:
            environment["LUCIUS_EVENTS"] = events
        self.data = data
        self._recorded = data / "recorded.jsonl"
        if recorded:
            paths = [str(ROOT / "benchmarks" / "jobs" / "recorder"), str(ROOT), os.environ.get("PYTHONPATH", "")]
            environment |= {SETTING: str(self._recorded), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._durable: Counter[str] = Counter()
        #: time of each job's end, by job, in seconds since 1970
        self.ended_at: dict[str, float] = {}
        with (data / "up.stderr").open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "emulator", "up", "--without-services", "--data", str(data), *free],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,  # Ctrl-C reaches only the benchmark, which then stops the stack
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split(" ")
        if len(words) < 3:
            self._process.wait()
            raise SystemExit(f"the stack did not start: {(data / 'up.stderr').read_text().strip().splitlines()[-1:]}")
        self.api = words[1]
        addresses = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        self.bus, self.admin, self.tables_url = addresses["bus"], addresses["admin"], addresses["table"]

    @property
    def connection(self) -> str:
        key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
        return f"Endpoint={self.bus};{key};UseDevelopmentEmulator=true;"

    def tables(self) -> dict[str, int]:
        """Returns the numbers of storage requests so far, by kind."""
        return dict(storage_operations(self.data / "logs" / "azurite.log"))

    def ended(self) -> int:
        """Returns the number of completed orchestrations, whose times are then in `ended_at`.

        Must be called at least every ten seconds, since the app purges histories after this time.
        """
        with self._database() as db:
            found = db.execute("SELECT instance_id, updated_at FROM instances WHERE status = 'Completed'").fetchall()
            for instance_id, at in found:
                if instance_id not in self.ended_at:
                    [counts] = db.execute(
                        "SELECT sum(kind = ?), sum(kind = ?) FROM history WHERE instance_id = ?",
                        (_EPISODE, _ACTIVITY, instance_id),
                    )
                    self._durable.update(episodes=counts[0] or 0, activities=counts[1] or 0)
                    self.ended_at[instance_id] = datetime.fromisoformat(at).timestamp()
        return len(self.ended_at)

    def durable(self) -> dict[str, int]:
        """Returns episodes and activities of the orchestrations that `ended` has found."""
        return dict(self._durable)

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(f"file:{self.data / 'host.sqlite3'}?mode=ro", uri=True)) as db:
            yield db

    def processes(self) -> dict[str, int]:
        """Returns process ids by name: `azurite`, `bus`, `host`."""
        children = json.loads((self.data / "up.json").read_text())["children"]
        return {name: child["pid"] for name, child in children.items()}

    def cpu_s(self) -> dict[str, float]:
        """Returns CPU seconds of each process."""
        return {name: cpu_seconds([pid]) for name, pid in self.processes().items()}

    def app_cpu_s(self) -> float:
        """Returns CPU seconds of the host's threads that run the app and the SDKs: all but the first. Linux only."""
        host = self.processes()["host"]
        threads = [each.name for each in Path(f"/proc/{host}/task").glob("*") if each.name != str(host)]
        return sum(cpu_seconds([f"{host}/task/{thread}"]) for thread in threads)

    def resident_mb(self) -> dict[str, float]:
        """Returns the resident memory of each process, in MB."""
        return {name: resident_bytes(pid) / 1e6 for name, pid in self.processes().items()}

    def invocations(self, since: float) -> list[Invocation]:
        """Returns the recorded invocations that began at `since` (`time.monotonic`) or later."""
        found = [Invocation(*line["ran"]) for line in self._lines() if "ran" in line]
        return [each for each in found if each.began >= since]

    def cpu_profile(self) -> tuple[Counter[str], Counter[str]]:
        """Returns CPU seconds of the host's threads by the code that ran, and by function, as sampled so far."""
        last = [line for line in self._lines() if "cpu" in line][-1:]
        return Counter(*(line["cpu"] for line in last)), Counter(*(line["steps"] for line in last))

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._recorded.open() as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield json.loads(line)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextlib.contextmanager
def running(*, recorded: bool = False, events: str | None = None) -> Iterator[Stack]:
    """Yields a stack in a temporary folder, and stops it in any case."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), recorded=recorded, events=events)
        try:
            yield stack
        finally:
            stack.stop()


def free_port() -> int:
    """Returns a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pids: Iterable[int | str]) -> float:
    """Returns the CPU seconds of these processes (or threads, as `PID/task/TID`) and of their ended children. Linux
    only.
    """
    used = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += sum(map(int, fields[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Returns the resident memory in bytes, or 0 for a process that has ended. Linux only."""
    with contextlib.suppress(OSError):
        [line] = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
        return int(line.split()[1]) * 1024
    return 0


def wait_for_log() -> None:
    """Waits 0.7 seconds, so that the last lines of the processes' logs are in their files."""
    time.sleep(0.7)
