"""Long poll: how often is looked, and when it ends."""

from __future__ import annotations

import asyncio

import azure.functions as func
import pytest

from triggers.http import long_poll
from triggers.http.long_poll import MAX_WAITERS, LongPoll
from triggers.http.problems import RequestError


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(long_poll.asyncio, "sleep", sleep)
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

    return (await (by or LongPoll()).wait(wait_s, tenant, read)).status_code, taken


async def test_what_changed_is_answered_at_once(pauses: list[float]) -> None:
    """Neither a change nor a request without `wait` is held."""
    assert await answered(20, (200, False)) == (200, 1)
    assert await answered(0, (304, False)) == (304, 1)
    assert pauses == []


async def test_a_304_is_held_until_the_change(pauses: list[float]) -> None:
    """Looks come closer together at first, then every second."""
    assert await answered(20, (304, False), (304, False), (304, False), (304, False), (200, False)) == (200, 5)
    assert pauses == [0.25, 0.5, 1.0, 1.0]


async def test_a_304_is_answered_when_the_time_is_up_or_nothing_will_change(pauses: list[float]) -> None:
    """The pauses add up to the wait; an ended job is not waited for."""
    assert (await answered(20, (304, False)))[0] == 304
    assert sum(pauses) == 20
    assert await answered(20, (304, True)) == (304, 1)


async def holding(poll: LongPoll, tenant: str | None, count: int) -> list[asyncio.Task[func.HttpResponse]]:
    """So many waits that nothing ends."""

    async def never() -> tuple[func.HttpResponse, bool]:
        await asyncio.Event().wait()
        raise AssertionError

    tasks = [asyncio.create_task(poll.wait(20, tenant, never)) for _ in range(count)]
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
