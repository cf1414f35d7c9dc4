"""Jobs that wait for other jobs (R53)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.incidents import IncidentKind
from shared.core.jobs.job import Job
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.operations.jobs.dependants import AT_ONCE
from shared.operations.jobs.dependencies import mark, recount
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.jobs.related_jobs import dependencies_of, missing_of
from shared.operations.sweeper.retention import clear
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.index import ActiveRow
from shared.refusals import DependencyUnknown, IdempotencyConflict, NotRedrivable
from tests.operations.conftest import World
from tests.operations.faults import Fault, failing, noted
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
    """By id and by key; each end counts once, and the last one lets it begin."""
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
    """As the request says; the reason names the job that failed."""
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
    """Each call ends one job and calls the next: no recursion, whatever the length."""
    chain = [await made(world, 0)]
    for number in range(1, 30):
        chain.append(await made(world, number, dependencies=[chain[-1]]))
    await cancelled(world, chain[0])
    await answered(world)
    assert {(await job(world, each)).status for each in chain[1:]} == {JobStatus.FAILED_FINAL}


async def test_the_sweeper_alone_moves_them(world: World) -> None:
    """Every call is lost: a minute later the sweeper does what they asked for."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await ends(world, first, 1)
    world.clock.advance(61)
    await swept(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def test_more_dependants_than_one_call_notifies(world: World) -> None:
    """The first ones are told with the end, a call tells the rest, and only then the job is closed."""
    first = await made(world, 0)
    waiting = [await made(world, number, dependencies=[first]) for number in range(1, AT_ONCE + 6)]
    await ends(world, first, 1)
    assert await world.index.read_active("tenant_a", first) is not None
    await answered(world)
    assert {(await job(world, each)).status for each in waiting} == {JobStatus.QUEUED}
    assert await world.index.read_active("tenant_a", first) is None


async def test_they_line_up_at_their_gates(world: World) -> None:
    """A dependant holds nothing while it waits, and goes through the gates like any other."""
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
    """The end of the other job finds it gone, and takes its row."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await cancelled(world, waits)
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.CANCELLED
    assert not await world.index.dependants("tenant_a", first, limit=9)


async def test_what_is_no_job_of_the_tenants_is_refused(world: World) -> None:
    """Of another tenant, of nobody, of no key: the same words, and nothing is written."""
    foreign = await made(world, 1, tenant_id="tenant_b")
    for name in (foreign, "job_of_nobody", "key:nothing"):
        with pytest.raises(DependencyUnknown, match=name):
            await made(world, 2, dependencies=[name])
    assert await world.index.list_jobs("tenant_a", after=None, limit=9) == []


async def test_other_dependencies_are_another_request(world: World) -> None:
    """The same key with other dependencies is a conflict; the order in which they are named is none."""
    first, second = await made(world, 1), await made(world, 2)
    once = await made(world, 3, idempotency_key="k", dependencies=[first, second])
    assert await made(world, 3, idempotency_key="k", dependencies=[second, first]) == once
    with pytest.raises(IdempotencyConflict):
        await made(world, 3, idempotency_key="k", dependencies=[first])


async def test_a_redrive_waits_again(world: World) -> None:
    """For the job that took the failed one up; refused while nobody did, but where it is asked to wait for none."""
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
    """`ignoreDependencies` begins at once; a redrive of a job that had begun waits for nobody either."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await cancelled(world, first)
    await answered(world)
    new = await redrive_job(world.context, world.orchestrations, waits, by(), ignore_dependencies=True)
    assert new.stored.record.job.status is JobStatus.QUEUED
    await cancelled(world, new.stored.record.job.job_id)
    assert (await redrive(world, new.stored.record.job.job_id)).stored.record.job.status is JobStatus.QUEUED


async def test_a_job_that_has_not_begun_in_time_fails(world: World) -> None:
    """By the sweeper, wherever it waits; one that has begun goes on."""
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
    """One of two has ended and is counted: the job waits for the other one, after any number of looks."""
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
    """Its end is told to no job: an hour later the job counts it."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await world.index.drop_dependant("tenant_a", first, waits)
    await ends(world, first, 1)
    await answered(world)
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    world.clock.advance(3661)
    await swept(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED


# dependencies that the ledger does not have any more


async def archives(world: World, job_id: str) -> None:
    """Moves an ended job into the archive, a month later."""
    world.orchestrations.states[job_id] = InstanceState.ENDED
    context = replace(world.context, settings=replace(world.context.settings, retention_days=30))
    for hours in (2, 30 * 24):
        world.clock.advance(hours * 3600)
        [row] = [each for each in world.index.ended if each.job_id == job_id]
        await clear(context, world.orchestrations, row)
    assert job_id not in world.ledger.jobs


async def purges(world: World, job_id: str) -> None:
    await archives(world, job_id)
    await world.ledger.delete_remainder(job_id, with_archived=True)


async def leaves(world: World, job_id: str, how: str) -> None:
    """Ends the job, of which the ledger then has no rows."""
    if how == "failed":
        await cancelled(world, job_id)
    else:
        await ends(world, job_id, 1)
    await (purges if how == "purged" else archives)(world, job_id)


LEAVING = pytest.mark.parametrize("how", ["succeeded", "failed", "purged"])


@LEAVING
async def test_an_archived_dependency_counts_as_it_ended(world: World, how: str) -> None:
    """A new job waits for it no more than for any ended job; a purged job is unknown."""
    first = await made(world, 1)
    await leaves(world, first, how)
    if how == "purged":
        with pytest.raises(DependencyUnknown, match=first):
            await made(world, 2, dependencies=[first])
        return
    found = await job(world, await made(world, 2, dependencies=[first]))
    assert found.status == ("QUEUED" if how == "succeeded" else "FAILED_FINAL")
    [(_, shown)] = await dependencies_of(world.context, found)
    assert shown is not None
    assert shown.status == ("SUCCEEDED" if how == "succeeded" else "CANCELLED")


async def test_a_dependency_that_is_purged_before_it_is_marked_failed(world: World) -> None:
    """Its end is not known, and nothing reports it."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    world.ledger.take(first)
    await mark(world.context, world.orchestrations, world.ledger.jobs[waits])
    await answered(world)
    assert (await job(world, waits)).error_code == "DEPENDENCY_FAILED"
    assert await dependencies_of(world.context, await job(world, waits)) == [(first, None)]


@LEAVING
async def test_a_lost_row_of_an_archived_dependency_is_made_up_for(world: World, how: str) -> None:
    """The hourly count reads the archive."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    await world.index.drop_dependant("tenant_a", first, waits)
    await leaves(world, first, how)
    await swept(world)
    assert (await job(world, waits)).status == ("QUEUED" if how == "succeeded" else "FAILED_FINAL")


@LEAVING
async def test_a_redrive_counts_an_archived_dependency_as_it_ended(world: World, how: str) -> None:
    """The job waits again for what it still waited for, and is refused if that did not succeed."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await made(world, 3, dependencies=[first, second])
    await cancelled(world, second)
    await answered(world)
    heir = (await redrive(world, second)).stored.record.job.job_id
    await leaves(world, first, how)
    if how == "succeeded":
        again = (await redrive(world, waits)).stored.record.job
        assert (again.status, again.dependencies) == (JobStatus.WAITING_FOR_JOBS, [first, heir])
        active = await world.index.read_active("tenant_a", again.job_id)
        assert active is not None
        assert active.place is not None
        assert active.place.dependencies_left == 1
    else:
        with pytest.raises(NotRedrivable, match=first):
            await redrive(world, waits)


@pytest.mark.parametrize(
    "broken", [dict.clear, lambda kept: kept.update(dict.fromkeys(kept, "{}"))], ids=["gone", "torn"]
)
async def test_an_archive_that_cannot_be_read_fails_no_job(world: World, broken: Callable[[Any], None]) -> None:
    """The waiting job waits until the bundle is there again; requests that name the archived job are refused."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await made(world, 3, dependencies=[first])
    failed = await made(world, 4, dependencies=[first, second], on_dependency_failure="fail")
    await world.index.drop_dependant("tenant_a", first, waits)
    await cancelled(world, second)
    await answered(world)
    await leaves(world, first, "succeeded")
    kept = dict(world.archive.kept)
    broken(world.archive.kept)
    for _ in range(2):
        await swept(world)
        world.clock.advance(3601)
    assert (await job(world, waits)).status is JobStatus.WAITING_FOR_JOBS
    assert await dependencies_of(world.context, await job(world, waits)) == [(first, None)]
    with pytest.raises((ArchiveGone, ArchiveInvalid), match=first):
        await mark(world.context, world.orchestrations, world.ledger.jobs[waits])
    listed = len(world.index.listed)
    for refused in (redrive(world, failed), made(world, 5, dependencies=[first])):
        with pytest.raises((ArchiveGone, ArchiveInvalid), match=first):
            await refused
    assert len(world.index.listed) == listed
    world.archive.kept.update(kept)
    await swept(world)
    assert (await job(world, waits)).status is JobStatus.QUEUED


async def active_row(world: World, job_id: str) -> ActiveRow:
    row = await world.index.read_active("tenant_a", job_id)
    assert row is not None
    return row


async def test_a_lost_bundle_is_read_once_an_hour_and_has_an_incident(world: World) -> None:
    """Also before the dependencies are marked; the waiting job still expires in time."""
    first = await made(world, 1)
    soon = world.clock.now() + timedelta(days=30, hours=3, minutes=30)
    waits = await made(world, 2, dependencies=[first], expires_at=soon)
    await world.index.drop_dependant("tenant_a", first, waits)
    await leaves(world, first, "succeeded")
    world.archive.kept.clear()
    row = await active_row(world, waits)
    assert row.place is not None
    await world.index.move_place(row, replace(row.place, marked=False), world.clock.now())
    reads = noted(world.archive, "read")
    for seconds, number in ((0, 1), (60, 1), (60, 1), (3500, 2), (60, 2)):
        world.clock.advance(seconds)
        await swept(world)
        assert len(reads) == number
    incident = await world.context.incidents.find_open(IncidentKind.ROW, f"tenant_a ACTIVE:{waits}")
    assert incident is not None
    assert (incident.code, incident.detail) == ("ROW_FAILS", f"ArchiveGone: {ArchiveGone(first)}")
    world.clock.advance((soon - world.clock.now()).total_seconds())
    await swept(world)
    assert (await job(world, waits)).error_code == "TIME_EXCEEDED"


async def test_a_lost_bundle_hides_no_other_dependency(world: World) -> None:
    """The mark counts the other one, however slow that is, before it raises."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await made(world, 3, dependencies=[first, second])
    await world.index.drop_dependant("tenant_a", first, waits)
    await leaves(world, first, "succeeded")
    world.archive.kept.clear()
    world.ledger.take(second)

    async def late(real: Callable[..., Any], *args: Any, **fields: Any) -> Any:
        for _ in range(9):
            await asyncio.sleep(0)
        return await real(*args, **fields)

    with Fault(world.index, ("move_place",), late), pytest.raises(ArchiveGone, match=first):
        await mark(world.context, world.orchestrations, world.ledger.jobs[waits])
    place = (await active_row(world, waits)).place
    assert place is not None
    assert place.failed_dependency == second
    await answered(world)
    assert (await job(world, waits)).error_code == "DEPENDENCY_FAILED"


async def test_what_a_job_still_waits_for_is_read_from_the_ledger_alone(world: World) -> None:
    """An archived dependency has ended, and is not missing."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await made(world, 3, dependencies=[first, second])
    await leaves(world, first, "succeeded")
    reads = noted(world.archive, "read")
    found = await missing_of(world.context, await job(world, waits))
    assert ([job_id for job_id, _ in found], reads) == ([second], [])


async def test_the_hourly_count_reads_no_job_whose_row_is_there(world: World) -> None:
    """The row of a dependency that has not been counted says enough."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    row, waiting = await active_row(world, waits), await job(world, waits)
    assert row.place is not None
    reads = noted(world.ledger, "read")
    assert not await recount(world.context, waiting, row, row.place)
    assert reads == []


@pytest.mark.parametrize("fault", [DataLost("blob"), Undecodable("row", "broken"), UnknownStatus("LATER")])
async def test_a_dependency_that_cannot_be_read_is_listed_without_its_status(world: World, fault: Exception) -> None:
    """It does not hide the others."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await job(world, await made(world, 3, dependencies=[first, second]))
    with failing(world.ledger, "read", error=fault, only=lambda job_id: job_id == first):
        assert await dependencies_of(world.context, waits) == [(first, None), (second, await job(world, second))]
