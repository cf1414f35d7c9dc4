"""Jobs that wait for other jobs (R53)."""

from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.job import Job
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.dependants import AT_ONCE
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.sweeper.sweep import sweep
from shared.refusals import DependencyUnknown, IdempotencyConflict, NotRedrivable
from tests.operations.conftest import World
from tests.operations.support import (
    ERROR,
    answered,
    by,
    cancelled,
    control,
    create_numbered,
    dispatch,
    limited,
    redrive,
    relisted,
    service_sends,
    swept,
)


async def made(world: World, number: int, **changes: Any) -> str:
    return (await create_numbered(world, number, **changes)).stored.record.job.job_id


async def ends(world: World, job_id: str, number: int, **fields: Any) -> None:
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", number, **fields)


async def fails(world: World, job_id: str, number: int) -> None:
    await ends(world, job_id, number, status="FAILED_FINAL", error=ERROR, result_ref=None)


async def job(world: World, job_id: str) -> Job:
    return (await world.job(job_id)).job


async def test_a_job_begins_when_those_before_it_have_ended(world: World) -> None:
    """By id and by key; each end counts once, and the last one starts it."""
    first, second = await made(world, 1), await made(world, 2, idempotency_key="second")
    waits = await made(world, 3, dependencies=[first, "key:second", first])
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    assert (await job(world, waits)).dependencies == [first, second]
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    await ends(world, second, 2)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED
    assert waits in world.orchestrations.started
    await ends(world, waits, 3)
    assert (await job(world, waits)).status is JobStatus.SUCCEEDED
    admission = await world.index.admissions.read("tenant_a")
    assert admission is not None
    assert (admission.admission.staged, dict(admission.admission.queues)) == (0, {})


async def test_those_that_have_ended_hold_nobody(world: World) -> None:
    """The creation itself counts them, and starts the job."""
    first = await made(world, 1)
    await ends(world, first, 1)
    later = await made(world, 2, dependencies=[first])
    assert (await job(world, later)).status is JobStatus.QUEUED
    assert later in world.orchestrations.started


@pytest.mark.parametrize("before", [True, False], ids=["before it was submitted", "after"])
@pytest.mark.parametrize(("policy", "status"), [("fail", "FAILED_FINAL"), ("run", "QUEUED")])
async def test_a_failure_fails_it_or_not(world: World, before: bool, policy: str, status: str) -> None:
    """As the request defines; the reason names the job that failed."""
    first = await made(world, 1)
    if before:
        await fails(world, first, 1)
    waits = await made(world, 2, dependencies=[first], on_dependency_failure=policy)
    if not before:
        await fails(world, first, 1)
        await answered(world)
    found = await job(world, waits)
    assert found.status == status
    if status == "FAILED_FINAL":
        assert found.error_code == "DEPENDENCY_FAILED"
        assert first in (found.error_message or "")


async def test_a_chain_fails_link_by_link(world: World) -> None:
    """Each call ends one job and sends the next call: no recursion, at any length."""
    chain = [await made(world, 0)]
    for number in range(1, 30):
        chain.append(await made(world, number, dependencies=[chain[-1]]))
    await cancelled(world, chain[0])
    await answered(world)
    assert {(await job(world, each)).status for each in chain[1:]} == {JobStatus.FAILED_FINAL}


async def test_the_sweeper_alone_moves_them(world: World) -> None:
    """Each call is lost: a minute later the sweeper does its work."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await ends(world, first, 1)
    world.clock.advance(61)
    await swept(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def test_more_dependants_than_one_call_notifies(world: World) -> None:
    """The first ones are notified with the end, a call notifies the rest, and only then the job is closed."""
    first = await made(world, 0)
    waiting = [await made(world, number, dependencies=[first]) for number in range(1, AT_ONCE + 6)]
    await ends(world, first, 1)
    assert await world.index.read_active("tenant_a", first) is not None
    await answered(world)
    assert {(await job(world, each)).status for each in waiting} == {JobStatus.QUEUED}
    assert await world.index.read_active("tenant_a", first) is None


async def test_they_line_up_at_their_gates(world: World) -> None:
    """A dependant holds no slot while it waits, and enters the gates like any other job."""
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    other = await made(world, 3)
    await ends(world, first, 1)
    await answered(world)
    assert ((await job(world, other)).status, (await job(world, waits)).status) == ("QUEUED", "THROTTLED")
    await ends(world, other, 2)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def test_a_paused_dependant_goes_on_counting(world: World) -> None:
    """Resumed, it is where its dependencies have brought it."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await control(world, waits, ControlKind.PAUSE)
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.PAUSED
    await control(world, waits, ControlKind.RESUME)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def test_a_cancelled_dependant_is_counted_nowhere(world: World) -> None:
    """The end of the other job finds the cancellation, and deletes its row."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await cancelled(world, waits)
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.CANCELLED
    assert not await world.index.list_dependants("tenant_a", first, limit=9)


async def test_what_is_no_job_of_the_tenants_is_refused(world: World) -> None:
    """For a job of another tenant, an unknown id and an unknown key: the same message, and nothing is written."""
    foreign = await made(world, 1, tenant_id="tenant_b")
    for name in (foreign, "job_of_nobody", "key:nothing"):
        with pytest.raises(DependencyUnknown, match=name):
            await made(world, 2, dependencies=[name])
    assert await world.index.list_jobs("tenant_a", after=None, limit=9) == []


async def test_other_dependencies_are_another_request(world: World) -> None:
    """The same key with other dependencies is a conflict; their order is not."""
    first, second = await made(world, 1), await made(world, 2)
    once = await made(world, 3, idempotency_key="k", dependencies=[first, second])
    assert await made(world, 3, idempotency_key="k", dependencies=[second, first]) == once
    with pytest.raises(IdempotencyConflict):
        await made(world, 3, idempotency_key="k", dependencies=[first])


async def test_a_redrive_waits_again(world: World) -> None:
    """For the job that redrove the failed one; refused without such a job, unless the request ignores dependencies."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await cancelled(world, first)
    await answered(world)
    with pytest.raises(NotRedrivable) as refused:
        await redrive(world, waits)
    assert refused.value.code == "DEPENDENCY_FAILED"
    heir = (await redrive(world, first)).stored.record.job.job_id
    again = (await redrive(world, waits)).stored.record.job
    assert (again.status, again.dependencies) == (JobStatus.WAITING_FOR_JOBS, [heir])
    await ends(world, heir, 1)
    await answered(world)
    assert (await job(world, again.job_id)).status is JobStatus.QUEUED


async def test_a_redrive_that_waits_for_none(world: World) -> None:
    """`ignoreDependencies` starts at once; so does a redrive of a job that had started."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await cancelled(world, first)
    await answered(world)
    new = await redrive_job(world.context, world.orchestrations, waits, by(), ignore_dependencies=True)
    assert new.stored.record.job.status is JobStatus.QUEUED
    await cancelled(world, new.stored.record.job.job_id)
    assert (await redrive(world, new.stored.record.job.job_id)).stored.record.job.status is JobStatus.QUEUED


async def test_a_job_that_has_not_begun_in_time_fails(world: World) -> None:
    """The sweeper fails it in any wait; a job that has started continues."""
    soon = world.clock.now() + timedelta(minutes=10)
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    runs = await made(world, 1, expires_at=soon)
    waits, dependant = await made(world, 2, expires_at=soon), await made(world, 3, dependencies=[runs], expires_at=soon)
    paused = await made(world, 4, expires_at=soon)
    await control(world, paused, ControlKind.PAUSE)
    world.clock.advance(601)
    await sweep(world.context, world.orchestrations)
    assert [(await job(world, each)).error_code for each in (waits, dependant, paused)] == ["TIME_EXCEEDED"] * 3
    assert (await job(world, runs)).status is JobStatus.QUEUED
    assert await relisted(world) == 0


async def test_an_hourly_look_counts_no_end_twice(world: World) -> None:
    """One of two has ended and is counted: the job waits for the other one, after any number of checks."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await made(world, 3, dependencies=[first, second])
    await ends(world, first, 1)
    await answered(world)
    for _ in range(3):
        world.clock.advance(3601)
        await swept(world)
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    await ends(world, second, 2)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def test_a_lost_row_of_a_dependency_is_made_up_for(world: World) -> None:
    """No call names its end: an hour later the job counts it."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await world.index.drop_dependant("tenant_a", first, waits)
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    world.clock.advance(3661)
    await swept(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED
