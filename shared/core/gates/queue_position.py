"""Where a waiting job stands: its position, and when it may go in (R49)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core.gates import rate
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import (
    AdmissionState,
    BlockReason,
    GateVerdict,
    WaitingQueue,
    evaluate_gates,
)
from shared.core.gates.rules import GUARDS, Directory, Gate

#: positions are counted so far, and are "over 1,000" from there on
MAX_POSITION = 1_000


@dataclass(frozen=True)
class QueuePosition:
    """A job in line."""

    waiting: QueuedJob
    #: from 1 on; None: over `MAX_POSITION`
    position: int | None
    #: the gate that keeps it, or the others before it
    stopped_by: GateVerdict
    #: estimated start; None: time alone does not start it
    expected_at: datetime | None


@dataclass(frozen=True)
class TenantPart:
    """What one tenant has of a gate."""

    tenant: str
    #: it lets in while fewer of its jobs are inside
    slots: int
    active: int
    waiting: int
    oldest: QueuedJob | None


def find_queues(admission: AdmissionState, gate: Gate, *, only: bool = False) -> dict[int, WaitingQueue]:
    """The lines whose jobs have to pass the gate; a source's job may still stand in one that is of no source.

    `only`: the lines all of whose jobs have to.
    """
    if gate.kind in GUARDS:
        return {}
    key, names = gate.kind.key, (gate.name,) if only else (gate.name, None)
    return {number: queue for number, queue in admission.queues.items() if not key or getattr(queue, key) in names}


def count_waiting(admission: AdmissionState, gate: Gate) -> int:
    """How many wait for the gate, by the counts of its own lines."""
    return sum(queue.count for queue in find_queues(admission, gate, only=True).values())


def list_positions(
    admission: AdmissionState, directory: Directory, gate: Gate, rows: Mapping[int, Sequence[QueuedJob]], now: datetime
) -> Iterator[QueuePosition]:
    """The jobs of a gate's lines in the order in which they may go in; `rows` are the first of each line, in order."""
    found = (each for queue in rows.values() for each in queue)
    if gate.kind.key:
        found = (each for each in found if getattr(each.candidate, gate.kind.key) == gate.name)
    ordered = sorted(found, key=lambda each: compute_order(admission, each))
    for position, waiting in enumerate(ordered[:MAX_POSITION], start=1):
        yield find_position(admission, directory, waiting, position, now)


def compute_order(admission: AdmissionState, waiting: QueuedJob) -> tuple[int, int, str]:
    """Emergencies before all, then by rank."""
    queue = admission.queues.get(waiting.queue)
    return (0 if queue is not None and queue.emergency else 1, waiting.candidate.rank, waiting.candidate.job_id)


def find_position(
    admission: AdmissionState, directory: Directory, waiting: QueuedJob, position: int | None, now: datetime
) -> QueuePosition:
    queue = admission.queues.get(waiting.queue)
    candidate = waiting.candidate
    emergency = queue is not None and queue.emergency
    found = evaluate_gates(admission, directory, candidate, now, emergency=emergency)
    return QueuePosition(
        waiting, position, find_blocking_verdict(found), estimate_start(admission, found, position, now)
    )


def find_blocking_verdict(found: Sequence[GateVerdict]) -> GateVerdict:
    """The word to name: that of the first gate that is shut; of open ones the first, before which others wait."""
    return next(
        (verdict for verdict in found if verdict.blocked_by is not None),
        GateVerdict(found[0].gate, BlockReason.LINE, None, found[0].rule),
    )


def estimate_start(
    admission: AdmissionState, found: Iterable[GateVerdict], position: int | None, now: datetime
) -> datetime | None:
    """When time alone lets the job in at that position; None: nobody can say."""
    at = now
    for verdict in found:
        if position is None or (verdict.blocked_by is not None and verdict.opens_at is None):
            return None
        if verdict.blocked_by is BlockReason.BREAKER and position > 1:
            # whoever is first has to end well before
            return None
        at = max(at, verdict.opens_at or now, _estimate_by_rate(admission, verdict, position, now))
    return at


def _estimate_by_rate(admission: AdmissionState, verdict: GateVerdict, position: int, now: datetime) -> datetime:
    """When the gate's rate has earned as many starts as the job needs before its own."""
    state = rate.accrue(admission.state(verdict.gate), verdict.rule, now)
    per_hour = rate.find_rate(state, verdict.rule, now)
    if per_hour is None or state.credit is None:
        return now
    missing = position * rate.START - state.credit
    return now + timedelta(microseconds=max(0, -(-missing // per_hour)))
