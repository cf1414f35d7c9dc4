"""Jobs at their tenant's admission state, from the POST to the end: admitted, waiting or refused (R48, R49)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from shared.core.gates.rules import GateState, Hold, Rule
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerRefused
from shared.operations.gates import freed
from shared.operations.gates.freed import take_turn
from shared.ports.admissions import AdmissionWrite
from shared.ports.index import Reservation
from shared.refusals import LimitReached
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import cancelled, control, create_numbered, limited, redrive, swept
from tests.worlds.gates import TENANT, admission_of, ended, held_state, posted, staging, states_written, statuses

__all__ = ["staging"]  # a fixture


# --- a waiting job's life


async def test_a_job_over_the_limit_waits_and_the_end_lets_it_in(staging: World) -> None:
    """202 and THROTTLED, without an orchestration; with the end of the first it is QUEUED, and its time begins."""
    first, second, third = await posted(staging, 1, 2, 3)
    assert await statuses(staging, [first, second, third]) == ["QUEUED", "THROTTLED", "THROTTLED"]
    assert staging.orchestrations.started == [first]
    assert (await staging.job(second)).job.deadline_at is None
    staging.clock.advance(600)
    await ended(staging, first)
    assert await statuses(staging, [first, second, third]) == ["SUCCEEDED", "QUEUED", "THROTTLED"]
    assert staging.orchestrations.started == [first, second]
    job = (await staging.job(second)).job
    assert job.admitted_at == staging.clock.now()
    assert job.total_time_s is not None
    assert job.deadline_at == staging.clock.now() + timedelta(seconds=job.total_time_s)
    [event] = [each for each in await staging.ledger.events(second) if each.type == "ADMITTED"]
    assert event.data["waited_s"] == 600
    [passed] = event.data["gates"]
    assert (passed["name"], passed["active"], passed["max_active"]) == ("tenant tenant_a", 1, 1)
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting) == (1, 1)
    await ended(staging, second, 2)
    await ended(staging, third, 3)
    admission = await admission_of(staging)
    assert (admission.active, admission.staged, admission.queues) == (0, 0, {})


async def test_the_position_is_that_of_the_line(staging: World) -> None:
    """The response has the position and the gate that holds the job."""
    answers = [await create_numbered(staging, number) for number in (1, 2, 3)]
    found = [answer.decision.position for answer in answers if answer.decision is not None]
    assert found == [None, 1, 2]
    assert answers[2].decision is not None
    assert answers[2].decision.stopped_by is not None
    assert answers[2].decision.stopped_by.gate == TENANT


async def test_a_staged_job_is_cancelled_at_once(staging: World) -> None:
    """It leaves its queue, its index rows have its end, and nothing was started."""
    first, second, third = await posted(staging, 1, 2, 3)
    await cancelled(staging, second)
    assert await statuses(staging, [first, second, third]) == ["QUEUED", "CANCELLED", "THROTTLED"]
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting, admission.staged) == (1, 1, 1)
    assert await staging.index.read_active("tenant_a", second) is None
    assert staging.orchestrations.raised == []
    await ended(staging, first)
    assert staging.orchestrations.started == [first, third]


async def test_a_paused_job_in_line_holds_nothing_and_keeps_its_age(staging: World) -> None:
    """Others pass it; when it is resumed it enters its queue by its age, or is admitted to a free slot."""
    first, second, third = await posted(staging, 1, 2, 3)
    await control(staging, second, ControlKind.PAUSE)
    admission = await admission_of(staging)
    assert (admission.waiting, admission.staged) == (1, 2)
    assert await swept(staging) == []
    staging.clock.advance(60)
    [fourth] = await posted(staging, 4)
    await control(staging, second, ControlKind.RESUME)
    await ended(staging, first)
    assert staging.orchestrations.started[-1] == second
    await control(staging, third, ControlKind.PAUSE)
    await ended(staging, second, 2)
    assert staging.orchestrations.started[-1] == fourth
    await ended(staging, fourth, 3)
    await control(staging, third, ControlKind.RESUME)
    assert await statuses(staging, [third]) == ["QUEUED"]
    assert staging.orchestrations.started[-1] == third
    await admission_of(staging)


@pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.CANCEL])
async def test_the_head_of_an_open_line_leaves_it(world: World, kind: ControlKind) -> None:
    """No process has checked since the end of the hold: the job's own transaction does not admit it while it leaves."""
    await states_written(world, GateState(gate=TENANT, rule=Rule(max_active=1)))
    until = START + timedelta(hours=1)
    await states_written(world, held_state(until, Rule(max_active=1)))
    first, second = await posted(world, 1, 2)
    world.clock.advance(3601)
    await control(world, first, kind)
    assert await statuses(world, [second]) == ["QUEUED"]
    assert world.orchestrations.started == [second]
    admission = await admission_of(world)
    assert (admission.active, admission.waiting) == (1, 0)


async def test_a_duplicate_of_a_staged_job_is_that_job(staging: World) -> None:
    """It gets no second position in the queue, no start past the gate, and no refusal where each queue is full."""
    await posted(staging, 1)
    [second] = await posted(staging, 2)
    again = await create_numbered(staging, 2)
    assert (again.replayed, again.stored.record.job.job_id) == (True, second)
    assert again.stored.record.job.status is JobStatus.THROTTLED
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting) == (1, 1)
    assert len(staging.orchestrations.started) == 1


async def test_what_ended_in_line_is_redriven_through_the_gates(staging: World) -> None:
    """A new job, which waits in its turn, and has the total time that the old one never used."""
    first, second = await posted(staging, 1, 2)
    await cancelled(staging, second)
    old = (await staging.job(second)).job
    created = await redrive(staging, second)
    new = created.stored.record.job
    assert (new.status, new.total_time_s) == (JobStatus.THROTTLED, old.total_time_s)
    assert (await staging.job(second)).job.redriven_by == new.job_id
    await ended(staging, first)
    assert staging.orchestrations.started == [first, new.job_id]


async def test_those_let_in_before_a_redrive_are_notified(world: World) -> None:
    """A redrive is a creation: jobs that time has admitted before it are notified too."""
    [old] = await posted(world, 1)
    await cancelled(world, old)
    until = START + timedelta(hours=1)
    await states_written(world, held_state(until, Rule(max_active=1)))
    world.clock.advance(20)
    [waits] = await posted(world, 2)
    world.clock.advance(3601)
    new = (await redrive(world, old)).stored.record.job
    assert await statuses(world, [waits, new.job_id]) == ["QUEUED", "THROTTLED"]
    await admission_of(world)


async def test_nothing_expires_in_line(staging: World) -> None:
    """A job that waits has no total time yet: a sweep days later leaves it where it is."""
    _, second = await posted(staging, 1, 2)
    staging.clock.advance(6 * 86_400)
    await swept(staging)
    assert await statuses(staging, [second]) == ["THROTTLED"]
    assert (await admission_of(staging)).waiting == 1


async def test_a_transaction_takes_a_hundred_operations(world: World) -> None:
    """Azure's limit: a creation with 50 dependencies, and a turn after 40 ends, admit a job for each slot."""
    until = START + timedelta(hours=1)
    await states_written(world, held_state(until))
    waiting = await posted(world, *range(50))
    world.clock.advance(3601)
    reserve, write, sizes = world.index.reserve_together, world.index.write_admission, []

    async def reserves(reservations: Sequence[Reservation], admission: AdmissionWrite | None = None) -> None:
        # CLAIM, LIST, ACTIVE and DUE; GATES; WAIT out, ACTIVE, DUE out and in
        own = sum(4 + len(each.job.dependencies or ()) for each in reservations)
        sizes.append(own + 1 + 4 * len(admission.admitted if admission is not None else ()))
        await reserve(reservations, admission)

    async def writes(admission: AdmissionWrite) -> None:
        if admission.admitted:
            sizes.append(1 + len(admission.freed) + 4 * len(admission.admitted))
        await write(admission)

    world.index.reserve_together, world.index.write_admission = reserves, writes  # type: ignore[method-assign]
    await posted(world, 60, dependencies=waiting)
    assert 90 < sizes[0] <= 100
    await states_written(world, GateState(gate=TENANT, rule_seq=2, hold=Hold(reason="r", actor="o", at=START)))
    held_again = await posted(world, *range(61, 141))
    for job_id in held_again[-40:]:
        # their turn is never taken
        with failing(freed, "take_turn"):
            await cancelled(world, job_id)
    await states_written(world, GateState(gate=TENANT, rule_seq=3))
    sizes.clear()
    await take_turn(world.context, "tenant_a")
    assert 80 < sizes[0] <= 100


async def test_jobs_that_come_and_end_together_share_transactions(world: World) -> None:
    """Forty creations of one process, then forty ends: a few writes of the admission state, and each job has its own
    rows.
    """
    world = limited(world, max_inflight_per_tenant=100, overflow="stage")
    await posted(world, 0)
    writes = noted(world.index, "reserve_together", "write_admission")
    created = await asyncio.gather(*(create_numbered(world, number) for number in range(1, 41)))
    jobs = [each.stored.record.job.job_id for each in created]
    assert await statuses(world, jobs) == ["QUEUED"] * 40
    assert [name for name, *_ in writes].count("reserve_together") <= 5
    await asyncio.gather(*(ended(world, job_id) for job_id in jobs))
    assert [name for name, *_ in writes].count("write_admission") <= 8
    assert (await admission_of(world)).active == 1


async def test_one_of_those_that_come_together_is_refused(world: World) -> None:
    """A duplicate, a job above the limit and a row that the store refuses: each has its own outcome."""
    world = limited(world, max_inflight_per_tenant=3)
    await posted(world, 0)
    failing(
        world.index,
        "reserve_together",
        error=LedgerRefused("a row is too large"),
        only=lambda reservations, **_: any(each.job.doc_id == "doc-2" for each in reservations),
    )
    found = await asyncio.gather(
        *(create_numbered(world, number) for number in (1, 1, 2, 3, 4)), return_exceptions=True
    )
    outcomes = [type(each).__name__ if isinstance(each, Exception) else "Created" for each in found]
    assert sorted(outcomes) == ["Created", "Created", "Created", "LedgerRefused", "LimitReached"]
    assert (await admission_of(world)).active == 3


# --- refused requests


async def test_limits_of_the_settings_refuse_unless_they_stage(world: World) -> None:
    """429 with the setting's name, and nothing is written; a duplicate gets its response."""
    rejecting = limited(world, max_inflight_per_tenant=1)
    await posted(rejecting, 1)
    with pytest.raises(LimitReached) as refused:
        await posted(rejecting, 2)
    assert (refused.value.limit, refused.value.headers) == ("LUCIUS_MAX_INFLIGHT_PER_TENANT", {"Retry-After": "30"})
    assert (await create_numbered(rejecting, 1)).replayed
    admission = await admission_of(rejecting)
    assert (admission.active, admission.staged, len(world.ledger.jobs)) == (1, 0, 1)


async def test_the_end_of_the_line_is_refused(world: World) -> None:
    """`max_staged`, with the time at which the rate admits the next job; paused jobs count."""
    await states_written(world, GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1, max_staged=1)))
    _, second = await posted(world, 1, 2)
    await control(world, second, ControlKind.PAUSE)
    world.clock.advance(20)
    with pytest.raises(LimitReached) as refused:
        await posted(world, 3)
    assert (refused.value.limit, refused.value.headers) == ("max_staged", {"Retry-After": "40"})
    assert len(world.ledger.jobs) == 2


async def test_a_newcomer_waits_behind_whom_time_has_let_in(world: World) -> None:
    """The first job of the queue is admitted at the creation of another type's job, and is notified."""
    await states_written(world, GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1)))
    first, second = await posted(world, 1, 2)
    world.clock.advance(61)
    [third] = await posted(world, 3, request_type="OCR_EMBEDDING")
    assert await statuses(world, [first, second, third]) == ["QUEUED", "QUEUED", "THROTTLED"]
    assert world.orchestrations.started == [first, second]
    await admission_of(world)
