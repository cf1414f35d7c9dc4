"""Breakers of a tenant's types in the memory world: set, opened by the ends of jobs, and what they let in."""

from __future__ import annotations

from typing import Any

from shared.core.gates.breaker import Breaker, BreakerState
from shared.core.gates.rules import Gate
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.operations.quotas.quotas import Changed
from tests.operations.conftest import World
from tests.operations.gated import posted
from tests.operations.ruled import OCR, ruled, statuses
from tests.operations.support import dispatch, service_sends

MIN_CALLS = 2
MINUTE = 60


async def with_breaker(world: World, gate: Gate = OCR, **members: Any) -> Changed:
    """Each job fails at its first failed attempt."""
    return await ruled(world, gate, breaker={"min_calls": MIN_CALLS, **members})


async def ends(world: World, job_id: str, *, good: bool = False) -> None:
    """By a RESULT that is good, or by attempts that all fail."""
    if good:
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1)
        return
    error = {"code": "BUSY", "message": "later"}
    number = 0
    while not (await world.job(job_id)).job.status.terminal:
        number += 1
        assert number < 10
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", number, status="FAILED_RETRY", error=error, result_ref=None)
        [step] = (await world.job(job_id)).steps
        if step.due_at is not None:
            world.clock.advance(max(0.0, (step.due_at - world.clock.now()).total_seconds()))
    assert (await world.job(job_id)).job.error_code == Reason.ATTEMPTS_EXHAUSTED


async def breaker_of(world: World, gate: Gate = OCR) -> Breaker:
    """As it stands, with those inside as the rows have them."""
    stored = await world.index.desks.read("tenant_a")
    assert stored is not None
    found = stored.desk.state(gate).breaker
    assert found is not None
    rows = await world.index.list_active("tenant_a", after=None, limit=1000)
    epochs = [row.place.breaker_epoch for row in rows if row.place is not None and not row.place.is_staged]
    assert found.inside == (epochs.count(found.epoch) if found.epoch else 0)
    return found


async def opened(world: World, *, waiting: int = 3) -> list[str]:
    """A breaker that two of three failed jobs opened, and jobs that wait at it."""
    await with_breaker(world)
    jobs = await posted(world, *range(100, 100 + MIN_CALLS))
    for job_id in jobs:
        await ends(world, job_id)
    assert (await breaker_of(world)).state is BreakerState.OPEN
    return [await after_a_second(world, number) for number in range(waiting)]


async def after_a_second(world: World, number: int) -> str:
    world.clock.advance(1)
    return (await posted(world, number))[0]


async def later(world: World, seconds: float) -> None:
    """The call of the desk that was asked for comes."""
    world.clock.advance(seconds)
    await desks_look(world)


async def desks_look(world: World) -> None:
    from shared.operations.gates.freed import let_in
    from shared.operations.jobs.admission import notify

    await notify(world.context, world.orchestrations, "tenant_a", await let_in(world.context, "tenant_a"))


async def inside(world: World, jobs: list[str]) -> list[str]:
    found = zip(jobs, await statuses(world, jobs), strict=True)
    return [job_id for job_id, status in found if status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS)]
