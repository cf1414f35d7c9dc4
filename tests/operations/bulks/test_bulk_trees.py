"""Bulk operations on a job and on the jobs below it that failed because of it (R66)."""

from __future__ import annotations

import pytest

from shared.core.bulks import Bulk, BulkState
from shared.core.jobs.states import JobStatus
from shared.operations.bulks.bulks import redrive_tree
from shared.refusals import NotRedrivable
from tests.operations.conftest import World
from tests.operations.support import answered, cancelled, redrive
from tests.worlds.bulks import TENANT, later, made, outcomes, status, worked


async def tree(world: World, size: int) -> list[str]:
    """Jobs of which each waits for one or two earlier ones, by the first alone or with the one before."""
    jobs = [await made(world, 0)]
    for number in range(1, size):
        named = {jobs[(number - 1) // 3], jobs[number - 1]} if number % 5 == 0 else {jobs[(number - 1) // 3]}
        jobs.append(await made(world, number, dependencies=sorted(named)))
    return jobs


async def below(world: World, root: str) -> Bulk:
    return (await redrive_tree(world.context, root, reason="repaired", actor="app:1"))[0]


async def redriven_whole(world: World, size: int) -> None:
    jobs = await tree(world, size)
    unrelated = await made(world, size + 1)
    spared = await made(world, size + 2, dependencies=[jobs[0]], on_dependency_failure="run")
    given_up = await made(world, size + 3, dependencies=[jobs[0]])
    await cancelled(world, given_up)
    await cancelled(world, jobs[0])
    await answered(world)
    assert {await status(world, each) for each in jobs[1:]} == {JobStatus.FAILED_FINAL}
    await later(world)
    found = await worked(world, bulk := await below(world, jobs[0]))
    assert (found.state, found.matched, found.done, found.refused) == (BulkState.DONE, size, size, 0)
    items = await outcomes(world, bulk)
    assert items.keys() == set(jobs)
    assert await status(world, unrelated) is JobStatus.QUEUED
    assert await status(world, spared) is JobStatus.QUEUED
    for job_id in jobs[1:]:
        old = (await world.job(job_id)).job
        new = (await world.job(items[job_id].new_job_id or "")).job
        assert new.status is JobStatus.WAITING_FOR_JOBS
        assert new.dependencies == [items[each].new_job_id for each in old.dependencies or ()]
        assert old.redriven_by == new.job_id


async def test_a_tree_is_redriven_with_its_root(world: World) -> None:
    """Each job that failed because of the root is redriven once, after all its dependencies, and no other job."""
    await redriven_whole(world, 100)


@pytest.mark.long
async def test_a_large_tree_is_redriven_with_its_root(world: World) -> None:
    """The tree has as many jobs as may wait at once, and two more."""
    await redriven_whole(world, 998)


async def test_a_tree_whose_root_was_redriven_before(world: World) -> None:
    """The jobs below an earlier job of the redrive chain are found too, for each job of it that is named."""
    root = await made(world, 1)
    waits = await made(world, 2, dependencies=[root])
    await cancelled(world, root)
    await answered(world)
    await later(world)
    heir = (await redrive(world, root)).stored.record.job.job_id
    await cancelled(world, heir)
    await later(world)
    bulk = await below(world, heir)
    assert (await worked(world, bulk)).done == 2
    assert waits in await outcomes(world, bulk)


async def test_a_job_that_failed_for_another_one_too(world: World) -> None:
    """No process redrives the other one: the job is refused in the end, with its id."""
    root, other = await made(world, 1), await made(world, 2)
    both = await made(world, 3, dependencies=[root, other])
    await cancelled(world, root)
    await cancelled(world, other)
    await answered(world)
    await later(world)
    found = await worked(world, bulk := await below(world, root))
    assert (found.state, found.done, found.refused) == (BulkState.DONE, 1, 1)
    assert (await outcomes(world, bulk))[both].code == "DEPENDENCY_FAILED"
    await later(world)
    assert (await worked(world, await below(world, other))).done == 2


async def test_a_root_that_cannot_be_redriven(world: World) -> None:
    """No bulk is created."""
    with pytest.raises(NotRedrivable):
        await below(world, await made(world, 1))
    assert await world.context.bulks.list_bulks(TENANT, after=None, limit=9) == []
