"""A stack as its user has it: `python -m emulator up` as a process, driven from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from azure.storage.blob import BlobClient

from emulator.up.environment import addresses
from emulator.up.parent_death import end_with_parent
from emulator.up.ports import Ports

ROOT = Path(__file__).resolve().parents[1]
#: a document of two lines: OCR takes 0.2 CPU seconds, and 2.2 for the sample of that name
SMALL_INVOICE = ROOT / "tests" / "invoice.png"

#: Reading models from a cold disk while other work has the machine takes a minute at worst.
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
_POLL_S = 0.05
#: messages of a killed host become visible soon
_SETTINGS = {"EMULATOR_VISIBILITY_TIMEOUT": "1s"}


@dataclass
class RunningStack:
    """A serving stack: `api`, `blob`, `table`, `admin` are URLs, the connections are strings as settings have them."""

    process: subprocess.Popen[str]
    data: Path
    ready_line: str

    @property
    def _words(self) -> dict[str, str]:
        before, data = self.ready_line.split(" data=", 1)
        _, api, *pairs = [*before.split(" "), f"data={data}"]
        return {"api": api, **dict(pair.split("=", 1) for pair in pairs)}

    @property
    def api(self) -> str:
        return self._words["api"]

    @cached_property
    def http(self) -> httpx.Client:
        """For requests to the API, by path, and to others, by URL. Making a client costs 30 ms of CPU, hence one."""
        return httpx.Client(base_url=self.api, timeout=60)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of a response of the API. Raises httpx.HTTPStatusError for a problem."""
        return self.http.get(path, params=params or None).raise_for_status().json()

    @property
    def bus(self) -> str:
        return self._words["bus"]

    @property
    def admin(self) -> str:
        return self._words["admin"]

    @property
    def blob(self) -> str:
        return self._words["blob"]

    @property
    def table(self) -> str:
        return self._words["table"]

    @property
    def traces(self) -> str:
        """Only of a stack with `--traces`."""
        return self._words["traces"]

    @property
    def issuer(self) -> str:
        """Only of a stack with `--auth`."""
        return self._words["issuer"]

    @property
    def ports(self) -> Ports:
        def port(url: str) -> int:
            return int(url.split("://", 1)[1].split("/")[0].rsplit(":", 1)[1])

        return Ports(api=port(self.api), bus=port(self.bus), admin=port(self.admin), azurite=port(self.blob))

    @property
    def settings(self) -> dict[str, str]:
        """AzureWebJobsStorage, LUCIUS_TABLE_CONNECTION, LUCIUS_BLOB_CONNECTION, LUCIUS_SERVICEBUS_CONNECTION."""
        return addresses(self.ports)

    @property
    def storage_connection(self) -> str:
        return self.settings["LUCIUS_BLOB_CONNECTION"]

    @property
    def bus_connection(self) -> str:
        return self.settings["LUCIUS_SERVICEBUS_CONNECTION"]

    def put_small_invoice(self) -> None:
        """Replaces the uploaded sample `invoice.png`."""
        name = "samples/invoice.png"
        with BlobClient.from_connection_string(self.storage_connection, "documents", name) as sample:
            sample.upload_blob(SMALL_INVOICE.read_bytes(), overwrite=True)

    def children(self) -> dict[str, dict[str, Any]]:
        """`{"host": {"pid": 1, "starts": 1, "ready": true}, ...}` from the stack's own state file."""
        children: dict[str, dict[str, Any]] = json.loads((self.data / "up.json").read_text())["children"]
        return children

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        """Ends a child; the stack starts it again. Returns how often it had been started."""
        child = self.children()[name]
        os.kill(child["pid"], how)
        return int(child["starts"])

    def restart(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends a child and waits until the next one serves."""
        self.wait_for_start(name, self.kill(name, how) + 1)

    def wait_for_start(self, name: str, starts: int) -> None:
        """Until the child was started `starts` times and serves."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            child = self.children()[name]
            if child["starts"] >= starts and child["ready"]:
                return
            assert time.monotonic() < deadline, f"{name} did not come back:\n{tails(self.data)}"
            time.sleep(_POLL_S)

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Keeps the child dead while the block runs; after it the next one serves."""
        child = self.children()[name]
        self.process.send_signal(signal.SIGSTOP)  # `up` starts no services
        try:
            os.killpg(child["pid"], signal.SIGKILL)
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)
            self.wait_for_start(name, child["starts"] + 1)

    def pause(self, name: str) -> None:
        """Suspends the child with its ports open: an outage in which nothing is lost."""
        os.kill(self.children()[name]["pid"], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        os.kill(self.children()[name]["pid"], signal.SIGCONT)

    def log(self, name: str) -> str:
        return (self.data / "logs" / f"{name}.log").read_text(errors="replace")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends the stack, if it has not ended, and returns its exit code."""
        self.http.close()
        self.process.send_signal(how)
        return self.process.wait(STOP_TIMEOUT_S)


def start(
    data: Path, *options: str, environment: Mapping[str, str] | None = None, ports: Sequence[str] | None = None
) -> RunningStack:
    """Starts a stack on free ports and waits until it serves; the failure has the end of its logs.

    With platform services, the blob `samples/invoice.png` is then the small invoice.
    """
    data.mkdir(parents=True, exist_ok=True)
    free = [word for name in ("api", "bus", "admin", "azurite", "traces", "issuer") for word in (f"--{name}-port", "0")]
    with (data / "up.stderr").open("a") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "emulator",
                "up",
                "--data",
                str(data),
                *(free if ports is None else ports),
                *options,
            ],
            cwd=ROOT,
            env={**os.environ, **_SETTINGS, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=end_with_parent(signal.SIGTERM),  # a killed pytest leaves no stack behind
        )
    assert process.stdout is not None
    # a line, or the end of the output; `up` itself bounds the wait for each child
    line = process.stdout.readline().rstrip("\n")
    if not line.startswith("ready "):
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
        raise AssertionError(f"the stack did not start (exit code {process.returncode}):\n{tails(data)}")
    running = RunningStack(process, data, line)
    if "--without-services" not in options:
        running.put_small_invoice()
    return running


def unexpected_errors(data: Path) -> str:
    """Returns the app's log lines of errors that it answered with INTERNAL, each with its traceback."""
    text = (data / "logs" / "host.log").read_text(errors="replace")
    return "\n".join(re.findall(r"^.*unexpected error, correlation_id=.*(?:\n.*){0,40}", text, re.MULTILINE))


def tails(data: Path, lines: int = 30) -> str:
    """Returns the last lines of every log of a stack."""
    logs = [data / "up.stderr", *sorted((data / "logs").glob("*.log"))]
    parts = []
    for log in logs:
        if log.exists():
            last = log.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {log.name}\n" + "\n".join(last))
    return "\n".join(parts)
