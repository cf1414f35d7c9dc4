"""The process that ends a job raises its end in the orchestrations of the steps that wait (R12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import VerdictKind
from shared.errors import InstanceEnded, InstanceNotFound
from shared.operations.sweeper.sweep import sweep
from tests.jobs import reply as reply_of
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import ERROR, arrives, cancelled, dispatch, service_sends, settle, submitted

END = {"next": "END"}


async def group(world: World) -> str:
    """OCR and EMBEDDING side by side, both with their services; nothing was raised yet."""
    job_id = await submitted(world, request_type="OCR_EMBEDDING", payload={})
    record = await world.job(job_id)
    steps = (
        replace(step, group=0, timings=replace(step.timings, max_attempts=2, dispatch_backoffs=()))
        for step in record.steps
    )
    world.ledger.put(Record(record.job, tuple(steps)))
    for step_id in ("ocr", "embedding"):
        await dispatch(world, job_id, step_id)
    world.orchestrations.raised.clear()
    return job_id


async def fails(world: World, job_id: str, number: int = 1) -> None:
    await service_sends(world, job_id, "RESULT", number, status="FAILED_FINAL", error=ERROR)


def raised(world: World) -> list[tuple[str, dict[str, Any]]]:
    return sorted(each for each in world.orchestrations.raised if each[1] == END)


async def test_a_final_failure_by_reply_ends_the_siblings(world: World) -> None:
    """Each step of the group receives one event, the failed one too."""
    job_id = await group(world)
    await fails(world, job_id)
    assert (await world.job(job_id)).job.status is JobStatus.FAILED_FINAL
    assert raised(world) == [("result:embedding:1", END), ("result:ocr:1", END)]


async def test_a_sibling_between_attempts_hears_the_next_one(world: World) -> None:
    """Its own RESULT was received, and one event is waited for once."""
    job_id = await group(world)
    await service_sends(world, job_id, "RESULT", 1, step_id="embedding", status="FAILED_RETRY", error=ERROR)
    await fails(world, job_id, 2)
    assert raised(world) == [("result:embedding:2", END), ("result:ocr:1", END)]


async def test_a_time_out_ends_the_siblings(world: World) -> None:
    """After the last attempt of one step its activity `settle` ends the job, and notifies the others."""
    job_id = await group(world)
    record = await world.job(job_id)
    last = replace(record.steps[0], timings=replace(record.steps[0].timings, max_attempts=1))
    world.ledger.put(record.with_step(last))
    world.clock.advance(30)
    assert (await settle(world, job_id)).kind is VerdictKind.END
    assert raised(world) == [("result:embedding:1", END), ("result:ocr:1", END)]


async def test_a_bus_that_is_away_for_good_ends_the_siblings(world: World) -> None:
    """The last backoff of publishing: the activity `dispatch` ends the job."""
    job_id = await group(world)
    world.publisher.failing = True
    assert (await dispatch(world, job_id)).kind is VerdictKind.END
    assert raised(world) == [("result:embedding:1", END), ("result:ocr:1", END)]


async def test_a_cancel_ends_a_backoff(world: World) -> None:
    """Nothing is in flight, so the job is CANCELLED at once, and its orchestration does not wait for the backoff."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1, status="FAILED_RETRY", error=ERROR)
    await cancelled(world, job_id)
    assert raised(world) == [("result:ocr:2", END)]


async def test_a_success_is_raised_once(world: World) -> None:
    """The RESULT itself raises it: no other instance waits."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    assert raised(world) == [("result:ocr:1", END)]


@pytest.mark.parametrize("gone", [InstanceEnded, InstanceNotFound])
async def test_orchestrations_that_ended_need_no_word(world: World, gone: type[Exception]) -> None:
    """404 and 410 stop neither the others nor the closing of the job."""
    job_id = await group(world)
    failing(world.orchestrations, "raise_event", error=gone("gone"))
    tried = noted(world.orchestrations, "raise_event")
    await fails(world, job_id)
    assert [instance_id for _, instance_id, *_ in tried] == [f"{job_id}.s0", f"{job_id}.s1"]
    assert await world.index.due("tenant_a", now=world.clock.now(), limit=10) == []


async def test_a_result_that_was_not_raised_is_raised_after_the_end(world: World) -> None:
    """Killed after the commit, and the job failed meanwhile: the orchestration still waits for that very RESULT."""
    job_id = await group(world)
    retry: dict[str, Any] = {"step_id": "embedding", "status": "FAILED_RETRY", "error": ERROR}
    body = reply_of(await world.job(job_id), "RESULT", **retry).model_dump_json(exclude_none=True).encode()
    await arrives(world, body, 1)
    await fails(world, job_id, 2)
    world.orchestrations.raised.clear()
    await arrives(world, body, 1, delivery_count=2)
    assert ("result:embedding:1", END) in raised(world)


async def test_what_died_before_it_raised_is_raised_by_the_sweeper(world: World) -> None:
    """Killed between the commit and the event: ACTIVE is still there, so the next sweep raises it, and no later one."""
    job_id = await group(world)
    with failing(world.orchestrations, "raise_event", error=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        await fails(world, job_id)
    assert (await world.job(job_id)).job.status is JobStatus.FAILED_FINAL
    for expected in ([("result:embedding:1", END), ("result:ocr:1", END)], []):
        world.clock.advance(600)
        await sweep(world.context, world.orchestrations)
        assert raised(world) == expected
        world.orchestrations.raised.clear()
