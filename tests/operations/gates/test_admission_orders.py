"""The project's own model of the admission state: its real operations at a limit of one, in every order, with one of
them killed.

At every time the counts match the rows, no job is active past the limit, and no job waits if a slot is free. Afterwards
the sweeper alone brings everything to its end. The mutants at the end show that this can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.gates import admission_counts
from shared.operations.jobs.control_job import change_priority
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.sweeper.sweep import sweep
from shared.ports.admissions import ASLEEP, AdmissionWrite
from tests.contexts import changed
from tests.jobs import envelope
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.gates.admission_mutants import MUTANTS
from tests.operations.interleave import Killed, Meeting, Work, every_order, left
from tests.operations.support import dispatch, limited, service_sends, submitted
from tests.worlds.gates import apart, served
from tests.worlds.jobs import ONE, asks, nothing, posts

FIRST, SECOND, THIRD = "job_2", "job_4", "job_6"  # each creation checks its plan under its own number


def ends(job_id: str) -> Work:
    async def work(world: World) -> None:
        await service_sends(world, job_id, "RESULT", int(job_id[4:]))

    return work


def creates(name: str) -> Work:
    return posts(doc_id=name)


def prioritises(priority: str, request: str = "1") -> Work:
    origin = Origin(cause_id=f"request:priority:{request}", actor="operator", source="http")
    return lambda world: change_priority(world.context, world.orchestrations, SECOND, priority, origin)


def sweeps() -> Work:
    return lambda world: sweep(world.context, world.orchestrations)


def counts() -> Work:
    """Counts the tenant's jobs in another process, as for a quota that it has just read."""

    async def work(world: World) -> None:
        stored = await world.context.admissions.read("tenant_a")
        await admission_counts.recount_jobs(world.context, "tenant_a", stored)

    return work


@dataclass(frozen=True)
class Case:
    """Concurrent works in a world where the first job is in flight and `waiting` others wait."""

    works: tuple[Work, ...]
    staged: int = 1
    #: the creation of a second one that died between its claim and its rows, five minutes ago
    half_made: bool = False
    #: the second one was paused before
    paused: bool = False


CASES = {
    "two creations and an end": Case((creates("b"), creates("c"), ends(FIRST)), staged=0),
    "a creation and its duplicate": Case((creates("b"), creates("b"), ends(FIRST)), staged=0),
    "a duplicate of a staged job": Case((creates("b"), ends(FIRST))),
    "a cancel of a staged job": Case((asks(ControlKind.CANCEL, job_id=SECOND), ends(FIRST)), staged=2),
    "a pause of a staged job": Case((asks(ControlKind.PAUSE, job_id=SECOND), ends(FIRST)), staged=2),
    "a pause, its resume and an end": Case(
        (asks(ControlKind.PAUSE, job_id=SECOND), asks(ControlKind.RESUME, "2", SECOND), ends(FIRST))
    ),
    "a new priority and an end": Case((prioritises("high"), ends(FIRST)), staged=2),
    "two new priorities": Case((prioritises("low", "1"), prioritises("high", "2")), staged=2),
    "a new priority and a pause": Case((prioritises("high"), asks(ControlKind.PAUSE, job_id=SECOND)), staged=2),
    "a resume of a staged job": Case((asks(ControlKind.RESUME, job_id=SECOND), ends(FIRST)), paused=True),
    "a cancel of a paused one": Case((asks(ControlKind.CANCEL, job_id=SECOND), ends(FIRST)), paused=True),
    "a count, a creation and an end": Case((counts(), creates("b"), ends(FIRST)), staged=0),
    "a count, a cancel and an end": Case((counts(), asks(ControlKind.CANCEL, job_id=SECOND), ends(FIRST))),
    "a count and a pause": Case((counts(), asks(ControlKind.PAUSE, job_id=SECOND))),
    "a sweep, a creation and an end": Case((sweeps(), creates("b"), ends(FIRST)), staged=0),
    "a withdrawal and an end": Case((sweeps(), ends(FIRST)), staged=0, half_made=True),
    "a withdrawal and its late creator": Case((sweeps(), creates("b"), ends(FIRST)), staged=0, half_made=True),
}


async def prepared(world: World, case: Case) -> None:
    await nothing(world)
    assert await submitted(world, **ONE, doc_id="a") == FIRST
    await dispatch(world, FIRST)
    if case.half_made:
        with failing(world.ledger, "create", error=Killed), pytest.raises(Killed):
            await submitted(world, **ONE, doc_id="b")
        world.clock.advance(301)
    for name in ("b", "c")[: case.staged]:
        await submitted(world, **ONE, doc_id=name)
    if case.paused:
        await asks(ControlKind.PAUSE, "0", SECOND)(world)


def wrong(world: World) -> str | None:
    """Returns the violated invariants, if any."""
    rows = list(world.index.active.values())
    stored = world.index.admissions.admissions.get("tenant_a")
    inside = [row for row in rows if not row.counted_place.is_staged]
    waiting = [row for row in rows if row.counted_place.state is PlaceState.WAITING]
    live = [job for job in jobs(world) if job.job_id in started(world) and not job.status.terminal]
    if len(inside) > 1 or len(live) > 1:
        return f"{len(inside)} inside, {len(live)} at work"
    left = [each.place for _, each in world.index.admissions.all_freed]
    uncounted = sum(row.counted_place.uncounted for row in rows)
    if stored is not None and stored.admission.counting_until is None:
        admission = stored.admission
        active = len(inside) + sum(not place.is_staged for place in left)
        staged = len(rows) - len(inside) - uncounted + sum(place.is_staged for place in left)
        queued = len(waiting) + sum(place.state is PlaceState.WAITING for place in left)
        if (admission.active, admission.staged, admission.waiting) != (active, staged, queued):
            counts = f"{admission.active} inside, {admission.staged} staged, {admission.waiting} in line"
            return f"the admission state says {counts}; not so the rows"
    if any(row.counted_place.is_staged for row in rows for job in live if row.job_id == job.job_id):
        # Race place
        return "one is at work and not inside"
    if any(row.check_at != ASLEEP for row in waiting):
        return "one that waits is due"
    if any(job_id not in world.ledger.jobs for job_id in (row.job_id for row in waiting)):
        return "one waits that does not exist yet"
    return None


def jobs(world: World) -> list[Job]:
    return [stored.record.job for stored in world.ledger.jobs.values()]


def started(world: World) -> list[str]:
    return world.orchestrations.started


async def settled(world: World) -> None:
    """Runs the sweeper, and services that end active work, until nothing is left."""
    for turn in range(12):
        world.clock.advance(301 if turn else 3600)
        await sweep(world.context, world.orchestrations)
        assert wrong(world) is None
        assert not [row for row in world.index.active.values() if row.job_id not in world.ledger.jobs] or turn < 2
        for job in jobs(world):
            if job.status is JobStatus.PAUSED:
                await asks(ControlKind.RESUME, f"turn {turn}", job.job_id)(world)
            elif job.status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS) and job.job_id in started(world):
                await dispatch(world, job.job_id)
                await ends(job.job_id)(world)
        assert wrong(world) is None
        if not remaining(world):
            return
    raise AssertionError(f"left after {turn} sweeps: {remaining(world)}")


def remaining(world: World) -> list[str]:
    """Returns the remaining work."""
    left = [f"{job.job_id} is {job.status}" for job in jobs(world) if not job.status.terminal]
    left += [f"{job_id} has an ACTIVE row" for _, job_id in world.index.active]
    left += [f"{row.job_id} is FREED" for _, row in world.index.admissions.all_freed]
    admission = world.index.admissions.admissions["tenant_a"].admission
    counted = (admission.active_by_kind, admission.staged, admission.queues)
    return left if counted == ({}, 0, {}) else [*left, f"the admission state counts {counted}"]


async def state_of(world: World) -> str:
    """Returns the state that a sweep depends on, without fractions of a second."""
    active = [
        (row.job_id, row.counted_place, row.check_at.replace(microsecond=0)) for row in world.index.active.values()
    ]
    freed = [row for _, row in world.index.admissions.all_freed]
    admission = world.index.admissions.admissions["tenant_a"].admission
    counts = (admission.active_by_kind, admission.staged, admission.queues, admission.counting_until is None)
    orchestrations = (sorted(started(world)), sorted(each for each in world.ledger.jobs))
    return repr((await left(world), sorted(active, key=str), len(freed), counts, orchestrations))


async def meets(meeting: Meeting, case: Case, killed: tuple[str, int] | None, known: set[str]) -> int:
    """Returns the number of calls that the first of the works made.

    `known`: states from which the sweeper has settled all.
    """
    world = limited(meeting.world, max_inflight_per_tenant=1, overflow="stage")
    await prepared(world, case)
    meeting.killed, meeting.watch = killed, lambda: wrong(world)
    works = {str(place): work(apart(world)) for place, work in enumerate(case.works)}
    ended = await meeting.at_once(**works)
    if killed is None:
        # no process died: without any sweep no admitted job waits
        untold = [
            row.job_id
            for row in world.index.active.values()
            if row.counted_place.state is PlaceState.ADMITTED
            and row.job_id in world.ledger.jobs
            and (await world.job(row.job_id)).job.status is JobStatus.THROTTLED
        ]
        assert untold == [], ended
        # a work that gave up has requested a turn
        await served(world)
        rows = [row.counted_place.state for row in world.index.active.values()]
        if PlaceState.WAITING in rows:
            assert PlaceState.ADMITTED in rows, "one waits beside a free slot"
    if (state := await state_of(world)) not in known:
        await settled(world)
        known.add(state)
    return meeting._calls["0"]


def explore(case: Case, *, interruptions: int, kills: Callable[[int], range]) -> int:
    """Returns the number of orders. Raises AssertionError."""
    longest, known = [0] * len(case.works), set[str]()

    async def scenario(meeting: Meeting) -> None:
        await meets(meeting, case, None, known)
        for place in range(len(case.works)):
            longest[place] = max(longest[place], meeting._calls[str(place)])

    count = every_order(scenario, interruptions=interruptions)
    for place, calls in enumerate(longest):
        for call in kills(calls):

            async def with_a_death(meeting: Meeting, killed: tuple[str, int] = (str(place), call)) -> None:
                await meets(meeting, case, killed, known)

            count += every_order(with_a_death, interruptions=min(1, interruptions - 1))
    return count


#: a death at every n-th call; each case begins with another call
_EVERY = 9


#: those with the most orders
_LARGEST = (
    "two creations and an end",
    "a sweep, a creation and an end",
    "a withdrawal and its late creator",
)


@pytest.mark.parametrize("name", [name for name in CASES if name not in _LARGEST])
def test_the_admission_in_every_order(name: str) -> None:
    """Race admission: one interruption, or one of them killed at some of its calls: nothing is ever wrong, and all
    ends.
    """
    first = 1 + list(CASES).index(name) % _EVERY
    assert explore(CASES[name], interruptions=1, kills=lambda calls: range(first, calls + 1, _EVERY)) > 5


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("name", CASES)
def test_the_admission_in_every_order_for_long(name: str) -> None:
    """Two interruptions, and one of them killed at any call with one."""
    explore(CASES[name], interruptions=2, kills=lambda calls: range(1, calls + 1))


async def test_a_resumed_job_that_was_let_in_keeps_its_place(world: World) -> None:
    """Race place: its pause read it before the resume, and takes the slot away after it; of two interruptions."""
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    await prepared(world, Case(()))
    index, other = world.index, apart(world)
    meanwhile(index, "read_active", lambda: ends(FIRST)(other), after=True)
    meanwhile(index, "move_place", lambda: asks(ControlKind.RESUME, "2", SECOND)(other))
    await asks(ControlKind.PAUSE, job_id=SECOND)(world)
    assert (await world.job(SECOND)).job.status is JobStatus.QUEUED
    assert wrong(world) is None
    await settled(world)


async def test_a_job_that_was_paused_since_its_admission_does_not_start(world: World) -> None:
    """Race place: the end of another job admits it; before its start, a pause removes its slot, and a resume dies."""
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    await prepared(world, Case(()))
    other = apart(world)

    async def pauses_and_resumes() -> None:
        await asks(ControlKind.PAUSE, job_id=SECOND)(other)
        with failing(world.index, "move_places", error=Killed), pytest.raises(Killed):
            await asks(ControlKind.RESUME, "2", SECOND)(other)

    async def admitted() -> None:
        meanwhile(world.ledger, "commit", pauses_and_resumes)

    meanwhile(world.index, "write_admission", admitted, after=True)
    await ends(FIRST)(world)
    assert (await world.job(SECOND)).job.status is JobStatus.THROTTLED
    assert wrong(world) is None
    await settled(world)


def test_a_line_of_which_the_last_job_leaves_as_its_gate_opens() -> None:
    """A hold ends beside a cancel of the job that waits for it and a resume at a full gate: no queue is lost."""

    async def scenario(meeting: Meeting) -> None:
        world = replace(meeting.world, context=changed(meeting.world.context, gate_directory=GateDirectory()))
        now, other = world.clock.now(), envelope().request_type
        await world.index.admissions.enter_tenant("tenant_a", now - timedelta(days=1))
        hold = Hold(reason="x", actor="o", at=now, until=now + timedelta(microseconds=12))
        held = GateState(gate=Gate(GateKind.TYPE, "tenant_a", "OCR"), rule_seq=1, hold=hold)
        full = GateState(gate=Gate(GateKind.TYPE, "tenant_a", other), rule=Rule(max_active=1), rule_seq=1)
        admission = AdmissionState(tenant="tenant_a", counted_at=now).with_state(held).with_state(full)
        await world.index.write_admission(AdmissionWrite(before=None, after=admission))
        waits = await submitted(world, **ONE)
        await submitted(world, doc_id="e")
        paused = await submitted(world, doc_id="d")
        await asks(ControlKind.PAUSE, "0", paused)(world)
        works = (asks(ControlKind.CANCEL, "7", waits), asks(ControlKind.RESUME, "8", paused))
        await meeting.at_once(**{str(place): work(apart(world)) for place, work in enumerate(works)})
        admission = world.index.admissions.admissions["tenant_a"].admission
        rows = [row.counted_place for row in world.index.active.values()]
        rows += [row.place for _, row in world.index.admissions.all_freed]
        assert admission.staged == sum(place.is_staged for place in rows)
        assert {place.queue for place in rows if place.state is PlaceState.WAITING} <= admission.queues.keys()

    assert every_order(scenario, interruptions=2) > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_admission_that_is_built_otherwise_fails(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the choices that the admission state rests on is needed: one order, or one death, shows it."""
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        explore(CASES[MUTANTS[mutant]], interruptions=0, kills=lambda calls: range(1, calls + 1))
