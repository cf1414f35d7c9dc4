"""A job's place at its tenant's admission state, and what is owed between the two (R49): JOB decides, ACTIVE
follows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from shared.core.gates.admission import has_earlier_job
from shared.core.gates.admission_state import (
    EMERGENCY,
    AdmissionState,
    BlockReason,
    Candidate,
    GateVerdict,
    TooManyQueues,
    add_active,
    add_waiting,
    admit_candidate,
    evaluate_candidate,
    find_epoch,
    find_max_staged,
    find_queue,
    lengthen,
    make_queue,
    remove_active,
    remove_waiting,
)
from shared.core.gates.rules import Directory, GateState
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus


class PlaceState(StrEnum):
    """Where a job stands (ACTIVE.`state`); a row without it is of a job that passed, or needed to pass, no gate."""

    #: accepted; its rows may not exist yet
    ARRIVING = "ARRIVING"
    WAITING = "WAITING"
    #: inside: it holds a place
    ADMITTED = "ADMITTED"
    #: set aside, by a pause before it began or for jobs that it depends on: it holds nothing
    OFF = "OFF"
    #: it has ended and holds nothing; jobs that depend on it have yet to hear
    ENDED = "ENDED"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What ACTIVE says beside what it says of every job."""

    state: PlaceState = PlaceState.ADMITTED
    #: the status with which its rows are written, whoever writes them
    initial_status: JobStatus = JobStatus.QUEUED
    #: of one that waits
    queue: int | None = None
    candidate: Candidate
    #: of one that was let in: the last epoch of its type's breakers then; 0: none has ever opened
    breaker_epoch: int = 0
    #: jobs that it depends on and that have not been counted as ended
    dependencies_left: int = 0
    #: one of them that did not succeed
    failed_dependency: str | None = None
    #: each of them knows that somebody waits for its end
    marked: bool = False
    #: it came while its tenant's jobs were counted, and is in no count before it moves
    uncounted: bool = False

    @property
    def is_staged(self) -> bool:
        return self.state not in (PlaceState.ADMITTED, PlaceState.ENDED)

    @property
    def is_active(self) -> bool:
        """Returns whether the job holds a slot."""
        return self.state is PlaceState.ADMITTED


def mark_admitted(admission: AdmissionState, place: Place) -> Place:
    """The place of a job that goes in at this admission state."""
    epoch = find_epoch(admission, place.candidate.job_type)
    return replace(place, state=PlaceState.ADMITTED, queue=None, breaker_epoch=epoch)


class Owed(StrEnum):
    """What somebody has to do next, so that the job's place follows the job."""

    NOTHING = "NOTHING"
    #: into the line, or inside
    JOIN_QUEUE = "LINE_UP"
    #: it waits with another priority by now: to another place in line (R67)
    REORDER = "REORDER"
    #: it is inside: the job learns it and starts
    NOTIFY = "NOTIFY"
    #: it was paused before it began: its line or its place is another's
    STEP_OUT = "STEP_OUT"
    #: the jobs that it depends on have to know, or have ended already
    MARK = "MARK"
    #: they have all ended: it goes on to its gates
    SETTLE = "SETTLE"
    #: one of them did not succeed
    FAIL = "FAIL"
    #: it has ended, and its rows in the index do not say so
    END = "END"


def find_owed(job: Job, place: Place) -> Owed:
    """By the job's status and its place; starts are what they are without gates."""
    state = place.state
    if job.status.terminal:
        return Owed.END
    if job.status is JobStatus.WAITING_FOR_JOBS:
        return _find_owed_to_dependent(job, place)
    if job.status is JobStatus.THROTTLED:
        if state is PlaceState.ADMITTED:
            return Owed.NOTIFY
        if state is not PlaceState.WAITING:
            return Owed.JOIN_QUEUE
        return Owed.NOTHING if place.candidate.priority == job.current_priority else Owed.REORDER
    if job.status is JobStatus.PAUSED and job.is_staged and state is not PlaceState.OFF:
        return Owed.STEP_OUT
    return Owed.NOTHING


def _find_owed_to_dependent(job: Job, place: Place) -> Owed:
    if place.state is not PlaceState.OFF:
        return Owed.STEP_OUT
    if place.failed_dependency is not None and job.on_dependency_failure == "fail":
        return Owed.FAIL
    if not place.marked:
        return Owed.MARK
    return Owed.NOTHING if place.dependencies_left else Owed.SETTLE


def count_dependency(place: Place, job_id: str, *, succeeded: bool) -> Place:
    """The place with one dependency less, by what became of that job."""
    failed = place.failed_dependency if succeeded or place.failed_dependency is not None else job_id
    return replace(place, dependencies_left=max(0, place.dependencies_left - 1), failed_dependency=failed)


@dataclass(frozen=True)
class Decision:
    """What an admission state says to a new job."""

    admission: AdmissionState
    place: Place
    #: what each gate said
    verdicts: tuple[GateVerdict, ...]
    #: the gate that keeps it out; None: it goes in
    stopped_by: GateVerdict | None = None
    #: it is the n-th of its line
    position: int | None = None


class QueueFull(Exception):
    """As many jobs of the tenant are staged as may be."""

    def __init__(self, limit: int, verdict: GateVerdict) -> None:
        super().__init__(f"{limit} jobs are staged")
        self.limit = limit
        self.verdict = verdict


class QuotaRejects(Exception):
    """A limit that refuses instead of staging."""

    def __init__(self, verdict: GateVerdict) -> None:
        super().__init__(verdict.gate.words)
        self.verdict = verdict


def decide_arrival(admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime) -> Decision:
    """A new job: inside if all its gates are open and nobody waits before it, else staged.

    Raises Rejects and LineFull: nothing is to be written.
    """
    verdicts = tuple(evaluate_candidate(admission, directory, candidate, now))
    stopped_by = next((verdict for verdict in verdicts if verdict.blocked_by is not None), None)
    try:
        _, queue = find_queue(admission, directory, candidate)
    except TooManyQueues:
        raise QueueFull(len(admission.queues), stopped_by or verdicts[0]) from None
    if stopped_by is None and (queue.count or has_earlier_job(admission, directory, candidate, now)):
        # whatever the tenant's rule is, it is not what stops the job
        stopped_by = GateVerdict(verdicts[0].gate, BlockReason.LINE)
    if stopped_by is None:
        place = mark_admitted(admission, Place(initial_status=JobStatus.QUEUED, candidate=candidate))
        return Decision(admit_candidate(admission, directory, candidate, now), place, verdicts)
    blocked = [verdict for verdict in verdicts if verdict.blocked_by is not None] or [stopped_by]
    # whether a gate over all tenants is full is not known while another keeps the job from asking for a place
    known = [verdict for verdict in blocked if not verdict.needs_allocation] or blocked
    if (
        refusing := next((verdict for verdict in known if verdict.rule is not None and verdict.rule.rejects), None)
    ) is not None:
        raise QuotaRejects(refusing)
    if admission.staged >= (limit := find_max_staged(admission, directory)):
        raise QueueFull(limit, stopped_by)
    place = Place(state=PlaceState.ARRIVING, initial_status=JobStatus.THROTTLED, candidate=candidate)
    return Decision(replace(admission, staged=admission.staged + 1), place, verdicts, stopped_by, queue.count + 1)


def decide_dependent(
    admission: AdmissionState, directory: Directory, candidate: Candidate, dependencies: int, now: datetime
) -> Decision:
    """Decides on a new job that depends on others: it has no slot and counts as staged. Raises LineFull."""
    verdicts = tuple(evaluate_candidate(admission, directory, candidate, now))
    if admission.staged >= (limit := find_max_staged(admission, directory)):
        raise QueueFull(limit, verdicts[0])
    place = Place(
        state=PlaceState.OFF,
        initial_status=JobStatus.WAITING_FOR_JOBS,
        candidate=candidate,
        dependencies_left=dependencies,
    )
    return Decision(replace(admission, staged=admission.staged + 1), place, verdicts)


def admit_or_queue(
    admission: AdmissionState, directory: Directory, place: Place, now: datetime
) -> tuple[AdmissionState, Place]:
    """A job whose rows exist, ARRIVING or OFF: it is decided anew, inside or into its line. Raises LineFull."""
    if place.uncounted:
        admission, place = replace(admission, staged=admission.staged + 1), replace(place, uncounted=False)
    candidate = place.candidate
    verdicts = evaluate_candidate(admission, directory, candidate, now)
    try:
        number, queue = find_queue(admission, directory, candidate)
    except TooManyQueues:
        raise QueueFull(len(admission.queues), verdicts[0]) from None
    may_pass = not queue.count and all(verdict.blocked_by is None for verdict in verdicts)
    if may_pass and not has_earlier_job(admission, directory, candidate, now):
        active = admit_candidate(admission, directory, candidate, now)
        active = replace(active, staged=max(0, active.staged - 1))
        return active, mark_admitted(admission, place)
    return add_waiting(admission, number, queue, candidate.rank), replace(place, state=PlaceState.WAITING, queue=number)


def release(admission: AdmissionState, place: Place) -> AdmissionState:
    """What the job held at its end or withdrawal: its place, or its stand in line, and its share of the staged."""
    if place.state is PlaceState.ENDED or place.uncounted:
        return admission
    if place.state is PlaceState.ADMITTED:
        return remove_active(admission, place.candidate, place.breaker_epoch)
    if place.state is PlaceState.WAITING and place.queue is not None:
        admission = remove_waiting(admission, place.queue)
    return replace(admission, staged=max(0, admission.staged - 1))


def set_aside(admission: AdmissionState, place: Place) -> tuple[AdmissionState, Place]:
    """A job that was paused before it began: it holds nothing, and goes on being one of the staged."""
    after = release(admission, place)
    return replace(after, staged=after.staged + 1), replace(place, state=PlaceState.OFF, queue=None, uncounted=False)


def apply_count(admission: AdmissionState, places: list[Place], now: datetime) -> AdmissionState:
    """The admission state with the counts that the rows give: places inside, staged, and the lines as they stand."""
    gates = {id_: _clear_count(state) for id_, state in admission.gates.items()}
    shares = {id_: replace(share, breaker=replace(share.breaker, active=0)) for id_, share in admission.shares.items()}
    fresh = replace(
        admission, gates=gates, shares=shares, active_by_kind={}, active_by_source={}, emergencies=0, staged=0
    )
    queues = {number: replace(queue, count=0) for number, queue in admission.queues.items()}
    for place in places:
        if place.state is PlaceState.ENDED or place.uncounted:
            continue
        if not place.is_staged:
            fresh = add_active(fresh, place.candidate, place.breaker_epoch)
            continue
        fresh = replace(fresh, staged=fresh.staged + 1)
        if place.state is PlaceState.WAITING and place.queue is not None:
            number, candidate = place.queue, place.candidate
            # the admission state may have forgotten it
            known = queues.get(number) or make_queue(admission, candidate, emergency=candidate.priority == EMERGENCY)
            queues[number] = lengthen(known, candidate.rank)
    kept = {number: queue for number, queue in queues.items() if queue.count}
    return replace(fresh, queues=kept, counted_at=now, counting_until=None)


def _clear_count(state: GateState) -> GateState:
    breaker = state.breaker
    return state if breaker is None else replace(state, breaker=replace(breaker, active=0))
