"""Cancel, pause and resume (R11)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.jobs.history import EventType, Provenance
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.outcome import Outcome, ignore, make_transition, refuse
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JobTrigger, NoSuchTransition, move_job


def decide_control(record: Record, kind: ControlKind, provenance: Provenance) -> Outcome:
    """Applies a control. The outcome is IGNORED for a control without effect, REFUSED for an impossible control, and
    otherwise a transition.
    """
    job = record.job
    if job.status.terminal:
        if kind is ControlKind.CANCEL and job.status is JobStatus.CANCELLED:
            return ignore(record, IgnoreReason.ALREADY)
        return refuse(record, IgnoreReason.JOB_TERMINAL)
    if kind is ControlKind.RESUME and job.status not in (JobStatus.PAUSING, JobStatus.PAUSED):
        return ignore(record, IgnoreReason.NOT_PAUSED)
    try:
        after = move_job(record, _trigger(record, kind), provenance)
    except NoSuchTransition as no:
        return refuse(record, f"{kind}_IN_{no.state}")
    if after.job.status is job.status:
        return ignore(record, IgnoreReason.ALREADY)
    if kind is ControlKind.RESUME:
        after = _shift_clocks(after, provenance.at)
    cancelled = [
        new.step_id for old, new in zip(record.steps, after.steps, strict=True) if old.status is not new.status
    ]
    data = {"steps_cancelled": cancelled} if cancelled else {}
    return make_transition(record, after, EventType(f"{kind}_REQUESTED"), provenance, data=data)


def _trigger(record: Record, kind: ControlKind) -> JobTrigger:
    match kind:
        case ControlKind.CANCEL:
            # no service has a directive that the bus did not accept, so a cancelled job need not wait for it
            sent = any(step.status.in_flight and not step.owes_publish for step in record.steps)
            asked_before = record.job.status is JobStatus.CANCELLING
            return JobTrigger.CANCEL if sent or asked_before else JobTrigger.CANCEL_IDLE
        case ControlKind.PAUSE:
            return JobTrigger.PAUSE if record.in_flight else JobTrigger.PAUSE_IDLE
        case ControlKind.RESUME:
            if record.job.is_staged:
                return JobTrigger.RESUME_WAITING if record.job.is_dependent else JobTrigger.RESUME_STAGED
            return JobTrigger.RESUME_ACKED if record.job.first_ack_at else JobTrigger.RESUME_UNACKED


def _shift_clocks(record: Record, now: datetime) -> Record:
    """Returns the record with the PAUSED time added to backoffs and total times (R10), since the job's clocks were
    stopped.
    """
    paused_at = record.job.paused_at
    if paused_at is None:
        return record
    paused_for = now - paused_at
    steps = tuple(
        step
        if step.status.terminal or (step.due_at is None and step.deadline_at is None)
        else replace(step, due_at=_later(step.due_at, paused_for), deadline_at=_later(step.deadline_at, paused_for))
        for step in record.steps
    )
    deadline_at = _later(record.job.deadline_at, paused_for)
    return replace(record, steps=steps).with_job(paused_at=None, drained_at=None, deadline_at=deadline_at)


def _later(instant: datetime | None, by: timedelta) -> datetime | None:
    return instant + by if instant is not None else None
