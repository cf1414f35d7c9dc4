"""Measures the age of an event when it reaches a reader of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from benchmarks.jobs.load import TENANTS, THREE, Load, loading
from benchmarks.jobs.stack import running
from benchmarks.jobs.tables import percentiles

#: goals of docs/explanation/performance.md: events of all tenants per second, or this share of the machine's maximum
GOAL_PER_S, GOAL_SHARE = 50.0, 0.6
#: tenants with one reader each, of the 16 tenants with jobs
READERS = 4
#: seconds until the feeds have the last events
_SETTLED_S = 5.0
_TIMEOUT_S = 60.0


@dataclass
class Reader:
    """A reader of a tenant's events that acts as an EventSource does. The reader reads a response, waits for the time
    in `retry`, and reconnects at its position.
    """

    client: httpx.AsyncClient
    tenant: str
    #: age of each event in ms, from its transition, which is before the commit, to the received bytes
    ages_ms: list[float] = field(default_factory=list)
    #: the same for events that occurred while a request waited for them
    met_ms: list[float] = field(default_factory=list)
    _after: str = "latest"

    async def run(self) -> None:
        while True:
            began = time.time()
            answer = await self.client.get(
                "/v1/events",
                params={"tenant_id": self.tenant, "after": self._after, "limit": "100"},
                headers={"Accept": "text/event-stream"},
            )
            at, pause_ms = time.time(), 0
            for line in answer.raise_for_status().text.split("\n"):
                name, _, value = line.partition(": ")
                if name == "retry":
                    pause_ms = int(value)
                elif name == "id":
                    self._after = value
                elif name == "data":
                    self._take(json.loads(value), began, at)
            await asyncio.sleep(pause_ms / 1000)

    def _take(self, event: dict[str, Any], began: float, at: float) -> None:
        happened = datetime.fromisoformat(event["time"]).timestamp()
        self.ages_ms.append((at - happened) * 1000)
        if happened >= began:
            self.met_ms.append((at - happened) * 1000)


async def ages(jobs: int, at_once: int) -> dict[str, Any]:
    """Measures ages at the goal's rate, and the capacity of the same stack and readers, which bounds that rate."""
    with running(events="feed") as stack:
        async with loading(stack) as load, _reading(load) as readers:
            full = await load.saturated(THREE, jobs, at_once)
            seen = await _settled(readers)
            per_job = seen / _followed(jobs)
            capacity_per_s = per_job * jobs / full.seconds
            per_s = min(GOAL_PER_S, GOAL_SHARE * capacity_per_s)
            for each in readers:
                each.ages_ms.clear()
                each.met_ms.clear()
            paced = await load.paced(THREE, per_s / per_job, jobs)
            await _settled(readers)
    return {
        "jobs": jobs,
        "readers": len(readers),
        "events_per_job": per_job,
        "capacity_per_s": capacity_per_s,
        "events_per_s": per_job * jobs / paced.seconds,
        "events": sum(len(each.ages_ms) for each in readers),
        "age_ms": percentiles(ms for each in readers for ms in each.ages_ms),
        "met_ms": percentiles(ms for each in readers for ms in each.met_ms),
    }


@contextlib.asynccontextmanager
async def _reading(load: Load) -> AsyncIterator[list[Reader]]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=load.stack.api, timeout=_TIMEOUT_S, trust_env=False, limits=limits) as client:
        readers = [Reader(client, f"tenant-{number}") for number in range(READERS)]
        tasks = [asyncio.create_task(each.run()) for each in readers]
        # let each reader get its position: earlier events do not count
        await asyncio.sleep(1)
        yield readers
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


async def _settled(readers: list[Reader]) -> int:
    """Returns the number of events of the readers when this number no longer grows."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < _SETTLED_S:
        if (now := sum(len(each.ages_ms) for each in readers)) != seen:
            seen, since = now, time.monotonic()
        await asyncio.sleep(0.2)
    return seen


def _followed(jobs: int) -> float:
    """Returns the number of jobs that belong to followed tenants, if `jobs` jobs go to the tenants in turn."""
    return jobs * READERS / TENANTS
