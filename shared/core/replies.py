"""What a reply does to a job (the table in LIFECYCLE "Replies")."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.contracts.messages import Reply
from shared.core.attempts import ATTEMPTS_EXHAUSTED, fail_final, fail_retry, lease_until
from shared.core.history import Provenance, append
from shared.core.job import Record, Step
from shared.core.outcome import (
    NoSuchTransition,
    Outcome,
    OutcomeKind,
    final_output,
    ignored,
    move_job,
    move_step,
    transitioned,
)
from shared.core.retry import backoff_s
from shared.core.routing import normalise
from shared.core.states import FailureCause, JobStatus, StepStatus
from shared.core.transitions import JobTrigger, StepTrigger

#: DESIGN truth 4: after this many ignored replies for one attempt, further ones are only counted
MAX_IGNORED_EVENTS = 20

#: LIFECYCLE: a heartbeat is written once this share of the lease has gone by
HEARTBEAT_SHARE_OF_LEASE = 0.25
#: the same where the service declares a cadence, of which the lease is two
HEARTBEAT_SHARE_OF_CADENCE = 0.5

#: Race revived: such an attempt may still be taken, until the next one is recorded
_TIMED_OUT = (FailureCause.ACK_TIMEOUT, FailureCause.LEASE_EXPIRED)


def decide_reply(record: Record, reply: Reply, provenance: Provenance) -> Outcome:
    """ACK, HEARTBEAT or RESULT, for whatever attempt, in whatever order."""
    step = record.step(reply.stepId)
    reason_code = _rejection(record, step, reply)
    if reason_code is not None or step is None:
        return _ignore(record, reply, reason_code or "UNKNOWN_STEP", provenance)
    step = _revive(step)
    try:
        match reply.type:
            case "ACK":
                return _accept(record, step, reply, StepTrigger.ACK, provenance)
            case "HEARTBEAT":
                return _heartbeat(record, step, reply, provenance)
            case "RESULT":
                return _result(record, step, reply, provenance)
    except NoSuchTransition:
        return _ignore(record, reply, _late_or_repeated(step, reply), provenance)


def _rejection(record: Record, step: Step | None, reply: Reply) -> str | None:
    """The stable code for why a reply changes nothing; None where the tables decide."""
    job = record.job
    if normalise(reply.tenant_id) != job.tenant:
        return "TENANT_MISMATCH"
    if step is None:
        return "UNKNOWN_STEP"
    if (reply.attempt_no, reply.lease_id) != (step.attempt_no, step.lease_id):
        return "STALE_ATTEMPT"
    if job.status.terminal:
        return "JOB_TERMINAL"
    if step.status is StepStatus.FAILED_RETRY:
        if step.retry_cause not in _TIMED_OUT:
            return "LATE"  # the first RESULT of an attempt stands
        if job.status is JobStatus.PAUSED and reply.type != "RESULT":
            return "LATE"  # PAUSED means drained: only finished work is still taken
    return None


def _revive(step: Step) -> Step:
    """A revived attempt had not failed after all: its time-out no longer counts towards the backoff."""
    if step.retry_cause is FailureCause.ACK_TIMEOUT:
        return replace(step, ack_failures=step.ack_failures - 1)
    if step.retry_cause is FailureCause.LEASE_EXPIRED:
        return replace(step, execution_failures=step.execution_failures - 1)
    return step


def _late_or_repeated(step: Step, reply: Reply) -> str:
    repeated = reply.type == "ACK" and step.status is StepStatus.PROCESSING
    return "DUPLICATE" if repeated or (reply.type == "RESULT" and step.status.terminal) else "LATE"


def _accept(record: Record, step: Step, reply: Reply, event: StepTrigger, provenance: Provenance) -> Outcome:
    columns: dict[str, Any] = {
        "due_at": None,
        "retry_cause": None,
        "backlog_since": None,
        "lease_expires_at": lease_until(record, step, provenance.at),
    }
    if reply.progress is not None:
        columns["progress"] = reply.progress
    taken = move_step(step, event, provenance, **columns)
    after = _acked(record.with_step(taken), provenance)
    return transitioned(record, after, reply.type, provenance, step=taken, data=_event_data(reply))


def _heartbeat(record: Record, step: Step, reply: Reply, provenance: Provenance) -> Outcome:
    if step.status is not StepStatus.PROCESSING:
        return _accept(record, step, reply, StepTrigger.HEARTBEAT, provenance)
    if record.job.status is JobStatus.CANCELLING:
        return _ignore(record, reply, "CANCELLING", provenance)
    if not _heartbeat_due(step, provenance) or lease_until(record, step, provenance.at) == step.lease_expires_at:
        return ignored(record, "HEARTBEAT_NOT_DUE")
    columns: dict[str, Any] = {"lease_expires_at": lease_until(record, step, provenance.at), "backlog_since": None}
    if reply.progress is not None:
        columns["progress"] = reply.progress
    beating = move_step(step, StepTrigger.HEARTBEAT, provenance, **columns)
    return transitioned(
        record, record.with_step(beating), "HEARTBEAT", provenance, step=beating, data=_event_data(reply)
    )


def _heartbeat_due(step: Step, provenance: Provenance) -> bool:
    """A write only when it moves the lease by a set share, so that chatty services cost little."""
    timings = step.timings
    if timings.heartbeat_cadence_s is not None:
        share_s = HEARTBEAT_SHARE_OF_CADENCE * timings.heartbeat_cadence_s
    else:
        share_s = HEARTBEAT_SHARE_OF_LEASE * timings.running_lease_s
    if step.lease_expires_at is None:
        return True
    started = step.lease_expires_at - timedelta(seconds=timings.running_lease_s)
    return (provenance.at - started).total_seconds() >= share_s


def _result(record: Record, step: Step, reply: Reply, provenance: Provenance) -> Outcome:
    told = _event_data(reply)
    if step.status is StepStatus.INITIATED:
        told["overtook_ack"] = True
    acked = _acked(record, provenance)
    code = reply.error.code if reply.error else None
    message = reply.error.message if reply.error else None
    if reply.status == "SUCCEEDED":
        return _succeeded(record, acked, step, reply, provenance, told)
    if reply.status == "FAILED_FINAL":
        return fail_final(
            acked,
            step,
            provenance,
            before=record,
            type_="RESULT",
            job_code=code or "FAILED_FINAL",
            step_code=code,
            message=message,
            retry_cause=None,
            data=told,
        )
    if step.attempt_no >= step.timings.max_attempts:
        return fail_final(
            acked,
            step,
            provenance,
            before=record,
            type_="RESULT",
            job_code=ATTEMPTS_EXHAUSTED,
            step_code=code,
            message=message,
            retry_cause=None,
            data=told,
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
        type_="RESULT",
        code=code,
        message=message,
        wait_s=wait_s,
        execution_failures=failures,
        data=told,
    )


def _succeeded(
    before: Record, record: Record, step: Step, reply: Reply, provenance: Provenance, told: dict[str, Any]
) -> Outcome:
    done = move_step(
        step,
        StepTrigger.SUCCEED,
        provenance,
        due_at=None,
        retry_cause=None,
        result_ref=reply.result_ref.model_dump() if reply.result_ref else None,
    )
    after = record.with_step(done)
    # Race siblings: all rows of the group are decided on under JOB's ETag, so one of two that end at once is last
    last = all(other.status is StepStatus.SUCCEEDED for other in after.steps)
    if last:
        event = JobTrigger.LAST_STEP_SUCCEEDED
    else:
        event = JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_SUCCEEDED
    after = move_job(after, event, provenance)
    if after.job.status is JobStatus.SUCCEEDED:
        after = after.with_job(final_output=final_output(after.job, after.steps[-1]))
    return transitioned(before, after, "RESULT", provenance, step=done, data=told)


def _acked(record: Record, provenance: Provenance) -> Record:
    """A service has taken the job up: by an ACK, or by something that overtook it."""
    return move_job(record, JobTrigger.ACKED, provenance, first_ack_at=record.job.first_ack_at or provenance.at)


def _event_data(reply: Reply) -> dict[str, Any]:
    """What of the reply goes into the EVENT row beside the columns that it changed."""
    told = {
        "result": reply.status,
        "error": reply.error.model_dump() if reply.error else None,
        "metrics": reply.metrics,
        "note": reply.note,
        "sent_at": reply.timestamp.isoformat() if reply.timestamp else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _ignore(record: Record, reply: Reply, reason_code: str, provenance: Provenance) -> Outcome:
    """An EVENT row and nothing else; past the limit, only a count."""
    key = f"{reply.stepId}:{reply.attempt_no}"
    count = record.job.suppressed.get(key, 0) + 1
    after = record.with_job(suppressed={**record.job.suppressed, key: count}, updated_at=provenance.at)
    if count > MAX_IGNORED_EVENTS:
        return Outcome(OutcomeKind.IGNORED, after, reason_code=reason_code)
    after, event = append(
        record,
        after,
        "REPLY_IGNORED",
        provenance,
        step_id=reply.stepId,
        attempt_no=reply.attempt_no,
        lease_id=reply.lease_id,
        reason=reason_code,
        data={"reply": reply.type, **_event_data(reply)},
    )
    return Outcome(OutcomeKind.IGNORED, after, (event,), reason_code)
