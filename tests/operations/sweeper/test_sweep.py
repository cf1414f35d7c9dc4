from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.core.jobs.states import JobStatus
from shared.core.registry import Registry
from shared.errors import LedgerUnavailable, UnknownStatus
from shared.operations.jobs.create_job import create_job
from shared.operations.protocols.read_versions import read_versions
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from tests.fake_tables import FakeAccount
from tests.jobs import envelope, registry
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import cancelled, died_after_the_claim, dispatch, service_sends, submitted, swept


async def test_a_job_in_order_is_left_alone(world: World) -> None:
    """Young jobs are not checked; a job within its deadline is checked and not changed."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    assert await swept(world) == []
    world.clock.advance(61)
    before = await world.job(job_id)
    await service_sends(world, job_id, "ACK", 1)
    assert await swept(world) == []
    assert (await world.job(job_id)).job.event_seq == before.job.event_seq + 1


async def test_an_unstarted_orchestration_is_started(world: World) -> None:
    """Killed between the rows and the start."""
    job_id = await submitted(world)
    world.orchestrations.states.clear()
    world.orchestrations.started.clear()
    world.clock.advance(61)
    assert await swept(world, dry_run=True) == ["start"]
    assert world.orchestrations.started == []
    assert await swept(world) == ["start"]
    assert world.orchestrations.started == [job_id]
    assert await swept(world) == []


async def test_a_creation_that_nobody_finishes_is_withdrawn(world: World) -> None:
    """After five minutes a tombstone replaces the job, and the claim is free again."""
    job_id = await died_after_the_claim(world)
    world.clock.advance(61)
    assert await swept(world) == []
    world.clock.advance(240)
    assert await swept(world) == ["withdraw"]
    job = (await world.job(job_id)).job
    assert (job.status, job.error_code) == (JobStatus.CANCELLED, "WITHDRAWN")
    created = await create_job(world.context, world.orchestrations, envelope(), correlation_id=None)
    assert not created.replayed
    assert created.stored.record.job.job_id != job_id


async def test_an_ended_job_is_closed(world: World) -> None:
    """Killed between the last RESULT's commit and the index transaction."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    with failing(world.index, "close"), pytest.raises(LedgerUnavailable):
        await service_sends(world, job_id, "RESULT", 1)
    world.clock.advance(61)
    assert await swept(world) == ["close"]
    assert await swept(world) == []
    [listed] = await world.index.list_jobs("tenant_a", after=None, limit=10)
    assert listed.status == "SUCCEEDED"


async def test_a_failed_orchestration_is_restarted_five_times(world: World) -> None:
    """Each restart fences the instance before it; after the fifth the job fails permanently."""
    job_id = await submitted(world)
    for number in range(1, 6):
        instance_id = (await world.job(job_id)).job.instance_id
        world.orchestrations.states[instance_id] = InstanceState.ENDED
        world.clock.advance(301)
        assert await swept(world) == ["restart"]
        assert (await world.job(job_id)).job.instance_id == f"{job_id}.r{number}"
        assert world.orchestrations.started[-1] == f"{job_id}.r{number}"
    world.orchestrations.states[f"{job_id}.r5"] = InstanceState.ENDED
    world.clock.advance(301)
    await swept(world)
    job = (await world.job(job_id)).job
    assert (job.status, job.error_code) == (JobStatus.FAILED_FINAL, "ORCHESTRATION_FAILED")


async def test_a_fault_with_one_job_does_not_stop_the_sweep(world: World) -> None:
    """One job's fault is logged; the others are checked."""
    first, second = await submitted(world), await submitted(world, doc_id="other")
    world.orchestrations.states.clear()
    world.orchestrations.started.clear()
    failing(world.orchestrations, "look_up", only=lambda instance_id: instance_id == first)
    world.clock.advance(61)
    assert await swept(world) == ["failed, retried by a later sweep", "start"]
    assert world.orchestrations.started == [second]


async def test_a_tombstone_whose_sweep_died_is_withdrawn_by_the_next(world: World) -> None:
    """Killed between the tombstone and the index: the next sweep frees the claim."""
    await died_after_the_claim(world)
    world.clock.advance(301)
    with failing(world.index, "withdraw"):
        assert await swept(world) == ["withdraw", "failed, retried by a later sweep"]
    assert await swept(world) == ["withdraw"]
    assert not (await create_job(world.context, world.orchestrations, envelope(), correlation_id=None)).replayed


async def test_a_start_by_the_sweeper_is_in_the_history(world: World) -> None:
    """The actor of the late start, the state before and after; once, for any number of tries."""
    job_id = await submitted(world)
    for _ in range(2):
        world.orchestrations.states.clear()
        world.clock.advance(301)
        assert await swept(world) == ["start"]
    [created, repaired] = await world.ledger.events(job_id)
    assert (created.type, repaired.type, repaired.reason, repaired.source) == (
        "JOB_CREATED",
        "REPAIRED",
        "start",
        "sweeper",
    )
    assert (repaired.data["before"], repaired.data["after"]) == ("no orchestration", f"orchestration {job_id}")


async def test_a_job_beyond_its_time_ends_though_its_orchestration_is_deaf(world: World) -> None:
    """The total time is over while a step waits to begin: the sweeper ends the job, and writes how."""
    job_id = await submitted(world)
    stored = world.ledger.jobs[job_id]
    capped = stored.record.with_job(deadline_at=world.clock.now() + timedelta(seconds=90))
    await world.ledger.commit(stored, capped, [])
    world.clock.advance(61)
    assert await swept(world) == []
    world.clock.advance(301)
    assert await swept(world) == ["end, the time limit is reached"]
    job = (await world.job(job_id)).job
    assert (job.status, job.error_code) == (JobStatus.FAILED_FINAL, "TIME_EXCEEDED")
    assert [event.source for event in await world.ledger.events(job_id)][-1] == "sweeper"
    assert await world.index.due("tenant_a", now=world.clock.now().replace(year=2030), limit=10) == []


async def reserved(world: World, tenant_id: str, number: int) -> str:
    """Returns a job with rows and an idempotency record, and nothing else."""
    created = await create_job(
        world.context,
        world.orchestrations,
        envelope(tenant_id=tenant_id, doc_id=str(number), request_type="OCR", payload={}),
        correlation_id=None,
    )
    return created.stored.record.job.job_id


async def test_a_job_of_a_later_release_is_left_to_it(world: World) -> None:
    """A status that this release does not know is skipped and counted, living or ended; every other job is repaired."""
    _, alive, ended = [await submitted(world, doc_id=name) for name in ("foreign", "alive", "ended")]
    await cancelled(world, ended)
    foreign = failing(world.ledger, "read", error=UnknownStatus, only=lambda job_id: job_id != alive)
    world.orchestrations.states.clear()
    world.clock.advance(3601)
    assert sorted(action.partition(":")[0] for action in await swept(world)) == ["skip", "skip", "start"]
    assert await swept(world) == []
    foreign.ends()
    world.clock.advance(3600)
    assert "start" in await swept(world)


async def test_living_jobs_are_counted_by_version(world: World) -> None:
    """A sweep counts the jobs of each version, also those that wait; an ended one is not counted."""
    first = registry().find("OCR")
    assert first is not None
    second = replace(first, definition=first.definition.model_copy(update={"version": 2}))
    known = Registry([first, second])
    world.context = replace(world.context, registry=known)
    ids = [
        (
            await create_job(
                world.context,
                world.orchestrations,
                envelope(request_type="OCR", payload={}, idempotency_key=str(number), protocol_version=version),
                correlation_id=None,
            )
        ).stored.record.job.job_id
        for number, version in enumerate((1, 2, 2, 2))
    ]
    await cancelled(world, ids[-1])
    world.clock.advance(120)
    await sweep(world.context, world.orchestrations)
    rows = TablesProtocolVersions(FakeAccount(), "gates")
    found = await read_versions(known, rows, "OCR", world.context.sweep_marks, 1)
    assert {each.protocol.key[1]: each.jobs for each in found.versions} == {1: 1, 2: 2}
