"""A sweep does not check a job that was set aside and to which nothing is owed (R49, R53)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.support import answered, control, create_numbered, dispatch, service_sends


async def paused_dependant(world: World, **changes: object) -> str:
    """Returns a paused job whose only dependency has succeeded since."""
    first = (await create_numbered(world, 1)).stored.record.job.job_id
    waits = (await create_numbered(world, 2, dependencies=[first], **changes)).stored.record.job.job_id
    await control(world, waits, ControlKind.PAUSE)
    await dispatch(world, first)
    await service_sends(world, first, "RESULT", 1)
    await answered(world)
    assert (await world.job(waits)).job.status is JobStatus.PAUSED
    return waits


async def looks(world: World, minutes: int) -> int:
    """Returns the number of jobs that the sweeps of this number of minutes check."""
    count = 0
    for _ in range(minutes):
        world.clock.advance(61)
        count += (await sweep(world.context, world.orchestrations)).looked_at
    return count


async def test_a_paused_dependant_is_checked_once_after_its_dependencies_ended(world: World) -> None:
    """Its call may be lost; after that nothing is owed until it is resumed, and then it starts."""
    job_id = await paused_dependant(world)
    assert await looks(world, 3) <= 2
    assert await looks(world, 10) == 0
    await control(world, job_id, ControlKind.RESUME)
    await answered(world)
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED


async def test_a_resume_that_died_is_made_up_for_by_the_sweeper(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transition was committed, and its process died before the place followed."""
    job_id = await paused_dependant(world)
    await looks(world, 5)

    async def died(*_: object, **__: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr("shared.operations.jobs.control_job.reconcile_place", died)
        with pytest.raises(ConnectionError):
            await control(world, job_id, ControlKind.RESUME)
    await looks(world, 2)
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED


async def test_a_paused_dependant_expires_at_its_time(world: World) -> None:
    at = world.clock.now() + timedelta(hours=2)
    job_id = await paused_dependant(world, expires_at=at.isoformat())
    await looks(world, 3)
    assert await looks(world, 30) == 0
    world.clock.time = at
    await looks(world, 1)
    assert (await world.job(job_id)).job.status.terminal
