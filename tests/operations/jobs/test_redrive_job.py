import asyncio
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from shared.core.jobs.as_of import find_total_time, make_creation_data
from shared.core.jobs.directive import directive_of, encode_directive
from shared.core.jobs.history import Provenance, append
from shared.core.jobs.job import Job, Step
from shared.core.jobs.redrive import JOB_KEPT, STEP_CARRIED, STEP_KEPT, plan_redrive
from shared.core.jobs.states import JobStatus, StepStatus
from shared.errors import ConfigurationUnavailable, CreationWithdrawn
from shared.operations.sweeper.repair import WITHDRAW_AFTER
from shared.operations.sweeper.sweep import sweep
from shared.refusals import JobNotFound, LimitReached, NotRedrivable, RequestInvalid
from tests.audit_bundles import check_chain
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import (
    by,
    cancelled,
    dispatch,
    failed_at_embedding,
    limited,
    redrive,
    service_sends,
    submitted,
)


async def test_a_failed_job_goes_on_where_it_failed(world: World) -> None:
    """A new job with the results of the steps before, linked both ways, that runs the rest to its end."""
    old_id = await failed_at_embedding(world)
    old = await world.job(old_id)
    world.clock.advance(3600)
    redriven = await redrive(world, old_id)
    new = redriven.stored.record
    assert not redriven.replayed
    assert (new.job.redrive_of, new.job.status, new.job.current_step_id) == (old_id, JobStatus.QUEUED, "embedding")
    ocr, embedding, sis = new.steps
    assert (ocr.status, ocr.carried, ocr.attempt_no, ocr.result_ref) == (
        StepStatus.SUCCEEDED,
        True,
        0,
        old.steps[0].result_ref,
    )
    assert {(step.status, step.attempt_no, step.carried) for step in (embedding, sis)} == {
        (StepStatus.PENDING, 0, False)
    }
    assert (new.job.input_ref, new.job.labels, sis.payload) == (old.job.input_ref, old.job.labels, old.steps[2].payload)
    assert world.orchestrations.started[-1] == new.job.job_id
    new_id = new.job.job_id
    await dispatch(world, new_id)
    await dispatch(world, new_id, "embedding")
    directive = world.publisher.sent[-1]
    assert (directive.jobId, directive.attempt_no) == (new_id, 1)
    assert directive.input_ref.uri == (old.steps[0].result_ref or {})["uri"]
    await service_sends(world, new_id, "RESULT", 3, step_id="embedding")
    await dispatch(world, new_id, "sis")
    await service_sends(world, new_id, "RESULT", 4, step_id="sis")
    assert (await world.job(new_id)).job.status is JobStatus.SUCCEEDED
    check_chain(await world.ledger.events(new_id))


async def test_the_old_job_only_learns_who_took_its_place(world: World) -> None:
    """`redriven_by`, one EVENT with the reason, and nothing else."""
    old_id = await failed_at_embedding(world)
    before = await world.job(old_id)
    world.clock.advance(3600)
    new_id = (await redrive(world, old_id)).stored.record.job.job_id
    after = await world.job(old_id)
    assert after.steps == before.steps
    changed = {field.name for field in fields(Job) if getattr(after.job, field.name) != getattr(before.job, field.name)}
    assert changed == {"redriven_by", "event_seq", "event_hash", "updated_at"}
    assert after.job.redriven_by == new_id
    event = (await world.ledger.events(old_id))[-1]
    assert (event.type, event.reason, event.actor, event.job_to) == ("JOB_REDRIVEN", "fixed", "caller", "FAILED_FINAL")
    check_chain(await world.ledger.events(old_id))


async def test_twice_is_the_same_job(world: World) -> None:
    """For a repetition, also at the same time and after the claim's time, the response is the first new job."""
    old_id = await failed_at_embedding(world)
    both = await asyncio.gather(redrive(world, old_id), redrive(world, old_id))
    [new_id] = {created.stored.record.job.job_id for created in both}
    before = await world.job(old_id)
    await cancelled(world, new_id)
    world.clock.advance(100 * 86_400)
    again = await redrive(world, old_id, "once more")
    assert (again.stored.record.job.job_id, again.replayed) == (new_id, True)
    assert await world.job(old_id) == before
    assert [event.type for event in await world.ledger.events(old_id)].count("JOB_REDRIVEN") == 1


@pytest.mark.parametrize("port", ["index.reserve", "ledger.create", "ledger.commit", "orchestrations.start"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_anywhere_the_next_call_finishes(world: World, port: str, after: bool) -> None:
    """Killed before or after each write: one new job, linked and started."""
    old_id = await failed_at_embedding(world)
    owner, name = port.split(".")
    with failing(getattr(world, owner), name, error=KeyboardInterrupt, after=after), pytest.raises(KeyboardInterrupt):
        await redrive(world, old_id)
    world.clock.advance(10)
    new_id = (await redrive(world, old_id, "again")).stored.record.job.job_id
    assert (await world.job(old_id)).job.redriven_by == new_id
    assert (await world.job(new_id)).job.redrive_of == old_id
    assert new_id in world.orchestrations.started
    listed = await world.index.list_jobs("tenant_a", after=None, limit=10)
    assert sorted(line.job_id for line in listed) == sorted([old_id, new_id])
    check_chain(await world.ledger.events(new_id))


async def test_a_redrive_that_died_after_its_claim_is_withdrawn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper withdraws the claim; the next redrive is another new job."""
    old_id = await failed_at_embedding(world)
    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "create", None)
        with pytest.raises(TypeError):
            await redrive(world, old_id)
    world.clock.advance(WITHDRAW_AFTER.total_seconds() + 60)
    await sweep(world.context, world.orchestrations)
    new_id = (await redrive(world, old_id)).stored.record.job.job_id
    assert (await world.job(old_id)).job.redriven_by == new_id
    assert (await world.job(new_id)).job.status is JobStatus.QUEUED


async def test_a_late_finisher_meets_the_tombstone(world: World) -> None:
    """Its claim is withdrawn between the read and the write: the call fails, and nothing is linked."""
    old_id = await failed_at_embedding(world)

    async def withdrawn() -> None:
        world.clock.advance(WITHDRAW_AFTER.total_seconds() + 60)
        await sweep(world.context, world.orchestrations)

    meanwhile(world.index, "reserve", withdrawn, after=True)
    with pytest.raises(CreationWithdrawn):
        await redrive(world, old_id)
    assert (await world.job(old_id)).job.redriven_by is None


async def test_only_ended_and_unsuccessful_jobs_are_redriven(world: World) -> None:
    """A job that is not there, one that lives and one that SUCCEEDED are refused, each with its reason."""

    async def reason(job_id: str) -> str:
        with pytest.raises(NotRedrivable) as refused:
            await redrive(world, job_id)
        return refused.value.code

    with pytest.raises(JobNotFound):
        await redrive(world, "job_none")
    live = await submitted(world)
    assert await reason(live) == "JOB_LIVE"
    done = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, done)
    await service_sends(world, done, "RESULT", 1)
    assert await reason(done) == "JOB_SUCCEEDED"


async def test_a_cancelled_job_starts_from_where_it_was(world: World) -> None:
    """Nothing succeeded: every step runs."""
    old_id = await submitted(world)
    await cancelled(world, old_id)
    new = (await redrive(world, old_id)).stored.record
    assert [step.status for step in new.steps] == [StepStatus.PENDING] * 3


async def test_a_job_cancelled_at_its_end_runs_its_last_step_again(world: World) -> None:
    """Cancelled while the last step was at work that then succeeded: there is always something to run."""
    old_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, old_id)
    await cancelled(world, old_id)
    await service_sends(world, old_id, "RESULT", 1)
    assert (await world.job(old_id)).job.status is JobStatus.CANCELLED
    new = (await redrive(world, old_id)).stored.record
    assert [(step.status, step.carried) for step in new.steps] == [(StepStatus.PENDING, False)]


async def test_a_redrive_of_a_redrive(world: World) -> None:
    """The new job may fail and be redriven, its carried steps carried on. Its directives name the first job."""
    first = await failed_at_embedding(world)
    second = (await redrive(world, first)).stored.record.job.job_id
    await cancelled(world, second)
    third = (await redrive(world, second)).stored.record
    assert (third.job.redrive_of, third.job.first_job_id, third.steps[0].carried) == (second, first, True)
    sent = directive_of(third, third.steps[1])
    assert (sent.jobId, sent.first_job_id) == (third.job.job_id, first)
    job = await world.job(first)
    assert b"first_job_id" not in encode_directive(directive_of(job, job.steps[1]))


@pytest.mark.parametrize("at", ["ledger.events", "index.reserve", "ledger.create", "ledger.commit"])
async def test_a_redrive_of_a_job_that_is_purged_meanwhile(world: World, at: str) -> None:
    """Race purge: at each moment of the deletion the response is 404 and nothing is created, or a new job that runs."""
    job_id = await failed_at_embedding(world)
    target, method = at.split(".")
    listed, started = len(world.index.listed), len(world.orchestrations.started)

    async def purged() -> None:
        world.ledger.take(job_id)
        await world.ledger.delete_remainder(job_id)

    meanwhile(getattr(world, target), method, purged)
    if at == "ledger.events":
        with pytest.raises(JobNotFound):
            await redrive(world, job_id)
        assert len(world.index.listed) == listed
    else:
        new = (await redrive(world, job_id)).stored.record.job
        assert world.orchestrations.started[started:] == [new.job_id]
        assert (new.status, new.redrive_of) == (JobStatus.QUEUED, job_id)


async def test_a_redrive_counts_against_the_limit(world: World) -> None:
    """It is refused as any new job would be, and nothing is written."""
    old_id = await failed_at_embedding(world)
    world = limited(world, max_inflight_per_tenant=1)
    await submitted(world, doc_id="the only place")
    with pytest.raises(LimitReached) as refused:
        await redrive(world, old_id)
    assert refused.value.limit == "LUCIUS_MAX_INFLIGHT_PER_TENANT"
    assert (await world.job(old_id)).job.redriven_by is None


async def test_the_total_time_of_a_job_starts_again(world: World) -> None:
    """A protocol's cap gives the new job as long as the old one had, pauses not counted."""
    record = (await world.job(await failed_at_embedding(world))).with_job(
        deadline_at=world.clock.now() + timedelta(hours=1)
    )
    provenance = Provenance(cause_id="c", actor="a", source="s", at=world.clock.now(), salt="")
    _, first = append(None, record, "JOB_CREATED", provenance, data=make_creation_data(record))
    later = world.clock.now() + timedelta(days=1)
    new, _ = plan_redrive(
        record, job_id="job_9", created_at=later, allowed=find_total_time(first), origin=by(), salt=""
    )
    assert new.job.deadline_at == later + timedelta(hours=1)


async def test_references_are_asked_for_again(world: World) -> None:
    """A reference that today's lists forbid is refused; nothing is written, and with a wider list it is."""
    job_id = await failed_at_embedding(world)
    settings = replace(world.context.settings, allowed_ref_hosts=frozenset({"elsewhere.example"}))
    strict = replace(world, context=replace(world.context, settings=settings))
    with pytest.raises(RequestInvalid) as refused:
        await redrive(strict, job_id)
    assert [path for path, _ in refused.value.errors] == ["input_ref.uri", "output_ref.uri", "ocr.result_ref.uri"]
    assert len(world.ledger.jobs) == 1
    assert not (await redrive(world, job_id)).replayed


async def test_a_store_that_was_never_read_allows_nothing(world: World) -> None:
    """The allowed references of the tenant are unknown: the request can be sent again when the store responds."""
    closed = replace(world, context=replace(world.context, ref_hosts=None))
    with pytest.raises(ConfigurationUnavailable):
        await submitted(closed)
    assert world.ledger.jobs == {}


def test_every_column_is_either_kept_or_reset() -> None:
    """A column that is added to JOB or STEP must be decided here too."""
    reset = {
        *("job_id", "instance_id", "status", "idempotency_key", "idempotency_hash", "requested_at", "redrive_of"),
        "first_job_id",
        *("redriven_by", "deadline_at", "current_step_id", "current_step_index", "attempts_total"),
        *("error_code", "error_message", "final_output", "first_ack_at", "park_no", "paused_at", "drained_at"),
        *("event_seq", "event_hash", "suppressed", "created_at", "updated_at", "completed_at"),
        *("staged_at", "admitted_at", "total_time_s"),
        *("dependencies", "dependencies_settled_at", "awaited", "expires_at", "changed_priority"),
        "orchestration_failures",
    }
    assert JOB_KEPT | reset == {field.name for field in fields(Job)}
    reset = {
        *(
            "status",
            "carried",
            "attempt_no",
            "lease_id",
            "lease_digest",
            "lease_expires_at",
            "initiated_at",
            "attempt_deadline_at",
            "backlog_since",
            "backlog_until",
        ),
        *("gated_since", "gated_until", "gated_by"),
        *("deadline_at", "due_at", "retry_cause", "ack_failures", "execution_failures", "publish_failures"),
        *("last_error_code", "last_error_message", "progress", "heartbeats", "created_at", "updated_at"),
    }
    assert STEP_KEPT | STEP_CARRIED | reset == {field.name for field in fields(Step)}
