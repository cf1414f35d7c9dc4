"""`python -m benchmarks.jobs [--jobs N] [--at-once N] [--json FILE]`: what an N-step job costs, counted.

A local stack runs the app; services do no work. Counted are table requests (Azurite's access log), messages (the
services), episodes and activities (the host's store), and the CPU of each process. Nothing here reads the ledger, and
the sweeper sleeps, so that what is counted belongs to the jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks.jobs.services import Answering, answer
from scripts.demo.operations import storage_operations

ROOT = Path(__file__).parents[2]
STEPS = {"OCR": ("ocr",), "OCR_EMBEDDING": ("ocr", "embedding"), "OCR_EMBEDDING_SIS": ("ocr", "embedding", "sis")}
_PAYLOADS: dict[str, Any] = {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["When does the lease end?"]}}
#: kinds of history events (the extension's EventType): an episode began, an activity was scheduled
_EPISODE, _ACTIVITY = 12, 4
_TENANTS = ("tenant_a", "acme", "globex", "initech")
_LANES = range(16)
#: the first jobs find cold processes
_WARM_UP = 8
_DEADLINE_S = 600


class Stack:
    """`python -m emulator up` without services, in a folder of its own."""

    def __init__(self, data: Path) -> None:
        free = [word for name in ("api", "bus", "admin", "azurite") for word in (f"--{name}-port", "0")]
        # once a year: no sweep falls into a measurement
        environment = {**os.environ, "LUCIUS_SWEEP_SCHEDULE": "0 0 0 1 1 *"}
        self.data = data
        #: (episodes, activities) of each instance that ended; later ends purge histories, so it is kept
        self._ended: dict[str, tuple[int, int]] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "emulator", "up", "--without-services", "--data", str(data), *free],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split(" ", 6)
        if len(words) < 3:
            raise SystemExit("benchmarks.jobs: the stack did not start; try `make up`")
        self.api = words[1]
        self.bus = dict(pair.split("=", 1) for pair in words[2:])["bus"]

    @property
    def connection(self) -> str:
        key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
        return f"Endpoint={self.bus};{key};UseDevelopmentEmulator=true;"

    def tables(self) -> dict[str, int]:
        return dict(storage_operations(self.data / "logs" / "azurite.log"))

    def durable(self) -> dict[str, int]:
        """Instances that ended, and what their histories count; asked for at least every ten seconds."""
        with contextlib.closing(sqlite3.connect(f"file:{self.data / 'host.sqlite3'}?mode=ro", uri=True)) as db:
            found = db.execute(
                "SELECT instance_id, sum(kind = ?), sum(kind = ?) FROM history JOIN instances USING (instance_id) "
                "WHERE status = 'Completed' GROUP BY instance_id",
                (_EPISODE, _ACTIVITY),
            )
            self._ended |= {instance_id: counts for instance_id, *counts in found}
        episodes, activities = map(sum, zip(*self._ended.values(), strict=True)) if self._ended else (0, 0)
        return {"ended": len(self._ended), "episodes": episodes, "activities": activities}

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each process, where /proc tells."""
        children = json.loads((self.data / "up.json").read_text())["children"]
        seconds = {}
        for name, child in children.items():
            stat = Path(f"/proc/{child['pid']}/stat")
            if stat.exists():
                fields = stat.read_text().rpartition(")")[2].split()
                seconds[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


async def measure(stack: Stack, request_type: str, jobs: int, at_once: int) -> dict[str, Any]:
    """One kind of job: `jobs` of them, at most `at_once` posts under way."""
    seen = Answering()
    services = asyncio.create_task(answer(stack.connection, _LANES, STEPS["OCR_EMBEDDING_SIS"], seen))
    async with httpx.AsyncClient(base_url=stack.api, timeout=60, trust_env=False) as client:
        await _run(stack, client, request_type, _WARM_UP, at_once)
        before = Answering(**asdict(seen))
        tables, durable, cpu = stack.tables(), stack.durable(), stack.cpu_s()
        began = time.perf_counter()
        posted = await _run(stack, client, request_type, jobs, at_once)
        seconds = time.perf_counter() - began
    await asyncio.sleep(0.5)  # the log's last lines
    services.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await services
    first = sorted(seen.first_directive_at[job] - at for job, at in posted.items())
    return {
        "request_type": request_type,
        "steps": len(STEPS[request_type]),
        "jobs": jobs,
        "jobs_per_s": jobs / seconds,
        "post_to_directive_ms": {"p50": first[len(first) // 2] * 1000, "p99": first[len(first) * 99 // 100] * 1000},
        "per_job": {
            **_per_job(stack.tables(), tables, jobs),
            **_per_job(stack.durable(), durable, jobs),
            "directives": (seen.directives - before.directives) / jobs,
            "replies": (seen.replies - before.replies) / jobs,
            "directive_bytes": (seen.directive_bytes - before.directive_bytes) / jobs,
            "reply_bytes": (seen.reply_bytes - before.reply_bytes) / jobs,
        },
        "cpu_ms_per_job": {name: used * 1000 for name, used in _per_job(stack.cpu_s(), cpu, jobs).items()},
    }


def _per_job(after: dict[str, Any], before: dict[str, Any], jobs: int) -> dict[str, float]:
    return {name: (count - before.get(name, 0)) / jobs for name, count in after.items()}


async def _run(stack: Stack, client: httpx.AsyncClient, request_type: str, jobs: int, at_once: int) -> dict[str, float]:
    """Posts them and waits for the end of their orchestrations; when each was answered 202."""
    gate, posted, before = asyncio.Semaphore(at_once), dict[str, float](), stack.durable()["ended"]

    async def post(number: int) -> None:
        async with gate:
            sent = time.perf_counter()
            response = await client.post("/v1/orchestrate", json=_envelope(request_type, number))
            response.raise_for_status()
            posted[response.json()["jobId"]] = sent

    await asyncio.gather(*(post(number) for number in range(jobs)))
    deadline = time.monotonic() + _DEADLINE_S
    while (ended := stack.durable()["ended"] - before) < jobs:
        if time.monotonic() > deadline:
            raise SystemExit(f"benchmarks.jobs: only {ended} of {jobs} jobs ended; see {stack.data}/logs")
        await asyncio.sleep(0.05)
    return posted


def _envelope(request_type: str, number: int) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "tenant_id": _TENANTS[number % len(_TENANTS)],
        "request_type": request_type,
        "input_ref": {"uri": "https://account.blob.core.windows.net/documents/lease.pdf"},
        "output_ref": {"uri": "https://account.blob.core.windows.net/results"},
        "payload": {step: _PAYLOADS[step] for step in STEPS[request_type]},
        "idempotency_key": f"{request_type}-{number}-{time.time_ns()}",
    }


def report(row: dict[str, Any]) -> list[str]:
    n, job = row["steps"], row["per_job"]
    writes = job.get("table transactions", 0) + job.get("table writes", 0)
    delay = row["post_to_directive_ms"]
    return [
        f"{n}-step job ({row['request_type']}, {row['jobs']} jobs): {row['jobs_per_s']:.1f} jobs/s; "
        f"POST to first directive p50 {delay['p50']:.0f} ms, p99 {delay['p99']:.0f} ms",
        f"  tables: {writes:.2f} writes (bound {3 + 3 * n}), {job.get('table reads', 0):.2f} reads (bound {1 + 2 * n})",
        f"  bus: {job['directives']:.2f} directives (bound {n}), {job['replies']:.2f} replies (bound {2 * n}); "
        f"{job['directive_bytes'] / n:.0f} bytes a directive, {job['reply_bytes'] / 2 / n:.0f} a reply",
        f"  durable: {job['episodes']:.2f} episodes (bound {1 + 3 * n} to {1 + 5 * n}), "
        f"{job['activities']:.2f} activities (bound {n})",
        "  CPU a job: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in sorted(row["cpu_ms_per_job"].items())),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="jobs of each kind (default: 200)")
    parser.add_argument("--at-once", type=int, default=16, help="posts under way at once (default: 16)")
    parser.add_argument("--json", type=Path, help="write the numbers here as well")
    arguments = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        try:
            rows = []
            for request_type in STEPS:
                rows.append(asyncio.run(measure(stack, request_type, arguments.jobs, arguments.at_once)))
                print("\n".join(report(rows[-1])), flush=True)
        finally:
            stack.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
