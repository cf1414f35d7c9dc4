"""LUCIUS and its peers as systems that run jobs. Each system starts in its own folder and reports its CPU time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.jobs.load import THREE, loading
from benchmarks.jobs.stack import Stack, cpu_seconds, free_port
from benchmarks.peers import environment, on_the_bus
from emulator.up.parent_death import end_with_parent

_START_S = 90


@dataclass(frozen=True)
class Outcome:
    """Times of a run. `each_s` has the seconds of each job as its caller measured them. `took_s` is the seconds of all
    jobs.
    """

    each_s: list[float]
    took_s: float


@dataclass(frozen=True)
class Running:
    """A running system. `run(jobs, at_once)` runs jobs with at most `at_once` active POSTs (or callers)."""

    run: Callable[[int, int], Awaitable[Outcome]]
    #: CPU seconds of all the system's processes so far
    cpu_s: Callable[[], float]


@contextlib.asynccontextmanager
async def lucius(folder: Path, *, external: bool) -> AsyncIterator[Running]:
    """Runs the app, emulators and services of this checkout. Concurrent jobs end when their orchestrations end.

    Jobs one at a time, and all jobs with `external`, end when the waiting request of the caller returns, as in the
    other systems.
    """
    if external:
        async with on_the_bus.lucius(folder) as (job, cpu):
            yield _callers(job, cpu)
        return
    stack = Stack(folder)
    try:
        async with loading(stack, warm_up=False) as load:

            async def run(jobs: int, at_once: int) -> Outcome:
                ran = await (load.alone(THREE, jobs) if at_once == 1 else load.saturated(THREE, jobs, at_once))
                return Outcome(list(ran.whole_s.values()), ran.seconds)

            def cpu_s() -> float:
                assert load.services is not None
                return sum(stack.cpu_s().values()) + load.services.cpu_s()

            yield Running(run, cpu_s)
    finally:
        stack.stop()


@contextlib.asynccontextmanager
async def minimal_app(folder: Path, *, external: bool) -> AsyncIterator[Running]:
    """Runs the app of `benchmarks/handwritten` on LUCIUS's host and bus. Raises CannotBeHad for local steps."""
    if not external:
        raise environment.CannotBeHad("its steps are external; use --worker external")
    async with on_the_bus.minimal_app(folder) as (job, cpu):
        yield _callers(job, cpu)


@contextlib.asynccontextmanager
async def dbos(folder: Path, *, external: bool) -> AsyncIterator[Running]:
    """Runs DBOS on PostgreSQL with the defaults of `initdb`, which write each commit to disk."""
    programs, python, port = environment.postgres(), environment.python(), free_port()
    as_other, libraries, data = environment.unprivileged(), environment.libraries(), folder / "postgres"
    _make_cluster([*as_other, str(programs / "initdb")], libraries, data)
    with _Processes(folder) as processes:
        options = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
        processes.start([*as_other, str(programs / "postgres"), "-D", str(data), *options], libraries, cwd="/")
        await _until_listening(port)
        api = free_port()
        url = f"postgresql+psycopg://bench@127.0.0.1:{port}/bench"
        worker = [await _worker(processes, python)] if external else []
        processes.start([str(python), "-m", "benchmarks.peers.apps.dbos_app", str(api), url, *worker])
        await _until_listening(api)
        async with _http(f"http://127.0.0.1:{api}/jobs/{{}}", processes) as running:
            yield running


@contextlib.asynccontextmanager
async def celery(folder: Path, *, external: bool) -> AsyncIterator[Running]:
    """Runs Celery. Redis writes each command to disk before it responds (`appendfsync always`). The CPU of the caller
    counts, since the caller publishes.
    """
    server, python, port = environment.redis(), environment.python(), free_port()
    settings = {"BENCH_REDIS": f"redis://127.0.0.1:{port}"}
    with _Processes(folder) as processes:
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder)]
        processes.start([str(server), "--port", str(port), "--bind", "127.0.0.1", *durable], environment.libraries())
        await _until_listening(port)
        worker = ["-m", "celery", "-A", "benchmarks.peers.apps.celery_app", "worker", "--loglevel", "warning"]
        processes.start([str(python), *worker], settings)
        command = [str(python), "-m", "benchmarks.peers.apps.celery_app"]
        if external:
            processes.start([str(python), "-m", "benchmarks.peers.apps.worker"], settings)
            command.append("external")
        caller = processes.start(command, settings, piped=True)
        assert caller.stdin is not None
        assert caller.stdout is not None
        reads, writes = caller.stdout, caller.stdin
        await asyncio.to_thread(reads.readline)

        async def run(jobs: int, at_once: int) -> Outcome:
            began = time.monotonic()
            print(jobs, at_once, file=writes, flush=True)
            line = await asyncio.to_thread(reads.readline)
            if not line:
                raise SystemExit(f"Celery's caller ended; see {folder}")
            return Outcome(json.loads(line), time.monotonic() - began)

        yield Running(run, processes.cpu_s)


@contextlib.asynccontextmanager
async def restate(folder: Path, *, external: bool) -> AsyncIterator[Running]:
    """Runs Restate with its defaults, which write its log to disk before a response (`rocksdb-disable-wal-fsync =
    false`).
    """
    server, python = environment.restate(), environment.python()
    node, ingress, admin, service = (free_port() for _ in range(4))
    with _Processes(folder) as processes:
        settings = {"RESTATE_INGRESS__BIND_PORT": str(ingress), "RESTATE_ADMIN__BIND_PORT": str(admin)}
        options = ["--no-logo", "--base-dir", str(folder), "--bind-ip", "127.0.0.1", "--listen-mode", "tcp"]
        processes.start([str(server), *options, "--bind-port", str(node)], settings)
        config = folder / "hypercorn.toml"
        most = 2_147_483_647
        config.write_text(
            f'bind = "127.0.0.1:{service}"\nh2_max_concurrent_streams = {most}\nkeep_alive_max_requests = {most}\n'
            f"keep_alive_timeout = {most}\nworkers = {os.cpu_count()}\n"
        )
        app = "benchmarks.peers.apps.restate_app:app"
        replies = {"BENCH_INGRESS": f"http://127.0.0.1:{ingress}"}
        environ = {**replies, "BENCH_WORKER": await _worker(processes, python)} if external else replies
        processes.start([str(python), "-m", "hypercorn", "--config", str(config), app], environ)
        for port in (ingress, admin, service):
            await _until_listening(port)
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            await _register(client, f"http://127.0.0.1:{admin}/deployments", f"http://127.0.0.1:{service}")
        handler = "run_external" if external else "run"
        async with _http(f"http://127.0.0.1:{ingress}/jobs/{handler}", processes, with_body=True) as running:
            yield running


#: systems in the order of a round
SYSTEMS: dict[str, Callable[..., contextlib.AbstractAsyncContextManager[Running]]] = {
    "LUCIUS": lucius,
    "minimal app": minimal_app,
    "DBOS": dbos,
    "Celery": celery,
    "Restate": restate,
}


def _make_cluster(initdb: Sequence[str], libraries: Mapping[str, str], data: Path) -> None:
    """Creates a new folder of PostgreSQL. Raises CannotBeHad."""
    data.mkdir()
    if os.geteuid() == 0:
        data.parent.chmod(0o755)
        shutil.chown(data, "nobody")
    made = subprocess.run(
        [*initdb, "-D", str(data), "-U", "bench", "-A", "trust", "--no-instructions"],
        env={**os.environ, **libraries},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        why = (made.stderr.strip().splitlines() or ["no output"])[-1]
        raise environment.CannotBeHad(
            f"initdb failed ({why}); grant the Unix account `nobody` read access to {initdb[-1]}"
        )


class _Processes:
    """Processes that end with the block, each with its log in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> _Processes:
        return self

    def start(
        self, command: Sequence[str], settings: Mapping[str, str] = {}, *, cwd: str | None = None, piped: bool = False
    ) -> subprocess.Popen[str]:
        log = (self._folder / f"{len(self._started)}.log").open("w")
        process = subprocess.Popen(
            command,
            cwd=cwd or environment.ROOT,
            env={**os.environ, **settings},
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else log,
            stderr=log,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        log.close()
        self._started.append(process)
        return process

    def cpu_s(self) -> float:
        return cpu_seconds(_descendants([process.pid for process in self._started]))

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.send_signal(signal.SIGINT if "postgres" in str(process.args) else signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


async def _worker(processes: _Processes, python: Path) -> str:
    """Starts the external worker and returns its URL."""
    port = free_port()
    processes.start([str(python), "-m", "benchmarks.peers.apps.worker", str(port)])
    await _until_listening(port)
    return f"http://127.0.0.1:{port}/"


def _callers(job: Callable[[], Awaitable[None]], cpu_s: Callable[[], float]) -> Running:
    """Runs at most `at_once` callers, each of which runs one job after another."""

    async def run(jobs: int, at_once: int) -> Outcome:
        gate, each = asyncio.Semaphore(at_once), list[float]()

        async def one() -> None:
            async with gate:
                began = time.monotonic()
                await job()
                each.append(time.monotonic() - began)

        began = time.monotonic()
        await asyncio.gather(*(one() for _ in range(jobs)))
        return Outcome(each, time.monotonic() - began)

    return Running(run, cpu_s)


@contextlib.asynccontextmanager
async def _http(url: str, processes: _Processes, *, with_body: bool = False) -> AsyncIterator[Running]:
    """Runs callers that post a job and get its result in the response."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=limits) as client:
        numbers = itertools.count()

        async def job() -> None:
            number = next(numbers)
            (await client.post(url.format(number), json=number if with_body else None)).raise_for_status()

        yield _callers(job, processes.cpu_s)


def _descendants(roots: Sequence[int]) -> list[int]:
    """Returns these processes and all their descendants. Linux only."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, left = [], list(roots)
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


async def _until_listening(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"no process listens on port {port}")
        await asyncio.sleep(0.1)


async def _register(client: httpx.AsyncClient, admin: str, service: str) -> None:
    """Registers the service at Restate's server, as `restate deployments register` does."""
    deadline = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(httpx.HTTPError):
            answer = await client.post(admin, json={"uri": service, "force": True})
            if answer.is_success:
                return
        if time.monotonic() > deadline:
            raise SystemExit("Restate does not accept the service")
        await asyncio.sleep(0.3)
