"""Starts a host as a separate process, on a free port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

ROOT = Path(__file__).parents[3]
APPS = Path(__file__).parents[1] / "apps"
START_TIMEOUT_S = 60.0
#: limit for work that takes no time on an idle machine
SOON_S = 30.0

#: One client for all hosts, since making one is slow. It keeps no connection, because the host may be killed.
_CLIENT = httpx.Client(timeout=SOON_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Host:
    process: subprocess.Popen[str]
    url: str
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return _CLIENT.request(method, self.url + path, **options)

    def kill(self) -> None:
        """SIGKILL: the host has no chance to save anything."""
        self.process.kill()
        self._wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(timeout=START_TIMEOUT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    # --- durable

    def start(self, orchestrator: str, value: Any = None, instance_id: str | None = None) -> str:
        """Starts an orchestration by the app's starter function, and so by the SDK's client."""
        query = {} if instance_id is None else {"id": instance_id}
        response = self.post(f"/start/{orchestrator}", params=query, json=value)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def status(self, instance_id: str, **query: str) -> dict[str, Any]:
        response = self.get(f"/runtime/webhooks/durabletask/instances/{instance_id}", params=query)
        assert response.status_code in (200, 202), response.status_code
        return dict(response.json())

    def wait_for(self, instance_id: str, *statuses: str, within: float = SOON_S) -> dict[str, Any]:
        expected = statuses or ("Completed", "Failed", "Terminated")
        return eventually(
            lambda: status if (status := self.status(instance_id))["runtimeStatus"] in expected else None,
            lambda: f"{self.status(instance_id)}\n{self.log[-3000:]}",
            within,
        )

    @property
    def stalls(self) -> list[dict[str, Any]]:
        return list(self.get("/admin/emulator/stalls").json())


def exchange(host: Host, *requests: bytes) -> tuple[int, bytes]:
    """Sends requests byte for byte over one connection; returns the last status and body."""
    address = urlsplit(host.url)
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=SOON_S) as connection:
        for request in requests:
            connection.sendall(request)
            response = HTTPResponse(connection)
            response.begin()
            body = response.read()
    return response.status, body


T = TypeVar("T")


def eventually(probe: Callable[[], T | None], explain: Callable[[], str] = lambda: "", within: float = SOON_S) -> T:
    """Returns the result of `probe` once it is true; fails with `explain` after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        result = probe()
        if result:
            return result
        assert time.monotonic() < deadline, f"no result within {within} s: {explain()}"
        time.sleep(0.05)


#: messages of a killed host become visible soon
_SETTINGS = {"EMULATOR_VISIBILITY_TIMEOUT": "500ms"}


def launch(
    app: Path,
    log_path: Path,
    *arguments: str | Path,
    environment: dict[str, str] | None = None,
    port: int = 0,
    wants_keys: bool = False,
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "emulator", "host", "--app", str(app), "--port", str(port), *map(str, arguments)]
    if not wants_keys:
        command.append("--no-keys")
    with log_path.open("a") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **_SETTINGS, **(environment or {})},
        )


def start_host(
    app: Path | str,
    folder: Path,
    *arguments: str | Path,
    environment: dict[str, str] | None = None,
    port: int = 0,
    wants_keys: bool = False,
) -> Host:
    """Starts a host and waits until it serves. `app` is a name in `tests/functions_emulator/apps` or a path.

    The log is `host.log` in `folder`.
    """
    log_path = folder / "host.log"
    process = launch(APPS / app, log_path, *arguments, environment=environment, port=port, wants_keys=wants_keys)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready http://"):
        process.kill()
        raise AssertionError(f"the host did not become ready: {line!r}, {process.wait()}, {log_path.read_text()}")
    return Host(process, line.split()[1], log_path)
