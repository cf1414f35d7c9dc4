"""Long poll: how often is looked, and when it ends."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE
from shared.core.history import Origin
from shared.core.occurrences import ControlKind
from shared.operations.control_job import change_priority
from shared.operations.waiters import MAX_WAITERS
from shared.views.job import job_response
from tests.operations.actors import JOB, queued
from tests.operations.conftest import World, world
from tests.operations.support import control, create_numbered, limited
from triggers.http import long_poll
from triggers.http.long_poll import LongPoll
from triggers.http.problems import RequestError
from triggers.http.responses import content_of
from triggers.jobs_http import _job_read

__all__ = ["world"]  # a fixture of the operations' tests


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def pause(changed: asyncio.Event, seconds: float) -> float:
        slept.append(seconds)
        return seconds

    monkeypatch.setattr(long_poll, "_pause", pause)
    return slept


async def answered(
    wait_s: int, *looks: tuple[int, bool], by: LongPoll | None = None, tenant: str | None = None
) -> tuple[int, int]:
    """The status of the answer, and how many looks were taken; the last look repeats."""
    taken = 0

    async def read() -> tuple[func.HttpResponse, bool]:
        nonlocal taken
        status, final = looks[min(taken, len(looks) - 1)]
        taken += 1
        return func.HttpResponse(status_code=status), final

    return (await (by or LongPoll()).wait(wait_s, tenant, read, asyncio.Event())).status_code, taken


async def test_what_changed_is_answered_at_once(pauses: list[float]) -> None:
    """Neither a change nor a request without `wait` is held."""
    assert await answered(20, (200, False)) == (200, 1)
    assert await answered(0, (304, False)) == (304, 1)
    assert pauses == []


async def test_a_304_is_held_until_the_change(pauses: list[float]) -> None:
    """Looks come every 250 ms at first, then every second."""
    assert await answered(20, *[(304, False)] * 10, (200, False)) == (200, 11)
    assert pauses == [0.25] * 8 + [1.0] * 2


async def test_a_commit_of_this_process_ends_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes during the read before it: what is read next has it."""
    monkeypatch.setattr(long_poll, "_FIRST_LOOK_S", 20.0)
    changed, status = asyncio.Event(), 304
    looked = 0

    async def read() -> tuple[func.HttpResponse, bool]:
        nonlocal looked, status
        looked += 1
        response = func.HttpResponse(status_code=status)
        if looked == 1:
            status = 200
            changed.set()
        return response, False

    async with asyncio.timeout(10):
        assert (await LongPoll().wait(20, None, read, changed)).status_code == 200
    assert looked == 2


async def test_a_304_is_answered_when_the_time_is_up_or_nothing_will_change(pauses: list[float]) -> None:
    """The pauses add up to the wait; an ended job is not waited for."""
    assert (await answered(20, (304, False)))[0] == 304
    assert sum(pauses) == 20
    assert await answered(20, (304, True)) == (304, 1)


async def test_a_waiting_caller_hears_of_a_commit_in_its_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole route: a control of the same process moves the job, and the response has it before the next look."""
    await queued(world)
    request: Any = SimpleNamespace(caller=ANYONE, context=lambda: world.context)
    get = {"method": "GET", "url": f"/v1/jobs/{JOB}", "route_params": {"jobId": JOB}, "body": b""}
    request.http = func.HttpRequest(**get)
    known = (await _job_read(request, LongPoll())).headers["ETag"]
    monkeypatch.setattr(long_poll, "_FIRST_LOOK_S", 20.0)
    request.http = func.HttpRequest(**get, params={"wait": "20"}, headers={"If-None-Match": known})
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(_job_read(request, LongPoll()))
        while not world.context.recent_jobs._watchers:  # noqa: ASYNC110  # nobody signals that somebody waits
            await asyncio.sleep(0)
        await control(world, JOB, ControlKind.CANCEL)
        response = await waiting
    assert json.loads(response.get_body())["status"] == "CANCELLED"


async def test_a_caller_waits_until_the_gates_let_a_job_in(world: World, pauses: list[float]) -> None:
    """Whatever else changes meanwhile, with and without an ETag; a job that does not wait, or ends, is answered at
    once, and one that waits when the time is up.
    """
    small = limited(world, max_inflight_per_tenant=1, overflow="stage")
    first, second = [(await create_numbered(small, number)).stored.record.job.job_id for number in (1, 2)]
    request: Any = SimpleNamespace(caller=ANYONE, context=lambda: small.context)

    async def read(job_id: str, **headers: str) -> tuple[int, str | None, float]:
        get = {"method": "GET", "url": f"/v1/jobs/{job_id}", "route_params": {"jobId": job_id}, "body": b""}
        params = {"wait": "20", "until": "admitted"}
        pauses.clear()
        request.http = func.HttpRequest(**get, params=params, headers=headers)
        answer = await _job_read(request, LongPoll())
        body = json.loads(answer.get_body() or b"{}")
        headers["If-None-Match"] = answer.headers["ETag"]
        return answer.status_code, body.get("status"), sum(pauses)

    assert await read(first) == (200, "QUEUED", 0)
    assert await read(second) == (200, "THROTTLED", 20)
    known = job_response((await small.job(second)), small.context.settings.retention)
    etag = content_of(known).etag
    assert await read(second, **{"If-None-Match": etag}) == (304, None, 20)
    origin = Origin(cause_id="request:9", actor="op", source="http")
    await change_priority(small.context, small.orchestrations, second, "high", origin)
    assert await read(second, **{"If-None-Match": etag}) == (200, "THROTTLED", 20)
    await control(small, first, ControlKind.CANCEL)
    assert await read(second) == (200, "QUEUED", 0)
    request.http = func.HttpRequest("GET", "/", params={"until": "ended"}, body=b"")
    with pytest.raises(RequestError):
        long_poll.until_admitted(request.http)


async def holding(poll: LongPoll, tenant: str | None, count: int) -> list[asyncio.Task[func.HttpResponse]]:
    """So many waits that nothing ends."""

    async def never() -> tuple[func.HttpResponse, bool]:
        await asyncio.Event().wait()
        raise AssertionError

    tasks = [asyncio.create_task(poll.wait(20, tenant, never, asyncio.Event())) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_waiters_keep_nobody_out() -> None:
    """Past the bound a 304 is answered at once, and those who are done make room."""
    full = LongPoll()
    [first, *others] = await holding(full, None, MAX_WAITERS)
    assert await answered(20, (304, False), (200, False), by=full) == (304, 1)
    first.cancel()
    await asyncio.wait([first])
    assert await answered(20, (304, False), (200, False), by=full) == (200, 2)
    for each in others:
        each.cancel()


async def test_one_tenants_waiters_leave_room_for_another() -> None:
    """A tenant that asks for all of them holds half; the next one is held as well, and answered when it changes."""
    poll = LongPoll()
    many = await holding(poll, "tenant_a", MAX_WAITERS // 2)
    assert await answered(20, (304, False), (200, False), by=poll, tenant="tenant_a") == (304, 1)
    assert await answered(20, (304, False), (200, False), by=poll, tenant="tenant_b") == (200, 2)
    for each in many:
        each.cancel()


@pytest.mark.parametrize("given", ["-1", "1.5", "21", "x", "", "²"])
def test_the_wait_is_bounded(given: str) -> None:
    """A whole number of seconds from 0 to 20, else 400 with its own code."""
    request = func.HttpRequest("GET", "/v1/jobs/job_1", params={"wait": given}, body=b"")
    with pytest.raises(RequestError) as refused:
        long_poll.wait_of(request)
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "WAIT_INVALID")
