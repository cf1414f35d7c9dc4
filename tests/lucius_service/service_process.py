"""Services as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.up.parent_death import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
#: a service stops in a second; the machine may be busy
STOP_TIMEOUT_S = 40

PROBE = ("-m", "tests.lucius_service.probe_service")


@dataclass
class Service:
    """A service process. Its stderr is appended to `log`."""

    process: subprocess.Popen[str]
    log: Path

    def wait_ready(self, name: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == f"ready {name}\n", self.log.read_text()

    def stop(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def close(self) -> None:
        """Kills the process where it still runs."""
        if self.process.poll() is None:
            self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


def launch(arguments: Sequence[str | Path], log: Path, environment: Mapping[str, str], cwd: Path = ROOT) -> Service:
    """Starts `python *arguments` and does not wait until it is ready."""
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    return Service(process, log)


@contextmanager
def running_probe(log: Path, environment: Mapping[str, str]) -> Iterator[Service]:
    """A probe service that is ready; it ends with the context."""
    service = launch(PROBE, log, environment)
    try:
        service.wait_ready("probe")
        yield service
    finally:
        service.close()


class SharedProbe:
    """One probe service that tests share. A test may end it: `current()` starts the next one."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self._environment = environment
        self._service: Service | None = None

    def current(self) -> Service:
        """The service, ready."""
        if self._service is None or self._service.process.poll() is not None:
            self.close()
            self._service = launch(PROBE, self._log, self._environment)
            self._service.wait_ready("probe")
        return self._service

    def stop(self) -> None:
        """Stops the service in order where it runs."""
        if self._service is not None and self._service.process.poll() is None:
            assert self._service.stop() == 0, self._log.read_text()

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
