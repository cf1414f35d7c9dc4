"""Services as processes, as they are run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.up.parent_death import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
#: a service is up in about three seconds; the machine may be busy
STOP_TIMEOUT_S = 40

PROBE = ("tests.lucius_service.probe_service",)


@dataclass
class Service:
    process: subprocess.Popen[str]
    log: Path

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def running(module: tuple[str, ...], log: Path, environment: Mapping[str, str]) -> Iterator[Service]:
    """`python -m *module`, ready; gone afterwards."""
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line == f"ready {module[-1] if len(module) > 1 else 'probe'}\n", log.read_text()
        yield Service(process, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
        process.stdout.close()
