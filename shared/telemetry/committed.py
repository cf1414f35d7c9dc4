"""Log records, metrics and spans of a committed transition. Only this module counts transitions.

The process that committed a transition reports it after the commit. A retry that finds the transition already committed
does not report it, so no transition is counted twice. If the process is killed in between, the report is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from shared.contracts.protocol import PACK
from shared.core.jobs.history import REPLY_EVENTS, EventType
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.outcome import Outcome
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.overview.minutes import RESULT, reply_latencies
from shared.telemetry import tracing
from shared.telemetry.lines import info, warn
from shared.telemetry.meters import code, increment, observe
from shared.telemetry.span_table import SpanName

_CLOCKS = (EventType.ACK_TIMEOUT, EventType.LEASE_EXPIRED)
_FAILED = (StepStatus.FAILED_RETRY, StepStatus.FAILED_FINAL)


def record_creation(record: Record, event: Event) -> None:
    """Reports that this process created the job's rows. Raises nothing."""
    job = record.job
    with _guarded(job):
        _line(job, event, lane=record.steps[0].lane if record.steps else None)
        increment("job_started_total", jobType=job.request_type, mode=job.mode)


def record_transition(before: Record, outcome: Outcome) -> None:
    """Reports a commit from its EVENT rows and the rows before and after. Raises nothing."""
    with _guarded(outcome.record.job):
        _transition(before, outcome)


@contextmanager
def _guarded(job: Job) -> Iterator[None]:
    """Logs a fault of the block instead of raising it, since the rows are committed and later actions must follow."""
    try:
        yield
    except Exception as fault:
        warn("TELEMETRY_FAILED", **line_ids(job), reason=f"{type(fault).__name__}: {fault}")


def _transition(before: Record, outcome: Outcome) -> None:
    after = outcome.record
    for event in outcome.events:
        _line(after.job, event)
        if event.type == EventType.REPLY_IGNORED:
            increment("replies_total", type=str((event.data or {}).get("reply")), outcome=event.reason or "")
        elif event.type in REPLY_EVENTS:
            increment("replies_total", type=event.type, outcome="APPLIED")
    if outcome.transitioned and outcome.events:
        _count_steps(before, after, outcome.events[0])
        _count_job(before.job, after.job)


def line_ids(job: Job, step: Step | None = None) -> dict[str, object]:
    """Returns the ids that every log record about a job has, for records without a transition."""
    identity: dict[str, object] = {"jobId": job.job_id, "tenant_id": job.tenant, "correlation_id": job.correlation_id}
    if step is not None:
        identity |= {"stepId": step.step_id, "attempt_no": step.attempt_no or None, "lease_digest": step.lease_digest}
    return identity


def _line(job: Job, event: Event, **more: object) -> None:
    info(
        event.type,
        **line_ids(job),
        stepId=event.step_id,
        attempt_no=event.attempt_no,
        lease_digest=event.lease_digest,
        step_status=event.to_status,
        job_status=event.job_to,
        reason=event.reason,
        **more,
    )


def _count_steps(before: Record, after: Record, event: Event) -> None:
    job = after.job
    for step, phase, waited in reply_latencies(before, after, event):
        observe("step_latency_seconds", waited.total_seconds(), stepType=step.step_type, phase=phase)
        if step.step_type == PACK and phase == RESULT:
            observe("pack_run_duration_seconds", waited.total_seconds(), status=step.status.value)
            increment("pack_run_artifacts_total", len((step.result or {}).get("artifacts") or ()))
    for old, new in zip(before.steps, after.steps, strict=True):
        if old is new:
            continue
        if new.attempt_no > old.attempt_no and new.step_id == event.step_id:
            observe(
                "dispatch_lag_seconds",
                # a dispatch limit may have opened before its time
                max(0.0, (event.at - _could_start_at(before, old)).total_seconds()),
                stepType=new.step_type,
            )
        if old.status.in_flight and not new.status.in_flight:
            _emit_attempt(job, new, event.at)
        if old.step_id != event.step_id:
            continue
        if event.type == EventType.HEARTBEAT and old.status is StepStatus.PROCESSING:
            increment("lease_extensions_total", jobType=job.request_type)
        if event.type == EventType.HEARTBEAT and new.step_type == PACK:
            increment("pack_run_heartbeats_total")
        if event.type == EventType.PUBLISH_FAILED:
            increment("publish_failures_total", stepType=new.step_type)
        if event.type == EventType.LANE_BACKLOG:
            increment("lane_backlog_total", lane=new.lane)
        if event.type == EventType.GATED:
            increment("steps_gated_total", guard=new.gated_by or "")
        if new.status is StepStatus.FAILED_RETRY and old.status is not new.status:
            cause = str(new.retry_cause)
            increment("job_retry_total", jobType=job.request_type, stepType=new.step_type, cause=cause)
        if job.error_code == Reason.TIME_EXCEEDED and new.status is StepStatus.FAILED_FINAL:
            increment("step_timeouts_total", stepType=new.step_type, cause=Reason.TIME_EXCEEDED.value)
        elif event.type in _CLOCKS:
            increment("step_timeouts_total", stepType=new.step_type, cause=event.type)


def _count_job(before: Job, after: Job) -> None:
    kind = after.request_type
    if before.first_ack_at is None and after.first_ack_at is not None:
        waited = (after.first_ack_at - after.created_at).total_seconds()
        observe("job_latency_seconds", waited, jobType=kind, phase="queued")
    if before.status.terminal or not after.status.terminal or after.completed_at is None:
        return
    increment("job_completed_total", jobType=kind, status=after.status.value)
    if after.status is JobStatus.FAILED_FINAL:
        increment("job_failures_total", jobType=kind, reason=after.error_code or "")
    ended = after.completed_at
    observe("job_latency_seconds", (ended - after.created_at).total_seconds(), jobType=kind, phase="total")
    if after.first_ack_at is not None:
        observe("job_latency_seconds", (ended - after.first_ack_at).total_seconds(), jobType=kind, phase="running")
    if tracing.enabled():
        tracing.emit_ended_span(
            SpanName.JOB,
            itself=tracing.job_context(after),
            parent=tracing.submit_context(after),
            began=after.created_at,
            ended=ended,
            failed=after.status is JobStatus.FAILED_FINAL,
            attributes={
                **tracing.job_attributes(after),
                "lucius.status": after.status.value,
                "lucius.attempts": after.attempts_total,
                **({"error.type": code(after.error_code)} if after.error_code else {}),
            },
            job_type=kind,
        )


def _emit_attempt(job: Job, step: Step, ended: datetime) -> None:
    if not tracing.enabled() or step.initiated_at is None:
        return
    earlier = [tracing.attempt_context(job, step.step_id, step.attempt_no - 1)] if step.attempt_no > 1 else []
    attributes = {**tracing.job_attributes(job, step), "lucius.status": step.status.value}
    if step.status in _FAILED:
        attributes["error.type"] = code(step.last_error_code or str(step.retry_cause or ""))
    tracing.emit_ended_span(
        SpanName.ATTEMPT,
        itself=tracing.attempt_context(job, step.step_id, step.attempt_no),
        parent=tracing.job_context(job),
        began=step.initiated_at,
        ended=ended,
        links=earlier,
        failed=step.status in _FAILED,
        attributes=attributes,
        step_type=step.step_type,
    )


def _could_start_at(record: Record, step: Step) -> datetime:
    if step.gated_until is not None:
        # a dispatch limit delayed it until then
        return step.gated_until
    if step.due_at is not None:
        return step.due_at
    first = record.group_of(step)[0]
    ends = [earlier.completed_at for earlier in record.steps[: first.step_index] if earlier.completed_at is not None]
    return max(ends, default=record.job.created_at)
