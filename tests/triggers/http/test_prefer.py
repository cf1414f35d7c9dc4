"""Waiting for the end of a job by `POST /v1/orchestrate` with `Prefer: wait=N` (R82)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller
from shared.core.jobs.occurrences import ControlKind
from shared.operations.process.submissions import AT_ONCE
from shared.operations.process.waiters import MAX_WAITERS
from shared.refusals import TenantForbidden
from tests.jobs import envelope
from tests.operations.conftest import World, world
from tests.operations.support import control, limited
from tests.triggers.http.waiting_requests import (
    CALLERS,
    LONG,
    OWNER,
    STRANGER,
    Watched,
    api,
    get,
    ledger,
    nothing_left,
    post,
    post_body,
    remove,
    seen,
    short_looks,
    succeed,
    waiting,
)
from tests.worlds.jobs import JOB
from triggers.http import batch, long_poll

__all__ = ["api", "ledger", "short_looks", "world"]  # fixtures


@CALLERS
async def test_it_is_held_until_the_end(world: World, api: World, ledger: Watched, caller: Caller) -> None:
    """200 with the body of a read and the headers of a submission, by one read of the job and shared tail reads."""
    began = time.monotonic()
    [first] = await waiting(api, post(api, caller=caller))
    assert ledger.calls["read"] == 0
    others = await waiting(api, *(post(api, caller=caller) for _ in range(7)))
    # each reads the job of its key, as without the preference
    assert ledger.calls["read"] == 7
    await succeed(world)
    responses = await asyncio.gather(first, *others)
    assert [seen(each) for each in responses] == [(200, "SUCCEEDED", LONG)] * 8
    assert ledger.calls["read"] == 15
    assert ledger.calls["end_of"] <= (time.monotonic() - began) / 0.01 + 1
    assert {each.get_body() for each in responses} == {(await get(api, caller=caller)).get_body()}
    assert {each.headers["Location"] for each in responses} == {f"/v1/jobs/{JOB}"}
    assert ["Idempotency-Replayed" in each.headers for each in responses] == [False] + [True] * 7
    assert nothing_left(api)


@pytest.mark.parametrize("prefer", [LONG, "wait=0"])
async def test_a_known_key_whose_job_has_ended_is_answered_at_once(
    world: World, api: World, ledger: Watched, prefer: str
) -> None:
    """By the read that finds it; without the preference it is 202, as ever."""
    await post(api, None)
    await succeed(world)
    ledger.calls.clear()
    assert seen(await post(api, prefer)) == (200, "SUCCEEDED", prefer)
    assert ledger.calls == {"read": 1}
    assert seen(await post(api, None)) == (202, "SUCCEEDED", None)


async def test_a_job_that_does_not_end_in_time_is_202(world: World, api: World, ledger: Watched) -> None:
    """The response of a submission without the preference; for a job that is paused, and one that waits for a
    quota. `wait=0` waits for nothing.
    """
    api = limited(api, max_inflight_per_tenant=1, overflow="stage")
    assert seen(await post(api, "wait=0", doc_id="1")) == (202, "QUEUED", "wait=0")
    assert ledger.calls == {}
    paused, throttled = await waiting(api, post(api, "wait=1", doc_id="1"), post(api, "wait=1", doc_id="2"))
    await control(world, JOB, ControlKind.PAUSE)
    assert seen(await paused) == (202, "QUEUED", "wait=1")
    assert seen(await throttled) == (202, "THROTTLED", "wait=1")
    assert json.loads((await throttled).get_body())["position"] == 1
    assert nothing_left(api)


async def test_it_is_ignored_for_many_and_for_dry_runs(world: World, api: World) -> None:
    """As RFC 7240 has it: without `Preference-Applied`."""
    assert seen(await post(api, dry_run=True)) == (200, None, None)
    assert world.ledger.jobs == {}
    line = envelope(request_type="OCR", payload={}).model_dump_json(exclude_none=True).encode()
    response = await post_body(api, line, batch.MEDIA_TYPE, LONG)
    assert seen(response) == (200, None, None)
    assert len(world.ledger.jobs) == 1


async def test_tables_that_are_silent_neither_lose_nor_delay_it(api: World, ledger: Watched) -> None:
    """Silent while the request waits: 202 when its time is up. They refuse: 202 at once, and nothing applied."""
    [task] = await waiting(api, post(api, "wait=1"))
    ledger.answers.clear()
    async with asyncio.timeout(5):
        assert seen(await task) == (202, "QUEUED", "wait=1")
    ledger.answers.set()
    [task] = await waiting(api, post(api, doc_id="2"))
    ledger.away = True
    assert seen(await task) == (202, "QUEUED", None)
    assert nothing_left(api)


async def test_the_job_cannot_be_read_when_it_has_ended(world: World, api: World, ledger: Watched) -> None:
    """The reads of the tail find the end, and then the tables do not respond."""
    [task] = await waiting(api, post(api, "wait=1"))
    read = asyncio.Event()

    async def silent(job_id: str) -> Any:
        read.set()
        await asyncio.Event().wait()

    ledger.read = silent  # type: ignore[method-assign]
    await control(world, JOB, ControlKind.CANCEL)
    async with asyncio.timeout(5):
        await read.wait()
        assert seen(await task) == (202, "QUEUED", "wait=1")
    assert nothing_left(api)


async def test_a_job_that_is_removed_meanwhile_is_202(world: World, api: World) -> None:
    """It was created; that its rows are gone is no fault of the submission."""
    [task] = await waiting(api, post(api))
    await remove(world)
    assert seen(await task) == (202, "QUEUED", None)
    assert nothing_left(api)


async def test_a_held_submission_takes_no_turn(api: World) -> None:
    """More are held than may create jobs at once, and another submission is accepted."""
    tasks = await waiting(api, *(post(api, caller=ANYONE) for _ in range(AT_ONCE + 1)))
    assert (await post(api, None, doc_id="2")).status_code == 202
    for each in tasks:
        each.cancel()


@pytest.mark.parametrize(
    ("caller", "most"), [(OWNER, MAX_WAITERS // 2), (ANYONE, MAX_WAITERS)], ids=["one tenant", "all tenants"]
)
async def test_past_the_bound_it_is_202_at_once(api: World, caller: Caller, most: int) -> None:
    """The bound of long polls: one tenant holds half of them, and leaves room for another."""
    await post(api, None)
    tasks = await waiting(api, *(get(api, caller=caller, wait="20", until="ended") for _ in range(most)))
    assert seen(await post(api, caller=caller)) == (202, "QUEUED", None)
    if caller is OWNER:
        tasks += await waiting(api, post(api, caller=STRANGER, tenant_id="tenant_b"))
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    assert nothing_left(api)


async def test_another_tenant_is_refused_at_once(api: World) -> None:
    with pytest.raises(TenantForbidden):
        await post(api, caller=STRANGER)
    assert nothing_left(api)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", None),
        ("respond-async", None),
        ("wait=5", 5),
        ("WAIT = 5", 5),
        ("respond-async, wait=10", 10),
        ('foo="a, wait=3"; bar, wait=7;x=y', 7),
        ("wait=0", 0),
        ("wait=0005", 5),
        ("wait=20", 20),
        ("wait=21", 20),
        ("wait=" + "9" * 9_000, 20),
        # the first counts, even where it is invalid
        ("wait=3, wait=9", 3),
        ("wait=x, wait=9", None),
        ("wait", None),
        ("wait=", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ('wait="5"', None),
        ("wait=²", None),
        ("waiting=5", None),
        (',,;=,"', None),
    ],
)
def test_the_preference_is_read_as_rfc_7240_has_it(given: str, seconds: int | None) -> None:
    """At most 20 seconds; an invalid value is as none."""
    http = func.HttpRequest("POST", "/v1/orchestrate", headers={"Prefer": given} if given else {}, body=b"")
    assert long_poll.preferred_wait_of(http) == seconds
