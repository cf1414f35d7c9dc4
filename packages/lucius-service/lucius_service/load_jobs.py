"""Submits jobs over the HTTP API at a steady rate, and measures their duration.

A job is posted at its due time, even if the API has not responded to earlier jobs. A refused job is counted, and not
sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

import aiohttp

from lucius_service.contract.bench import NotRun
from lucius_service.contract.lane import CONNECT_TIMEOUT_S
from lucius_service.load import Kind, Measured, Plan, when_due

JOBS = Kind("accepted", "job", "job")

_ENDED = ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")
_REQUEST_TIMEOUT_S = 60.0
#: maximum concurrent reads of running jobs, which must not become the load
_LOOKS = 16
#: first and maximum seconds between two reads of a job; its duration comes from its own times
_PAUSES_S = (0.25, 5.0)


@dataclass(frozen=True)
class Api:
    """The URL of the API, with the token and the maximum wait."""

    url: str
    token: str = field(default="", repr=False)
    #: seconds for the jobs to end after the last post
    wait_s: float = 120.0


async def drive(api: Api, plan: Plan) -> Measured:
    """Posts all jobs of the plan, each with its own idempotency key. Waits at most `wait_s` seconds until all have
    ended. Raises NotRun.
    """
    headers = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    # connections of waiting posts must not block due ones
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        driver = _Driver(session, api.url.rstrip("/"), Measured(plan.count, JOBS))
        for sample, _ in plan.mix:
            await driver.check(sample)
        jobs = []
        async for at, sample in when_due(plan, driver.began):
            jobs.append(asyncio.create_task(driver.run(sample, at)))
        _, unended = await asyncio.wait(jobs, timeout=api.wait_s)
        for job in unended:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        for job in jobs:
            if not job.cancelled():
                job.result()
        return driver.measured


class _Driver:
    def __init__(self, session: aiohttp.ClientSession, url: str, measured: Measured) -> None:
        self._session = session
        self._url = url
        self._looks = asyncio.Semaphore(_LOOKS)
        self.measured = measured
        self.began = time.monotonic()

    async def check(self, request: Mapping[str, Any]) -> None:
        """Sends the request as a dry run. Raises NotRun if the API does not respond or refuses the request."""
        try:
            status, answer = await self._post(request, dry=True)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NotRun(f"no API responds at {self._url} ({type(error).__name__}); check --api") from None
        if status != 200 or "idempotency" not in answer:
            why = " ".join(str(answer[name]) for name in ("code", "detail") if name in answer)
            raise NotRun(f"{self._url} refused a request of the mix: {status} {why}")
        self.began = time.monotonic()

    async def run(self, request: Mapping[str, Any], due: float) -> None:
        """Submits one job, waits until the job ends, and counts the outcome."""
        try:
            status, answer = await self._post(request)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            self.measured.count("no response", type(error).__name__)
            return
        accepted_s = time.monotonic() - due
        if status != 202:
            self.measured.count(str(status), answer.get("code"))
            return
        self.measured.first_s.append(accepted_s)
        job = await self._end(answer["jobId"])
        created, completed = (datetime.fromisoformat(job[name]) for name in ("created_at", "completed_at"))
        job_s = accepted_s + (completed - created).total_seconds()
        self.measured.last_s.append(job_s)
        self.measured.took_s = max(self.measured.took_s, due + job_s - self.began)
        self.measured.count(job["status"], job.get("error_code"))

    async def _end(self, job_id: str) -> dict[str, Any]:
        """Returns the job after the job has ended. Repeats a failed read."""
        pause_s, longest_s = _PAUSES_S
        while True:
            try:
                async with self._looks, self._session.get(f"{self._url}/v1/jobs/{job_id}") as response:
                    job = await response.json() if response.status == 200 else {}
                if job.get("status") in _ENDED:
                    return dict(job)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _post(self, request: Mapping[str, Any], *, dry: bool = False) -> tuple[int, dict[str, Any]]:
        body = {**request, "idempotency_key": str(uuid4())}
        query = {"dryRun": "true"} if dry else {}
        async with self._session.post(f"{self._url}/v1/orchestrate", json=body, params=query) as response:
            answer = await response.json(content_type=None)
            return response.status, answer if isinstance(answer, dict) else {}
