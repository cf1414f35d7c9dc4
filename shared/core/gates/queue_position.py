"""The position of a waiting job, and its estimated start (R49)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core.gates import rate
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import (
    EMERGENCY,
    AdmissionState,
    BlockReason,
    GateVerdict,
    WaitingQueue,
    evaluate_gates,
    find_last_to_open,
    is_emergency,
)
from shared.core.gates.rules import GUARDS, Directory, Gate

#: maximum position that is counted; later ones show as "over 1,000"
MAX_POSITION = 1_000


@dataclass(frozen=True)
class QueuePosition:
    """The position of a waiting job, with the cause of the wait and the estimated start."""

    waiting: QueuedJob
    #: from 1 on; None means over `MAX_POSITION`
    position: int | None
    #: the quota that stops it, or the waiting jobs ahead of it
    stopped_by: GateVerdict
    #: estimated start; None if it does not start by time alone
    expected_at: datetime | None


@dataclass(frozen=True)
class TenantPart:
    """The part of a quota that one tenant has."""

    tenant: str
    #: number of active jobs below which the tenant admits jobs
    slots: int
    active: int
    waiting: int
    oldest: QueuedJob | None


def find_queues(admission: AdmissionState, gate: Gate, *, only: bool = False) -> dict[int, WaitingQueue]:
    """Returns the queues with jobs that must pass the quota. A source's job can still be in a queue without a source.

    With `only`, returns only queues in which every job must pass the quota.
    """
    if gate.kind in GUARDS:
        return {}
    key, names = gate.kind.key, (gate.name,) if only else (gate.name, None)
    return {number: queue for number, queue in admission.queues.items() if not key or getattr(queue, key) in names}


def count_waiting(admission: AdmissionState, gate: Gate) -> int:
    """Returns the number of jobs that wait for the quota, from the counts of the quota's own queues."""
    return sum(queue.count for queue in find_queues(admission, gate, only=True).values())


def list_positions(
    admission: AdmissionState, directory: Directory, gate: Gate, rows: Mapping[int, Sequence[QueuedJob]], now: datetime
) -> Iterator[QueuePosition]:
    """Yields the quota's waiting jobs in admission order, at most `MAX_POSITION`. `rows` has the first rows of each
    queue, in order.
    """
    found = (each for queue in rows.values() for each in queue)
    if gate.kind.key:
        found = (each for each in found if getattr(each.candidate, gate.kind.key) == gate.name)
    ordered = sorted(found, key=lambda each: compute_order(admission, each))
    for position, waiting in enumerate(ordered[:MAX_POSITION], start=1):
        yield find_position(admission, directory, waiting, position, now)


def compute_order(admission: AdmissionState, waiting: QueuedJob) -> tuple[int, int, str]:
    """Returns the sort key of a waiting job: emergencies first, then by rank."""
    queue = admission.queues.get(waiting.queue)
    return (0 if queue is not None and queue.emergency else 1, waiting.candidate.rank, waiting.candidate.job_id)


def find_position(
    admission: AdmissionState, directory: Directory, waiting: QueuedJob, position: int | None, now: datetime
) -> QueuePosition:
    """Returns the position with the quota that stops the job. Emergencies are ordinary jobs if the tenant has no limit
    for emergencies.
    """
    queue = admission.queues.get(waiting.queue)
    candidate = waiting.candidate
    emergency = queue is not None and queue.emergency and is_emergency(admission, directory, EMERGENCY)
    found = evaluate_gates(admission, directory, candidate, now, emergency=emergency)
    # without a quota that stops the job, the jobs ahead stop it
    stopped_by = find_last_to_open(found) or GateVerdict(found[0].gate, BlockReason.LINE, None, found[0].rule)
    return QueuePosition(waiting, position, stopped_by, estimate_start(admission, found, position, now))


def estimate_start(
    admission: AdmissionState, found: Iterable[GateVerdict], position: int | None, now: datetime
) -> datetime | None:
    """Returns the time when elapsed time alone admits the job at that position. Returns None if the start depends on
    another event.
    """
    at = now
    for verdict in found:
        if position is None or (verdict.blocks and verdict.opens_at is None):
            return None
        if verdict.blocked_by is BlockReason.BREAKER and position > 1:
            # a job must succeed before the breaker admits another
            return None
        at = max(at, verdict.opens_at or now, _estimate_by_rate(admission, verdict, position, now))
    return at


def _estimate_by_rate(admission: AdmissionState, verdict: GateVerdict, position: int, now: datetime) -> datetime:
    """Returns the time when the quota's rate has earned the starts of this job and of the jobs ahead."""
    state = rate.accrue(admission.state(verdict.gate), verdict.rule, now)
    per_hour = rate.find_rate(state, verdict.rule, now)
    if per_hour is None or state.credit is None:
        return now
    missing = position * rate.START - state.credit
    return now + timedelta(microseconds=max(0, -(-missing // per_hour)))
