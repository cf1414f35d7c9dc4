"""LUCIUS and a handwritten app for the same job (`benchmarks/handwritten`), with a worker on the bus.

Each has its own stack of the same parts: host, bus, Azurite, and a worker process of the same program. A caller waits
for each job with a long poll. If the job takes longer, the caller repeats the long poll of LUCIUS, and polls the
handwritten app once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx

from benchmarks.jobs.load import STEPS, THREE, Load, Ran, envelope
from benchmarks.jobs.services import Services
from benchmarks.jobs.stack import ROOT, Stack, cpu_seconds
from emulator.up.parent_death import end_with_parent

#: prefix of the queues of the handwritten app
_PREFIX = "handwritten"
_QUEUE = (
    '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription '
    'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>'
)
#: seconds between two polls of a job that outlived its first request
_POLL_S = 1.0

#: runs one job and waits for its end
Job = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def lucius(folder: Path) -> AsyncIterator[tuple[Job, Callable[[], float]]]:
    """Yields a function that runs a job of LUCIUS by `Prefer: wait`, and the CPU seconds of all its processes."""
    with _stack(folder) as stack:
        async with _serving(stack, stack.api, None) as (services, client):
            load, ran = Load(stack, services, client), Ran()
            yield lambda: load.run(THREE, ran), lambda: sum(stack.cpu_s().values()) + services.cpu_s()


@contextlib.asynccontextmanager
async def minimal_app(folder: Path) -> AsyncIterator[tuple[Job, Callable[[], float]]]:
    """Yields the same for the handwritten app. The stack's own host idles and does not count."""
    with _stack(folder) as stack, _host(stack) as (pid, url):
        async with _serving(stack, url, _PREFIX) as (services, client):
            number = 0

            async def job() -> None:
                nonlocal number
                number += 1
                response = await client.post("/jobs", json=envelope(THREE, number))
                while response.raise_for_status().status_code == 202:
                    # a 202 names the URL of the job's status, which returns 202 while the job runs
                    await asyncio.sleep(_POLL_S)
                    response = await client.get(response.headers["Location"])

            counted = [pid, services.pid, *(stack.processes()[name] for name in ("azurite", "bus"))]
            yield job, lambda: cpu_seconds(counted)


@contextlib.contextmanager
def _stack(folder: Path) -> Iterator[Stack]:
    stack = Stack(folder)
    try:
        yield stack
    finally:
        stack.stop()


@contextlib.asynccontextmanager
async def _serving(stack: Stack, url: str, prefix: str | None) -> AsyncIterator[tuple[Services, httpx.AsyncClient]]:
    services = Services(stack.connection, STEPS[THREE], prefix)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, limits=limits) as client:
            yield services, client
    finally:
        services.stop()


@contextlib.contextmanager
def _host(stack: Stack) -> Iterator[tuple[int, str]]:
    """Creates the queues of the handwritten app, and starts a second host with that app. Yields the process id and URL
    of the host.

    Raises SystemExit if the host does not start.
    """
    for name in (*STEPS[THREE], "replies"):
        queue = f"{stack.admin}/{_PREFIX}-{name}"
        httpx.put(queue, content=_QUEUE, params={"api-version": "2021-05"}, trust_env=False).raise_for_status()
    log = stack.data / "handwritten.stderr"
    folders = ("--app", ROOT / "benchmarks" / "handwritten", "--data", stack.data / "handwritten")
    command = [sys.executable, "-m", "emulator", "host", "--port", "0", "--no-keys", *map(str, folders)]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "BUS": stack.connection, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise SystemExit(f"the other app did not start: {log.read_text().strip().splitlines()[-1:]}")
        yield process.pid, words[1]
    finally:
        process.terminate()
        process.wait()
