"""Selects the waiting jobs that a tenant's quotas admit, and computes the time of the next check (R49, R51)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from shared.contracts.instants import LAST
from shared.core.gates.admission_state import (
    EMERGENCY,
    AdmissionState,
    Candidate,
    GateVerdict,
    WaitingQueue,
    evaluate_gates,
    is_emergency,
    list_gates,
)
from shared.core.gates.log import LogEntry
from shared.core.gates.queues import TooManyQueues, add_waiting, admit_from_queue, find_queue, remove_waiting, set_queue
from shared.core.gates.rules import Directory

#: maximum number of jobs that one transaction admits
MAX_ADMITTED = 20
#: DUE time of a waiting job that the sweeper need not check
ASLEEP = LAST


@dataclass(frozen=True)
class QueuedJob:
    """A WAIT row: a job in a waiting queue."""

    candidate: Candidate
    queue: int
    #: RowKey of the job's idempotency record, without its prefix
    claim: str
    created_at: datetime
    #: time of the job's DUE row
    due_at: datetime = ASLEEP


@dataclass(frozen=True)
class AdmissionResult:
    """The jobs that an admission state admits at one time."""

    admission: AdmissionState
    admitted: tuple[QueuedJob, ...] = ()
    #: for each admitted job, in the same order: its quotas at the admission, for its history
    passed: tuple[tuple[dict[str, Any], ...], ...] = ()
    #: jobs that move to the queue of their source, since the source has a quota now, with the number of that queue
    requeued: tuple[tuple[QueuedJob, int], ...] = ()
    #: `True` if the transaction had no room for all jobs that could start
    more: bool = False
    #: queues whose quotas are open and that have no job to admit now; elapsed time alone does not change that
    exhausted: frozenset[int] = frozenset()
    #: log entries of the breakers that changed
    log: tuple[LogEntry, ...] = ()


class AdmissionRound:
    """A round of admissions. Each admission takes the first job of an open queue: emergency queues first, then the
    queue with the lowest rank.

    While `next_queue()` returns a queue, pass its first `room + 1` rows to `add_rows`. Then read `result`. A queue is
    read only if its first job is the next to admit.
    """

    def __init__(
        self, admission: AdmissionState, directory: Directory, now: datetime, *, room: int = MAX_ADMITTED
    ) -> None:
        self._admission = admission
        self._directory = directory
        self._now = now
        self.room = room
        #: rows that were read and not admitted, by queue
        self._rows: dict[int, list[QueuedJob]] = {}
        self._admitted: list[QueuedJob] = []
        self._passed: list[tuple[dict[str, Any], ...]] = []
        self._requeued: list[tuple[QueuedJob, int]] = []
        #: queues without further rows, and queues that must wait for another transaction
        self._exhausted: set[int] = set()

    def next_queue(self) -> int | None:
        """Admits jobs from the rows that were read. Returns the number of the queue to read next, or None if no more
        jobs can start or the transaction has no more room.
        """
        while self.room and (number := self._next_open()) is not None:
            if number not in self._rows:
                return number
            self._take_first(number)
        return None

    def add_rows(self, number: int, rows: Sequence[QueuedJob]) -> None:
        """Adds the first rows of a queue, in order."""
        self._rows[number] = list(rows)
        # an empty queue means that its jobs have ended: the FREED row of each lowers the queue's count
        self._set_head(number)

    @property
    def result(self) -> AdmissionResult:
        # a queue that received jobs from another one was not read to its end
        self._exhausted -= {target for _, target in self._requeued}
        return AdmissionResult(
            self._admission,
            tuple(self._admitted),
            tuple(self._passed),
            tuple(self._requeued),
            more=self._next_open() is not None,
            exhausted=frozenset(self._exhausted),
        )

    def _next_open(self) -> int | None:
        """Returns the number of the next open queue: emergency queues first, then the lowest rank. Returns None if no
        queue is open.
        """
        numbers = (number for number in self._admission.queues if number not in self._exhausted)
        ordered = sorted(
            numbers, key=lambda each: (not self._admission.queues[each].emergency, self._admission.queues[each].head)
        )
        return next(
            (number for number in ordered if is_open(self._admission, self._directory, number, self._now)), None
        )

    def _take_first(self, number: int) -> None:
        """Admits the first job of the queue, or moves the job to the queue of its source if the source has its own
        quota now.
        """
        job, source = self._rows[number][0], self._rows[number][0].candidate.source
        if self._admission.has_source(source) and source != self._admission.queues[number].source:
            try:
                # find the new queue before the old one is removed: a row cannot move to its own queue
                target, target_queue = find_queue(self._admission, self._directory, job.candidate)
            except TooManyQueues:
                # wait until another queue is empty
                self._exhausted.add(number)
                return
            self._admission = remove_waiting(self._admission, number)
            self._admission = add_waiting(self._admission, target, target_queue, job.candidate.rank)
            self._requeued.append((job, target))
            # the rows that were read of that queue are no longer in order
            self._rows.pop(target, None)
            self._exhausted.add(target)
        else:
            self._admission = admit_from_queue(self._admission, self._directory, number, job.candidate, self._now)
            self._admitted.append(job)
            self._passed.append(self._describe_gates(job.candidate))
        self._rows[number].pop(0)
        self.room -= 1
        if number in self._admission.queues:
            self._set_head(number)

    def _describe_gates(self, candidate: Candidate) -> tuple[dict[str, Any], ...]:
        """Returns the quotas with a rule, each with its number of active jobs, this job included."""
        found = []
        for gate in list_gates(self._admission, self._directory, candidate):
            if (rule := self._directory.find_rule(self._admission.state(gate))) is not None:
                active = self._admission.count_active(gate)
                found.append(
                    {"gate": gate.id, "name": gate.display_name, "active": active, "max_active": rule.max_active}
                )
        return tuple(found)

    def _set_head(self, number: int) -> None:
        rows = self._rows[number]
        if not rows:
            self._exhausted.add(number)
            return
        queue = replace(self._admission.queues[number], head=rows[0].candidate.rank)
        self._admission = set_queue(self._admission, number, queue)


def is_open(admission: AdmissionState, directory: Directory, number: int, now: datetime) -> bool:
    """Returns `True` if the quotas let the first job of the queue start."""
    return not any(verdict.blocks for verdict in evaluate_queue(admission, directory, admission.queues[number], now))


def evaluate_queue(
    admission: AdmissionState, directory: Directory, queue: WaitingQueue, now: datetime
) -> list[GateVerdict]:
    """Returns the verdict of each quota on the queue. If the tenant has no emergency rule, an emergency queue counts as
    an ordinary queue.
    """
    emergency = queue.emergency and is_emergency(admission, directory, EMERGENCY)
    return evaluate_gates(admission, directory, queue, now, emergency=emergency)


def has_earlier_job(admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime) -> bool:
    """Returns `True` if a waiting job that can start is ahead of `candidate`, which must then wait."""
    emergency = is_emergency(admission, directory, candidate.priority)
    own = (not emergency, candidate.rank)
    before = (number for number, queue in admission.queues.items() if (not queue.emergency, queue.head) < own)
    return any(is_open(admission, directory, number, now) for number in before)


#: minimum time until a wake-up
_SOONEST = timedelta(seconds=1)


def schedule_wake_up(
    admission: AdmissionState, directory: Directory, now: datetime, *, exhausted: Collection[int] = ()
) -> AdmissionState:
    """Returns the admission state with the wake-up time that its waiting queues need.

    An open queue in `exhausted` needs no wake-up. A wake-up that is already scheduled at that time or earlier stays.
    """
    at = find_next_wake_up(admission, directory, now, exhausted=exhausted)
    if at is None:
        return admission
    at = max(at, now + _SOONEST)
    is_on_its_way = admission.wake_at is not None and now < admission.wake_at <= at
    return admission if is_on_its_way else replace(admission, wake_at=at)


def find_next_wake_up(
    admission: AdmissionState, directory: Directory, now: datetime, *, exhausted: Collection[int] = ()
) -> datetime | None:
    """Returns the next time when a queue opens, or when the tenant can request an allocation because its other quotas
    open.

    Returns None if elapsed time alone opens no queue. Ignores open queues in `exhausted`, which have no job to admit
    now.
    """
    found: list[datetime] = []
    for number, queue in admission.queues.items():
        blocked = [verdict for verdict in evaluate_queue(admission, directory, queue, now) if verdict.blocks]
        by_time = [verdict.opens_at for verdict in blocked if not verdict.needs_allocation]
        if not blocked:
            found += [now] if number not in exhausted else []
        elif by_time and None not in by_time:
            found.append(max(at for at in by_time if at is not None))
    return min(found, default=None)
