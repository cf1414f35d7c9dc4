"""Waiting for the end of a job by `GET /v1/jobs/{jobId}?wait=N&until=ended` (R82)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from shared.access.caller import Caller
from shared.core.jobs.occurrences import ControlKind
from shared.errors import LedgerUnavailable
from shared.operations.jobs.control_job import change_priority
from shared.operations.process import waiters
from shared.refusals import JobNotFound
from tests.operations.conftest import World, world
from tests.operations.support import by, control, limited
from tests.triggers.http.waiting_requests import (
    CALLERS,
    STRANGER,
    Watched,
    api,
    get,
    held,
    ledger,
    nothing_left,
    post,
    remove,
    seen,
    short_looks,
    succeed,
    waiting,
)
from tests.worlds.jobs import JOB

__all__ = ["api", "ledger", "short_looks", "world"]  # fixtures


@CALLERS
async def test_it_is_held_until_the_end(world: World, api: World, ledger: Watched, caller: Caller) -> None:
    """Past every change before, with and without an ETag; each of eight callers reads the job twice."""
    await post(api, None)
    known = (await get(api)).headers["ETag"]
    ledger.calls.clear()
    began = time.monotonic()
    calls = [get(api, caller=caller, wait="20", until="ended", etag=etag) for etag in [None, known] * 4]
    tasks = await waiting(api, *calls)
    await succeed(world)
    assert [seen(each)[:2] for each in await asyncio.gather(*tasks)] == [(200, "SUCCEEDED")] * 8
    assert ledger.calls["read"] == 16
    assert ledger.calls["end_of"] <= (time.monotonic() - began) / 0.01 + 1
    assert nothing_left(api)
    # a job that has ended: at once, by one read
    assert seen(await get(api, caller=caller, wait="20", until="ended"))[:2] == (200, "SUCCEEDED")
    assert ledger.calls["read"] == 17


async def test_without_seconds_it_is_a_plain_read(api: World, ledger: Watched) -> None:
    """`until=ended` alone, and `wait=0`: without a read of the tail."""
    await post(api, None)
    ledger.calls.clear()
    known = (await get(api, until="ended")).headers["ETag"]
    assert seen(await get(api, until="ended", wait="0"))[:2] == (200, "QUEUED")
    assert (await get(api, until="ended", wait="0", etag=known)).status_code == 304
    assert ledger.calls == {"read": 3}


async def test_neither_a_pause_nor_an_admission_is_an_end(world: World, api: World) -> None:
    """At the end of the time the response is that of a plain read: 200, or 304 if the ETag still matches."""
    api = limited(api, max_inflight_per_tenant=1, overflow="stage")
    first = json.loads((await post(api, None, doc_id="1")).get_body())["jobId"]
    second = json.loads((await post(api, None, doc_id="2")).get_body())["jobId"]
    await control(world, first, ControlKind.PAUSE)
    known = (await get(api, second)).headers["ETag"]
    paused, throttled, held_longer = await waiting(
        api,
        get(api, first, wait="1", until="ended"),
        get(api, second, wait="1", until="ended", etag=known),
        get(api, second, wait="20", until="ended", etag=known),
    )
    assert seen(await paused)[:2] == (200, "PAUSED")
    assert (await throttled).status_code == 304
    await change_priority(world.context, world.orchestrations, second, "high", by("soon"))
    await control(limited(world, max_inflight_per_tenant=1, overflow="stage"), first, ControlKind.CANCEL)
    assert (await world.job(second)).job.status == "QUEUED"
    await asyncio.sleep(0.05)
    assert not held_longer.done()
    await control(world, second, ControlKind.CANCEL)
    assert seen(await held_longer)[:2] == (200, "CANCELLED")


async def test_an_end_between_the_read_and_the_wait_is_found(
    api: World, ledger: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read returns the job before its end; this process commits the end, and no read of the tail finds it."""
    await post(api, None)
    monkeypatch.setattr(waiters, "_LOOK_S", 60.0)
    read = ledger.read

    async def slow(job_id: str) -> Any:
        ledger.read = read  # type: ignore[method-assign]
        before = await read(job_id)
        await control(api, JOB, ControlKind.CANCEL)
        return before

    ledger.read = slow  # type: ignore[method-assign]
    assert seen(await get(api, wait="20", until="ended"))[:2] == (200, "CANCELLED")


async def test_an_end_as_the_time_is_up_is_in_the_response(
    world: World, api: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read of the tail has found it: the last read does."""
    await post(api, None)
    monkeypatch.setattr(waiters, "_LOOK_S", 60.0)
    [task] = await waiting(api, get(api, wait="1", until="ended"))
    await control(world, JOB, ControlKind.CANCEL)
    assert seen(await task)[:2] == (200, "CANCELLED")


async def test_another_tenants_job_is_not_found_at_once(api: World, ledger: Watched) -> None:
    await post(api, None)
    ledger.calls.clear()
    with pytest.raises(JobNotFound):
        await get(api, caller=STRANGER, wait="20", until="ended")
    assert ledger.calls == {"read": 1}
    assert nothing_left(api)


async def test_a_job_that_is_removed_meanwhile_is_not_found(world: World, api: World) -> None:
    await post(api, None)
    [task] = await waiting(api, get(api, wait="20", until="ended"))
    await remove(world)
    with pytest.raises(JobNotFound):
        await task
    assert nothing_left(api)


async def test_tables_that_are_silent_delay_it_and_a_fault_ends_it(world: World, api: World, ledger: Watched) -> None:
    """Like every read: it has no other source, and 503 tells its caller to try again."""
    await post(api, None)
    [task] = await waiting(api, get(api, wait="1", until="ended"))
    ledger.answers.clear()
    await control(world, JOB, ControlKind.CANCEL)
    await asyncio.sleep(1.1)
    assert not task.done()
    ledger.answers.set()
    assert seen(await task)[:2] == (200, "CANCELLED")
    await post(api, None, doc_id="2")
    job_id = max(world.ledger.jobs)
    [task] = await waiting(api, get(api, job_id, wait="20", until="ended"))
    ledger.away = True
    with pytest.raises(LedgerUnavailable):
        await task
    assert nothing_left(api)


async def test_a_request_that_is_given_up_leaves_nothing(api: World) -> None:
    """Its process stops: the host ends its task. A held submission too; the job is there."""
    await post(api, None)
    tasks = await waiting(api, *(get(api, wait="20", until="ended") for _ in range(3)), post(api))
    assert held(api) == 4
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    assert nothing_left(api)
