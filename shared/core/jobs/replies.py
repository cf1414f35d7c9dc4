"""The effect of a reply on a job, and the stored parts of the reply (R3, R5 to R8, R46)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.contracts.messages import Reply
from shared.core.jobs.attempts import attempt_deadline, fail_final, fail_retry, lease_until
from shared.core.jobs.history import EventType, Provenance, append, lease_digest
from shared.core.jobs.job import Record, Step
from shared.core.jobs.outcome import Outcome, OutcomeKind, find_final_output, ignore, make_transition, refuse
from shared.core.jobs.reasons import IgnoreReason, Reason
from shared.core.jobs.retry import backoff_s
from shared.core.jobs.routing import normalise
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from shared.core.jobs.transitions import JobTrigger, NoSuchTransition, StepTrigger, move_job, move_step

#: maximum number of EVENT rows for ignored replies of a job. Further ones are only counted (R3), since any sender can
#: send them
MAX_IGNORED_EVENTS = 20

#: share of the lease after which a heartbeat is written
HEARTBEAT_SHARE_OF_LEASE = 0.25
#: share of the declared cadence after which a heartbeat is written; the lease is two cadences
HEARTBEAT_SHARE_OF_CADENCE = 0.5
#: number of recorded heartbeats of a step after which new progress alone causes no write, so that progress does not
#: fill histories
MAX_HEARTBEATS = 2_000

#: Race revived: a reply of such an attempt is still accepted until the next attempt is recorded
_TIMED_OUT = (FailureCause.ACK_TIMEOUT, FailureCause.LEASE_EXPIRED)


def decide_reply(record: Record, reply: Reply, provenance: Provenance, *, progress_s: float | None = None) -> Outcome:
    """Decides the effect of an ACK, HEARTBEAT or RESULT of any attempt, in any order.

    The outcome is REFUSED if the reply names another tenant or an unknown step. The job then has no event for the
    reply.
    """
    step = record.step(reply.stepId)
    reason_code = _find_rejection(record, step, reply, provenance)
    if step is None or reason_code is IgnoreReason.TENANT_MISMATCH:
        return refuse(record, reason_code or IgnoreReason.UNKNOWN_STEP)
    if reason_code is not None:
        return _ignore(record, reply, reason_code, provenance)
    step = _revive(step)
    try:
        match reply.type:
            case "ACK":
                return _accept(record, step, reply, StepTrigger.ACK, provenance)
            case "HEARTBEAT":
                return _apply_heartbeat(record, step, reply, provenance, progress_s)
            case "RESULT":
                return _apply_result(record, step, reply, provenance)
    except NoSuchTransition:
        return _ignore(record, reply, _late_or_repeated(step, reply), provenance)


def holds_lease(step: Step, reply: Reply) -> bool:
    """Returns `True` if the reply has the lease of the step's current attempt. Only the directive of that attempt has
    this lease.
    """
    return (reply.attempt_no, lease_digest(reply.lease_id)) == (step.attempt_no, step.lease_digest)


def _find_rejection(record: Record, step: Step | None, reply: Reply, provenance: Provenance) -> IgnoreReason | None:
    """Returns the reason why a reply has no effect, in any state, or None if the tables decide."""
    job = record.job
    if normalise(reply.tenant_id) != job.tenant:
        return IgnoreReason.TENANT_MISMATCH
    if step is None:
        return IgnoreReason.UNKNOWN_STEP
    if not holds_lease(step, reply):
        return IgnoreReason.STALE_ATTEMPT
    if job.status.terminal:
        return IgnoreReason.JOB_TERMINAL
    if step.status is StepStatus.FAILED_RETRY:
        if step.retry_cause not in _TIMED_OUT:
            return IgnoreReason.LATE  # an attempt has only one RESULT, the first (R6)
        if job.status is JobStatus.PAUSED and reply.type != "RESULT":
            return IgnoreReason.LATE  # nothing is in flight while PAUSED: only a RESULT is accepted (R7)
        if step.attempt_is_over(provenance.at) and reply.type != "RESULT":
            return IgnoreReason.LATE  # the maximum duration of the attempt is over: only a RESULT is accepted (R10)
    return None


def _revive(step: Step) -> Step:
    """Subtracts the timeout of the revived attempt from the failures that select the backoff (R7). Returns the step."""
    if step.retry_cause is FailureCause.ACK_TIMEOUT:
        return replace(step, ack_failures=step.ack_failures - 1)
    if step.retry_cause is FailureCause.LEASE_EXPIRED:
        return replace(step, execution_failures=step.execution_failures - 1)
    return step


def _late_or_repeated(step: Step, reply: Reply) -> IgnoreReason:
    repeated = reply.type == "ACK" and step.status is StepStatus.PROCESSING
    repeated = repeated or (reply.type == "RESULT" and step.status.terminal)
    return IgnoreReason.DUPLICATE if repeated else IgnoreReason.LATE


def _accept(record: Record, step: Step, reply: Reply, trigger: StepTrigger, provenance: Provenance) -> Outcome:
    """Makes the step PROCESSING with a running lease, since a service acknowledged the attempt."""
    columns: dict[str, Any] = {
        "due_at": None,
        "retry_cause": None,
        "backlog_since": None,
        "backlog_until": None,
        "attempt_deadline_at": attempt_deadline(step, provenance.at),
        "lease_expires_at": lease_until(record, step, provenance.at),
    }
    if reply.progress is not None:
        columns["progress"] = reply.progress
    after = _apply_ack(move_step(record, step, trigger, provenance, **columns), provenance)
    return make_transition(record, after, EventType(reply.type), provenance, step=step, data=_make_event_data(reply))


def _apply_heartbeat(
    record: Record, step: Step, reply: Reply, provenance: Provenance, progress_s: float | None
) -> Outcome:
    if step.status is not StepStatus.PROCESSING:
        return _accept(record, step, reply, StepTrigger.HEARTBEAT, provenance)
    if record.job.status is JobStatus.CANCELLING:
        return _ignore(record, reply, IgnoreReason.CANCELLING, provenance)
    lease_expires_at = lease_until(record, step, provenance.at)
    moves = lease_expires_at != step.lease_expires_at and _is_heartbeat_due(step, provenance)
    moves = moves or _is_progress_due(step, reply, provenance, progress_s)
    if step.attempt_is_over(provenance.at) or not moves:
        return ignore(record, IgnoreReason.HEARTBEAT_NOT_DUE)
    columns: dict[str, Any] = {"lease_expires_at": lease_expires_at, "backlog_since": None, "backlog_until": None}
    columns["heartbeats"] = step.heartbeats + 1
    if reply.progress is not None:
        columns["progress"] = reply.progress
    after = move_step(record, step, StepTrigger.HEARTBEAT, provenance, **columns)
    return make_transition(record, after, EventType.HEARTBEAT, provenance, step=step, data=_make_event_data(reply))


def _is_heartbeat_due(step: Step, provenance: Provenance) -> bool:
    """Returns `True` if the heartbeat must be written. The minimum time since the last start of the lease is half the
    cadence. For a step without a cadence, the minimum is a quarter of the lease.
    """
    timings = step.timings
    if timings.heartbeat_cadence_s is not None:
        share_s = HEARTBEAT_SHARE_OF_CADENCE * timings.heartbeat_cadence_s
    else:
        share_s = HEARTBEAT_SHARE_OF_LEASE * timings.running_lease_s
    if step.lease_expires_at is None:
        return True
    started = step.lease_expires_at - timedelta(seconds=timings.running_lease_s)
    return (provenance.at - started).total_seconds() >= share_s


def _is_progress_due(step: Step, reply: Reply, provenance: Provenance, progress_s: float | None) -> bool:
    """Returns `True` if the heartbeat has new progress and is `progress_s` seconds or more after the step's last write
    (R6).
    """
    if progress_s is None or reply.progress in (None, step.progress) or step.heartbeats >= MAX_HEARTBEATS:
        return False
    return (provenance.at - step.updated_at).total_seconds() >= progress_s


def _apply_result(record: Record, step: Step, reply: Reply, provenance: Provenance) -> Outcome:
    data = _make_event_data(reply)
    if step.status is StepStatus.INITIATED:
        data["overtook_ack"] = True
    acked = _apply_ack(record, provenance)
    if reply.status == "SUCCEEDED":
        return _apply_success(record, acked, step, reply, provenance, data)
    code = reply.error.code if reply.error else None
    message = (reply.error.message if reply.error else "") or reply.reason
    if reply.status == "FAILED_FINAL" or step.attempt_no >= step.timings.max_attempts:
        return fail_final(
            acked,
            step,
            provenance,
            before=record,
            type_=EventType.RESULT,
            job_code=(code or Reason.FAILED_FINAL) if reply.status == "FAILED_FINAL" else Reason.ATTEMPTS_EXHAUSTED,
            step_code=code,
            message=message,
            retry_cause=None,
            result=reply.content,
            data=data,
        )
    failures = step.execution_failures + 1
    wait_s = backoff_s(
        step.timings.execution_backoffs,
        failures,
        job_id=record.job.job_id,
        step_id=step.step_id,
        attempt_no=step.attempt_no,
    )
    return fail_retry(
        acked,
        step,
        FailureCause.RESULT,
        provenance,
        before=record,
        type_=EventType.RESULT,
        code=code,
        message=message,
        wait_s=wait_s,
        execution_failures=failures,
        result=reply.content,
        data=data,
    )


def _apply_success(
    before: Record, record: Record, step: Step, reply: Reply, provenance: Provenance, data: dict[str, Any]
) -> Outcome:
    after = move_step(
        record,
        step,
        StepTrigger.SUCCEED,
        provenance,
        due_at=None,
        retry_cause=None,
        result_ref=reply.result_ref.model_dump() if reply.result_ref else None,
        result=reply.content,
    )
    # Race siblings: all rows of the group are decided under JOB's ETag, so one of two steps that end together is last
    if all(other.status is StepStatus.SUCCEEDED for other in after.steps):
        trigger = JobTrigger.LAST_STEP_SUCCEEDED
    else:
        trigger = JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_SUCCEEDED
    after = move_job(after, trigger, provenance)
    if after.job.status is JobStatus.SUCCEEDED:
        after = after.with_job(final_output=find_final_output(after))
    return make_transition(before, after, EventType.RESULT, provenance, step=step, data=data)


def _apply_ack(record: Record, provenance: Provenance) -> Record:
    """Returns the record in which a service acknowledged the job, by an ACK or by a reply that arrived before the ACK
    (R6).
    """
    return move_job(record, JobTrigger.ACKED, provenance, first_ack_at=record.job.first_ack_at or provenance.at)


def _make_event_data(reply: Reply) -> dict[str, Any]:
    """Returns the reply's content for the EVENT row, besides the changed columns."""
    fields = {
        "result": reply.status,
        "error": reply.error.model_dump() if reply.error else None,
        "note": reply.note,
        "worker_id": reply.worker_id,
        "task_runner_id": reply.task_runner_id,
        "sent_at": reply.timestamp.isoformat() if reply.timestamp else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _ignore(record: Record, reply: Reply, reason_code: IgnoreReason, provenance: Provenance) -> Outcome:
    """Adds an EVENT row without another change of state. After `MAX_IGNORED_EVENTS` such rows, only counts the reply
    (R3).
    """
    count = record.job.suppressed + 1
    after = record.with_job(suppressed=count, updated_at=provenance.at)
    if count > MAX_IGNORED_EVENTS:
        return Outcome(OutcomeKind.IGNORED, after, reason_code=reason_code)
    after, event = append(
        record,
        after,
        EventType.REPLY_IGNORED,
        provenance,
        step_id=reply.stepId,
        attempt_no=reply.attempt_no,
        lease_digest=lease_digest(reply.lease_id),
        reason=reason_code.value,
        # the job's columns do not have this content
        data={"reply": reply.type, **_make_event_data(reply), **(reply.content or {})},
    )
    return Outcome(OutcomeKind.IGNORED, after, (event,), reason_code)
