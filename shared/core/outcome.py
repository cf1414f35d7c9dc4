"""What comes of an occurrence, and the steps that every decision shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from shared.core.history import Provenance, append
from shared.core.job import Event, Job, Record, Step, changes
from shared.core.states import JobStatus, StepStatus
from shared.core.transitions import JOB_TABLE, STEP_TABLE, JobTrigger, StepTrigger


class OutcomeKind(StrEnum):
    """The three ends of a decision (style: move, ignore, reject)."""

    MOVED = "MOVED"
    #: late, stale or repeated: at most an EVENT row
    IGNORED = "IGNORED"
    #: asked of us and not possible: nothing is written
    REFUSED = "REFUSED"


@dataclass(frozen=True)
class Outcome:
    """`record` is the job afterwards; where it `is` the job before, there is nothing to write."""

    kind: OutcomeKind
    record: Record
    events: tuple[Event, ...] = ()
    #: a stable code for IGNORED and REFUSED
    reason_code: str | None = None

    @property
    def transitioned(self) -> bool:
        return self.kind is OutcomeKind.MOVED


class NoSuchTransition(Exception):
    """The table has no row for this event in this state."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"{event} does not happen in {state}")
        self.state = state
        self.event = event


def ignored(record: Record, reason_code: str) -> Outcome:
    return Outcome(OutcomeKind.IGNORED, record, reason_code=reason_code)


def refused(record: Record, reason_code: str) -> Outcome:
    return Outcome(OutcomeKind.REFUSED, record, reason_code=reason_code)


def move_step(step: Step, event: StepTrigger, provenance: Provenance, **columns: Any) -> Step:
    """The step after `event`. Raises NoSuchMove where the table has no row."""
    row = STEP_TABLE[step.status].get(event)
    if row is None:
        raise NoSuchTransition(step.status, event)
    status = StepStatus(row.to)
    completed_at = provenance.at if status.terminal else None
    return replace(step, status=status, updated_at=provenance.at, completed_at=completed_at, **columns)


def move_job(record: Record, event: JobTrigger, provenance: Provenance, **columns: Any) -> Record:
    """The job after `event`, with what follows from its new state. Raises NoSuchMove where there is no row."""
    job = record.job
    row = JOB_TABLE[job.status].get(event)
    if row is None:
        raise NoSuchTransition(job.status, event)
    status = JobStatus(row.to)
    record = record.with_job(status=status, **columns)
    if status is JobStatus.PAUSED and job.status is not JobStatus.PAUSED:
        record = record.with_job(park_no=job.park_no + 1, paused_at=provenance.at, drained_at=provenance.at)
    if status.terminal:
        record = record.with_job(completed_at=provenance.at, paused_at=None, drained_at=None)
    if status is JobStatus.CANCELLED:
        steps = tuple(
            step if step.status.terminal else move_step(step, StepTrigger.CANCEL, provenance) for step in record.steps
        )
        record = Record(record.job, steps)
    return record


def cancel_in_flight(record: Record, provenance: Provenance) -> Record:
    """The steps that were on their way end with the job; those that never began stay PENDING."""
    steps = tuple(
        move_step(step, StepTrigger.CANCEL, provenance)
        if step.status.in_flight or step.status is StepStatus.FAILED_RETRY
        else step
        for step in record.steps
    )
    return Record(record.job, steps)


def transitioned(
    before: Record, after: Record, type_: str, provenance: Provenance, *, step: Step | None = None, **told: Any
) -> Outcome:
    """The outcome of a move: its EVENT row, with what changed, appended to `after`."""
    data = {**told.pop("data", {}), "changes": changes(before, after)}
    current = after.step(step.step_id) if step else None
    earlier = before.step(step.step_id) if step else None
    record, event = append(
        before,
        after,
        type_,
        provenance,
        step=current,
        from_status=earlier.status.value if earlier else None,
        data=data,
        **told,
    )
    return Outcome(OutcomeKind.MOVED, record, (event,))


def final_output(job: Job, last: Step) -> Any:
    """CONTRACT: the last step's `result_ref`, else the job's `output_ref`."""
    return last.result_ref if last.result_ref is not None else job.output_ref
