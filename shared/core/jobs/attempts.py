"""Attempts: start, renewal of the lease, and failure without a reply (R4, R8, R10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.jobs.backlog import next_wait
from shared.core.jobs.history import EventType, Provenance, lease_digest
from shared.core.jobs.job import Record, Ref, Step
from shared.core.jobs.outcome import Outcome, OutcomeKind, ignore, make_transition, refuse
from shared.core.jobs.reasons import IgnoreReason, Reason, StepError
from shared.core.jobs.retry import backoff_s
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from shared.core.jobs.transitions import (
    JOB_TABLE,
    STEP_TABLE,
    JobTrigger,
    NoSuchTransition,
    StepTrigger,
    cancel_in_flight,
    move_job,
    move_step,
)

#: first wait for a dispatch limit, in seconds
FIRST_GATED_S = 30.0


def start(record: Record, step_id: str, lease_id: str, provenance: Provenance) -> Outcome:
    """Records the next attempt of a step with its lease (R4). Fails the step if no total time is left (R10)."""
    step = _find_step(record, step_id)
    job = record.job
    first = record.group_of(step)[0]
    if (reason_code := _why_not_next(record, step, provenance)) is not None:
        return refuse(record, reason_code)
    attempt_no = step.attempt_no + 1
    if step.deadline_at is None and step.timings.total_timeout_s is not None:
        step = replace(step, deadline_at=provenance.at + timedelta(seconds=step.timings.total_timeout_s))
    try:
        after = move_step(
            record,
            step,
            StepTrigger.RECORD,
            provenance,
            attempt_no=attempt_no,
            lease_id=lease_id,
            lease_digest=lease_digest(lease_id),
            lease_expires_at=cap_lease(record, step, provenance.at + timedelta(seconds=step.timings.ack_timeout_s)),
            initiated_at=provenance.at,
            attempt_deadline_at=None,
            backlog_since=None,
            backlog_until=None,
            due_at=None,
            retry_cause=None,
            publish_failures=0,
            progress=None,
            result=None,
            input_ref=_find_input_ref(record, step),
            workspace_ref=make_workspace_ref(record, step, attempt_no),
            output_ref=job.output_ref,
        )
        after = move_job(
            after,
            JobTrigger.ATTEMPT_RECORDED,
            provenance,
            current_step_id=first.step_id,
            current_step_index=first.step_index,
            attempts_total=job.attempts_total + 1,
        )
        if _is_over(record, step, provenance.at):
            return _fail_by_time(record, step, provenance, EventType.TIME_EXCEEDED)
    except NoSuchTransition as no:
        return refuse(record, f"{no.trigger}_IN_{no.state}")
    return make_transition(record, after, EventType.ATTEMPT_RECORDED, provenance, step=step)


def renew(record: Record, step_id: str, attempt_no: int, provenance: Provenance) -> Outcome:
    """Restarts the ACK timeout of an attempt before its publish. Fails the step if no total time is left (R10)."""
    step = _find_step(record, step_id)
    if (reason_code := _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED)) is not None:
        return ignore(record, reason_code)
    if _is_over(record, step, provenance.at):
        return _fail_by_time(record, step, provenance, EventType.TIME_EXCEEDED)
    deadline = cap_lease(record, step, provenance.at + timedelta(seconds=step.timings.ack_timeout_s))
    columns = {"lease_expires_at": deadline, "due_at": None, "backlog_since": None, "backlog_until": None}
    after = move_step(record, step, StepTrigger.RENEW, provenance, **columns)
    return make_transition(record, after, EventType.LEASE_RENEWED, provenance, step=step)


def fail_publish(record: Record, step_id: str, attempt_no: int, message: str, provenance: Provenance) -> Outcome:
    """Starts the next dispatch backoff of the attempt. Fails the step after the last backoff, or by total time (R9)."""
    step = _find_step(record, step_id)
    if (reason_code := _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED)) is not None:
        return ignore(record, reason_code)
    failures = step.publish_failures + 1
    if failures > len(step.timings.dispatch_backoffs):
        return fail_final(
            record,
            step,
            provenance,
            before=record,
            type_=EventType.PUBLISH_FAILED,
            job_code=Reason.DISPATCH_FAILED,
            step_code=StepError.DISPATCH_FAILED,
            message=message,
        )
    wait_s = backoff_s(
        step.timings.dispatch_backoffs, failures, job_id=record.job.job_id, step_id=step_id, attempt_no=attempt_no
    )
    due_at = provenance.at + timedelta(seconds=wait_s)
    if _is_over(record, step, due_at):
        return _fail_by_time(record, step, provenance, EventType.PUBLISH_FAILED)
    # the lease must outlive the wait, or a sweep would end the attempt as lost before it is sent
    after = move_step(
        record,
        step,
        StepTrigger.RENEW,
        provenance,
        publish_failures=failures,
        due_at=due_at,
        lease_expires_at=cap_lease(record, step, due_at + timedelta(seconds=step.timings.ack_timeout_s)),
        last_error_code=StepError.PUBLISH_FAILED,
        last_error_message=message,
    )
    return make_transition(record, after, EventType.PUBLISH_FAILED, provenance, step=step)


def apply_deadline(record: Record, step_id: str, attempt_no: int, provenance: Provenance) -> Outcome:
    """Ends the attempt if its lease has expired. If not, the outcome is IGNORED, and the verdict has the next wait."""
    step = _find_step(record, step_id)
    if (reason_code := _why_not_expired(record, step, attempt_no, provenance)) is not None:
        return ignore(record, reason_code)
    code: str | None = None
    if step.status is StepStatus.INITIATED:
        failure, message = FailureCause.ACK_TIMEOUT, f"no ACK within {step.timings.ack_timeout_s:g} s"
        columns: dict[str, Any] = {"ack_failures": step.ack_failures + 1}
        backoffs, failures = step.timings.ack_backoffs, step.ack_failures + 1
    else:
        failure, message = FailureCause.LEASE_EXPIRED, f"no RESULT or heartbeat for {step.timings.running_lease_s:g} s"
        if step.attempt_is_over(step.lease_expires_at or provenance.at):
            # the service responded; the code for a silent service would mislead an operator
            code, message = StepError.TIME_EXCEEDED.value, "the attempt reached its maximum time"
        columns = {"execution_failures": step.execution_failures + 1}
        backoffs, failures = step.timings.execution_backoffs, step.execution_failures + 1
    type_ = EventType(failure.value)
    if _is_over(record, step, provenance.at):
        return _fail_by_time(record, step, provenance, type_, **columns)
    if attempt_no >= step.timings.max_attempts:
        return fail_final(
            record,
            step,
            provenance,
            before=record,
            type_=type_,
            job_code=Reason.ATTEMPTS_EXHAUSTED,
            step_code=code or failure.value,
            message=message,
            **columns,
        )
    wait_s = backoff_s(backoffs, failures, job_id=record.job.job_id, step_id=step_id, attempt_no=attempt_no)
    return fail_retry(
        record,
        step,
        failure,
        provenance,
        before=record,
        type_=type_,
        code=code or failure.value,
        message=message,
        wait_s=wait_s,
        # `changes` have no code if the attempt before ended with the same one
        data={"error": {"code": code}} if code is not None else None,
        **columns,
    )


def apply_time_limit(record: Record, step_id: str, provenance: Provenance) -> Outcome:
    """Ends a step that has not ended, since the total time of step or job is over (R10). PAUSED time does not count."""
    step = _find_step(record, step_id)
    if record.job.status.terminal or step.status.terminal:
        return ignore(record, IgnoreReason.ATTEMPT_MOVED_ON)
    if record.job.status is JobStatus.PAUSED or not _is_over(record, step, provenance.at):
        return ignore(record, IgnoreReason.LEASE_STILL_RUNS)
    return _fail_by_time(record, step, provenance, EventType.TIME_EXCEEDED)


def apply_lane_backlog(record: Record, step_id: str, attempt_no: int, what: str, provenance: Provenance) -> Outcome:
    """Extends the wait of an attempt, because messages on its lane or an unreachable bus can explain the silence (R8).

    `what` is the reason for the EVENT row, which only the first wait has. The waits double, up to five minutes. After
    the total time, or for a CANCELLING job, the outcome is IGNORED and the timeout takes effect.
    """
    step = _find_step(record, step_id)
    if (reason_code := _why_not_expired(record, step, attempt_no, provenance)) is not None:
        return ignore(record, reason_code)
    if _is_over(record, step, provenance.at) or record.job.status is JobStatus.CANCELLING:
        return ignore(record, IgnoreReason.BACKLOG_TOO_LONG)
    since = step.backlog_since or provenance.at
    until = cap_lease(record, step, provenance.at + next_wait(step.timings.ack_timeout_s, provenance.at - since))
    if step.backlog_since is not None:
        waiting = replace(step, backlog_until=until, updated_at=provenance.at)
        return Outcome(OutcomeKind.MOVED, record.with_step(waiting).with_job(updated_at=provenance.at))
    columns = {"backlog_since": since, "backlog_until": until}
    after = move_step(record, step, StepTrigger.LANE_BACKLOG, provenance, **columns)
    return make_transition(record, after, EventType.LANE_BACKLOG, provenance, step=step, reason=what)


def hold_back(record: Record, step_id: str, guard: str, why: str, provenance: Provenance) -> Outcome:
    """Postpones the next attempt, because a dispatch limit of its service or lane is reached (R56). Uses up no attempt.

    The waits double from 30 s up to 5 minutes, plus a jitter of at most 10 %. Only the first wait has an EVENT row. The
    step fails if its total time is over. The outcome is REFUSED if no attempt can be recorded now.
    """
    step = _find_step(record, step_id)
    if (reason_code := _why_not_next(record, step, provenance)) is not None:
        return refuse(record, reason_code)
    status = record.job.status
    if StepTrigger.GATED not in STEP_TABLE[step.status] or JobTrigger.ATTEMPT_RECORDED not in JOB_TABLE[status]:
        return refuse(record, f"{StepTrigger.GATED}_IN_{step.status}")
    if _is_over(record, step, provenance.at):
        return _fail_by_time(record, step, provenance, EventType.TIME_EXCEEDED)
    since = step.gated_since or provenance.at
    wait_s = next_wait(FIRST_GATED_S, provenance.at - since).total_seconds()
    wait_s = backoff_s((wait_s,), 1, job_id=record.job.job_id, step_id=step_id, attempt_no=step.attempt_no + 1)
    until = cap_lease(record, step, provenance.at + timedelta(seconds=wait_s))
    if step.gated_since is not None:
        waiting = replace(step, gated_until=until, gated_by=guard, updated_at=provenance.at)
        return Outcome(OutcomeKind.MOVED, record.with_step(waiting).with_job(updated_at=provenance.at))
    columns = {"gated_since": since, "gated_until": until, "gated_by": guard}
    after = move_step(record, step, StepTrigger.GATED, provenance, **columns)
    return make_transition(record, after, EventType.GATED, provenance, step=step, reason=why)


def fail_retry(
    record: Record,
    step: Step,
    failure: FailureCause,
    provenance: Provenance,
    *,
    before: Record,
    type_: EventType,
    code: str | None,
    message: str | None,
    wait_s: float,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> Outcome:
    """Ends the attempt as FAILED_RETRY. The next attempt can be recorded after `wait_s` seconds. If the total time ends
    before the next attempt, the step becomes FAILED_FINAL immediately. Raises NoSuchTransition.
    """
    # the clock of a PAUSED job is stopped; the resume shifts this time
    due_at = (record.job.paused_at or provenance.at) + timedelta(seconds=wait_s)
    if _is_over(record, step, due_at):
        return _fail_by_time(record, step, provenance, type_, before=before, step_code=code, data=data, **columns)
    after = move_step(
        record,
        step,
        StepTrigger.FAIL_RETRY,
        provenance,
        due_at=due_at,
        retry_cause=failure,
        last_error_code=code,
        last_error_message=message,
        **columns,
    )
    trigger = JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_FAILED_RETRY
    return make_transition(before, move_job(after, trigger, provenance), type_, provenance, step=step, data=data)


def fail_final(
    record: Record,
    step: Step,
    provenance: Provenance,
    *,
    before: Record,
    type_: EventType,
    job_code: str,
    step_code: str | None,
    message: str | None,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> Outcome:
    """Ends the step as FAILED_FINAL, and its job in the same transition. A CANCELLING job with other steps in flight
    does not end yet. Raises NoSuchTransition.
    """
    after = move_step(
        record,
        step,
        StepTrigger.FAIL_FINAL,
        provenance,
        due_at=None,
        last_error_code=step_code,
        last_error_message=message,
        **columns,
    )
    if after.in_flight and after.job.status is JobStatus.CANCELLING:
        after = move_job(after, JobTrigger.SIBLINGS_IN_FLIGHT, provenance)
    else:
        after = move_job(cancel_in_flight(after, provenance), JobTrigger.STEP_FAILED_FINAL, provenance)
    if after.job.status is JobStatus.FAILED_FINAL:
        after = after.with_job(error_code=job_code, error_message=message)
    return make_transition(before, after, type_, provenance, step=step, data=data)


def lease_until(record: Record, step: Step, now: datetime) -> datetime:
    """Returns the end of the lease of an attempt in progress: never later than the end of the attempt itself (R10)."""
    ends = (now + timedelta(seconds=step.timings.running_lease_s), record.cap_of(step), attempt_deadline(step, now))
    return min(filter(None, ends))


def attempt_deadline(step: Step, now: datetime) -> datetime | None:
    """Returns the latest end of an attempt in progress, as its first ACK set it. None means no limit."""
    if step.attempt_deadline_at is not None or step.timings.attempt_max_s is None:
        return step.attempt_deadline_at
    return now + timedelta(seconds=step.timings.attempt_max_s)


def cap_lease(record: Record, step: Step, until: datetime) -> datetime:
    """Returns `until`, or the end of the step's or job's total time if that comes first (R10)."""
    return min(filter(None, (until, record.cap_of(step))))


def _is_over(record: Record, step: Step, at: datetime) -> bool:
    return (cap := record.cap_of(step)) is not None and at >= cap


def _fail_by_time(
    record: Record,
    step: Step,
    provenance: Provenance,
    type_: EventType,
    *,
    before: Record | None = None,
    step_code: str | None = StepError.TIME_EXCEEDED,
    **columns: Any,
) -> Outcome:
    """Fails the step, because the total time of the step or job is over or ends before the next action (R10)."""
    whose = "step" if record.cap_of(step) == step.deadline_at else "job"
    return fail_final(
        record,
        step,
        provenance,
        before=before or record,
        type_=type_,
        job_code=Reason.TIME_EXCEEDED,
        step_code=step_code,
        message=f"the total timeout of the {whose} is over, or ends before the next retry",
        **columns,
    )


def _why_not_waiting(record: Record, step: Step, attempt_no: int, *statuses: StepStatus) -> str | None:
    """Returns the reason why the attempt no longer waits in one of these states, or None if the attempt still waits."""
    if record.job.status.terminal:
        return IgnoreReason.JOB_TERMINAL
    return None if step.status in statuses and step.attempt_no == attempt_no else IgnoreReason.ATTEMPT_MOVED_ON


def _why_not_next(record: Record, step: Step, provenance: Provenance) -> str | None:
    """Returns the reason why the step's next attempt cannot start now, or None if the attempt can start."""
    first = record.group_of(step)[0]
    if not all(earlier.status is StepStatus.SUCCEEDED for earlier in record.steps[: first.step_index]):
        return IgnoreReason.EARLIER_STEP_UNSETTLED
    return IgnoreReason.IN_BACKOFF if step.due_at is not None and step.due_at > provenance.at else None


def _why_not_expired(record: Record, step: Step, attempt_no: int, provenance: Provenance) -> str | None:
    """Returns the reason why a deadline has no effect, or None if the attempt is in flight and its lease is over."""
    reason_code = _why_not_waiting(record, step, attempt_no, StepStatus.INITIATED, StepStatus.PROCESSING)
    if reason_code is None and (step.silent_until is None or step.silent_until > provenance.at):
        return IgnoreReason.LEASE_STILL_RUNS
    return reason_code


def _find_step(record: Record, step_id: str) -> Step:
    step = record.step(step_id)
    if step is None:
        raise LookupError(f"job {record.job.job_id} has no step {step_id}")
    return step


def _find_input_ref(record: Record, step: Step) -> Ref:
    """Returns the input of the first step, else the result of the step before. Raises LookupError without a result."""
    before = record.before(step)
    if not before:
        return record.job.input_ref
    if (ref := before[-1].next_input) is None:
        raise LookupError(f"step {before[-1].step_id} succeeded without a workspace")
    return ref


def make_workspace_ref(record: Record, step: Step, attempt_no: int) -> Ref:
    """Returns `{workspace base}/{job id}/{step type}/{attempt}/`. If the plan has the type twice, `{step id}/` follows
    the type. In Azure a service can write only below its type (`infra/bicep/modules/platform-service-roles.bicep`).
    """
    twice = sum(other.step_type == step.step_type for other in record.steps) > 1
    folder = f"{step.step_type}/{step.step_id}" if twice else step.step_type
    return {"uri": f"{record.job.workspace_base}/{record.job.job_id}/{folder}/{attempt_no}/"}
