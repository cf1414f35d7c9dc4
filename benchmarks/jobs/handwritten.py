"""LUCIUS beside the app that a team writes by hand for the same job (`benchmarks/handwritten`), in turns.

Both run in one stack: two hosts of one kind, one bus, one Azurite, a worker process of the same program each. A caller
waits for each job by one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.jobs.load import STEPS, THREE, WARM_UP, Load, Ran, envelope
from benchmarks.jobs.services import Services
from benchmarks.jobs.stack import ROOT, Stack, cpu_seconds, running
from benchmarks.jobs.tables import percentiles
from emulator.up.parent_death import end_with_parent

LUCIUS, BY_HAND = "LUCIUS", "by hand"
#: of its queues
_PREFIX = "handwritten"
_QUEUE = (
    '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription '
    'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>'
)
#: between two looks at a job that outlived its first request
_POLL_S = 1.0


@dataclass(frozen=True)
class System:
    """One of the two apps, and its caller."""

    #: posts one job and waits for its end
    run: Callable[[Ran], Awaitable[None]]
    #: process ids by name, besides those of the stack that both use
    processes: Mapping[str, int]
    client: httpx.AsyncClient


async def compared(jobs: int, alone: int, at_once: int, rounds: int) -> dict[str, Any]:
    """In each round each system runs `alone` jobs one at a time, then `jobs` from `at_once` callers."""
    found: dict[str, list[dict[str, Any]]] = {}
    with running() as stack:
        async with _lucius(stack) as ours, _by_hand(stack) as theirs:
            systems = {LUCIUS: ours, BY_HAND: theirs}
            for system in systems.values():
                await _run(system, min(WARM_UP, jobs), at_once)
            for _ in range(rounds):
                for name, system in systems.items():
                    found.setdefault(name, []).append(await _turn(stack, system, jobs, alone, at_once))
    return {"jobs": jobs, "alone": alone, "at_once": at_once, "rounds": rounds, **summary(found)}


def summary(turns: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The medians of each system's turns, and LUCIUS's figures over the others' of the same round.

    `ratios`: by figure (least, median, most) of the rounds.
    """
    found = {
        name: {
            "jobs_per_s": _median(each["jobs_per_s"] for each in those),
            "job_ms": {share: _median(each["job_ms"][share] for each in those) for share in those[0]["job_ms"]},
            "cpu_ms_per_job": {
                process: _median(each["cpu_ms_per_job"][process] for each in those)
                for process in those[0]["cpu_ms_per_job"]
            },
            "requests_per_job": _median(each["requests_per_job"] for each in those),
        }
        for name, those in turns.items()
    }
    figures: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "jobs_per_s": lambda turn: float(turn["jobs_per_s"]),
        "p50": lambda turn: float(turn["job_ms"]["p50"]),
        "p95": lambda turn: float(turn["job_ms"]["p95"]),
        "cpu_ms_per_job": lambda turn: sum(turn["cpu_ms_per_job"].values()),
    }
    ratios = {}
    for name, figure in figures.items():
        pairs = zip(turns[LUCIUS], turns[BY_HAND], strict=True)
        # a process that is not on Linux has no CPU time
        each = sorted(figure(ours) / figure(theirs) for ours, theirs in pairs if figure(theirs))
        ratios[name] = [each[0], statistics.median(each), each[-1]] if each else []
    return {"systems": found, "ratios": ratios}


async def _turn(stack: Stack, system: System, jobs: int, alone: int, at_once: int) -> dict[str, Any]:
    idle = await _run(system, alone, 1)
    requests = 0

    async def count(_: httpx.Request) -> None:
        nonlocal requests
        requests += 1

    pids = {**system.processes, **{name: stack.processes()[name] for name in ("azurite", "bus")}}
    system.client.event_hooks["request"] = [count]
    before, driver = {name: cpu_seconds([pid]) for name, pid in pids.items()}, time.process_time()
    busy = await _run(system, jobs, at_once)
    driver = time.process_time() - driver
    used = {name: cpu_seconds([pid]) - before[name] for name, pid in pids.items()} | {"caller": driver}
    return {
        "jobs_per_s": jobs / busy.seconds,
        "job_ms": percentiles(idle.whole_ms),
        "cpu_ms_per_job": {name: seconds * 1000 / jobs for name, seconds in used.items()},
        "requests_per_job": requests / jobs,
    }


async def _run(system: System, jobs: int, at_once: int) -> Ran:
    """Callers that each run one job after another until all `jobs` have ended."""
    ran, left, began = Ran(), iter(range(jobs)), time.monotonic()

    async def caller() -> None:
        for _ in left:
            await system.run(ran)

    await asyncio.gather(*(caller() for _ in range(min(at_once, jobs))))
    ran.seconds = time.monotonic() - began
    return ran


@contextlib.asynccontextmanager
async def _lucius(stack: Stack) -> AsyncIterator[System]:
    async with _serving(stack, stack.api, None) as (services, client):
        load = Load(stack, services, client)
        processes = {"host": stack.processes()["host"], "services": services.pid}
        yield System(lambda ran: load.run(THREE, ran), processes, client)


@contextlib.asynccontextmanager
async def _by_hand(stack: Stack) -> AsyncIterator[System]:
    with _host(stack) as (pid, url):
        async with _serving(stack, url, _PREFIX) as (services, client):
            number = 0

            async def run(ran: Ran) -> None:
                nonlocal number
                number += 1
                job, began = str(number), time.monotonic()
                response = await client.post("/jobs", json=envelope(THREE, number))
                while response.raise_for_status().status_code == 202:
                    # a 202 names the URL of the job's status; that answers 202 as long as the job runs
                    await asyncio.sleep(_POLL_S)
                    response = await client.get(response.headers["Location"])
                ran.sent[job], ran.whole_s[job] = began, time.monotonic() - began

            yield System(run, {"host": pid, "services": services.pid}, client)


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
    """Makes the queues of the other app and starts a second host with it: its process id and its address.

    Raises SystemExit if it does not start.
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


def _median(values: Any) -> float:
    return float(statistics.median(values))
