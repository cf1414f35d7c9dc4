"""An orchestration that is alive and behind: it is woken, and replaced if it ignores its wake-ups."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.history import Origin
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import Shown, VerdictKind
from shared.errors import OrchestrationUnavailable
from shared.operations.jobs.control_job import control_job
from shared.ports.durable import InstanceState
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import dispatch, service_sends, submitted, swept


async def test_an_orchestration_that_missed_an_event_is_asked_to_look(world: World) -> None:
    """The ledger is after step one, the orchestration before it: it receives the look that it waits for."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    world.orchestrations.raised.clear()
    world.orchestrations.shown[job_id] = Shown("ocr", 1, "SENT", 3)
    # a minute past the lease of the attempt that the RESULT recorded
    world.clock.advance(91)
    assert await swept(world) == ["raise look:3"]
    assert world.orchestrations.raised == [("look:3", {})]
    assert [event.type for event in await world.ledger.events(job_id)][-1] == "REPAIRED"


async def test_a_lease_that_nobody_settled_is_settled(world: World) -> None:
    """The orchestration's timer is lost: a minute past the lease the sweeper ends the attempt."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.clock.advance(89)
    assert await swept(world) == []
    world.clock.advance(62)
    assert await swept(world) == ["raise look:1"]
    assert (await world.job(job_id)).steps[0].status is StepStatus.FAILED_RETRY


async def test_an_attempt_that_was_perhaps_never_sent_is_not_used_up(world: World) -> None:
    """Killed between the record and the publish: its orchestration never received it, and sends it when it runs."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.orchestrations.shown.clear()
    for _ in range(3):
        world.clock.advance(301)
        assert await swept(world) == ["raise look:1"]
        assert (await world.job(job_id)).steps[0].status is StepStatus.INITIATED
    world.clock.advance(301)
    assert await swept(world) == ["replace"]
    assert (await dispatch(world, job_id, instance_id=f"{job_id}.r1")).kind is VerdictKind.SENT
    assert world.publisher.message_ids == [f"{job_id}:ocr:1"] * 2
    assert (await world.job(job_id)).job.attempts_total == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_an_orchestration_that_hears_nothing_is_replaced(world: World, begun: bool) -> None:
    """Pending, Running or Suspended without end: after three looks another replaces it, and it is terminated."""
    job_id = await submitted(world)
    if begun:
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1)
    seen = []
    while not world.orchestrations.terminated:
        world.clock.advance(301)
        seen += await swept(world)
    assert seen == [*["raise look:1"] * 3, "replace"]
    assert world.orchestrations.terminated == [job_id]
    assert world.orchestrations.started[-1] == f"{job_id}.r1"
    assert (await dispatch(world, job_id, instance_id=job_id)).kind is VerdictKind.END


async def test_an_orchestration_that_hears_is_not_replaced(world: World) -> None:
    """Late twice: it receives each look, so it works."""
    job_id = await submitted(world)
    for look_no in range(1, 20):
        world.orchestrations.shown[job_id] = Shown(look_no=look_no)
        world.clock.advance(301)
        assert await swept(world) == [f"raise look:{look_no}"]


async def test_a_stuck_orchestration_in_a_deep_queue_is_replaced(world: World) -> None:
    """Between two looks the wait for the queue continues: its looks are counted, in one row per number."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    for _ in range(12):
        world.clock.advance(301)
        await swept(world)
    assert world.orchestrations.terminated == [job_id]
    history = [event.type for event in await world.ledger.events(job_id)]
    assert history == [
        *("JOB_CREATED", "ATTEMPT_RECORDED", "LANE_BACKLOG", "REPAIRED", "ORCHESTRATION_RESTARTED", "REPAIRED"),
    ]


async def grouped(world: World) -> tuple[str, dict[str, str]]:
    """OCR succeeded, EMBEDDING and SIS are a group and out; the job, and the orchestration of each."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    stored = world.ledger.jobs[job_id]
    first, *group = stored.record.steps
    steps = (first, *(replace(step, group=0) for step in group))
    await world.ledger.commit(stored, Record(stored.record.job, steps), [])
    own = {step.step_id: f"{job_id}.s{step.step_index}" for step in group}
    for step_id, instance in own.items():
        world.orchestrations.states[instance] = InstanceState.ALIVE
        verdict = await dispatch(world, job_id, step_id)
        world.orchestrations.shown[instance] = Shown(step_id, 1, verdict.kind.value)
    return job_id, own


async def test_a_lively_sibling_hides_no_stuck_one(world: World) -> None:
    """One receives every look and is late again, the other receives none: the job gets another orchestration."""
    job_id, own = await grouped(world)
    for look_no in range(1, 6):
        world.orchestrations.shown[own["sis"]] = Shown("sis", 1, "SENT", look_no)
        # both time out again and again
        stored = world.ledger.jobs[job_id]
        late = [
            replace(step, status=StepStatus.FAILED_RETRY, due_at=world.clock.now()) for step in stored.record.steps[1:]
        ]
        await world.ledger.commit(stored, Record(stored.record.job, (stored.record.steps[0], *late)), [])
        world.clock.advance(301)
        seen = await swept(world)
        if "replace" in seen:
            break
    assert (look_no, sorted(world.orchestrations.terminated)) == (4, [job_id, *sorted(own.values())])


@pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.CANCEL])
async def test_who_waits_for_a_sibling_owes_nothing(world: World, kind: ControlKind) -> None:
    """A job that is to be paused or cancelled waits for one step of a group: the other's orchestration is in order."""
    job_id, own = await grouped(world)
    await service_sends(world, job_id, "ACK", 2, step_id="embedding")
    failed = {"status": "FAILED_RETRY", "error": {"code": "BUSY", "message": "m"}, "result_ref": None}
    await service_sends(world, job_id, "RESULT", 3, step_id="sis", **failed)
    origin = Origin(cause_id=kind, actor="a", source="http")
    await control_job(world.context, world.orchestrations, job_id, kind, origin)
    world.orchestrations.states[own["sis"]] = InstanceState.ENDED
    for _ in range(2):
        world.clock.advance(301)
        assert await swept(world) == []


@pytest.mark.parametrize("stands", ["recorded", "publish backoff", "group"])
async def test_the_total_time_ends_what_nobody_else_ends(world: World, stands: str) -> None:
    """The engine is gone permanently: in any wait of the step the job ends at its total time, and not before."""
    world.publisher.failing = stands == "publish backoff"
    if stands == "group":
        job_id, _ = await grouped(world)
        await service_sends(world, job_id, "ACK", 2, step_id="embedding")
        origin = Origin(cause_id="p", actor="a", source="http")
        await control_job(world.context, world.orchestrations, job_id, ControlKind.PAUSE, origin)
    else:
        job_id = await submitted(world)
        await dispatch(world, job_id)
        world.orchestrations.shown.clear()
    stored = world.ledger.jobs[job_id]
    long = tuple(replace(step, lease_expires_at=START + timedelta(days=30)) for step in stored.record.steps)
    record = Record(stored.record.job, long if stands == "group" else stored.record.steps)
    await world.ledger.commit(stored, record.with_job(deadline_at=START + timedelta(hours=2)), [])
    while not (await world.job(job_id)).job.status.terminal:
        world.clock.advance(300)
        await swept(world)
    job = (await world.job(job_id)).job
    assert (job.status, job.error_code) == (JobStatus.FAILED_FINAL, "TIME_EXCEEDED")
    assert timedelta(hours=2) < world.clock.now() - START < timedelta(hours=2, minutes=15)


async def test_an_engine_that_terminates_nothing_holds_up_no_replacement(world: World) -> None:
    """The old orchestration is fenced off; its clearing terminates it."""
    failing(world.orchestrations, "terminate", error=OrchestrationUnavailable)
    job_id = await submitted(world)
    seen: list[str] = []
    for _ in range(11):
        world.clock.advance(301)
        seen += await swept(world)
    assert seen == [*["raise look:1"] * 3, "replace", *["raise look:1"] * 6, "replace"]
    assert (await world.job(job_id)).job.instance_id == f"{job_id}.r2"


async def test_an_engine_that_is_away_for_ever_costs_no_job(world: World) -> None:
    """Replacements come ever more rarely, at last each eight hours, and the job is there, as it was."""
    job_id = await submitted(world)
    for _ in range(2 * 24 * 12):
        world.clock.advance(300)
        await swept(world)
    job = (await world.job(job_id)).job
    assert (job.status, job.orchestration_failures) == (JobStatus.QUEUED, 0)
    assert len(world.orchestrations.started) == 10


async def test_a_job_that_was_paused_often_is_resumed_by_one_event(world: World) -> None:
    """Only the newest parking is resumed; an orchestration that waits at an older one receives the sweeper's look."""
    job_id = await submitted(world)
    for number in range(100):
        for kind in (ControlKind.PAUSE, ControlKind.RESUME):
            origin = Origin(cause_id=f"{kind}{number}", actor="a", source="http")
            await control_job(world.context, world.orchestrations, job_id, kind, origin)
    assert [name for name, _ in world.orchestrations.raised] == [f"resume:{number}" for number in range(1, 101)]
    world.clock.advance(301)
    assert await swept(world) == ["raise look:1"]


async def test_a_job_that_waits_before_its_group_is_asked_itself(world: World) -> None:
    """The next steps are a group, whose orchestrations do not exist yet: the job's own receives the look."""
    job_id = await submitted(world)
    stored = world.ledger.jobs[job_id]
    first, *group = stored.record.steps
    done = replace(first, status=StepStatus.SUCCEEDED, attempt_no=1)
    steps = (done, *(replace(step, group=0) for step in group))
    await world.ledger.commit(stored, Record(replace(stored.record.job, attempts_total=1), steps), [])
    heard: list[tuple[str, str]] = []

    async def raise_event(instance_id: str, name: str, data: Any) -> None:
        heard.append((instance_id, name))

    world.orchestrations.raise_event = raise_event  # type: ignore[method-assign]
    world.orchestrations.shown[job_id] = Shown("ocr", 1, "SENT", 2)
    world.clock.advance(61)
    await swept(world)
    assert heard == [(job_id, "look:2")] * 2
    world.orchestrations.states[f"{job_id}.s1"] = InstanceState.ALIVE
    world.clock.advance(301)
    heard.clear()
    await swept(world)
    assert sorted(heard) == [(job_id, "look:2"), (f"{job_id}.s1", "look:1")]
