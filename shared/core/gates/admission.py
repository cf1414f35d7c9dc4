"""Who goes in next at a tenant's admission state, and when somebody has to look (R49, R51)."""

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
    TooManyQueues,
    WaitingQueue,
    add_waiting,
    admit_candidate,
    evaluate_gates,
    find_queue,
    is_emergency,
    list_gates,
    remove_waiting,
)
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import Directory

#: jobs that one transaction lets in
MAX_ADMITTED = 20
#: where the DUE row of a job stands that waits: it owes nothing, and nobody looks at it
ASLEEP = LAST


@dataclass(frozen=True)
class QueuedJob:
    """A WAIT row: a job in line."""

    candidate: Candidate
    queue: int
    #: as in its ACTIVE row
    claim: str
    created_at: datetime
    #: where its DUE row stands
    due_at: datetime = ASLEEP


@dataclass(frozen=True)
class AdmissionResult:
    """What an admission state lets in at one moment."""

    admission: AdmissionState
    admitted: tuple[QueuedJob, ...] = ()
    #: of each of those, in the same order, the gates that it passed, for its history
    passed: tuple[tuple[dict[str, Any], ...], ...] = ()
    #: to lines of their own, since their source has a gate by now; with the number of the new line
    requeued: tuple[tuple[QueuedJob, int], ...] = ()
    #: others could go in, if there were room in the transaction
    more: bool = False
    #: waiting queues that may admit, and of which no job could be admitted now: no time changes that
    exhausted: frozenset[int] = frozenset()
    #: of the breakers that moved with it
    log: tuple[LogEntry, ...] = ()


class AdmissionRound:
    """Who goes in next, lowest rank first among the lines whose gates are open; a line is read when it is its turn.

    Use: while `wants()` names a line, `load` its first rows, as many as `room` and one more; then take `result`.
    """

    def __init__(
        self, admission: AdmissionState, directory: Directory, now: datetime, *, room: int = MAX_ADMITTED
    ) -> None:
        self._admission = admission
        self._directory = directory
        self._now = now
        self.room = room
        #: rows of a line that were read and have not gone in
        self._heads: dict[int, list[QueuedJob]] = {}
        self._admitted: list[QueuedJob] = []
        self._passed: list[tuple[dict[str, Any], ...]] = []
        self._relined: list[tuple[QueuedJob, int]] = []
        #: lines of which all who were read are gone, and those that cannot go on in this transaction
        self._read_out: set[int] = set()

    def next_queue(self) -> int | None:
        """Lets in whom it can; the line that has to be read to go on, None: nobody else may go in."""
        while self.room and (number := self._next_open()) is not None:
            if number not in self._heads:
                return number
            self._take_first(number)
        return None

    def add_rows(self, number: int, rows: Sequence[QueuedJob]) -> None:
        """The first rows of the line, in its order."""
        self._heads[number] = list(rows)
        if not rows:
            # its jobs have left: the FREED row of each counts the line down
            self._read_out.add(number)
            return
        self._set_head(number)

    @property
    def result(self) -> AdmissionResult:
        # who has moved to another line was not looked at there
        self._read_out -= {target for _, target in self._relined}
        return AdmissionResult(
            self._admission,
            tuple(self._admitted),
            tuple(self._passed),
            tuple(self._relined),
            more=self._next_open() is not None,
            exhausted=frozenset(self._read_out),
        )

    def _next_open(self) -> int | None:
        """The line whose turn it is: emergencies before all, then the lowest rank."""
        numbers = (number for number in self._admission.queues if number not in self._read_out)
        ordered = sorted(
            numbers, key=lambda each: (not self._admission.queues[each].emergency, self._admission.queues[each].head)
        )
        return next(
            (number for number in ordered if is_open(self._admission, self._directory, number, self._now)), None
        )

    def _take_first(self, number: int) -> None:
        head = self._heads[number][0]
        queue = self._admission.queues[number]
        own = head.candidate.source if self._admission.has_source(head.candidate.source) else None
        if own != queue.source and own is not None:
            try:
                # while its old line is there: a row cannot move to where it stands
                target, target_queue = find_queue(self._admission, self._directory, head.candidate)
            except TooManyQueues:
                # until a line is empty
                self._read_out.add(number)
                return
            self._admission = remove_waiting(self._admission, number)
            self._heads[number].pop(0)
            self.room -= 1
            self._admission = add_waiting(self._admission, target, target_queue, head.candidate.rank)
            self._relined.append((head, target))
            # what was read of that line, if anything, is not its order any more
            self._heads.pop(target, None)
            self._read_out.add(target)
        else:
            self._heads[number].pop(0)
            self.room -= 1
            self._admission = admit_candidate(
                remove_waiting(self._admission, number), self._directory, head.candidate, self._now
            )
            self._admission = replace(self._admission, staged=max(0, self._admission.staged - 1))
            self._admitted.append(head)
            self._passed.append(self._describe_gates(head.candidate))
        if number in self._admission.queues:
            self._set_head(number)

    def _describe_gates(self, candidate: Candidate) -> tuple[dict[str, Any], ...]:
        """Those with a rule, and how many are inside with the job."""
        found = []
        for gate in list_gates(self._admission, self._directory, candidate):
            if (rule := self._directory.find_rule(self._admission.state(gate))) is not None:
                active = self._admission.count_active(gate)
                found.append({"gate": gate.id, "name": gate.words, "active": active, "max_active": rule.max_active})
        return tuple(found)

    def _set_head(self, number: int) -> None:
        rows = self._heads[number]
        if not rows:
            self._read_out.add(number)
            return
        queue = self._admission.queues[number]
        self._admission = replace(
            self._admission, queues={**self._admission.queues, number: replace(queue, head=rows[0].candidate.rank)}
        )


def is_open(admission: AdmissionState, directory: Directory, number: int, now: datetime) -> bool:
    """Whether the first of the line may go in."""
    return all(
        verdict.blocked_by is None for verdict in evaluate_queue(admission, directory, admission.queues[number], now)
    )


def evaluate_queue(
    admission: AdmissionState, directory: Directory, queue: WaitingQueue, now: datetime
) -> list[GateVerdict]:
    """What the gates say to the line; an emergency is none any more where the rule that let it pass is gone."""
    emergency = queue.emergency and is_emergency(admission, directory, EMERGENCY)
    return evaluate_gates(admission, directory, queue, now, emergency=emergency)


def has_earlier_job(admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime) -> bool:
    """Whether somebody who may go in waits before the job: else whoever comes with a token would pass a line by."""
    emergency = is_emergency(admission, directory, candidate.priority)
    own = (not emergency, candidate.rank)
    before = (number for number, queue in admission.queues.items() if (not queue.emergency, queue.head) < own)
    return any(is_open(admission, directory, number, now) for number in before)


#: a call is made for so long ahead at least
_SOONEST = timedelta(seconds=1)


def schedule_wake_up(
    admission: AdmissionState, directory: Directory, now: datetime, *, exhausted: Collection[int] = ()
) -> AdmissionState:
    """Returns the admission state with the wake-up that its waiting queues need, but for those that are `exhausted`.

    A wake-up that is on its way stays if it is soon enough.
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
    """When time alone may open a line next, or the gates of its tenant, so that it may ask for a division; None: only
    an end or a person does. A line that is `exhausted` waits for the end of a job that left it, or for the sweeper.
    """
    found: list[datetime] = []
    for number, queue in admission.queues.items():
        blocked = [
            verdict for verdict in evaluate_queue(admission, directory, queue, now) if verdict.blocked_by is not None
        ]
        by_time = [verdict.opens_at for verdict in blocked if not verdict.needs_allocation]
        if not blocked:
            found += [now] if number not in exhausted else []
        elif by_time and None not in by_time:
            found.append(max(at for at in by_time if at is not None))
    return min(found, default=None)
