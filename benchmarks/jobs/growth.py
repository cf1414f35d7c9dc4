"""Measures a backlog that drains, waiting jobs, and a job with a long history, with the processes' memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.jobs.load import STEPS, THREE, Load, Ran, loading
from benchmarks.jobs.services import Services
from benchmarks.jobs.stack import running
from benchmarks.jobs.tables import percentiles

#: number of jobs of the foreground load
_IN_FRONT = 60
AT_ONCE = 16


async def backlog(jobs: int) -> dict[str, Any]:
    """Posts `jobs` 3-step jobs while no service runs, then starts all services."""
    with running() as stack:
        async with loading(stack) as load:
            assert load.services is not None
            empty = stack.resident_mb()
            load.services.stop()
            posted = await load.post_many(THREE, jobs, AT_ONCE)
            full, cpu = stack.resident_mb(), sum(stack.cpu_s().values())
            load.services = Services(stack.connection, STEPS[THREE])
            began = time.monotonic()
            try:
                await load.until_ended(posted)
                drained_s, drained = time.monotonic() - began, load.services.report()
            finally:
                load.services.stop()
            return {
                "jobs": jobs,
                "posts_per_s": jobs / posted.seconds,
                "submit_ms": percentiles(posted.submit_ms),
                "drained_jobs_per_s": jobs / drained_s,
                "directives_per_job": len(drained["directives"]) / jobs,
                "failed": await load.failed(),
                "cpu_ms_per_drained_job": (sum(stack.cpu_s().values()) - cpu) * 1000 / jobs,
                "resident_mb": {"empty": empty, "full": full, "drained": stack.resident_mb()},
            }


async def waiting(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Runs 1-step jobs one after another while other jobs have their ACK and wait for their RESULT."""
    rows = []
    with running() as stack:
        async with loading(stack, "!ocr", "embedding") as load:
            assert load.services is not None
            there = 0
            for size in (0, *sizes):
                await load.post_many("OCR", size - there, AT_ONCE)
                await _all_acknowledged(load, size - there)
                there = size
                cpu = stack.cpu_s()
                ran = await load.alone("EMBEDDING", _IN_FRONT)
                load.services.report()
                rows.append(
                    {
                        "waiting": size,
                        "submit_ms": percentiles(ran.submit_ms),
                        "job_ms": percentiles(ran.whole_ms),
                        "cpu_ms_per_job": {
                            name: (used - cpu[name]) * 1000 / _IN_FRONT for name, used in stack.cpu_s().items()
                        },
                        "resident_mb": stack.resident_mb(),
                    }
                )
    return rows


async def ageing(pairs: Sequence[int], jobs: int = 10) -> list[dict[str, Any]]:
    """Measures the milliseconds from the RESULT of a job until its caller reads SUCCEEDED, and those of a read of the
    job. `pairs` has the numbers of pauses and resumes of a job.
    """
    rows = []
    with running() as stack:
        async with loading(stack, "!ocr", "embedding") as load:
            assert load.services is not None
            for count in pairs:
                taken, reads = [], []
                for _ in range(jobs):
                    job = await load.post("OCR", Ran())
                    await _all_acknowledged(load, 1)
                    for _ in range(count):
                        for verb in ("pause", "resume"):
                            (await load.client.post(f"/v1/jobs/{job}:{verb}")).raise_for_status()
                    began = time.monotonic()
                    (await load.client.get(f"/v1/jobs/{job}")).raise_for_status()
                    reads.append((time.monotonic() - began) * 1000)
                    began = time.monotonic()
                    load.services.finish(job)
                    await load.wait(job)
                    taken.append((time.monotonic() - began) * 1000)
                rows.append({"events": 3 + 2 * count, "read_ms": percentiles(reads), "end_ms": percentiles(taken)})
    return rows


async def _all_acknowledged(load: Load, jobs: int) -> None:
    """Waits until the services have read the number of directives, and the app has had time for the ACKs."""
    assert load.services is not None
    seen = 0
    while seen < jobs:
        seen += len(load.services.report()["directives"])
        await asyncio.sleep(0.1)
    quiet, cpu = 0, -1.0
    while quiet < 3:
        await asyncio.sleep(0.1)
        now = load.stack.cpu_s()["host"]
        quiet, cpu = (quiet + 1 if now - cpu < 0.02 else 0), now
