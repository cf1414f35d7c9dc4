"""A job's `Place` in its tenant's admission, and the action that makes the `Place` agree with the job (R49).

The JOB row decides, and the ACTIVE row follows.
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
    add_active,
    admit_candidate,
    evaluate_candidate,
    find_epoch,
    find_last_to_open,
    remove_active,
)
from shared.core.gates.queues import (
    TooManyQueues,
    add_waiting,
    find_max_staged,
    find_queue,
    lengthen,
    make_queue,
    remove_staged,
    remove_waiting,
)
from shared.core.gates.rules import Directory, GateState
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus


class PlaceState(StrEnum):
    """The `state` of an ACTIVE row. A row without `state` belongs to a job that had neither quotas nor
    dependencies at its creation.
    """

    #: accepted; possibly without rows yet
    ARRIVING = "ARRIVING"
    WAITING = "WAITING"
    #: active: it holds a slot
    ADMITTED = "ADMITTED"
    #: set aside before its start, by a pause or for its dependencies: it holds no slot
    OFF = "OFF"
    #: ended: it holds no slot, but its dependants are not notified yet
    ENDED = "ENDED"


@dataclass(frozen=True, kw_only=True)
class Place:
    """The quota columns of an ACTIVE row."""

    state: PlaceState = PlaceState.ADMITTED
    #: status in which every process creates the job's rows
    initial_status: JobStatus = JobStatus.QUEUED
    #: number of its waiting queue; None if it does not wait
    queue: int | None = None
    candidate: Candidate
    #: last epoch of its type's breakers at its admission; 0: no breaker had opened or been reset
    breaker_epoch: int = 0
    #: number of dependencies whose end is not counted yet
    dependencies_left: int = 0
    #: id of a dependency that did not succeed
    failed_dependency: str | None = None
    #: `True` if each dependency has the row that notifies this job
    marked: bool = False
    #: `True` if the job was created during a count of the tenant's jobs; no count includes it until its place changes
    uncounted: bool = False

    @property
    def is_staged(self) -> bool:
        return self.state not in (PlaceState.ADMITTED, PlaceState.ENDED)

    @property
    def is_active(self) -> bool:
        """Returns `True` if the job holds a slot."""
        return self.state is PlaceState.ADMITTED


def mark_admitted(admission: AdmissionState, place: Place) -> Place:
    """Returns the `Place` of a job that the admission state admits now."""
    epoch = find_epoch(admission, place.candidate.job_type)
    return replace(place, state=PlaceState.ADMITTED, queue=None, breaker_epoch=epoch)


class Owed(StrEnum):
    """The action that makes the job's `Place` agree with the job."""

    NOTHING = "NOTHING"
    #: add it to its waiting queue, or admit it
    JOIN_QUEUE = "LINE_UP"
    #: the priority of the job changed: move it within the waiting queue (R67)
    REORDER = "REORDER"
    #: start the admitted job
    NOTIFY = "NOTIFY"
    #: remove its slot or queue position: it was paused before it began, or it waits for other jobs
    STEP_OUT = "STEP_OUT"
    #: write the rows by which the ends of its dependencies notify it
    MARK = "MARK"
    #: the dependencies of the job have ended: let it wait for its quotas
    SETTLE = "SETTLE"
    #: end it: a dependency did not succeed
    FAIL = "FAIL"
    #: the job has ended: move its rows in the index
    END = "END"


def find_owed(job: Job, place: Place) -> Owed:
    """Returns the next action by the job's status and `Place`, or `NOTHING` if both agree."""
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
    """Returns the `Place` after a dependency of the job ended.

    The `Place` stores the id of the first dependency that did not succeed.
    """
    failed = place.failed_dependency if succeeded or place.failed_dependency is not None else job_id
    return replace(place, dependencies_left=max(0, place.dependencies_left - 1), failed_dependency=failed)


@dataclass(frozen=True)
class Decision:
    """The decision of an admission state on a new job."""

    admission: AdmissionState
    place: Place
    #: verdict of each quota
    verdicts: tuple[GateVerdict, ...]
    #: the quota that stops the job; None if the job starts, or waits for other jobs
    stopped_by: GateVerdict | None = None
    #: position in its queue, from 1 on; None if it waits in no queue
    position: int | None = None


class QueueFull(Exception):
    """The tenant has the maximum number of waiting jobs, or of waiting queues."""

    def __init__(self, limit: int, verdict: GateVerdict) -> None:
        super().__init__(f"the tenant has the maximum of {limit} waiting jobs or waiting queues")
        self.limit = limit
        self.verdict = verdict


class QuotaRejects(Exception):
    """A quota refuses the job instead of letting it wait."""

    def __init__(self, verdict: GateVerdict) -> None:
        super().__init__(verdict.gate.display_name)
        self.verdict = verdict


def decide_arrival(admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime) -> Decision:
    """Decides on a new job: active if all its quotas are open, its queue is empty, and no job ahead of it can start.
    Otherwise the job is staged.

    Raises QuotaRejects and QueueFull. The caller then writes nothing.
    """
    verdicts = tuple(evaluate_candidate(admission, directory, candidate, now))
    stopped_by = find_last_to_open(verdicts)
    try:
        _, queue = find_queue(admission, directory, candidate)
    except TooManyQueues:
        raise QueueFull(len(admission.queues), stopped_by or verdicts[0]) from None
    if stopped_by is None and (queue.count or has_earlier_job(admission, directory, candidate, now)):
        # the rule of that quota does not stop the job
        stopped_by = GateVerdict(verdicts[0].gate, BlockReason.LINE)
    if stopped_by is None:
        place = mark_admitted(admission, Place(initial_status=JobStatus.QUEUED, candidate=candidate))
        return Decision(admit_candidate(admission, directory, candidate, now), place, verdicts)
    blocked = [verdict for verdict in verdicts if verdict.blocks] or [stopped_by]
    # another quota stops the job before it requests a slot, so no allocation shows whether this quota is full
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
    """Decides on a new job with dependencies: the job has no slot and counts as staged. Raises QueueFull."""
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
    """Admits a job whose rows exist and whose `Place` is ARRIVING or OFF, or adds the job to its queue. Returns the
    admission state and the `Place`. Raises QueueFull.
    """
    if place.uncounted:
        admission, place = replace(admission, staged=admission.staged + 1), replace(place, uncounted=False)
    candidate = place.candidate
    verdicts = evaluate_candidate(admission, directory, candidate, now)
    try:
        number, queue = find_queue(admission, directory, candidate)
    except TooManyQueues:
        raise QueueFull(len(admission.queues), verdicts[0]) from None
    may_pass = not queue.count and not any(verdict.blocks for verdict in verdicts)
    if may_pass and not has_earlier_job(admission, directory, candidate, now):
        active = admit_candidate(admission, directory, candidate, now)
        return remove_staged(active), mark_admitted(admission, place)
    return add_waiting(admission, number, queue, candidate.rank), replace(place, state=PlaceState.WAITING, queue=number)


def release(admission: AdmissionState, place: Place) -> AdmissionState:
    """Returns the admission state without the slot, or without the queue position and staged count, of a job that ended
    or was withdrawn.
    """
    if place.state is PlaceState.ENDED or place.uncounted:
        return admission
    if place.state is PlaceState.ADMITTED:
        return remove_active(admission, place.candidate, place.breaker_epoch)
    if place.state is PlaceState.WAITING and place.queue is not None:
        admission = remove_waiting(admission, place.queue)
    return remove_staged(admission)


def set_aside(admission: AdmissionState, place: Place) -> tuple[AdmissionState, Place]:
    """Releases the slot or queue position of a job that was paused before it began. The job still counts as staged.

    Returns the admission state and the job's `Place`.
    """
    after = release(admission, place)
    return replace(after, staged=after.staged + 1), replace(place, state=PlaceState.OFF, queue=None, uncounted=False)


def apply_count(admission: AdmissionState, places: list[Place], now: datetime) -> AdmissionState:
    """Returns the admission state with the counts of these `places`: active, staged, and the waiting queues."""
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
            # the admission state may no longer have the queue
            known = queues.get(number) or make_queue(admission, candidate, emergency=candidate.priority == EMERGENCY)
            queues[number] = lengthen(known, candidate.rank)
    kept = {number: queue for number, queue in queues.items() if queue.count}
    return replace(fresh, queues=kept, counted_at=now, counting_until=None)


def _clear_count(state: GateState) -> GateState:
    breaker = state.breaker
    return state if breaker is None else replace(state, breaker=replace(breaker, active=0))
