"""The counts of the overview are optional: with any fault of them, jobs move and the sweeper does its duties."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.states import JobStatus
from shared.core.overview.minutes import ACK, RESULT, minute_of
from shared.errors import Contended, LedgerUnavailable
from shared.operations.process.minute_buffer import MinuteBuffer
from shared.operations.sweeper import minutes as duty
from tests.contexts import changed
from tests.jobs import START
from tests.memory_stores import MemoryMinutes
from tests.operations.conftest import World
from tests.operations.support import dispatch, service_sends, submitted, swept


async def ended(world: World) -> str:
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    world.clock.advance(2)
    await service_sends(world, job_id, "ACK", 1)
    world.clock.advance(7)
    await service_sends(world, job_id, "RESULT", 2)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED
    return job_id


async def test_a_sweep_writes_what_ended_and_how_long_it_took(world: World) -> None:
    job_id = await ended(world)
    world.clock.advance(60)
    await swept(world)
    found = await world.context.minutes.read(START)
    first = found[minute_of(START)]
    assert first.ends == {("tenant_a", "SUCCEEDED", ""): 1}
    assert first.latencies == {("ocr", ACK): {7: 1}, ("ocr", RESULT): {9: 1}}
    assert found[minute_of(world.clock.now())].active == {}
    # a reply that comes twice counts once
    await service_sends(world, job_id, "RESULT", 2)
    await swept(world)
    assert (await world.context.minutes.read(START))[minute_of(START)] == first


async def hangs(*_: Any) -> Any:
    await asyncio.Event().wait()


def raising(fault: Exception) -> Callable[..., Awaitable[Any]]:
    async def fail(*_: Any) -> Any:
        raise fault

    return fail


@pytest.mark.parametrize(
    "fault", [LedgerUnavailable("away"), Contended("others"), ValueError("broken"), None], ids=lambda each: repr(each)
)
async def test_no_fault_of_the_minutes_stops_a_job_or_a_sweep(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    """The store never responds: the sweep is marked as done, and its later work is done."""
    monkeypatch.setattr(duty, "_MINUTE_S", 0.01)
    store = MemoryMinutes()
    for name in ("add", "read", "fold"):
        monkeypatch.setattr(store, name, raising(fault) if fault is not None else hangs)
    world.context = replace(world.context, minutes=store)
    await ended(world)
    await swept(world)
    assert (await world.context.sweep_marks.read(1))[0].ended_at == world.clock.now()


async def test_a_broken_count_does_not_stop_a_transition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("a step of a later release")

    monkeypatch.setattr("shared.core.overview.minutes.MinuteCounts.note", broken)
    await ended(world)


async def test_a_process_writes_once_a_minute(world: World) -> None:
    """In its own task, for which no commit waits; a failed write is not repeated."""
    go = asyncio.Event()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await go.wait()

    store = MemoryMinutes()
    world.context = changed(replace(world.context, minutes=store), minute_buffer=MinuteBuffer(sleep))
    await ended(world)
    await asyncio.sleep(0)
    assert (waits, await store.read(START)) == ([60], {})
    go.set()
    writer = world.context.process.minute_buffer._writer
    assert writer is not None
    await writer
    assert (await store.read(START))[minute_of(START)].ends.total() == 1
    # nothing is left that a sweep would write again
    await swept(world)
    assert (await store.read(START))[minute_of(START)].ends.total() == 1


async def test_a_sweep_by_hand_leaves_the_minutes_alone(world: World) -> None:
    """Of several sweepers only the first one writes them."""
    world.context = replace(world.context, settings=replace(world.context.settings, sweepers=2))
    await ended(world)
    await swept(world)
    assert await world.context.minutes.read(START) == {}
