"""The priority of a waiting job changes its position in the queue (R67)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.api.audit import bundle
from shared.api.receipt import receipt
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.errors import LedgerUnavailable
from shared.operations.jobs.control_job import change_priority
from shared.operations.jobs.places import reconcile_place
from shared.ports.ledger import Stored
from shared.refusals import ControlNotPossible, JobNotFound, JobTerminal
from tests.audit_bundles import faults
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.support import cancelled, control, history, redrive, swept
from tests.worlds.gates import admission_of, ended, killed_at, posted, staging, states_written, statuses

__all__ = ["staging"]  # a fixture


async def prioritise(world: World, job_id: str, priority: str, request: str = "1") -> None:
    origin = Origin(cause_id=f"request:{request}", actor="op", source="http", reason="on the phone")
    await change_priority(world.context, world.orchestrations, job_id, priority, origin)


async def line(world: World) -> list[str]:
    rows = [row for number in range(3) for row in await world.index.admissions.first_waiting("tenant_a", number, 10)]
    return [row.candidate.job_id for row in rows]


async def test_a_job_goes_where_its_priority_puts_it(staging: World) -> None:
    """Before those of lower rank, and back; the history has operator and reason, and the next end admits the job."""
    first, second, third, fourth = await posted(staging, 1, 2, 3, 4)
    await prioritise(staging, fourth, "high")
    assert await line(staging) == [fourth, second, third]
    await prioritise(staging, second, "low", "2")
    assert await line(staging) == [fourth, third, second]
    admission = await admission_of(staging)
    assert (admission.active, admission.staged, admission.waiting) == (1, 3, 3)
    await ended(staging, first)
    assert await statuses(staging, [fourth, third]) == ["QUEUED", "THROTTLED"]
    record, events = await history(staging, fourth)
    [event] = [each for each in events if each.type == "PRIORITY_CHANGED"]
    assert (event.actor, event.reason, event.data["from"], event.data["to"]) == ("op", "on the phone", "normal", "high")
    assert (record.job.priority, record.job.current_priority) == ("normal", "high")
    # the created value can still be verified
    assert faults(bundle(record, events, START)) == []


async def test_the_same_again_changes_nothing(staging: World) -> None:
    """Neither an event nor a write at the admission state."""
    _, second, third = await posted(staging, 1, 2, 3)
    await prioritise(staging, third, "high")
    before = await staging.index.admissions.read("tenant_a")
    for request in ("1", "2"):
        await prioritise(staging, third, "high", request)
    assert await staging.index.admissions.read("tenant_a") == before
    assert len([event for event in await staging.ledger.events(third) if event.type == "PRIORITY_CHANGED"]) == 1
    assert await line(staging) == [third, second]


async def test_who_waits_no_more_is_refused(staging: World) -> None:
    """For an admitted job, an ended one and an unknown one nothing is written."""
    first, second = await posted(staging, 1, 2)
    with pytest.raises(ControlNotPossible):
        await prioritise(staging, first, "high")
    await cancelled(staging, second)
    with pytest.raises(JobTerminal):
        await prioritise(staging, second, "high")
    with pytest.raises(JobNotFound):
        await prioritise(staging, "job_0", "high")
    assert [event.type for event in await staging.ledger.events(first)] == ["JOB_CREATED"]


async def test_a_paused_job_keeps_it_for_its_resume(staging: World) -> None:
    """A job that is set aside is in no queue; it enters one with the new priority."""
    _, second, third = await posted(staging, 1, 2, 3)
    await control(staging, third, ControlKind.PAUSE)
    await prioritise(staging, third, "high")
    assert await line(staging) == [second]
    await control(staging, third, ControlKind.RESUME)
    assert await line(staging) == [third, second]
    await admission_of(staging)


async def test_a_dependent_keeps_it_for_its_line(staging: World) -> None:
    """A job that waits for other jobs enters its gates' queues with it."""
    first, second = await posted(staging, 1, 2)
    [third] = await posted(staging, 3, dependencies=[first])
    await prioritise(staging, third, "high")
    assert await statuses(staging, [third]) == ["WAITING_FOR_JOBS"]
    await ended(staging, first)
    await reconcile_place(staging.context, staging.orchestrations, await _stored(staging, third))
    assert await statuses(staging, [second]) == ["QUEUED"]
    active = await staging.index.read_active("tenant_a", third)
    assert active is not None
    assert active.place is not None
    assert active.place.candidate.priority == "high"


async def test_a_receipt_has_the_time_on_other_jobs(staging: World) -> None:
    """Beside the time at its gates: each from its first to its last event."""
    first, second = await posted(staging, 1, 2)
    [third] = await posted(staging, 3, dependencies=[first])
    staging.clock.advance(30)
    await ended(staging, first)
    await reconcile_place(staging.context, staging.orchestrations, await _stored(staging, third))
    staging.clock.advance(12)
    await ended(staging, second, 2)
    staging.clock.advance(5)
    record, events = await history(staging, third)
    spent = receipt(record, events, staging.clock.now()).total
    assert (spent.dependent_s, spent.gated_s, spent.queue_s) == (30, 12, 5)


async def _stored(world: World, job_id: str) -> Stored:
    found = await world.ledger.read(job_id)
    assert found is not None
    return found


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_on_the_way_is_made_up_for(staging: World, *, after: bool) -> None:
    """JOB decides: the same request again, or the sweeper, moves the place, and it moves once."""
    first, second, third, fourth = await posted(staging, 1, 2, 3, 4)
    for job_id in (third, fourth):
        with pytest.raises(LedgerUnavailable):
            await prioritise(killed_at(staging, "index", "move_place", after=after), job_id, "high")
        assert (await staging.job(job_id)).job.current_priority == "high"
    expected = [third, fourth, second] if after else [second, third, fourth]
    assert await line(staging) == expected
    await prioritise(staging, third, "high", "2")
    staging.clock.time = START.replace(minute=0) + timedelta(hours=1)
    await swept(staging)
    assert await line(staging) == [third, fourth, second]
    admission = await admission_of(staging)
    assert (admission.active, admission.staged, admission.waiting) == (1, 3, 3)
    await ended(staging, first)
    assert await statuses(staging, [third, second]) == ["QUEUED", "THROTTLED"]


async def test_an_emergency_goes_to_its_own_line(world: World) -> None:
    """If a rule lets emergencies bypass the limits, a job that becomes one is admitted at once, and counts as one."""
    rule = Rule(max_active=1, emergency_max_active=1)
    await states_written(world, GateState(gate=Gate(GateKind.TENANT, "tenant_a"), rule=rule, rule_seq=1))
    first, second, third, fourth = await posted(world, 1, 2, 3, 4)
    await prioritise(world, third, "emergency")
    assert await statuses(world, [first, second, third]) == ["QUEUED", "THROTTLED", "QUEUED"]
    await prioritise(world, fourth, "emergency")
    admission = await admission_of(world)
    assert (admission.active, admission.emergencies, sorted(each.emergency for each in admission.queues.values())) == (
        2,
        1,
        [False, True],
    )
    await ended(world, third)
    assert await statuses(world, [second, fourth]) == ["THROTTLED", "QUEUED"]
    await ended(world, fourth, 2)
    admission = await admission_of(world)
    assert (admission.active, admission.emergencies) == (1, 0)


async def test_high_to_emergency_without_a_line_for_those(staging: World) -> None:
    """The rank stays: so does the row's key."""
    _, second, third = await posted(staging, 1, 2, 3)
    await prioritise(staging, third, "high")
    await prioritise(staging, third, "emergency", "2")
    assert await line(staging) == [third, second]
    await admission_of(staging)


async def test_a_job_that_expires_stays_due(staging: World) -> None:
    """Its DUE row is at its `expires_at` after the move too."""
    await posted(staging, 1)
    [second] = await posted(staging, 2, expires_at=(START + timedelta(hours=1)).isoformat())
    await prioritise(staging, second, "high")
    active = await staging.index.read_active("tenant_a", second)
    assert active is not None
    assert active.place is not None
    assert (active.place.state, active.check_at) == (PlaceState.WAITING, START + timedelta(hours=1))
    staging.clock.advance(3700)
    await swept(staging)
    assert await statuses(staging, [second]) == ["FAILED_FINAL"]
    # its redrive begins with the priority with which it waited
    again = await redrive(staging, second)
    assert again.stored.record.job.priority == "high"
    assert again.stored.record.job.changed_priority is None
