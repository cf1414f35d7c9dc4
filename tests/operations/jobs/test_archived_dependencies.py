"""Jobs that wait for jobs of which the ledger has no rows any more, or no readable ones (R53)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.incidents import IncidentKind
from shared.core.jobs.states import JobStatus
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.operations.jobs.dependencies import mark, recount_dependencies
from shared.operations.jobs.related_jobs import dependencies_of, find_missing
from shared.operations.sweeper.retention import clear
from shared.ports.durable import InstanceState
from shared.ports.index import ActiveRow
from shared.refusals import DependencyUnknown, NotRedrivable
from tests.operations.conftest import World
from tests.operations.faults import Fault, failing, noted
from tests.operations.jobs.test_dependencies import ends, job, made
from tests.operations.support import (
    answered,
    cancelled,
    redrive,
    swept,
)


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
    """The job waits again for its open dependencies, and is refused if the archived one did not succeed."""
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
    """The mark counts the other one, after any delay of it, before it raises."""
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
    found = await find_missing(world.context, await job(world, waits))
    assert ([job_id for job_id, _ in found], reads) == ([second], [])


async def test_the_hourly_count_reads_no_job_whose_row_is_there(world: World) -> None:
    """The row of a dependency that has not been counted is sufficient."""
    first = await made(world, 1)
    waits = await made(world, 2, dependencies=[first])
    row, waiting = await active_row(world, waits), await job(world, waits)
    assert row.place is not None
    reads = noted(world.ledger, "read")
    assert not await recount_dependencies(world.context, waiting, row, row.place)
    assert reads == []


@pytest.mark.parametrize("fault", [DataLost("blob"), Undecodable("row", "broken"), UnknownStatus("LATER")])
async def test_a_dependency_that_cannot_be_read_is_listed_without_its_status(world: World, fault: Exception) -> None:
    """It does not hide the others."""
    first, second = await made(world, 1), await made(world, 2)
    waits = await job(world, await made(world, 3, dependencies=[first, second]))
    with failing(world.ledger, "read", error=fault, only=lambda job_id: job_id == first):
        assert await dependencies_of(world.context, waits) == [(first, None), (second, await job(world, second))]
