"""Attempts: recording one, renewing its lease, and how it ends without a reply (LIFECYCLE "Dispatch", "Replies")."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.history import Provenance
from shared.core.job import Record, Ref, Step
from shared.core.outcome import (
    NoSuchTransition,
    Outcome,
    cancel_in_flight,
    ignored,
    move_job,
    move_step,
    refused,
    transitioned,
)
from shared.core.retry import backoff_s
from shared.core.states import FailureCause, JobStatus, StepStatus
from shared.core.transitions import JobTrigger, StepTrigger

#: namespace of lease ids, so that whoever records the same attempt again gives it the same lease
LEASE_NAMESPACE = uuid.UUID("6f0f1c5e-6a57-4b8c-9a1e-0d3c1f6a7b52")

ATTEMPTS_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
DISPATCH_FAILED = "DISPATCH_FAILED"
TIME_EXCEEDED = "TIME_EXCEEDED"


def lease_id(job_id: str, step_id: str, attempt_no: int) -> str:
    """LIFECYCLE: `uuid5(job_id, step_id, attempt_no)`."""
    return str(uuid.uuid5(LEASE_NAMESPACE, f"{job_id}:{step_id}:{attempt_no}"))


def start(record: Record, step_id: str, provenance: Provenance) -> Outcome:
    """INITIATED with a new attempt and lease: the durable intent to publish."""
    step = _step(record, step_id)
    job = record.job
    first = record.group_of(step)[0]
    if not all(earlier.status is StepStatus.SUCCEEDED for earlier in record.steps[: first.step_index]):
        return refused(record, "EARLIER_STEP_UNSETTLED")
    if step.due_at is not None and step.due_at > provenance.at:
        return refused(record, "IN_BACKOFF")
    attempt_no = step.attempt_no + 1
    if step.deadline_at is None and step.timings.total_timeout_s is not None:
        step = replace(step, deadline_at=provenance.at + timedelta(seconds=step.timings.total_timeout_s))
    try:
        initiated = move_step(
            step,
            StepTrigger.RECORD,
            provenance,
            attempt_no=attempt_no,
            lease_id=lease_id(job.job_id, step_id, attempt_no),
            lease_expires_at=cap_lease(record, step, provenance.at + timedelta(seconds=step.timings.ack_timeout_s)),
            initiated_at=provenance.at,
            backlog_since=None,
            due_at=None,
            retry_cause=None,
            publish_failures=0,
            progress=None,
            input_ref=_input_ref(record, step),
            workspace_ref=_workspace_ref(record, step, attempt_no),
            output_ref=job.output_ref,
        )
        after = move_job(
            record.with_step(initiated),
            JobTrigger.ATTEMPT_RECORDED,
            provenance,
            current_step_id=first.step_id,
            current_step_index=first.step_index,
            attempts_total=job.attempts_total + 1,
        )
        if _is_over(record, step, provenance.at):
            return _fail_by_time(record, step, provenance, "TIME_EXCEEDED")
    except NoSuchTransition as no:
        return refused(record, f"{no.event}_IN_{no.state}")
    return transitioned(record, after, "ATTEMPT_RECORDED", provenance, step=initiated)


def renew(record: Record, step_id: str, attempt_no: int, provenance: Provenance) -> Outcome:
    """The same attempt, about to be published again, gets its ACK timeout anew."""
    step = _step(record, step_id)
    if (reason_code := _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED)) is not None:
        return ignored(record, reason_code)
    deadline = cap_lease(record, step, provenance.at + timedelta(seconds=step.timings.ack_timeout_s))
    try:
        renewed = move_step(
            step, StepTrigger.RENEW, provenance, lease_expires_at=deadline, due_at=None, backlog_since=None
        )
    except NoSuchTransition as no:
        return refused(record, f"{no.event}_IN_{no.state}")
    return transitioned(record, record.with_step(renewed), "LEASE_RENEWED", provenance, step=renewed)


def publish_failed(record: Record, step_id: str, attempt_no: int, message: str, provenance: Provenance) -> Outcome:
    """The dispatch backoff, with the same attempt; used up, the step fails for good."""
    step = _step(record, step_id)
    if (reason_code := _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED)) is not None:
        return ignored(record, reason_code)
    failures = step.publish_failures + 1
    if failures > len(step.timings.dispatch_backoffs):
        return fail_final(
            record,
            step,
            provenance,
            before=record,
            type_="PUBLISH_FAILED",
            job_code=DISPATCH_FAILED,
            step_code=DISPATCH_FAILED,
            message=message,
        )
    wait_s = backoff_s(
        step.timings.dispatch_backoffs, failures, job_id=record.job.job_id, step_id=step_id, attempt_no=attempt_no
    )
    due_at = provenance.at + timedelta(seconds=wait_s)
    if _is_over(record, step, due_at):
        return _fail_by_time(record, step, provenance, "PUBLISH_FAILED")
    # the lease outlives the wait, or a sweep would take the attempt for lost before it was sent
    waiting = move_step(
        step,
        StepTrigger.RENEW,
        provenance,
        publish_failures=failures,
        due_at=due_at,
        lease_expires_at=due_at + timedelta(seconds=step.timings.ack_timeout_s),
        last_error_code="PUBLISH_FAILED",
        last_error_message=message,
    )
    return transitioned(record, record.with_step(waiting), "PUBLISH_FAILED", provenance, step=waiting)


def deadline_passed(record: Record, step_id: str, attempt_no: int, provenance: Provenance) -> Outcome:
    """A timer fired. Moves only if the lease is over by the ledger; else IGNORED and the verdict tells the rest."""
    step = _step(record, step_id)
    if (why := _why_not_expired(record, step, attempt_no, provenance)) is not None:
        return ignored(record, why)
    if step.status is StepStatus.INITIATED:
        why, message = FailureCause.ACK_TIMEOUT, f"no ACK within {step.timings.ack_timeout_s:g} s"
        columns: dict[str, Any] = {"ack_failures": step.ack_failures + 1}
        backoffs, failures = step.timings.ack_backoffs, step.ack_failures + 1
    else:
        why, message = FailureCause.LEASE_EXPIRED, f"no RESULT or heartbeat for {step.timings.running_lease_s:g} s"
        columns = {"execution_failures": step.execution_failures + 1}
        backoffs, failures = step.timings.execution_backoffs, step.execution_failures + 1
    if _is_over(record, step, provenance.at):
        return _fail_by_time(record, step, provenance, why.value, **columns)
    if attempt_no >= step.timings.max_attempts:
        return fail_final(
            record,
            step,
            provenance,
            before=record,
            type_=why.value,
            job_code=ATTEMPTS_EXHAUSTED,
            step_code=why.value,
            message=message,
            **columns,
        )
    wait_s = backoff_s(backoffs, failures, job_id=record.job.job_id, step_id=step_id, attempt_no=attempt_no)
    return fail_retry(
        record,
        step,
        why,
        provenance,
        before=record,
        type_=why.value,
        code=why.value,
        message=message,
        wait_s=wait_s,
        **columns,
    )


def lane_backlog(record: Record, step_id: str, attempt_no: int, what: str, provenance: Provenance) -> Outcome:
    """FEATURES D20: replies or directives still wait on the lane, so the silence is ours; one more ACK timeout.

    Up to the result timeout in all; then IGNORED, and the time-out counts.
    """
    step = _step(record, step_id)
    if (reason_code := _why_not_expired(record, step, attempt_no, provenance)) is not None:
        return ignored(record, reason_code)
    since = step.backlog_since or provenance.at
    if provenance.at >= since + timedelta(seconds=step.timings.lease_s) or _is_over(record, step, provenance.at):
        return ignored(record, "BACKLOG_TOO_LONG")
    deadline = cap_lease(record, step, provenance.at + timedelta(seconds=step.timings.ack_timeout_s))
    waiting = move_step(step, StepTrigger.LANE_BACKLOG, provenance, lease_expires_at=deadline, backlog_since=since)
    return transitioned(record, record.with_step(waiting), "LANE_BACKLOG", provenance, step=waiting, reason=what)


def fail_retry(
    record: Record,
    step: Step,
    why: FailureCause,
    provenance: Provenance,
    *,
    before: Record,
    type_: str,
    code: str | None,
    message: str | None,
    wait_s: float,
    **columns: Any,
) -> Outcome:
    """FAILED_RETRY; the next attempt may be recorded after `wait_s`. Raises NoSuchMove.

    Where the total time is over by then, it is FAILED_FINAL now.
    """
    # while the job is PAUSED its own clock stands still, and resume moves what is set here on
    due_at = (record.job.paused_at or provenance.at) + timedelta(seconds=wait_s)
    if _is_over(record, step, due_at):
        return _fail_by_time(record, step, provenance, type_, before=before, step_code=code, **columns)
    told = columns.pop("data", {})
    failed = move_step(
        step,
        StepTrigger.FAIL_RETRY,
        provenance,
        due_at=due_at,
        retry_cause=why,
        last_error_code=code,
        last_error_message=message,
        **columns,
    )
    after = record.with_step(failed)
    after = move_job(
        after, JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_FAILED_RETRY, provenance
    )
    return transitioned(before, after, type_, provenance, step=failed, data=told)


def fail_final(
    record: Record,
    step: Step,
    provenance: Provenance,
    *,
    before: Record,
    type_: str,
    job_code: str,
    step_code: str | None,
    message: str | None,
    **columns: Any,
) -> Outcome:
    """FAILED_FINAL, and the job with it in the same move. Raises NoSuchMove."""
    told = columns.pop("data", {})
    failed = move_step(
        step,
        StepTrigger.FAIL_FINAL,
        provenance,
        due_at=None,
        last_error_code=step_code,
        last_error_message=message,
        **columns,
    )
    after = record.with_step(failed)
    if after.in_flight and after.job.status is JobStatus.CANCELLING:
        after = move_job(after, JobTrigger.SIBLINGS_IN_FLIGHT, provenance)
    else:
        after = move_job(cancel_in_flight(after, provenance), JobTrigger.STEP_FAILED_FINAL, provenance)
    if after.job.status is JobStatus.FAILED_FINAL:
        after = after.with_job(error_code=job_code, error_message=message)
    return transitioned(before, after, type_, provenance, step=failed, data=told)


def lease_until(record: Record, step: Step, now: datetime) -> datetime:
    """The lease of an attempt that a service has taken up, from now on."""
    return cap_lease(record, step, now + timedelta(seconds=step.timings.running_lease_s))


def cap_lease(record: Record, step: Step, until: datetime) -> datetime:
    """No lease outlives the total time of its step or job."""
    cap = record.cap_of(step)
    return until if cap is None else min(until, cap)


def _is_over(record: Record, step: Step, at: datetime) -> bool:
    cap = record.cap_of(step)
    return cap is not None and at >= cap


def _fail_by_time(
    record: Record,
    step: Step,
    provenance: Provenance,
    type_: str,
    *,
    before: Record | None = None,
    step_code: str | None = TIME_EXCEEDED,
    **columns: Any,
) -> Outcome:
    """The total time of the step or of the job is over, or would be before anything else can happen."""
    whose = "step" if record.cap_of(step) == step.deadline_at else "job"
    return fail_final(
        record,
        step,
        provenance,
        before=before or record,
        type_=type_,
        job_code=TIME_EXCEEDED,
        step_code=step_code,
        message=f"the total time of the {whose} is over",
        **columns,
    )


def _why_not_waiting(record: Record, step: Step, attempt_no: int, *statuses: StepStatus) -> str | None:
    """Why the attempt cannot be meant any more; None if it still waits in one of the states."""
    if record.job.status.terminal:
        return "JOB_TERMINAL"
    return None if step.status in statuses and step.attempt_no == attempt_no else "ATTEMPT_MOVED_ON"


def _why_not_expired(record: Record, step: Step, attempt_no: int, provenance: Provenance) -> str | None:
    """Why a deadline means nothing; None if the attempt is in flight and its lease is over."""
    reason_code = _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED, StepStatus.PROCESSING)
    if reason_code is None and (step.lease_expires_at is None or step.lease_expires_at > provenance.at):
        return "LEASE_STILL_RUNS"
    return reason_code


def _step(record: Record, step_id: str) -> Step:
    step = record.step(step_id)
    if step is None:
        raise LookupError(f"job {record.job.job_id} has no step {step_id}")
    return step


def _input_ref(record: Record, step: Step) -> Ref:
    """CONTRACT: the job's for the first step, then the result of the step before; its workspace if it named none."""
    first = record.group_of(step)[0]
    if first.step_index == 0:
        return record.job.input_ref
    before = record.steps[first.step_index - 1]
    found = before.result_ref or before.workspace_ref
    if found is None:
        raise LookupError(f"step {before.step_id} succeeded without a workspace")
    return found


def _workspace_ref(record: Record, step: Step, attempt_no: int) -> Ref:
    """FEATURES B7: `/{system}/{tenant}/{jobId}/{stepType}/{attempt}/`; the step id where a type stands twice."""
    twice = sum(other.step_type == step.step_type for other in record.steps) > 1
    folder = step.step_id if twice else step.step_type
    return {"uri": f"{record.job.workspace_base}/{record.job.job_id}/{folder}/{attempt_no}/"}
