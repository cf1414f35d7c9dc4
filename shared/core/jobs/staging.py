"""Jobs before their start: waiting for other jobs (R53) or for quotas (R48), until they expire."""

from __future__ import annotations

from datetime import timedelta

from shared.core.jobs.history import EventType, Provenance
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import Admitted
from shared.core.jobs.outcome import Outcome, ignore, make_transition, refuse
from shared.core.jobs.reasons import IgnoreReason, Reason
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JobTrigger, NoSuchTransition, move_job


def admit(record: Record, admission: Admitted, provenance: Provenance) -> Outcome:
    """Admits the job: its total time starts now. The outcome is IGNORED unless the job is THROTTLED.

    The outcome is also IGNORED if the job was paused after the check of its slot. That pause removed the slot.
    """
    if record.job.status is not JobStatus.THROTTLED or record.job.park_no != admission.park_no:
        return ignore(record, IgnoreReason.ALREADY)
    total, waited_s = record.job.total_time_s, (provenance.at - record.job.created_at).total_seconds()
    after = move_job(
        record,
        JobTrigger.ADMITTED,
        provenance,
        admitted_at=provenance.at,
        deadline_at=provenance.at + timedelta(seconds=total) if total is not None else None,
    )
    data = {"gates": list(admission.gates), "waited_s": waited_s}
    return make_transition(record, after, EventType.ADMITTED, provenance, data=data)


def mark_awaited(record: Record, provenance: Provenance) -> Outcome:
    """Records that another job depends on this job. This job must notify that other job when this job ends. The outcome
    is IGNORED if this job has ended, or if it already has such a record.
    """
    if record.job.status.terminal:
        return ignore(record, IgnoreReason.JOB_TERMINAL)
    if record.job.awaited:
        return ignore(record, IgnoreReason.ALREADY)
    return make_transition(record, record.with_job(awaited=True), EventType.AWAITED, provenance)


def release_dependent(record: Record, provenance: Provenance) -> Outcome:
    """Makes the job wait for its quotas, since its dependencies ended with the results that the job requires. The
    outcome is IGNORED unless the job is WAITING_FOR_JOBS.
    """
    if record.job.status is not JobStatus.WAITING_FOR_JOBS:
        return ignore(record, IgnoreReason.ALREADY)
    after = move_job(record, JobTrigger.DEPENDENCIES_SETTLED, provenance, dependencies_settled_at=provenance.at)
    return make_transition(record, after, EventType.DEPENDENCIES_SETTLED, provenance)


def fail_dependent(record: Record, job_id: str, provenance: Provenance) -> Outcome:
    """Ends the job and names the dependency that did not succeed. The outcome is IGNORED unless the job is
    WAITING_FOR_JOBS.
    """
    if record.job.status is not JobStatus.WAITING_FOR_JOBS:
        return ignore(record, IgnoreReason.ALREADY)
    after = move_job(
        record,
        JobTrigger.DEPENDENCY_FAILED,
        provenance,
        error_code=Reason.DEPENDENCY_FAILED,
        error_message=f"dependency {job_id} did not succeed",
    )
    return make_transition(record, after, EventType.DEPENDENCY_FAILED, provenance, data={"job_id": job_id})


def change_priority(record: Record, priority: str, provenance: Provenance) -> Outcome:
    """Changes the priority with which the job waits (R67). The outcome is IGNORED if the job has that priority. The
    outcome is REFUSED if the job no longer waits.
    """
    job = record.job
    if job.status.terminal:
        return refuse(record, IgnoreReason.JOB_TERMINAL)
    if not job.is_staged:
        return refuse(record, f"PRIORITY_IN_{job.status}")
    if job.current_priority == priority:
        return ignore(record, IgnoreReason.ALREADY)
    data = {"from": job.current_priority, "to": priority}
    after = record.with_job(changed_priority=priority)
    return make_transition(record, after, EventType.PRIORITY_CHANGED, provenance, data=data)


def expire(record: Record, provenance: Provenance) -> Outcome:
    """Makes a job FAILED_FINAL that did not begin by its `expires_at`.

    The outcome is IGNORED if the job has ended. The outcome is REFUSED if the job has begun, or if its `expires_at` is
    absent or in the future.
    """
    job = record.job
    if job.status.terminal:
        return ignore(record, IgnoreReason.JOB_TERMINAL)
    if not job.is_staged or job.expires_at is None or provenance.at < job.expires_at:
        return refuse(record, IgnoreReason.LEASE_STILL_RUNS)
    try:
        after = move_job(
            record,
            JobTrigger.EXPIRED,
            provenance,
            error_code=Reason.TIME_EXCEEDED,
            error_message=f"the job did not start before {job.expires_at.isoformat()}",
        )
    except NoSuchTransition as no:
        return refuse(record, f"{no.trigger}_IN_{no.state}")
    return make_transition(record, after, EventType.TIME_EXCEEDED, provenance)
