"""Measures the duration of a 3-step job: one at a time, at five per second, and at saturation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from benchmarks.jobs.load import THREE, Load, Ran, loading
from benchmarks.jobs.stack import Invocation, running, wait_for_log
from benchmarks.jobs.tables import percentiles

#: rate of the goals in docs/explanation/performance.md
GOAL_PER_S = 5


async def alone(jobs: int) -> dict[str, Any]:
    """Measures jobs one at a time. A caller waits for each job."""
    return await _measured(jobs, lambda load: load.alone(THREE, jobs))


async def paced(jobs: int) -> dict[str, Any]:
    """Measures `GOAL_PER_S` jobs per second, posted without waiting for responses."""
    return await _measured(jobs, lambda load: load.paced(THREE, GOAL_PER_S, jobs))


async def saturated(jobs: int, at_once: int) -> dict[str, Any]:
    """Measures jobs at saturation. Posts them with at most `at_once` active POSTs, and waits until all have ended."""
    return await _measured(jobs, lambda load: load.saturated(THREE, jobs, at_once)) | {"at_once": at_once}


async def _measured(jobs: int, run: Callable[[Load], Awaitable[Ran]]) -> dict[str, Any]:
    with running(recorded=True) as stack:
        async with loading(stack) as load:
            ran = await run(load)
            return _figures(load, ran, jobs)


def _figures(load: Load, ran: Ran, jobs: int) -> dict[str, Any]:
    wait_for_log()
    assert load.services is not None
    directives = load.services.report()["directives"]
    lease = lease_ms(directives, load.stack.invocations(min(ran.sent.values())))
    return {
        "jobs": jobs,
        "jobs_per_s": jobs / ran.seconds,
        "refused": ran.refused,
        "submit_ms": percentiles(ran.submit_ms),
        "scheduling_ms": percentiles(ran.scheduling_ms(directives)),
        "lease_ms": percentiles(lease),
        "job_ms": percentiles(ran.whole_ms),
    }


def lease_ms(directives: Sequence[Sequence[Any]], invocations: Sequence[Invocation]) -> list[float]:
    """Measures from the service's reading of a directive until the end of the function that committed its ACK.

    The function ends after the commit, so each value is an upper bound.
    """
    ended = {one.message_id: one.ended for one in invocations if one.message_id and one.message_id.startswith("ACK/")}
    found = []
    for job, step, _, read_at in directives:
        if (at := ended.get(f"ACK/{job}/{step}/1")) is not None:
            found.append((at - read_at) * 1000)
    return found
