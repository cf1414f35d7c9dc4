"""Starts and stops a bus as a separate process, on free ports."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Enough for a machine under load; a bus starts in well under a second.
START_TIMEOUT_S = 60
_READY = re.compile(
    r"ready sb://127\.0\.0\.1:(\d+) admin=http://127\.0\.0\.1:(\d+)"
    r"(?: ws=ws://127\.0\.0\.1:(\d+)/\$servicebus/websocket)?\n"
)


@dataclass
class Bus:
    """A bus that runs."""

    process: subprocess.Popen[str]
    port: int
    admin_port: int
    #: The port of `--ws-port`; 0 without it.
    ws_port: int = 0

    @property
    def connection_string(self) -> str:
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.admin_url + path, timeout=START_TIMEOUT_S) as response:
            return json.load(response)

    def post(self, path: str, body: Any, method: str = "POST") -> Any:
        request = urllib.request.Request(self.admin_url + path, json.dumps(body).encode(), method=method)
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as response:
            return json.load(response)

    def kill(self) -> None:
        """Kills the process by SIGKILL, so that it cannot save anything."""
        self.process.kill()
        self.process.wait()
        self._close_pipes()

    def stop(self) -> int:
        """Stops the process by SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=START_TIMEOUT_S)
        self._close_pipes()
        return code

    def _close_pipes(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_bus(*arguments: str | Path, port: int = 0) -> Bus:
    """Starts a bus and waits until it serves."""
    command: Sequence[str | Path] = (
        *(sys.executable, "-m", "emulator", "bus", "--port", str(port), "--admin-port", "0"),
        *arguments,
    )
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    match = _READY.fullmatch(line)
    if match is None:
        process.kill()
        raise AssertionError(f"the bus did not become ready: {line!r}, exit code {process.wait()}")
    return Bus(process, int(match[1]), int(match[2]), int(match[3] or 0))


def fails(*arguments: str | Path) -> str:
    """Starts a bus that must end at once with exit code 1; returns its one line on stderr."""
    command = [sys.executable, "-m", "emulator", "bus", "--port", "0", "--admin-port", "0", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    return line
