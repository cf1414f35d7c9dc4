"""Jobs at their tenant's desk, from the POST to the end (R48, R49)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.gates.desk import Desk
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule
from shared.core.job import Job
from shared.core.occurrences import ControlKind
from shared.core.states import JobStatus
from shared.errors import Contended, CreationWithdrawn, DataLost, LedgerUnavailable, OrchestrationUnavailable
from shared.operations import desk_counts
from shared.operations.desk_counts import place_of
from shared.operations.gate_directory import GateDirectory
from shared.ports.desks import ASLEEP, DeskWrite
from shared.ports.index import Clearing, EndedRow
from shared.refusals import LimitReached
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.support import (
    cancelled,
    control,
    create_numbered,
    dispatch,
    limited,
    redrive,
    service_sends,
    swept,
)

TENANT = Gate(GateKind.TENANT, "tenant_a")


@pytest.fixture
def staging(world: World) -> World:
    """One active job a tenant; the others wait."""
    return limited(world, max_inflight_per_tenant=1, overflow="stage")


async def posted(world: World, *numbers: int, **changes: Any) -> list[str]:
    return [(await create_numbered(world, number, **changes)).stored.record.job.job_id for number in numbers]


async def ended(world: World, job_id: str, number: int = 1) -> None:
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", number)


async def status(world: World, *job_ids: str) -> list[str]:
    return [(await world.job(job_id)).job.status.value for job_id in job_ids]


async def desk_of(world: World, tenant: str = "tenant_a") -> Desk:
    """The desk, which says what the rows say."""
    stored = await world.index.desks.read(tenant)
    assert stored is not None
    desk, rows = stored.desk, await world.index.list_active(tenant, after=None, limit=1000)
    staged = [row for row in rows if place_of(row).is_staged]
    waiting = [row for row in rows if place_of(row).state is PlaceState.WAITING]
    assert (desk.active, desk.staged, desk.waiting) == (len(rows) - len(staged), len(staged), len(waiting))
    asleep = [place_of(row).state in (PlaceState.WAITING, PlaceState.OFF) for row in rows]
    assert asleep == [row.check_at == ASLEEP for row in rows]
    lines = [rows for (owner, _), rows in world.index.desks._waiting.items() if owner == tenant]
    kept = {row.candidate.job_id for line in lines for row in line.values()}
    assert kept == {row.job_id for row in waiting}
    return desk


async def ruled(world: World, *states: GateState, tenant: str = "tenant_a") -> None:
    """As one who changes rules does it, in another process."""
    now = world.clock.now()
    await world.index.desks.enter_tenant(tenant, now)
    stored = await world.index.desks.read(tenant)
    desk = stored.desk if stored is not None else Desk(tenant=tenant, counted_at=now - timedelta(days=1))
    for state in states:
        desk = desk.with_state(state)
    await world.index.write_desk(DeskWrite(before=stored, after=desk))


def held(until: datetime, rule: Rule | None = None) -> GateState:
    hold = Hold(reason="audit", actor="op", at=START, until=until)
    return GateState(gate=TENANT, rule=rule, rule_seq=1, hold=hold)


class Dying:
    """A port whose call `name` ends the process, before it takes effect or after, at the `turn`-th time."""

    def __init__(self, target: Any, name: str, *, after: bool = False, turn: int = 1) -> None:
        self._target, self._name, self._after, self._turn = target, name, after, turn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name != self._name:
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            self._turn -= 1
            if self._turn:
                return await found(*args, **fields)
            if self._after:
                await found(*args, **fields)
            raise LedgerUnavailable("killed here")

        return call


def killed_at(world: World, port: str, name: str, **when: Any) -> World:
    ports: Any = {port: Dying(getattr(world.context, port), name, **when)}
    return replace(world, context=replace(world.context, **ports, gates=GateDirectory()))


# --- a life in line


async def test_a_job_over_the_limit_waits_and_the_end_lets_it_in(staging: World) -> None:
    """202 and THROTTLED, without an orchestration; with the end of the first it is QUEUED, and its time begins."""
    first, second, third = await posted(staging, 1, 2, 3)
    assert await status(staging, first, second, third) == ["QUEUED", "THROTTLED", "THROTTLED"]
    assert staging.orchestrations.started == [first]
    assert (await staging.job(second)).job.deadline_at is None
    staging.clock.advance(600)
    await ended(staging, first)
    assert await status(staging, first, second, third) == ["SUCCEEDED", "QUEUED", "THROTTLED"]
    assert staging.orchestrations.started == [first, second]
    job = (await staging.job(second)).job
    assert job.admitted_at == staging.clock.now()
    assert job.total_time_s is not None
    assert job.deadline_at == staging.clock.now() + timedelta(seconds=job.total_time_s)
    [event] = [each for each in await staging.ledger.events(second) if each.type == "ADMITTED"]
    assert event.data["waited_s"] == 600
    [passed] = event.data["gates"]
    assert (passed["name"], passed["active"], passed["max_active"]) == ("tenant tenant_a", 1, 1)
    desk = await desk_of(staging)
    assert (desk.active, desk.waiting) == (1, 1)
    await ended(staging, second, 2)
    await ended(staging, third, 3)
    desk = await desk_of(staging)
    assert (desk.active, desk.staged, desk.lines) == (0, 0, {})


async def test_the_position_is_that_of_the_line(staging: World) -> None:
    """The answer says whose turn it is, and which gate it is that is shut."""
    answers = [await create_numbered(staging, number) for number in (1, 2, 3)]
    found = [answer.decision.position for answer in answers if answer.decision is not None]
    assert found == [None, 1, 2]
    assert answers[2].decision is not None
    assert answers[2].decision.stopped_by is not None
    assert answers[2].decision.stopped_by.gate == TENANT


async def test_priority_goes_first(staging: World) -> None:
    """Half an hour older, and no more."""
    first, low, normal, high = [
        (await posted(staging, number, priority=priority))[0]
        for number, priority in enumerate(("normal", "low", "normal", "high"))
    ]
    for expected in (high, normal, low):
        await ended(staging, first, 1)
        assert staging.orchestrations.started[-1] == expected
        first = expected


async def test_a_staged_job_is_cancelled_at_once(staging: World) -> None:
    """It leaves its line, its index rows say how it ended, and nothing was started."""
    first, second, third = await posted(staging, 1, 2, 3)
    await cancelled(staging, second)
    assert await status(staging, first, second, third) == ["QUEUED", "CANCELLED", "THROTTLED"]
    desk = await desk_of(staging)
    assert (desk.active, desk.waiting, desk.staged) == (1, 1, 1)
    assert await staging.index.read_active("tenant_a", second) is None
    assert staging.orchestrations.raised == []
    await ended(staging, first)
    assert staging.orchestrations.started == [first, third]


async def test_a_paused_job_in_line_holds_nothing_and_keeps_its_age(staging: World) -> None:
    """Others go by; resumed it lines up where its age puts it; resumed with a place free it goes in."""
    first, second, third = await posted(staging, 1, 2, 3)
    await control(staging, second, ControlKind.PAUSE)
    desk = await desk_of(staging)
    assert (desk.waiting, desk.staged) == (1, 2)
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
    assert await status(staging, third) == ["QUEUED"]
    assert staging.orchestrations.started[-1] == third
    await desk_of(staging)


@pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.CANCEL])
async def test_the_head_of_an_open_line_leaves_it(world: World, kind: ControlKind) -> None:
    """Nobody has looked since the hold's time was over: its own transaction does not let in what leaves with it."""
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_active=1)))
    until = START + timedelta(hours=1)
    await ruled(world, held(until, Rule(max_active=1)))
    first, second = await posted(world, 1, 2)
    world.clock.advance(3601)
    await control(world, first, kind)
    assert await status(world, second) == ["QUEUED"]
    assert world.orchestrations.started == [second]
    desk = await desk_of(world)
    assert (desk.active, desk.waiting) == (1, 0)


async def test_a_duplicate_of_a_staged_job_is_that_job(staging: World) -> None:
    """Neither a second stand in line nor a start past the gate, nor a refusal where every line is full."""
    await posted(staging, 1)
    [second] = await posted(staging, 2)
    again = await create_numbered(staging, 2)
    assert (again.replayed, again.stored.record.job.job_id) == (True, second)
    assert again.stored.record.job.status is JobStatus.THROTTLED
    desk = await desk_of(staging)
    assert (desk.active, desk.waiting) == (1, 1)
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
    """A redrive is a creation: whom time has let in before it learns it as well."""
    [old] = await posted(world, 1)
    await cancelled(world, old)
    until = START + timedelta(hours=1)
    await ruled(world, held(until, Rule(max_active=1)))
    world.clock.advance(20)
    [waits] = await posted(world, 2)
    world.clock.advance(3601)
    new = (await redrive(world, old)).stored.record.job
    assert await status(world, waits, new.job_id) == ["QUEUED", "THROTTLED"]
    await desk_of(world)


async def test_nothing_expires_in_line(staging: World) -> None:
    """A job that waits has no total time yet: a sweep days later leaves it where it is."""
    _, second = await posted(staging, 1, 2)
    staging.clock.advance(6 * 86_400)
    await swept(staging)
    assert await status(staging, second) == ["THROTTLED"]
    assert (await desk_of(staging)).waiting == 1


async def test_a_transaction_takes_a_hundred_operations(world: World) -> None:
    """Azure's limit: a creation with fifty dependencies, and an end with clearings, let in as many as there is room."""
    until = START + timedelta(hours=1)
    await ruled(world, held(until))
    waiting = await posted(world, *range(50))
    world.clock.advance(3601)
    reserve, close, sizes = world.index.reserve, world.index.close_at_desk, []

    async def reserves(job: Job, *, desk: DeskWrite | None = None, **fields: Any) -> None:
        # CLAIM, LIST, ACTIVE, DUE and GATES; WAIT out, ACTIVE, DUE out and in
        sizes.append(5 + len(job.dependencies or ()) + 4 * len(desk.let_in if desk is not None else ()))
        await reserve(job, desk=desk, **fields)

    async def closes(job: Job, active: Any, desk: DeskWrite, *, purged: Any = (), **fields: Any) -> None:
        # ACTIVE, DUE, WAIT, LIST, CLAIM, ENDED, DEAD, INCIDENT, its log, GATES, and GATE of release 0.2.0
        sizes.append(11 + 2 * len(purged) + 4 * len(desk.let_in))
        await close(job, active, desk, purged=purged, **fields)

    world.index.reserve, world.index.close_at_desk = reserves, closes  # type: ignore[method-assign]
    await posted(world, 60, dependencies=waiting)
    assert 90 < sizes[0] <= 100
    await ruled(world, GateState(gate=TENANT, rule_seq=2, hold=Hold(reason="r", actor="o", at=START)))
    held_again = await posted(world, *range(61, 85))
    await ruled(world, GateState(gate=TENANT, rule_seq=3))
    row = EndedRow(job_id="gone", tenant="tenant_a", clear_at=START)
    world.context.recent_ends._purged["tenant_a"] = [Clearing(row, START)] * 30
    sizes.clear()
    await cancelled(world, held_again[-1])
    assert 90 < sizes[0] <= 100


# --- what is refused


async def test_limits_of_the_settings_refuse_unless_they_stage(world: World) -> None:
    """429 with the setting's name, and nothing is written; a duplicate is answered all the same."""
    rejecting = limited(world, max_inflight_per_tenant=1)
    await posted(rejecting, 1)
    with pytest.raises(LimitReached) as refused:
        await posted(rejecting, 2)
    assert (refused.value.limit, refused.value.retry_after_s) == ("LUCIUS_MAX_INFLIGHT_PER_TENANT", 30)
    assert (await create_numbered(rejecting, 1)).replayed
    desk = await desk_of(rejecting)
    assert (desk.active, desk.staged, len(world.ledger._jobs)) == (1, 0, 1)


async def test_staging_off_refuses_at_every_gate(world: World) -> None:
    """Also at one that somebody made, with its kind for a name; those in line already go in."""
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_active=1)))
    first, second = await posted(world, 1, 2)
    off = replace(world, context=replace(world.context, settings=replace(world.context.settings, staging="off")))
    with pytest.raises(LimitReached) as refused:
        await posted(off, 3)
    assert refused.value.limit == "tenant"
    await ended(off, first)
    assert await status(off, second) == ["QUEUED"]


async def test_the_end_of_the_line_is_refused(world: World) -> None:
    """`max_staged`, with the time at which the rate lets the next one in; paused ones count."""
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1, max_staged=1)))
    _, second = await posted(world, 1, 2)
    await control(world, second, ControlKind.PAUSE)
    world.clock.advance(20)
    with pytest.raises(LimitReached) as refused:
        await posted(world, 3)
    assert (refused.value.limit, refused.value.retry_after_s) == ("max_staged", 40)
    assert len(world.ledger._jobs) == 2


async def test_a_newcomer_waits_behind_whom_time_has_let_in(world: World) -> None:
    """The first in line goes in with the creation of another type's job, and is told."""
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1)))
    first, second = await posted(world, 1, 2)
    world.clock.advance(61)
    [third] = await posted(world, 3, request_type="OCR_EMBEDDING")
    assert await status(world, first, second, third) == ["QUEUED", "QUEUED", "THROTTLED"]
    assert world.orchestrations.started == [first, second]
    await desk_of(world)


# --- deaths


async def test_a_creation_that_died_is_withdrawn_and_gives_back_what_it_held(staging: World) -> None:
    """Before its rows, inside and staged: after five minutes neither counts, and the next one is in."""
    for number in (1, 2):
        with pytest.raises(LedgerUnavailable):
            await posted(killed_at(staging, "ledger", "create"), number)
    [third] = await posted(staging, 3)
    desk = await desk_of(staging)
    assert (desk.active, desk.staged, desk.waiting) == (1, 2, 1)
    staging.clock.advance(301)
    assert sorted(await swept(staging))[:2] == ["withdraw", "withdraw"]
    assert await status(staging, third) == ["QUEUED"]
    desk = await desk_of(staging)
    assert (desk.active, desk.staged) == (1, 0)


@pytest.mark.parametrize("after", [False, True])
async def test_a_creation_that_died_on_its_way_into_line_is_finished(staging: World, after: bool) -> None:
    """By the sweeper a minute later, or by the same request: it stands in line once."""
    await posted(staging, 1)
    for number in (2, 3):
        with pytest.raises(LedgerUnavailable):
            await posted(killed_at(staging, "index", "move_place", after=after), number)
    [second] = await posted(staging, 2)
    staging.clock.advance(61)
    await swept(staging)
    desk = await desk_of(staging)
    assert (desk.active, desk.waiting, desk.staged) == (1, 2, 2)
    assert await status(staging, second) == ["THROTTLED"]


async def test_a_late_creator_of_a_withdrawn_job_holds_nothing(staging: World) -> None:
    """Race desk: its claim is gone with its place; whoever writes its rows meets the tombstone."""
    await posted(staging, 1)
    create = staging.ledger.create

    async def slow(*args: Any) -> Any:
        staging.ledger.create = create  # type: ignore[method-assign]
        staging.clock.advance(301)
        await swept(staging)
        return await create(*args)

    staging.ledger.create = slow  # type: ignore[method-assign]
    with pytest.raises(CreationWithdrawn):
        await posted(staging, 2)
    desk = await desk_of(staging)
    assert (desk.active, desk.staged) == (1, 0)


async def test_a_lost_answer_takes_one_place(staging: World) -> None:
    """The index took the reservation, and the SDK's second try meets it: the job has one place, as was written."""
    real = staging.index.reserve

    async def answer_lost(*args: Any, **fields: Any) -> None:
        await real(*args, **fields)
        await real(*args, **fields)

    staging.index.reserve = answer_lost  # type: ignore[method-assign]
    first, second = await posted(staging, 1, 2)
    assert await status(staging, first, second) == ["QUEUED", "THROTTLED"]
    desk = await desk_of(staging)
    assert (desk.active, desk.waiting) == (1, 1)


async def test_a_line_moves_by_the_sweeps_alone(staging: World) -> None:
    """Whoever ended the first died before it notified the next: a minute later it is notified, with one start."""
    first, second = await posted(staging, 1, 2)
    read = staging.ledger.read

    async def fails(job_id: str) -> Any:
        if job_id == second:
            raise LedgerUnavailable("killed here")
        return await read(job_id)

    staging.ledger.read = fails  # type: ignore[method-assign]
    await ended(staging, first)
    staging.ledger.read = read  # type: ignore[method-assign]
    assert await status(staging, first, second) == ["SUCCEEDED", "THROTTLED"]
    assert (await desk_of(staging)).active == 1
    staging.clock.advance(61)
    assert await swept(staging) == ["admit"]
    assert await status(staging, second) == ["QUEUED"]
    assert staging.orchestrations.started == [first, second]


async def test_an_engine_that_is_away_fails_nobody_elses_end(staging: World) -> None:
    """The start of the next one fails: the reply that ended the first is taken, and the sweeper starts the next."""
    first, second = await posted(staging, 1, 2)
    await dispatch(staging, first)
    start = staging.orchestrations.start

    async def away(*args: Any) -> None:
        raise OrchestrationUnavailable("away")

    staging.orchestrations.start = away  # type: ignore[method-assign]
    await service_sends(staging, first, "RESULT", 1)
    assert await status(staging, first, second) == ["SUCCEEDED", "QUEUED"]
    staging.orchestrations.start = start  # type: ignore[method-assign]
    staging.clock.advance(61)
    assert await swept(staging) == ["start"]
    assert staging.orchestrations.started == [first, second]


async def test_a_hold_that_ends_by_time_moves_the_line_in_a_sweep(world: World) -> None:
    """Nobody is there at the instant: more than a transaction takes go in, in their order, in one pass."""
    until = START + timedelta(hours=1)
    await ruled(world, held(until))
    waiting = await posted(world, *range(45))
    assert world.orchestrations.started == []
    world.clock.advance(3600)
    await swept(world)
    assert sorted(world.orchestrations.started) == sorted(waiting)
    assert world.orchestrations.started[:3] != waiting[-3:]
    assert (await desk_of(world)).waiting == 0


@pytest.mark.parametrize("kind", list(ControlKind))
async def test_a_control_that_died_before_the_desk_is_found(staging: World, kind: ControlKind) -> None:
    """The job moved and its place did not: a resumed one lines up in the next pass, the others within the hour."""
    _, second = await posted(staging, 1, 2)
    if kind is ControlKind.RESUME:
        await control(staging, second, ControlKind.PAUSE)
    dying = killed_at(staging, "index", "close_at_desk" if kind is ControlKind.CANCEL else "move_place")
    with pytest.raises(LedgerUnavailable):
        await control(dying, second, kind)
    staging.clock.advance(61 if kind is ControlKind.RESUME else 3600)
    await swept(staging)
    desk = await desk_of(staging)
    expected = {ControlKind.RESUME: (1, 1), ControlKind.PAUSE: (0, 1), ControlKind.CANCEL: (0, 0)}[kind]
    assert (desk.waiting, desk.staged) == expected
    assert (await staging.index.read_active("tenant_a", second) is None) is (kind is ControlKind.CANCEL)


async def test_a_job_paused_at_its_admission_gives_its_place_to_the_next(staging: World) -> None:
    """It was let in and had been paused: the sweeper's look sets it aside."""
    first, second, third = await posted(staging, 1, 2, 3)
    with pytest.raises(LedgerUnavailable):
        await control(killed_at(staging, "index", "move_place"), second, ControlKind.PAUSE)
    await ended(staging, first)
    assert await status(staging, second, third) == ["PAUSED", "THROTTLED"]
    staging.clock.advance(61)
    await swept(staging)
    assert await status(staging, second, third) == ["PAUSED", "QUEUED"]
    desk = await desk_of(staging)
    assert (desk.active, desk.staged) == (1, 1)


@pytest.mark.parametrize("fault", [DataLost("gone"), LedgerUnavailable("away")])
async def test_a_job_in_line_that_cannot_be_read_stops_nobody(staging: World, fault: Exception) -> None:
    """Its time is over and the sweeper's look at it fails: the next end lets it in, and fails nobody."""
    soon = START + timedelta(minutes=5)
    first, second = [(await posted(staging, number, expires_at=soon))[0] for number in (1, 2)]
    staging.clock.advance(400)
    read = staging.ledger.read

    async def fails(job_id: str) -> Any:
        if job_id == second:
            raise fault
        return await read(job_id)

    staging.ledger.read = fails  # type: ignore[method-assign]
    assert "failed, the next sweep tries again" in await swept(staging)
    await dispatch(staging, first)
    await service_sends(staging, first, "RESULT", 1)
    staging.ledger.read = read  # type: ignore[method-assign]
    assert await status(staging, first) == ["SUCCEEDED"]
    stored = await staging.index.desks.read("tenant_a")
    assert stored is not None
    assert (stored.desk.active, stored.desk.waiting) == (1, 0)


# --- counts, and who knows of gates


async def test_a_rule_is_known_ten_seconds_later(world: World) -> None:
    """By a process that had looked just before; who is inside already is counted, whatever it was created under."""
    running = await posted(world, 1, 2, 3)
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_active=2)))
    [unseen] = await posted(world, 4)
    assert await status(world, unseen) == ["QUEUED"]
    world.clock.advance(10)
    [waits] = await posted(world, 5)
    assert await status(world, waits) == ["THROTTLED"]
    assert (await desk_of(world)).active == 4
    for number, job_id in enumerate((*running[:2], unseen)):
        await ended(world, job_id, number)
    assert await status(world, waits) == ["QUEUED"]
    await desk_of(world)


async def test_a_second_count_takes_in_what_older_directories_did(world: World) -> None:
    """Begun and ended past the desk within the first minute: exact from then on."""
    await ruled(world, GateState(gate=TENANT, rule=Rule(max_active=9)))
    first, *_ = await posted(world, 1, 2)
    older = replace(world, context=replace(world.context, gates=_blind()))
    await posted(older, 3)
    await dispatch(older, first)
    await service_sends(older, first, "RESULT", 1)
    stored = await world.index.desks.read("tenant_a")
    assert stored is not None
    assert stored.desk.active == 2
    world.clock.advance(61)
    await posted(world, 4)
    assert (await desk_of(world)).active == 3


def _blind() -> GateDirectory:
    class Blind(GateDirectory):
        async def read(self, *args: Any) -> Any:
            return self._known

    return Blind()


async def test_what_release_0_2_0_ends_is_counted_by_the_sweeper(staging: World) -> None:
    """It closes index rows and knows no desk: the place comes back within ten minutes, and the line moves."""
    first, second = await posted(staging, 1, 2)
    older = replace(staging, context=replace(staging.context, gates=_blind()))
    staging.clock.advance(120)
    await dispatch(older, first)
    await service_sends(older, first, "RESULT", 1)
    assert await status(staging, second) == ["THROTTLED"]
    staging.clock.advance(601)
    await swept(staging)
    assert await status(staging, second) == ["QUEUED"]
    await desk_of(staging)


async def test_a_setting_set_and_taken_back(world: World) -> None:
    """Taken back, those in line go in with the next sweep, and nothing is counted; set again, it is counted anew."""
    staging = limited(world, max_inflight_per_tenant=1, overflow="stage")
    _, second = await posted(staging, 1, 2)
    free = limited(world)
    await posted(free, 3)
    await swept(free)
    assert await status(free, second) == ["QUEUED"]
    assert (await world.index.desks.directory()).settings_since is None
    world.clock.advance(60)
    again = limited(world, max_inflight_per_tenant=4, overflow="stage")
    fourth, fifth = await posted(again, 4, 5)
    assert await status(again, fourth, fifth) == ["QUEUED", "THROTTLED"]
    assert (await desk_of(again)).active == 4


async def test_others_wait_while_one_counts(staging: World) -> None:
    """Not for ever: one that died while it counted is followed by another, five seconds later."""
    await posted(staging, 1)
    stored = await staging.index.desks.read("tenant_a")
    assert stored is not None
    until = staging.clock.now() + timedelta(seconds=5)
    await staging.index.write_desk(DeskWrite(before=stored, after=replace(stored.desk, counting_until=until)))
    waits = []

    async def sleeping(seconds: float) -> None:
        waits.append(seconds)
        staging.clock.advance(1)

    slept = replace(staging, context=replace(staging.context, sleep=sleeping))
    [second] = await posted(slept, 2)
    assert len(waits) == 5
    assert await status(staging, second) == ["THROTTLED"]
    assert (await desk_of(staging)).counting_until is None


async def test_a_long_count_is_not_begun_again(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes two seconds: the others go on waiting, and it comes to its end."""
    monkeypatch.setattr(desk_counts, "_PAGE", 2)
    await posted(limited(staging, max_inflight_per_tenant=None), *range(9))
    pages = staging.index.list_active
    others: list[str] = []

    async def slow(*args: Any, **fields: Any) -> Any:
        staging.clock.advance(2)
        stored = await staging.index.desks.read("tenant_a")
        assert stored is not None
        others.append("waits" if (stored.desk.counting_until or START) > staging.clock.now() else "begins")
        return await pages(*args, **fields)

    staging.index.list_active = slow  # type: ignore[method-assign]
    await posted(staging, 10)
    staging.index.list_active = pages  # type: ignore[method-assign]
    assert others == ["waits"] * 5
    assert (await desk_of(staging)).active == 9


async def test_a_desk_that_cannot_be_written_is_an_answer(staging: World) -> None:
    """After twenty seconds of the caller's time 503, never 429; nothing is left behind."""
    await posted(staging, 1)

    stored = await staging.index.desks.read("tenant_a")
    assert stored is not None
    until = staging.clock.now() + timedelta(hours=1)
    await staging.index.write_desk(DeskWrite(before=stored, after=replace(stored.desk, counting_until=until)))

    async def sleeping(seconds: float) -> None:
        staging.clock.advance(1)

    with pytest.raises(Contended):
        await posted(replace(staging, context=replace(staging.context, sleep=sleeping)), 2)
    assert staging.clock.now() <= START + timedelta(seconds=21)
    assert len(staging.ledger._jobs) == len(staging.index._active) == 1


async def test_another_tenants_desk_is_its_own(staging: World) -> None:
    """A full tenant keeps nobody else out."""
    await posted(staging, 1, 2)
    [other] = await posted(staging, 3, tenant_id="tenant_b")
    assert await status(staging, other) == ["QUEUED"]
    assert ((await desk_of(staging)).active, (await desk_of(staging, "tenant_b")).active) == (1, 1)


async def test_a_tenant_without_gates_has_no_desk(world: World) -> None:
    """Nothing is read, written or counted for it."""
    await ruled(world, GateState(gate=Gate(GateKind.TENANT, "tenant_b"), rule=Rule(max_active=1)), tenant="tenant_b")
    reads: list[str] = []
    read = world.index.desks.read

    async def counted(tenant: str) -> Any:
        reads.append(tenant)
        return await read(tenant)

    world.index.desks.read = counted  # type: ignore[method-assign]
    [first] = await posted(world, 1)
    await ended(world, first)
    await swept(world)
    assert reads == []
    assert "tenant_a" not in world.index.desks._desks
