"""`apply(record, occurrence, provenance)`: the only function that decides the effect of an occurrence on a job (R1).

`apply` is pure. The caller commits the outcome in one transaction and then raises the orchestration's event. If the
tables of `transitions` do not allow an occurrence that a platform service sent, the outcome is IGNORED (recorded or
counted, without other changes). If the tables do not allow a request of a caller or a function, the outcome is REFUSED.
"""

from __future__ import annotations

from shared.core.jobs import attempts, controls, recovery, redrive, replay, replies, staging
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Record
from shared.core.jobs.next_attempt import start_next
from shared.core.jobs.occurrences import (
    Admitted,
    Awaited,
    Control,
    DeadlinePassed,
    DependenciesSettled,
    DependencyFailed,
    Expired,
    Gated,
    LaneBacklog,
    Occurrence,
    OrchestrationEnded,
    PriorityChanged,
    PublishFailed,
    RecordAttempt,
    Redriven,
    RenewLease,
    Repaired,
    Replayed,
    ReplyArrived,
    TimePassed,
)
from shared.core.jobs.outcome import Outcome


def apply(record: Record, occurrence: Occurrence, provenance: Provenance) -> Outcome:
    """Decides the effect of `occurrence` on the job, from its rows only."""
    match occurrence:
        case ReplyArrived(reply, progress_s, next_attempt):
            outcome = replies.decide_reply(record, reply, provenance, progress_s=progress_s)
            return start_next(outcome, next_attempt, provenance) if next_attempt is not None else outcome
        case RecordAttempt(step_id, lease_id):
            return attempts.start(record, step_id, lease_id, provenance)
        case RenewLease(step_id, attempt_no):
            return attempts.renew(record, step_id, attempt_no, provenance)
        case PublishFailed(step_id, attempt_no, message):
            return attempts.fail_publish(record, step_id, attempt_no, message, provenance)
        case DeadlinePassed(step_id, attempt_no):
            return attempts.apply_deadline(record, step_id, attempt_no, provenance)
        case TimePassed(step_id):
            return attempts.apply_time_limit(record, step_id, provenance)
        case LaneBacklog(step_id, attempt_no, what):
            return attempts.apply_lane_backlog(record, step_id, attempt_no, what, provenance)
        case Gated(step_id, guard, why):
            return attempts.hold_back(record, step_id, guard, why, provenance)
        case OrchestrationEnded(instance_id, silent):
            return recovery.record_orchestration_end(record, instance_id, provenance, silent=silent)
        case Repaired():
            return recovery.record_repair(record, occurrence, provenance)
        case Control(kind):
            return controls.decide_control(record, kind, provenance)
        case Admitted():
            return staging.admit(record, occurrence, provenance)
        case Awaited():
            return staging.mark_awaited(record, provenance)
        case DependenciesSettled():
            return staging.release_dependent(record, provenance)
        case DependencyFailed(job_id):
            return staging.fail_dependent(record, job_id, provenance)
        case Expired():
            return staging.expire(record, provenance)
        case PriorityChanged(priority):
            return staging.change_priority(record, priority, provenance)
        case Redriven(job_id):
            return redrive.mark_redriven(record, job_id, provenance)
        case Replayed(job_id, mode):
            return replay.mark_replayed(record, job_id, mode, provenance)
