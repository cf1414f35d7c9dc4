"""Jobs that a rule, a hold, a throttle or an operator admits, and the responses for waiting jobs (R48, R51)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.api.explain import explain
from shared.api.receipt import receipt
from shared.core.gates.admission_state import BlockReason
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.gates.freed import take_turn
from shared.operations.gates.waiting import list_waiting, read_admission, read_position
from shared.operations.quotas import quotas
from shared.operations.quotas.admit_job import admit_job
from shared.refusals import ControlNotPossible, JobNotFound, JobTerminal
from tests.operations.conftest import World
from tests.operations.faults import meanwhile
from tests.operations.support import control, create_numbered, dispatch, history, service_sends
from tests.worlds.gates import (
    OCR,
    OPERATOR,
    OWN,
    SCANNER,
    TENANT,
    created,
    entries,
    held,
    resumed,
    ruled,
    statuses,
    world,
)
from triggers.orchestrate_http import accepted

__all__ = ["world"]  # a fixture


async def test_a_quota_of_two_lets_two_in_and_the_rest_when_it_is_raised(world: World) -> None:
    """Ten posts: two run, eight wait in order; a higher number admits the next ones at once, in that order."""
    await ruled(world, max_active=2)
    jobs = []
    for number in range(10):
        world.clock.advance(1)
        jobs.append(await created(world, number))
    assert await statuses(world, jobs) == [JobStatus.QUEUED] * 2 + [JobStatus.THROTTLED] * 8
    admission, known = await read_admission(world.context, "tenant_a")
    order = await list_waiting(world.context, admission, TENANT, known)
    assert [each.waiting.candidate.job_id for each in order] == jobs[2:]
    assert [each.position for each in order] == list(range(1, 9))
    changed = await ruled(world, seq=1, max_active=5)
    assert await statuses(world, jobs) == [JobStatus.QUEUED] * 5 + [JobStatus.THROTTLED] * 5
    assert (changed.before.rule_seq, changed.after.rule_seq, changed.admission.active, changed.admission.staged) == (
        1,
        2,
        5,
        5,
    )
    await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=2)
    assert await statuses(world, jobs) == [JobStatus.QUEUED] * 10


async def test_a_first_rule_knows_who_is_inside(world: World) -> None:
    """The first rule counts jobs that no gate counted when they were created, and no job is admitted above it."""
    before = [await created(world, number) for number in range(3)]
    changed = await ruled(world, max_active=2)
    assert changed.admission.active == 3
    late = await created(world, 9)
    assert await statuses(world, [late]) == [JobStatus.THROTTLED]
    await dispatch(world, before[0])
    await service_sends(world, before[0], "RESULT", 1)
    assert await statuses(world, [late]) == [JobStatus.THROTTLED]
    await dispatch(world, before[1])
    await service_sends(world, before[1], "RESULT", 2)
    assert await statuses(world, [late]) == [JobStatus.QUEUED]


async def test_the_first_gate_of_a_source_counts_its_jobs(world: World) -> None:
    """Sources are counted only where they have a gate; its first rule counts the jobs that are already admitted."""
    await ruled(world, max_active=50)
    for number in range(3):
        await created(world, number, source=" Scanner-7 " if number else "other")
    changed = await ruled(world, SCANNER, max_active=2)
    assert changed.admission.count_active(SCANNER) == 2
    waits = await created(world, 7, source="scanner-7")
    passes = await created(world, 8, source="other")
    assert await statuses(world, [waits, passes]) == [JobStatus.THROTTLED, JobStatus.QUEUED]


async def test_a_hold_keeps_everybody_out_until_it_is_resumed(world: World) -> None:
    """Its gate alone; running jobs continue, and waiting ones are admitted at the resume."""
    runs = await created(world, 1, source="scanner-7")
    answer = await held(world, SCANNER)
    assert (answer.admission.count_active(SCANNER), answer.after.hold and answer.after.hold.reason) == (1, "month end")
    waits, passes = await created(world, 2, source="scanner-7"), await created(world, 3)
    assert await statuses(world, [runs, waits, passes]) == [JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.QUEUED]
    await resumed(world, SCANNER)
    assert await statuses(world, [waits]) == [JobStatus.QUEUED]


async def test_a_gate_that_opens_by_time_has_one_call_on_its_way(world: World) -> None:
    """R51: at the end of the hold, for any number of new jobs; then they are admitted.

    A raised rule for all calls admission states.
    """
    calls = world.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    until = world.clock.now() + timedelta(hours=1)
    await held(world, until=until)
    jobs = [await created(world, number) for number in range(3)]
    assert calls == [("tenant_a", None, until)]
    world.clock.advance(3600)
    await take_turn(world.context, "tenant_a")
    assert (await read_admission(world.context, "tenant_a"))[0].active == 3
    await held(world)
    jobs.append(await created(world, 9))
    calls.clear()
    await ruled(world, Gate(GateKind.TENANT, EVERY), max_active=1)
    assert calls == [("tenant_a", None, None)]


async def test_a_throttle_starts_as_many_as_its_rate_allows(world: World) -> None:
    """Beside the rule's rate, the smaller one counts; position and rate give a job's time of admission."""
    limit = world.clock.now() + timedelta(hours=2)
    await quotas.throttle(world.context, world.orchestrations, TENANT, OPERATOR, max_per_hour=60, until=limit)
    jobs = [await created(world, number) for number in range(4)]
    assert await statuses(world, jobs) == [JobStatus.QUEUED] + [JobStatus.THROTTLED] * 3
    last = await read_position(world.context, (await world.job(jobs[3])).job)
    assert last is not None
    assert (last.position, last.expected_at) == (3, world.clock.now() + timedelta(minutes=3))


async def test_a_hold_and_its_end_give_no_token_back(world: World) -> None:
    """The credit of a rate for every tenant is kept, else a tenant's own caller could loosen it."""
    await ruled(world, Gate(GateKind.TYPE, EVERY, EVERY), max_per_hour=60, burst=1)
    await created(world, 1)
    await held(world, OCR, by=OWN)
    await resumed(world, OCR, by=OWN)
    assert await statuses(world, [await created(world, 2)]) == [JobStatus.THROTTLED]


async def test_a_rule_for_every_tenant_counts_until_there_is_an_own_one(world: World) -> None:
    """It needs no entry of the tenant; the tenant's own rule overrides it; its queues are called when it is raised."""
    default = Gate(GateKind.TENANT, EVERY)
    await ruled(world, default, max_active=1)
    jobs = [await created(world, number) for number in range(3)]
    assert await statuses(world, jobs) == [JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.THROTTLED]
    await ruled(world, max_active=2)
    assert await statuses(world, jobs) == [JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.THROTTLED]
    await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=None)
    await ruled(world, default, seq=1, max_active=5)
    directory = await world.context.admissions.directory()
    assert {key: rule.max_active for key, (rule, _) in directory.defaults.items()} == {(GateKind.TENANT, ""): 5}
    await quotas.delete_rule(world.context, world.orchestrations, default, OPERATOR, rule_seq=2)
    assert (await world.context.admissions.directory()).defaults == {}
    assert [entry.type for entry in await entries(world, default)] == ["RULE_SET", "RULE_SET", "RULE_DELETED"]


async def test_a_preview_of_a_rule_counts_and_does_nothing(world: World) -> None:
    """The number of jobs that would start, and that would still wait; also for the first rule of a tenant."""
    jobs = [await created(world, number) for number in range(3)]
    first = await quotas.preview_rule(world.context, TENANT, {"max_active": 2}, rule_seq=None)
    assert (first.released, first.held_back, first.changed.admission.active) == (0, 0, 3)
    assert await world.context.admissions.read("tenant_a") is None
    await ruled(world, max_active=2)
    jobs += [await created(world, number) for number in range(3, 8)]
    before = await statuses(world, jobs)
    raised = await quotas.preview_rule(world.context, TENANT, {"max_active": 5}, rule_seq=1)
    assert (raised.released, raised.held_back) == (2, 3)
    gone = await quotas.preview_rule(world.context, TENANT, None, rule_seq=1)
    assert (gone.released, gone.held_back) == (5, 0)
    assert await statuses(world, jobs) == before


async def test_a_waiting_job_names_what_it_waits_for(world: World) -> None:
    """The response to the POST and its explanation have gate, position and time; its receipt has its wait."""
    await ruled(world, max_active=1, max_per_hour=60, burst=9)
    first = await created(world, 1)
    second = await create_numbered(world, 2)
    job_id = second.stored.record.job.job_id
    answer = accepted(second)
    assert (answer.status, answer.gate, answer.position) == (JobStatus.THROTTLED, "tenant tenant_a", 1)
    assert answer.nextEligibleAt is None  # time alone does not start it
    assert str(answer.waits_for).endswith("(1); position 1; starts after a job of this quota ends")
    record = await world.job(job_id)
    standing = await read_position(world.context, record.job)
    text = explain(record, world.clock.now(), None, standing=standing)
    assert (text.gate, text.stopped_by, text.position, text.nextEligibleAt) == (
        "THROTTLED",
        "tenant tenant_a",
        1,
        None,
    )
    assert "tenant tenant_a, which has its maximum of active jobs (1)" in text.text
    world.clock.advance(90)
    await dispatch(world, first)
    await service_sends(world, first, "RESULT", 1)
    record, events = await history(world, job_id)
    assert record.job.status is JobStatus.QUEUED
    world.clock.advance(10)
    spent = receipt(record, events, world.clock.now())
    assert (spent.total.gated_s, spent.total.queue_s) == (90, 10)
    assert receipt(await world.job(first), (await history(world, first))[1], world.clock.now()).total.gated_s == 0


async def test_a_job_behind_a_rate_names_a_time(world: World) -> None:
    """By its position and its gate's rate; for a held job, at the end of the hold at the earliest."""
    await ruled(world, max_per_hour=60, burst=1)
    await created(world, 1)
    now = world.clock.now()
    answers = [accepted(await create_numbered(world, number)) for number in (2, 3)]
    assert [answer.nextEligibleAt for answer in answers] == [now + timedelta(minutes=1), now + timedelta(minutes=2)]
    await held(world, until=now + timedelta(hours=1))
    last = await read_position(world.context, (await world.job(answers[1].jobId)).job)
    assert last is not None
    assert (last.stopped_by.blocked_by, last.expected_at) == (BlockReason.HELD, now + timedelta(hours=1))
    assert last.stopped_by.hold is not None
    assert (last.stopped_by.hold.actor, last.stopped_by.hold.reason) == (OPERATOR.actor, OPERATOR.reason)


async def test_one_job_goes_past_its_gates(world: World) -> None:
    """Past gates shut for any reason; it is counted, no other job is admitted for it, a repetition has no effect.

    The quota's log names the job once, and the job's history names the operator and the reason.
    """
    await ruled(world, max_active=1)
    jobs = [await created(world, number) for number in range(3)]
    await held(world)
    for _ in range(2):
        stored = await admit_job(world.context, world.orchestrations, jobs[2], OPERATOR)
        assert stored.record.job.status is JobStatus.QUEUED
    assert await statuses(world, jobs) == [JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.QUEUED]
    admission, _ = await read_admission(world.context, "tenant_a")
    assert (admission.active, admission.staged, admission.waiting) == (2, 1, 1)
    log = await entries(world)
    assert [entry.type for entry in log] == ["RULE_SET", "HELD", "JOB_ADMITTED"]
    assert log[-1].data == {"job_id": jobs[2], "after": {"job_id": jobs[2]}}
    [event] = [each for each in (await history(world, jobs[2]))[1] if each.type == "ADMITTED"]
    assert (event.actor, event.reason) == (OPERATOR.actor, OPERATOR.reason)
    assert (await ruled(world, seq=2, max_active=2)).after.rule_seq == 3
    await control(world, jobs[1], ControlKind.PAUSE)
    with pytest.raises(ControlNotPossible):
        await admit_job(world.context, world.orchestrations, jobs[1], OPERATOR)
    await control(world, jobs[1], ControlKind.CANCEL)
    with pytest.raises(JobTerminal):
        await admit_job(world.context, world.orchestrations, jobs[1], OPERATOR)
    with pytest.raises(JobNotFound):
        await admit_job(world.context, world.orchestrations, "job_0", OPERATOR)


@pytest.mark.parametrize("before_read", [False, True])
async def test_a_job_that_ends_during_its_admission_is_returned_as_it_ended(world: World, before_read: bool) -> None:
    """Race conflict: a cancel commits after the job got its slot, and before its admission is committed or begins."""
    await ruled(world, max_active=1)
    waiting = [await created(world, number) for number in range(2)][1]
    target, name = (world.index, "move_place") if before_read else (world.ledger, "commit")
    meanwhile(target, name, lambda: control(world, waiting, ControlKind.CANCEL), after=before_read)
    stored = await admit_job(world.context, world.orchestrations, waiting, OPERATOR)
    assert stored.record.job.status is JobStatus.CANCELLED
    await take_turn(world.context, "tenant_a")
    admission, _ = await read_admission(world.context, "tenant_a")
    assert (admission.active, admission.staged, admission.waiting) == (1, 0, 0)


async def test_a_job_that_ends_before_it_gets_its_slot_is_returned_as_it_ended(world: World) -> None:
    """Race conflict: a cancel commits after the check of the job's state, and before the read of its place."""
    await ruled(world, max_active=1)
    waiting = [await created(world, number) for number in range(2)][1]
    meanwhile(world.index, "read_active", lambda: control(world, waiting, ControlKind.CANCEL), after=True)
    stored = await admit_job(world.context, world.orchestrations, waiting, OPERATOR)
    assert stored.record.job.status is JobStatus.CANCELLED
