"""Jobs on a real stack while its processes are killed, until every job has ended."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from functions_emulator.durable.clock import parse_stamp
from functions_emulator.durable.events import Kind
from shared.core.jobs.routing import lane_of
from shared.time_limits import ACTIVITY_S
from tests import running_stack
from tests.chaos import ledger_audit
from tests.chaos.faulty_services import FaultyServices
from tests.running_stack import RunningStack

LANES = 16
TENANTS = ("chaos-a", "chaos-b", "chaos-c", "chaos-d", "chaos-e", "chaos-f")
STEPS = {"OCR": 1, "OCR_EMBEDDING": 2, "OCR_EMBEDDING_SIS": 3}
ENDED = frozenset({"SUCCEEDED", "FAILED_FINAL", "CANCELLED"})

#: short, so that a lost message costs seconds; the sweeper comes every ten
ENVIRONMENT = {
    "LUCIUS_ACK_TIMEOUT_SECONDS": "3",
    "LUCIUS_ACK_BACKOFF_SECONDS": "0.3,1",
    "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.3,1",
    "LUCIUS_DISPATCH_BACKOFF_SECONDS": "1,2,3,4,5,5,5,5",
    "LUCIUS_MAX_ATTEMPTS": "5",
    "LUCIUS_SWEEP_SCHEDULE": "*/10 * * * * *",
    # a function that waits without a time limit is lost soon, as it may be in Azure (R43)
    "EMULATOR_COLLECT_GARBAGE": "2s",
}
#: of an activity that a killed host ran: how long until its successor has it
ACTIVITY_COMES_BACK_S = 60
#: a killed host keeps replies for the minute of their lock, and an interrupted creation waits for a sweep
DEADLINE_S = 300
_POSTERS = 8
#: between two polls of every open job, each of which costs 12 ms of CPU
_POLL_S = 2.0


@dataclass
class FaultReport:
    """Counts of a run, printed in one line."""

    jobs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    wrong: list[str] = field(default_factory=list)
    took_s: float = 0.0
    services: FaultyServices | None = None

    def __str__(self) -> str:
        services = self.services
        assert services is not None
        kills = " ".join(f"{name}={count}" for name, count in sorted(self.kills.items()))
        ends = " ".join(f"{name}={count}" for name, count in sorted(self.ends.items()))
        return (
            f"chaos: jobs={self.jobs} faults={self.kills.total()} ({kills}) ended: {ends} "
            f"directives={services.directives} replies={services.replies} events audited={self.rows} "
            f"wrong={len(self.wrong)} in {self.took_s:.0f} s"
        )


class FaultInjector:
    """Posts `jobs` while it injects the faults, one after another."""

    def __init__(self, data: Path, *, jobs: int, faults: list[str], seed: int, result_timeout_s: int) -> None:
        self._data = data
        #: also how long a lane may lag behind before it uses up attempts (docs/contributing/rules.md R8)
        self._environment = ENVIRONMENT | {"LUCIUS_STEP_RESULT_TIMEOUT_SECONDS": str(result_timeout_s)}
        self._jobs = jobs
        self._faults = faults
        self._random = random.Random(seed)
        self._seed = seed
        #: by idempotency key
        self._accepted: dict[str, str] = {}
        self._report = FaultReport(jobs=jobs)

    async def run(self) -> FaultReport:
        began = time.monotonic()
        stack = await asyncio.to_thread(
            running_stack.start, self._data, "--without-services", environment=self._environment
        )
        try:
            lanes = {lane_of(tenant, LANES) for tenant in TENANTS}
            async with (
                FaultyServices(stack.bus_connection, lanes, self._seed) as services,
                httpx.AsyncClient(base_url=stack.api, timeout=30) as http,
            ):
                self._report.services = services
                await asyncio.gather(self._inject(stack), self._post_all(http))
                await self._settle(stack, http, services)
                self._report.wrong += await self._audit(stack, http, services)
        except BaseException:
            print(running_stack.tails(self._data))
            raise
        finally:
            await asyncio.to_thread(stack.stop)
        self._report.took_s = time.monotonic() - began
        return self._report

    async def _inject(self, stack: RunningStack) -> None:
        for fault in self._faults:
            await asyncio.sleep(self._random.uniform(1.0, 3.0))
            self._report.kills[fault] += 1
            if fault == "cut":
                async with httpx.AsyncClient(base_url=stack.admin, timeout=60) as admin:
                    (await admin.post("/faults", json={"fault": "drop-connections"})).raise_for_status()
            else:
                # Azurite saves every few seconds: a kill would lose acknowledged writes
                how = signal.SIGTERM if fault == "azurite" else signal.SIGKILL
                await asyncio.to_thread(stack.restart, fault, how)

    async def _post_all(self, http: httpx.AsyncClient) -> None:
        numbers = iter(range(self._jobs))

        async def poster() -> None:
            for number in numbers:
                await self._post(http, number)
                await asyncio.sleep(self._random.uniform(0, 0.5))

        await asyncio.gather(*(poster() for _ in range(_POSTERS)))

    async def _post(self, http: httpx.AsyncClient, number: int) -> None:
        """Posts a job until it is accepted, some twice at once; then pauses, resumes or cancels some."""
        request_type = self._random.choice(list(STEPS))
        body = {
            "schema_version": "1.0",
            "tenant_id": self._random.choice(TENANTS),
            "request_type": request_type,
            "input_ref": "https://account.blob.core.windows.net/documents/lease.pdf",
            "output_ref": "https://account.blob.core.windows.net/results/lease.json",
            "payload": {"sis": {"prompt_set": ["When?"]}} if "SIS" in request_type else {},
            "idempotency_key": f"chaos-{self._seed}-{number}",
        }
        times = self._random.choice((1, 1, 2))
        answers = await asyncio.gather(
            *(self._post_until_answered(http, "/v1/orchestrate", body, {202}) for _ in range(times))
        )
        ids = {answer["jobId"] for answer in answers}
        if len(ids) != 1:
            self._report.wrong.append(f"{body['idempotency_key']} was answered with {sorted(ids)}")
        self._accepted[str(body["idempotency_key"])] = job_id = ids.pop()
        for control in self._random.choice(((), (), (), (), (), ("pause",), ("cancel",), ("pause", "resume"))):
            await asyncio.sleep(self._random.uniform(0, 1))
            await self._post_until_answered(http, f"/v1/jobs/{job_id}:{control}", {"reason": "chaos"}, {200, 409})

    async def _post_until_answered(
        self, http: httpx.AsyncClient, path: str, body: Any, expected: set[int]
    ) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = "no answer"
            try:
                response = await http.post(path, json=body)
            except httpx.TransportError:
                pass
            else:
                if response.status_code in expected:
                    found: dict[str, Any] = response.json()
                    return found
                answer = f"{response.status_code} {response.text}"
                if response.status_code < 500:
                    raise AssertionError(f"{path}: {answer}")
            assert time.monotonic() < deadline, f"{path}: {answer}"
            await asyncio.sleep(0.5)

    async def _settle(self, stack: RunningStack, http: httpx.AsyncClient, services: FaultyServices) -> None:
        """After the faults: resumes paused jobs until every job has ended and no message is sent or received."""
        deadline = time.monotonic() + DEADLINE_S
        open_jobs = set(self._accepted.values())
        while open_jobs:
            for job_id in sorted(open_jobs):
                try:
                    answer = await http.get(f"/v1/jobs/{job_id}")
                except httpx.TransportError:
                    continue
                if answer.status_code >= 500:
                    continue  # the last fault is not over yet
                job = answer.raise_for_status().json()
                if job["status"] in ENDED:
                    why = f"/{job['error_code']}" if job["status"] == "FAILED_FINAL" else ""
                    self._report.ends[job["status"] + why] += 1
                    open_jobs.discard(job_id)
                elif job["status"] in ("PAUSED", "PAUSING"):
                    await self._post_until_answered(http, f"/v1/jobs/{job_id}:resume", {}, {200, 409})
            assert time.monotonic() < deadline, f"these do not end: {sorted(open_jobs)}"
            await asyncio.sleep(_POLL_S)
        # a late reply to a job that ended is an EVENT row more, which the audit must not read half written
        while not services.are_quiet or await self._messages_wait(stack) or not services.are_quiet:
            assert time.monotonic() < deadline, "directives or replies stay on their lanes"
            await asyncio.sleep(_POLL_S)

    async def _messages_wait(self, stack: RunningStack) -> bool:
        async with httpx.AsyncClient(base_url=stack.admin, timeout=60) as admin:
            entities = (await admin.get("/entities")).raise_for_status().json()
        return any(counts["active"] for path, counts in entities.items() if path.startswith("global-bus-"))

    async def _audit(self, stack: RunningStack, http: httpx.AsyncClient, services: FaultyServices) -> list[str]:
        """The violations after one sweep by hand, which receives dead-lettered replies and finishes open work."""
        await self._post_until_answered(http, "/v1/admin/reconcile", {}, {200})
        stalls = (await http.get("/admin/emulator/stalls")).raise_for_status().json()
        found = await asyncio.to_thread(ledger_audit.read, stack.storage_connection)
        self._report.rows = sum(len(events) for events in found.events.values())
        wrong = await asyncio.to_thread(ledger_audit.audit, found, self._accepted, services.rubbish)
        wrong += await asyncio.to_thread(long_activities, self._data / "host.sqlite3")
        return wrong + [f"an orchestration waits for an event that cannot come: {stall}" for stall in stalls]


def long_activities(store: Path) -> list[str]:
    """Activities that took, or have been open for, longer than they may (R43)."""
    began, took = {}, []
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        query = (
            "SELECT instance_id, kind, event_id, at, json_extract(data, '$.TaskScheduledId') FROM history ORDER BY seq"
        )
        for instance_id, kind, event_id, at, task_id in connection.execute(query):
            if kind == Kind.TASK_SCHEDULED:
                began[instance_id, event_id] = parse_stamp(at)
            elif kind in (Kind.TASK_COMPLETED, Kind.TASK_FAILED):
                took.append((instance_id, parse_stamp(at) - began.pop((instance_id, task_id))))
    took += [(instance_id, datetime.now(UTC) - at) for (instance_id, _), at in began.items()]
    longest = timedelta(seconds=ACTIVITY_S + ACTIVITY_COMES_BACK_S)
    return [f"an activity of {instance_id} was open for {span}" for instance_id, span in took if span > longest]
