"""Long polls for a job: one read serves all, commits of this process wake them, and the ends of a wait (R82)."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE
from shared.api.job import job_response
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.operations.jobs.control_job import change_priority
from shared.operations.process import waiters
from shared.operations.process.waiters import MAX_WAITERS, LastEvent, Tail, Tails
from shared.ports.ledger import Stored
from shared.refusals import JobNotFound
from shared.wiring import seen_by
from tests.operations.conftest import World, world
from tests.operations.interleave import process_of
from tests.operations.support import control, create_numbered, limited
from tests.worlds.jobs import JOB, queued
from triggers.http import long_poll
from triggers.http.long_poll import Answer, LongPoll, history_tail
from triggers.http.problems import RequestError
from triggers.http.responses import content_of
from triggers.job_stream import job_stream
from triggers.jobs_http import _job_read

__all__ = ["world"]  # a fixture of the operations' tests


#: no test waits this long: a waiter that is not woken before fails it
LONG_S = 20


class History:
    """The end of a job's history as other processes change it; `looks` counts its reads."""

    def __init__(self) -> None:
        self.seq, self.looks = 1, 0

    async def look(self) -> LastEvent:
        self.looks += 1
        return LastEvent(self.seq)


def answers(*looks: tuple[int, bool]) -> Callable[[], Awaitable[Answer]]:
    """Status and whether it is final, read by read; the last one repeats."""
    taken = 0

    async def read() -> Answer:
        nonlocal taken
        status, final = looks[min(taken, len(looks) - 1)]
        taken += 1
        return Answer(func.HttpResponse(status_code=status), taken, final)

    return read


async def answered(
    wait_s: int, *looks: tuple[int, bool], by: LongPoll | None = None, tenant: str | None = None
) -> tuple[int, int]:
    """Returns the status of the response, and the number of reads of the tail; each read finds a new event."""
    history = History()

    async def look() -> LastEvent:
        history.seq += 1
        return await history.look()

    with Tails().of("job", look) as tail:
        response = await (by or LongPoll()).wait(wait_s, tenant, answers(*looks), tail)
    return response.status_code, history.looks


async def test_what_changed_is_answered_at_once() -> None:
    """A change, a request without `wait`, and an ended job are neither held nor read again."""
    assert await answered(LONG_S, (200, False)) == (200, 0)
    assert await answered(0, (304, False)) == (304, 0)
    assert await answered(LONG_S, (304, True)) == (304, 0)


async def test_a_304_is_held_until_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read finds a commit of another process; an event that does not change the response is no change."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    assert await answered(LONG_S, (304, False), (304, False), (200, False)) == (200, 2)


async def test_when_the_time_is_up_it_is_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all that changes has an event."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    with Tails().of("job", History().look) as tail:
        read = answers((304, False), (200, False))
        assert (await LongPoll().wait(1, None, read, tail)).status_code == 200


async def test_one_look_serves_all_who_wait_for_a_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `wait` and by the stream; the ledger's rows are read when there is something, once by each."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.05)
    await queued(world)
    elsewhere = process_of(world)
    calls: Counter[str] = Counter()
    for name in ("read", "end_of"):
        monkeypatch.setattr(world.ledger, name, counted(calls, name, getattr(world.ledger, name)))
    known = (await _job_read(request(elsewhere), LongPoll())).headers["ETag"]
    position = base64.urlsafe_b64encode(b"1").decode()
    calls.clear()
    async with asyncio.timeout(30):
        began = time.monotonic()
        waiting = [
            asyncio.create_task(_job_read(request(elsewhere, wait="20", etag=known), LongPoll())) for _ in range(4)
        ]
        waiting += [asyncio.create_task(job_stream(request(elsewhere, after=position))) for _ in range(4)]
        await waiting_at(elsewhere, 8)
        while not calls["end_of"]:  # noqa: ASYNC110  # nobody signals a look
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        looks = calls["end_of"]
        assert looks <= (time.monotonic() - began) / 0.05 + 1
        assert calls["read"] == 8
        await control(world, JOB, ControlKind.CANCEL)
        found = await asyncio.gather(*waiting)
    assert [each.status_code for each in found] == [200] * 8
    assert all(b"CANCELLED" in each.get_body() for each in found)
    assert elsewhere.context.process.recent_jobs.tails._tails == {}


async def test_a_waiting_caller_hears_of_a_commit_in_its_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole route: a control of the same process changes the job, and the response has it before the next read."""
    await queued(world)
    known = (await _job_read(request(world), LongPoll())).headers["ETag"]
    monkeypatch.setattr(waiters, "_LOOK_S", 60.0)
    async with asyncio.timeout(30):
        waiting = asyncio.create_task(_job_read(request(world, wait="20", etag=known), LongPoll()))
        await waiting_at(world, 1)
        await control(world, JOB, ControlKind.CANCEL)
        response = await waiting
    assert json.loads(response.get_body())["status"] == "CANCELLED"


async def test_a_commit_during_the_read_is_not_missed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read returns the job before the change."""
    await queued(world)
    known = (await _job_read(request(world), LongPoll())).headers["ETag"]
    monkeypatch.setattr(waiters, "_LOOK_S", 60.0)
    read = world.ledger.read

    async def slow(job_id: str) -> Stored | None:
        monkeypatch.setattr(world.ledger, "read", read)
        before = await read(job_id)
        await control(world, JOB, ControlKind.CANCEL)
        return before

    monkeypatch.setattr(world.ledger, "read", slow)
    async with asyncio.timeout(30):
        response = await _job_read(request(world, wait="20", etag=known), LongPoll())
    assert json.loads(response.get_body())["status"] == "CANCELLED"


async def test_a_stranger_at_the_tail_shuts_nobody_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read serves callers that see different jobs: it has no caller's rights (R24)."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    await queued(world)
    stranger, owner = (
        replace(world, context=seen_by(replace(ANYONE, tenant=tenant, sees_all=False), world.context, moving=False))
        for tenant in ("tenant_b", "tenant_a")
    )
    known = (await _job_read(request(owner), LongPoll())).headers["ETag"]
    with history_tail(stranger.context, JOB):
        async with asyncio.timeout(30):
            waiting = asyncio.create_task(_job_read(request(owner, wait="20", etag=known), LongPoll()))
            await waiting_at(world, 1)
            await control(process_of(world), JOB, ControlKind.CANCEL)
            assert json.loads((await waiting).get_body())["status"] == "CANCELLED"
        with pytest.raises(JobNotFound):
            await _job_read(request(stranger, wait="20"), LongPoll())


async def test_a_job_that_goes_while_it_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    await queued(world)
    known = (await _job_read(request(world), LongPoll())).headers["ETag"]
    waiting = asyncio.create_task(_job_read(request(world, wait="20", etag=known), LongPoll()))
    async with asyncio.timeout(30):
        await waiting_at(world, 1)
        stored = await world.ledger.read(JOB)
        assert stored is not None
        await world.ledger.remove(stored)
        with pytest.raises(JobNotFound):
            await waiting
    assert world.context.process.recent_jobs.tails._tails == {}


async def test_a_caller_waits_until_the_gates_let_a_job_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through any other changes, with and without an ETag; for a job that does not wait, or ends, the response is sent
    at once, and for one that waits at the end of the time.
    """
    small = limited(world, max_inflight_per_tenant=1, overflow="stage")
    first, second = [(await create_numbered(small, number)).stored.record.job.job_id for number in (1, 2)]

    async def read(job_id: str, etag: str | None = None, wait: str = "1") -> tuple[int, str | None]:
        answer = await _job_read(request(small, job_id, wait=wait, until="admitted", etag=etag), LongPoll())
        body = json.loads(answer.get_body() or b"{}")
        return answer.status_code, body.get("status")

    async with asyncio.timeout(60):
        assert await read(first, wait="20") == (200, "QUEUED")
        assert await read(second) == (200, "THROTTLED")
        known = job_response((await small.job(second)), small.context.settings.retention)
        etag = content_of(known).etag
        assert await read(second, etag) == (304, None)
        waiting = asyncio.create_task(read(second, etag, wait="20"))
        await waiting_at(small, 1)
        origin = Origin(cause_id="request:9", actor="op", source="http")
        await change_priority(small.context, small.orchestrations, second, "high", origin)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await control(small, first, ControlKind.CANCEL)
        assert await waiting == (200, "QUEUED")
    with pytest.raises(RequestError) as refused:
        long_poll.until_of(func.HttpRequest("GET", "/", params={"until": "started"}, body=b""))
    assert (refused.value.status, refused.value.code) == (400, "WAIT_INVALID")


def request(world: World, job_id: str = JOB, *, etag: str | None = None, **params: str) -> Any:
    get = {"method": "GET", "url": f"/v1/jobs/{job_id}", "route_params": {"jobId": job_id}, "body": b""}
    http = func.HttpRequest(**get, params=params, headers={"If-None-Match": etag} if etag else {})
    return SimpleNamespace(caller=ANYONE, context=lambda: world.context, http=http)


def counted(calls: Counter[str], name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def call(*given: Any) -> Any:
        calls[name] += 1
        return await method(*given)

    return call


async def waiting_at(world: World, count: int) -> None:
    """Waits until this number of requests waits for a job in this process."""
    while sum(len(tail._waiting) for tail in world.context.process.recent_jobs.tails._tails.values()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def holding(poll: LongPoll, tenant: str | None, count: int) -> list[asyncio.Task[func.HttpResponse]]:
    """Starts this number of waits that nothing ends."""

    async def never() -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    tasks = [asyncio.create_task(poll.wait(LONG_S, tenant, never, Tail(History().look))) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_waiters_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a 304 is sent at once, and each ended request frees its slot."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    full = LongPoll()
    [first, *others] = await holding(full, None, MAX_WAITERS)
    assert await answered(LONG_S, (304, False), (200, False), by=full) == (304, 0)
    first.cancel()
    await asyncio.wait([first])
    assert (await answered(LONG_S, (304, False), (200, False), by=full))[0] == 200
    for each in others:
        each.cancel()


async def test_one_tenants_waiters_leave_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's requests hold half of the slots; the next tenant's is held too, and answered at its change."""
    monkeypatch.setattr(waiters, "_LOOK_S", 0.01)
    poll = LongPoll()
    many = await holding(poll, "tenant_a", MAX_WAITERS // 2)
    assert (await answered(LONG_S, (304, False), (200, False), by=poll, tenant="tenant_a"))[0] == 304
    assert (await answered(LONG_S, (304, False), (200, False), by=poll, tenant="tenant_b"))[0] == 200
    for each in many:
        each.cancel()


@pytest.mark.parametrize("given", ["-1", "1.5", "21", "x", "", "²"])
def test_the_wait_is_bounded(given: str) -> None:
    """A whole number of seconds from 0 to 20, else 400 with its own code."""
    request = func.HttpRequest("GET", "/v1/jobs/job_1", params={"wait": given}, body=b"")
    with pytest.raises(RequestError) as refused:
        long_poll.wait_of(request)
    assert (refused.value.status, refused.value.code) == (400, "WAIT_INVALID")
