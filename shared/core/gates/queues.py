"""The waiting queues of an admission state, and its staged jobs (R49)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.core.gates.admission_state import (
    AdmissionState,
    Candidate,
    WaitingQueue,
    admit_candidate,
    is_emergency,
)
from shared.core.gates.rules import MAX_STAGED, Directory, Gate, GateKind

#: maximum number of queues in one admission state, which is one row; each waiting combination of job type, mode,
#: limited source and emergency needs one
MAX_QUEUES = 400


class TooManyQueues(Exception):
    """The tenant's jobs already wait in `MAX_QUEUES` queues."""


def make_queue(admission: AdmissionState, candidate: Candidate, *, emergency: bool) -> WaitingQueue:
    """Returns an empty queue for jobs with the type, mode and source of `candidate`, and with this `emergency`.

    All sources without a quota share a queue.
    """
    source = candidate.source if admission.has_source(candidate.source) else None
    return WaitingQueue(job_type=candidate.job_type, mode=candidate.mode, source=source, emergency=emergency)


def find_queue(admission: AdmissionState, directory: Directory, candidate: Candidate) -> tuple[int, WaitingQueue]:
    """Returns the number and queue in which the job waits. The queue is empty for the first job. Raises
    TooManyQueues.
    """
    requested = make_queue(admission, candidate, emergency=is_emergency(admission, directory, candidate.priority))
    for number, queue in admission.queues.items():
        if replace(queue, count=0, head=0) == requested:
            return number, queue
    if len(admission.queues) >= MAX_QUEUES:
        raise TooManyQueues
    return next(number for number in range(MAX_QUEUES) if number not in admission.queues), requested


def lengthen(queue: WaitingQueue, rank: int) -> WaitingQueue:
    """Returns the queue with one more job of that rank."""
    return replace(queue, count=queue.count + 1, head=min(queue.head, rank) if queue.count else rank)


def set_queue(admission: AdmissionState, number: int, queue: WaitingQueue) -> AdmissionState:
    """Returns the admission state with that queue."""
    return replace(admission, queues={**admission.queues, number: queue})


def add_waiting(admission: AdmissionState, number: int, queue: WaitingQueue, rank: int) -> AdmissionState:
    """Returns the admission state after adding a job of that rank to the queue."""
    return set_queue(admission, number, lengthen(queue, rank))


def remove_waiting(admission: AdmissionState, number: int) -> AdmissionState:
    """Returns the admission state after removing a job from the queue, and without the queue if the queue becomes
    empty.
    """
    queue = admission.queues.get(number)
    if queue is None:
        return admission
    if queue.count > 1:
        return set_queue(admission, number, replace(queue, count=queue.count - 1))
    return replace(admission, queues={each: kept for each, kept in admission.queues.items() if each != number})


def remove_staged(admission: AdmissionState) -> AdmissionState:
    """Returns the admission state after subtracting one staged job."""
    return replace(admission, staged=max(0, admission.staged - 1))


def admit_from_queue(
    admission: AdmissionState, directory: Directory, number: int, candidate: Candidate, now: datetime
) -> AdmissionState:
    """Returns the admission state after a waiting job of the queue becomes active."""
    return remove_staged(admit_candidate(remove_waiting(admission, number), directory, candidate, now))


def find_max_staged(admission: AdmissionState, directory: Directory) -> int:
    """Returns the maximum number of staged jobs of the tenant."""
    rule = directory.find_rule(admission.state(Gate(GateKind.TENANT, admission.tenant)))
    return rule.max_staged if rule is not None and rule.max_staged is not None else MAX_STAGED
