"""Requests that wait for the end of a job, sent to their handlers, in a world that counts reads of the ledger."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller
from shared.errors import LedgerUnavailable
from shared.operations.process import waiters
from shared.wiring import seen_by
from tests.jobs import envelope
from tests.operations.conftest import World, world
from tests.operations.interleave import process_of
from tests.operations.support import dispatch, service_sends
from tests.worlds.jobs import JOB
from triggers.jobs_http import job_read
from triggers.orchestrate_http import _orchestrate

__all__ = ["world"]  # a fixture of the operations' tests

#: no test waits so long: a wait that nothing ends before makes it fail
LONG = "wait=20"
OWNER = replace(ANYONE, tenant="tenant_a", sees_all=False, moves_all=False)
STRANGER = replace(OWNER, tenant="tenant_b")
CALLERS = pytest.mark.parametrize("caller", [ANYONE, OWNER], ids=["all tenants", "one tenant"])


class Watched:
    """A world's ledger as waiting requests have it: counts their calls, and can be silent or away."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.calls: Counter[str] = Counter()
        self.answers = asyncio.Event()
        self.answers.set()
        self.away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def read(self, job_id: str) -> Any:
        return await self._call("read", job_id)

    async def end_of(self, job_id: str) -> Any:
        return await self._call("end_of", job_id)

    async def _call(self, name: str, job_id: str) -> Any:
        self.calls[name] += 1
        await self.answers.wait()
        if self.away:
            raise LedgerUnavailable("away")
        return await getattr(self._ledger, name)(job_id)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)


@pytest.fixture
def ledger(world: World) -> Watched:
    return Watched(world.ledger)


@pytest.fixture
def api(world: World, ledger: Watched) -> World:
    """The world as the process has it that serves the requests; services and operators use another one."""
    return process_of(replace(world, context=replace(world.context, ledger=ledger)))


def request(world: World, caller: Caller, http: func.HttpRequest) -> Any:
    context = seen_by(caller, world.context, moving=http.method == "POST")

    async def fresh_context() -> Any:
        return context

    return SimpleNamespace(
        caller=caller,
        context=lambda: context,
        fresh_context=fresh_context,
        http=http,
        orchestrations=lambda: world.orchestrations,
    )


async def get(
    world: World, job_id: str = JOB, *, caller: Caller = OWNER, etag: str | None = None, **params: str
) -> func.HttpResponse:
    http = func.HttpRequest(
        "GET",
        f"/v1/jobs/{job_id}",
        params=params,
        route_params={"jobId": job_id},
        headers={"If-None-Match": etag} if etag else {},
        body=b"",
    )
    async with asyncio.timeout(30):
        return await job_read(request(world, caller, http))


async def post(
    world: World, prefer: str | None = LONG, *, caller: Caller = OWNER, dry_run: bool = False, **changes: Any
) -> func.HttpResponse:
    body = envelope(**{"request_type": "OCR", "payload": {}} | changes).model_dump_json(exclude_none=True).encode()
    return await post_body(world, body, "application/json", prefer, caller=caller, dry_run=dry_run)


async def post_body(
    world: World, body: bytes, media_type: str, prefer: str | None, *, caller: Caller = OWNER, dry_run: bool = False
) -> func.HttpResponse:
    http = func.HttpRequest(
        "POST",
        "/v1/orchestrate",
        params={"dryRun": "true"} if dry_run else {},
        headers={"Content-Type": media_type, "Content-Length": str(len(body))} | ({"Prefer": prefer} if prefer else {}),
        body=body,
    )
    async with asyncio.timeout(30):
        return await _orchestrate(request(world, caller, http))


def seen(response: func.HttpResponse) -> tuple[int, str | None, str | None]:
    """Status, the job's status, and the preference that was applied."""
    body = json.loads(response.get_body() or b"{}")
    return response.status_code, body.get("status"), response.headers.get("Preference-Applied")


def held(api: World) -> int:
    """Number of requests that wait in the process."""
    return api.context.process.waiters._held.total()


async def waiting_at(api: World, count: int) -> None:
    """Waits until this number of requests waits for a job."""
    tails = api.context.process.recent_jobs.tails._tails
    async with asyncio.timeout(30):
        while sum(len(tail._waiting) for tail in tails.values()) < count:  # noqa: ASYNC110  # nobody signals it
            await asyncio.sleep(0.001)


async def waiting(api: World, *works: Any) -> list[asyncio.Task[func.HttpResponse]]:
    """Requests as tasks, as soon as all of them wait."""
    before = sum(len(tail._waiting) for tail in api.context.process.recent_jobs.tails._tails.values())
    tasks = [asyncio.create_task(work) for work in works]
    await waiting_at(api, before + len(works))
    return tasks


def nothing_left(api: World) -> bool:
    return held(api) == 0 and api.context.process.recent_jobs.tails._tails == {}


async def succeed(world: World) -> None:
    """The rest of the job, as its orchestration and its service do it."""
    await dispatch(world, JOB)
    await service_sends(world, JOB, "ACK", 1)
    await service_sends(world, JOB, "RESULT", 2)


async def remove(world: World) -> None:
    stored = await world.ledger.read(JOB)
    assert stored is not None
    await world.ledger.remove(stored)
