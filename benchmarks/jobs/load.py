"""Posts jobs, and measures each job from its POST until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.jobs.services import Services
from benchmarks.jobs.stack import Stack

STEPS = {
    "OCR": ("ocr",),
    "EMBEDDING": ("embedding",),
    "OCR_EMBEDDING": ("ocr", "embedding"),
    "OCR_EMBEDDING_SIS": ("ocr", "embedding", "sis"),
}
#: job type of most figures
THREE = "OCR_EMBEDDING_SIS"
_PAYLOADS: dict[str, Any] = {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["When does the lease end?"]}}
#: number of tenants, whose names spread them over 10 of the 16 lanes
TENANTS = 16
#: number of jobs that warm up the processes
WARM_UP = 24
_DEADLINE_S = 900
_POLL_S = 0.2
#: maximum seconds for which the API delays a response
WAIT_S = 20
_LIVE = ("QUEUED", "IN_PROGRESS")
#: seconds before a submission that got 503 is sent again
_PAUSE_S = 0.1


@dataclass
class Ran:
    """Jobs of one run. Times are those of `time.monotonic`."""

    #: times of the POST and of the 202, by job
    sent: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    #: seconds from the POST to the end of the job
    whole_s: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    #: POSTs that got 503 and were sent again
    refused: int = 0

    @property
    def submit_ms(self) -> list[float]:
        return [(self.answered[job] - sent) * 1000 for job, sent in self.sent.items()]

    @property
    def whole_ms(self) -> list[float]:
        return [seconds * 1000 for seconds in self.whole_s.values()]

    def scheduling_ms(self, directives: Sequence[Sequence[Any]]) -> list[float]:
        """Returns ms from each POST until the service read the job's first directive.

        `directives` has the form of `Services.report`.
        """
        first: dict[str, float] = {}
        for job, _, _, read_at in directives:
            first.setdefault(job, read_at)
        return [(first[job] - sent) * 1000 for job, sent in self.sent.items()]


class Load:
    """A caller of the stack. `services` reply to the directives of its jobs."""

    def __init__(self, stack: Stack, services: Services | None, client: httpx.AsyncClient) -> None:
        self.stack, self.services, self.client = stack, services, client
        self._number = 0

    async def post(self, request_type: str, ran: Ran) -> str:
        """Posts a job, and repeats the POST while it gets 503. Returns the job id. Raises httpx.HTTPStatusError."""
        return str((await self._post(request_type, ran))["jobId"])

    async def run(self, request_type: str, ran: Ran) -> None:
        """Posts one job and waits until it ends, with the fewest requests. Raises SystemExit if the job fails."""
        job = await self._post(request_type, ran, {"Prefer": f"wait={WAIT_S}"})
        if job["status"] in _LIVE:
            await self.wait(job["jobId"])
        elif job["status"] != "SUCCEEDED":
            raise SystemExit(f"job {job['jobId']} ended {job['status']}")
        ran.whole_s[job["jobId"]] = time.monotonic() - ran.sent[job["jobId"]]

    async def _post(self, request_type: str, ran: Ran, headers: dict[str, str] | None = None) -> dict[str, Any]:
        self._number += 1
        body = envelope(request_type, self._number)
        sent = time.monotonic()
        while (response := await self.client.post("/v1/orchestrate", json=body, headers=headers)).status_code == 503:
            ran.refused += 1
            await asyncio.sleep(_PAUSE_S)
        answered = time.monotonic()
        found: dict[str, Any] = response.raise_for_status().json()
        ran.sent[found["jobId"]], ran.answered[found["jobId"]] = sent, answered
        return found

    async def post_many(self, request_type: str, jobs: int, at_once: int) -> Ran:
        """Posts jobs with at most `at_once` active POSTs. Does not wait until the jobs end."""
        ran, gate, began = Ran(), asyncio.Semaphore(at_once), time.monotonic()

        async def one() -> None:
            async with gate:
                await self.post(request_type, ran)

        await asyncio.gather(*(one() for _ in range(jobs)))
        ran.seconds = time.monotonic() - began
        return ran

    async def saturated(self, request_type: str, jobs: int, at_once: int) -> Ran:
        """Posts jobs at the maximum rate, with at most `at_once` active POSTs, and waits until all jobs have ended."""
        began = time.monotonic()
        ran = await self.post_many(request_type, jobs, at_once)
        await self.until_ended(ran)
        ran.seconds = time.monotonic() - began
        return ran

    async def paced(self, request_type: str, per_s: float, jobs: int) -> Ran:
        """Posts a job every 1/`per_s` seconds without regard to earlier responses, and waits until all jobs
        have ended.
        """
        ran, began, posts = Ran(), time.monotonic(), []
        for number in range(jobs):
            await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
            posts.append(asyncio.create_task(self.post(request_type, ran)))
        await asyncio.gather(*posts)
        await self.until_ended(ran)
        ran.seconds = time.monotonic() - began
        return ran

    async def alone(self, request_type: str, jobs: int) -> Ran:
        """Posts jobs one after another and waits for each with long polls, as a caller does."""
        ran, began = Ran(), time.monotonic()
        for _ in range(jobs):
            job = await self.post(request_type, ran)
            await self.wait(job)
            ran.whole_s[job] = time.monotonic() - ran.sent[job]
        ran.seconds = time.monotonic() - began
        return ran

    async def wait(self, job: str) -> None:
        """Waits until a caller has read that the job SUCCEEDED. Raises SystemExit for any other terminal state."""
        while True:
            params = {"wait": str(WAIT_S), "until": "ended"}
            response = await self.client.get(f"/v1/jobs/{job}", params=params)
            if (status := response.json()["status"]) not in _LIVE:
                if status != "SUCCEEDED":
                    raise SystemExit(f"job {job} ended {status}")
                return

    async def failed(self) -> int:
        """Returns the number of FAILED_FINAL jobs in the lists of the API."""
        count = 0
        for tenant in range(TENANTS):
            cursor = None
            while cursor != "":
                asked = {"tenant_id": f"tenant-{tenant}", "status": "FAILED_FINAL"} | (
                    {"cursor": cursor} if cursor else {}
                )
                page = (await self.client.get("/v1/jobs", params=asked)).raise_for_status().json()
                count += len(page["jobs"])
                cursor = page["next"] or ""
        return count

    async def until_ended(self, ran: Ran) -> None:
        """Waits until the orchestration of each job has completed, and sets `ran.whole_s`. Raises SystemExit after 900
        seconds.

        `loading` reads the ends from the host's store, which adds no request.
        """
        offset = time.time() - time.monotonic()
        deadline = time.monotonic() + _DEADLINE_S
        while left := ran.sent.keys() - self.stack.ended_at.keys():
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(left)} of {len(ran.sent)} jobs did not end")
            await asyncio.sleep(_POLL_S)
        ran.whole_s = {job: self.stack.ended_at[job] - offset - sent for job, sent in ran.sent.items()}


@contextlib.asynccontextmanager
async def loading(stack: Stack, *steps: str, warm_up: bool = True) -> AsyncIterator[Load]:
    """Yields a caller with services for `steps`, on processes that are warmed up unless `warm_up` is false. Default:
    all three steps. Other steps must include `embedding`, which warms up the processes.
    """
    services = Services(stack.connection, steps or STEPS[THREE])
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    try:
        async with httpx.AsyncClient(base_url=stack.api, timeout=120, trust_env=False, limits=limits) as client:
            load = Load(stack, services, client)
            watching = asyncio.create_task(_watch(stack))
            if warm_up:
                await load.saturated(THREE if not steps else "EMBEDDING", WARM_UP, 8)
                services.report()
            yield load
            watching.cancel()
    finally:
        services.stop()


async def _watch(stack: Stack) -> None:
    """Records ends while jobs are posted too: histories are purged ten seconds later."""
    while True:
        stack.ended()
        await asyncio.sleep(_POLL_S)


def envelope(request_type: str, number: int) -> dict[str, Any]:
    """Returns a job request. `number` chooses its tenant."""
    return {
        "schema_version": "1.0",
        "tenant_id": f"tenant-{number % TENANTS}",
        "request_type": request_type,
        "input_ref": {"uri": "https://account.blob.core.windows.net/documents/lease.pdf"},
        "output_ref": {"uri": "https://account.blob.core.windows.net/results"},
        "payload": {step: _PAYLOADS[step] for step in STEPS[request_type]},
        "idempotency_key": f"{request_type}-{number}-{time.time_ns()}",
    }
