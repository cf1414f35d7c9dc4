"""The attempt that a RESULT records for the next step, and all that can come before its directive is sent."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import VerdictKind
from shared.operations.process.recent_jobs import RecentJobs
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import noted
from tests.operations.support import control, dispatch, failed_at_embedding, redrive, service_sends, submitted, swept

NEXT = "embedding"


async def first_done(world: World, **changes: object) -> str:
    """Returns a job whose first step has just succeeded."""
    job_id = await submitted(world, **changes)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    return job_id


async def types(world: World, job_id: str) -> list[str]:
    return [event.type for event in await world.ledger.events(job_id)]


async def status(world: World, job_id: str) -> tuple[JobStatus, StepStatus, int]:
    record = await world.job(job_id)
    return record.job.status, record.steps[1].status, record.steps[1].attempt_no


def apart(world: World) -> World:
    """Another process."""
    return replace(world, context=changed(world.context, recent_jobs=RecentJobs()))


async def test_a_result_records_the_next_attempt(world: World) -> None:
    """Two EVENT rows in one transaction, with the cause of `dispatch`; the directive is sent without another row."""
    salts = map("{:032x}".format, itertools.count())
    world = replace(world, context=changed(world.context, new_salt=lambda: next(salts)))
    job_id = await submitted(world)
    await dispatch(world, job_id)
    commits = noted(world.ledger, "commit")
    await service_sends(world, job_id, "RESULT", 1)
    result, recorded = (await world.ledger.events(job_id))[-2:]
    assert (result.type, recorded.type, recorded.step_id) == ("RESULT", "ATTEMPT_RECORDED", NEXT)
    assert (recorded.cause_id, recorded.actor, recorded.source) == (f"dispatch:{job_id}:{NEXT}:1", "system", "bus")
    assert recorded.salt != result.salt
    assert (await dispatch(world, job_id, NEXT)).kind is VerdictKind.SENT
    assert len(commits) == 1
    step = (await world.job(job_id)).steps[1]
    directive = world.publisher.sent[-1]
    assert (directive.stepId, directive.lease_id, directive.lane) == (NEXT, step.lease_id, 15)


@pytest.mark.parametrize("late", [9, 11, 3_600])
async def test_a_late_engine_uses_up_no_attempt(world: World, late: int) -> None:
    """Past a third of the ACK timeout the lease is renewed, so that its service has all of the time."""
    job_id = await first_done(world)
    world.clock.advance(late)
    verdict = await dispatch(world, job_id, NEXT)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.SENT, 1)
    assert (verdict.until - world.clock.now()).total_seconds() == (21 if late == 9 else 30)
    assert (await types(world, job_id)).count("LEASE_RENEWED") == (late > 10)
    assert await status(world, job_id) == (JobStatus.IN_PROGRESS, StepStatus.INITIATED, 1)


async def test_a_late_dispatch_sends_nothing_after_the_total_time(world: World) -> None:
    """It is over before the directive was sent: the job ends."""
    job_id = await first_done(world)
    deadline = (await world.job(job_id)).job.deadline_at
    assert deadline is not None
    world.clock.advance((deadline - world.clock.now()).total_seconds())
    sent = len(world.publisher.sent)
    assert (await dispatch(world, job_id, NEXT)).kind is VerdictKind.END
    assert len(world.publisher.sent) == sent
    assert (await world.job(job_id)).job.error_code == "TIME_EXCEEDED"


async def test_a_lost_event_uses_up_no_attempt(world: World) -> None:
    """The sweeper sends a look to an orchestration at the step before, and ends no attempt that was not sent."""
    job_id = await first_done(world)
    for _ in range(3):
        world.clock.advance(301)
        assert await swept(world) == ["raise look:1"]
        assert await status(world, job_id) == (JobStatus.IN_PROGRESS, StepStatus.INITIATED, 1)
    world.clock.advance(301)
    assert await swept(world) == ["replace"]
    assert (await dispatch(world, job_id, NEXT, f"{job_id}.r1")).kind is VerdictKind.SENT
    assert world.publisher.message_ids[-1] == f"{job_id}:{NEXT}:1"


@pytest.mark.parametrize("process", [lambda world: world, apart])
async def test_a_dispatch_that_runs_twice_sends_one_message_id(world: World, process: Callable[[World], World]) -> None:
    """In the process that took the RESULT and in another one, with one lease."""
    job_id = await first_done(world)
    for each in (world, process(world)):
        assert (await dispatch(each, job_id, NEXT)).kind is VerdictKind.SENT
    assert world.publisher.message_ids[-2:] == [f"{job_id}:{NEXT}:1"] * 2
    assert len({directive.lease_id for directive in world.publisher.sent[-2:]}) == 1


@pytest.mark.parametrize("process", [lambda world: world, apart])
async def test_a_result_that_comes_twice_records_one_attempt(world: World, process: Callable[[World], World]) -> None:
    """Killed before the event, in any process: the second delivery finds the first one's EVENT, and only notifies."""
    job_id = await first_done(world)
    lease_id = (await world.job(job_id)).steps[1].lease_id
    world.orchestrations.raised.clear()
    await service_sends(process(world), job_id, "RESULT", 1)
    assert world.orchestrations.raised == [("result:ocr:1", {"next": "NEXT"})]
    assert (await types(world, job_id)).count("ATTEMPT_RECORDED") == 2
    assert (await world.job(job_id)).steps[1].lease_id == lease_id


async def test_a_pause_before_the_publish_lets_the_step_run(world: World) -> None:
    """The attempt is in flight: PAUSING until its step has ended, and no attempt is used up."""
    job_id = await first_done(world)
    await control(world, job_id, ControlKind.PAUSE)
    assert (await world.job(job_id)).job.status is JobStatus.PAUSING
    assert (await dispatch(world, job_id, NEXT)).kind is VerdictKind.SENT
    await service_sends(world, job_id, "RESULT", 2, step_id=NEXT)
    record = await world.job(job_id)
    assert (record.job.status, record.steps[2].status) == (JobStatus.PAUSED, StepStatus.PENDING)
    assert record.job.attempts_total == 2


async def test_a_cancel_before_the_publish_sends_nothing(world: World) -> None:
    """CANCELLING, and CANCELLED when the lease of the attempt ends."""
    job_id = await first_done(world)
    await control(world, job_id, ControlKind.CANCEL)
    sent = len(world.publisher.sent)
    verdict = await dispatch(world, job_id, NEXT)
    assert (verdict.kind, len(world.publisher.sent)) == (VerdictKind.AWAIT_ACK, sent)
    world.clock.advance(91)
    await swept(world)
    assert await status(world, job_id) == (JobStatus.CANCELLED, StepStatus.CANCELLED, 1)


async def test_a_publish_fault_backs_off_as_before(world: World) -> None:
    """The same attempt is sent after the backoff."""
    job_id = await first_done(world)
    world.publisher.failing = True
    verdict = await dispatch(world, job_id, NEXT)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.PUBLISH_FAILED, 1)
    world.publisher.failing = False
    world.clock.advance((verdict.until - world.clock.now()).total_seconds())
    assert (await dispatch(world, job_id, NEXT)).attempt_no == 1
    assert world.publisher.message_ids[-1] == f"{job_id}:{NEXT}:1"


async def test_a_redrive_records_no_attempt_ahead(world: World) -> None:
    """`dispatch` records the first attempt of a new job, at any first step."""
    job_id = await failed_at_embedding(world)
    new = (await redrive(world, job_id)).stored.record
    assert [step.status for step in new.steps] == [StepStatus.SUCCEEDED, StepStatus.PENDING, StepStatus.PENDING]
    assert (await dispatch(world, new.job.job_id, NEXT)).attempt_no == 1
