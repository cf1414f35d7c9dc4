"""Jobs, their steps, events and dead letters: what the API returns, made from rows.

A column is in a response because its model declares it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from shared.access.references import Retention
from shared.api.response import (
    Cursor,
    ErrorCode,
    FailureCauseName,
    Instant,
    JobId,
    JobStatusName,
    LeaseDigest,
    Partial,
    Response,
    StepStatusName,
)
from shared.contracts.messages import Artifact
from shared.contracts.reference import Reference
from shared.core.incidents import escalates, job_incident_id
from shared.core.jobs.job import Event as EventRow
from shared.core.jobs.job import Record
from shared.core.jobs.job import Step as StepRow
from shared.core.jobs.states import JobStatus, StepStatus
from shared.ports.index import ListRow


class Event(Response):
    """One event of a job's history: gapless, in order, each chained to the one before by its hash."""

    eventId: str
    """`{jobId}:{seq}`."""
    jobId: JobId
    stepId: str | None
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RESULT"])]
    attempt_no: int | None
    lease_digest: LeaseDigest
    from_status: str | None
    """The step's status before; null where no step moved."""
    to_status: str | None
    job_from: str | None
    """The job's status before; null for the first event."""
    job_to: str
    actor: Annotated[str, Field(examples=["service:ocr"])]
    """Who did it."""
    source: Annotated[str, Field(examples=["bus"])]
    """By what way: http, bus, callback, dispatch, settle, sweeper, redrive, dead-letter."""
    reason: str | None
    at: Instant
    data: Any
    """More of it, by type; `changes` are the columns that the move changed."""
    salt: str
    """Random, so that nobody can guess `data` by its digest where it is withheld."""
    cause_id: str
    """The occurrence that made it: a message, a request, an activity."""
    rules: int
    """Which rules decided it."""
    prev_hash: str
    hash: str
    """SHA-256 over the event's row, where a digest of salt and data stands for both."""


class EventPage(Response):
    """A job's events, in order."""

    events: list[Event]
    next: Cursor


class StepResult(Response):
    """What a RESULT carried beside its status, its error and its `result_ref`, as the service sent it."""

    output_ref: Reference | None = None
    """What the service wrote at the caller's place."""
    artifacts: list[Artifact] | None = None
    """What else it made."""
    input_digests: Any = None
    digests: Any = None
    metrics: dict[str, Any] | None = None
    reason: str | None = None


class Step(Response):
    """One step of a job, as its row in the ledger has it."""

    stepId: Annotated[str, Field(examples=["ocr"])]
    step_index: Annotated[int, Field(ge=0)]
    """Its place in the protocol, from 0."""
    step_type: Annotated[str, Field(examples=["OCR"])]
    service: Annotated[str, Field(examples=["ocr"])]
    """The platform service that executes it."""
    status: StepStatusName
    payload: Any
    """The step's part of the job's payload."""
    group: int | None
    """Number of its parallel group; null: it runs alone."""
    lane: Annotated[int, Field(ge=0)]
    """The lane of its directives, pinned when the job was created."""
    routing_key_used: str
    resolved_mode: Literal["DEFAULT", "BURST"]
    decision_source: Annotated[str, Field(examples=["REQUEST"])]
    """Where the mode came from: REQUEST, TENANT_CONFIG or GLOBAL_CONFIG."""
    decision_reason: str
    attempt_no: Annotated[int, Field(ge=0)]
    """The current attempt, from 1; 0: never dispatched."""
    max_attempts: Annotated[int, Field(ge=1)]
    lease_digest: LeaseDigest
    lease_expires_at: Instant | None
    """Until when the service may be silent."""
    initiated_at: Instant | None
    """When the current attempt was recorded."""
    backlog_since: Instant | None
    """Since when LUCIUS's own backlog explains the silence; such an attempt does not time out."""
    gated_since: Instant | None = None
    """Since when a guard of its service or lane keeps the next attempt back."""
    gated_by: str | None = None
    """That guard, as `service:ocr` or `lane:3`."""
    gated_until: Instant | None = None
    """When it is asked again."""
    attempt_deadline_at: Instant | None
    """When the current attempt is over whatever its service says; null: no service has taken it up."""
    deadline_at: Instant | None
    """The step's total time limit; null: it has none."""
    due_at: Instant | None
    """When the next try may begin."""
    retry_cause: FailureCauseName | None
    """What ended the last attempt, where another follows."""
    input_ref: Reference | None
    workspace_ref: Reference | None
    output_ref: Reference | None
    result_ref: Reference | None
    """Where the service put what the step made."""
    result: StepResult | None
    """What else the current attempt's RESULT carried; null: nothing, or there was none yet."""
    carried: bool
    """Done in the job that this one took up again, and not run here."""
    last_error_code: str | None
    last_error_message: str | None
    progress: Any
    """The progress that the service reported last."""
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None


class StepPage(Response):
    """The steps of a job, in the order of its protocol."""

    steps: list[Step]
    next: Cursor


#: of a job that never came to be, the mode is empty
ModeName = Literal["DEFAULT", "BURST", ""]


class JobLinks(Response):
    """Paths of this API about the job."""

    self: Annotated[str, Field(examples=["/v1/jobs/job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]
    steps: str
    events: str
    cancel: str
    """For POST."""


class Job(Response):
    """A job and its steps, as the ledger has them."""

    jobId: JobId
    tenant_id: Annotated[str, Field(examples=["tenant_a"])]
    protocol_id: Annotated[str, Field(examples=["ocr_embedding_sis"])]
    protocol_version: int
    """The version that the job began with and keeps."""
    protocol_digest: str
    """SHA-256 of that version."""
    request_type: Annotated[str, Field(examples=["OCR_EMBEDDING_SIS"])]
    schema_version: Annotated[str, Field(examples=["1.0"])]
    mode: ModeName
    """How its directives are spread over the lanes."""
    status: JobStatusName
    instance_id: str
    """The orchestration that moves it."""
    idempotency_key: str | None
    idempotency_hash: str
    """What makes a request the same: of the key, else of the body."""
    payload_digest: str
    input_ref: Reference
    output_ref: Reference
    doc_id: str | None
    correlation_id: str
    traceparent: str | None
    priority: str
    labels: dict[str, str]
    callback_urls: dict[str, str]
    """By name, scheme and host of each: what follows may be a credential."""
    requested_by: str | None
    requested_at: Instant
    source: str | None
    current_step_id: str
    current_step_index: int
    attempts_total: int
    """Attempts of all steps together."""
    error_code: ErrorCode
    error_message: str | None
    final_output: Reference | None
    """Where the result is, once it SUCCEEDED."""
    final_output_expires_at: Instant | None
    """From when on it may be gone, since its service left it in the workspace; null: the caller's place keeps it."""
    deadline_at: Instant | None
    """The job's total time limit; null: it has none."""
    first_ack_at: Instant | None
    paused_at: Instant | None
    drained_at: Instant | None
    """PAUSED only: since when nothing has been in flight."""
    redrive_of: str | None
    """The job that this one took up again."""
    redriven_by: str | None
    """The job that took this one up again."""
    incident: str | None
    """The `incidentId` that its failure has, if it is one."""
    event_seq: int
    """Number of its last event."""
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None
    staged_at: Instant | None
    """Since when it waited at its gates; null: it did not."""
    admitted_at: Instant | None
    """When they let it in."""
    steps: list[Step]
    links: JobLinks
    as_of: Event | None = None
    """Only with `asOf`: the event after which the job was like this."""


class JobLine(Response):
    """A job in a list."""

    jobId: JobId
    tenant_id: str
    request_type: str
    status: JobStatusName
    current_step_id: str | None
    """Null once the job has ended."""
    seq: int
    """The event that `status` and `current_step_id` are as of; a living job's line may be one sweep behind the job."""
    labels: dict[str, str]
    created_at: Instant
    links: JobLinks


class JobPage(Response):
    """Jobs, newest first. A page that is `partial` is short, or empty, and has a `next`."""

    jobs: list[JobLine]
    next: Cursor
    partial: Partial


class DeadLetterLinks(JobLinks):
    """Paths of this API about the job that failed."""

    redrive: str
    """For POST."""


class DeadLetter(Response):
    """A job that failed for good: where and why."""

    jobId: JobId
    tenant_id: str
    request_type: str
    status: JobStatusName
    error_code: ErrorCode
    error_message: str | None
    failed_step_id: str
    last_error_code: str | None
    """The code that the service gave last."""
    attempts_total: int
    redrive_of: str | None
    redriven_by: str | None
    """Null: a job that was taken up again is no dead letter."""
    labels: dict[str, str]
    created_at: Instant
    completed_at: Instant | None
    links: DeadLetterLinks


class DeadLetterPage(Response):
    """Jobs that are FAILED_FINAL and that nobody has taken up or put aside, the last that failed first."""

    deadletters: list[DeadLetter]
    next: Cursor
    partial: Partial


class CallbackOutcome(Response):
    """What came of a reply by HTTP, and whether its job goes on."""

    outcome: Literal["APPLIED", "IGNORED"]
    why: str | None
    """IGNORED: for example STALE_ATTEMPT, LATE, DUPLICATE, JOB_TERMINAL."""
    job_status: JobStatusName
    token: str | None = None
    """A fresh one, as long as the attempt goes on; for the next callback."""
    token_expires_at: Instant | None = None


def job_links(job_id: str) -> JobLinks:
    return JobLinks.model_validate(_links(job_id))


def _links(job_id: str) -> dict[str, str]:
    path = f"/v1/jobs/{job_id}"
    return {"self": path, "steps": f"{path}/steps", "events": f"{path}/events", "cancel": f"{path}:cancel"}


def job_response(record: Record, retention: Retention, as_of: EventRow | None = None) -> Job:
    """The job with its steps; `as_of` is the event after which it was like this, where that was asked for."""
    past: dict[str, Any] = {} if as_of is None else {"as_of": event_response(as_of)}
    return Job.of(
        record.job,
        jobId=record.job.job_id,
        priority=record.job.current_priority,
        steps=[step_response(step) for step in record.steps],
        links=job_links(record.job.job_id),
        final_output_expires_at=_output_end(record, retention),
        incident=job_incident_id(record.job.job_id) if escalates(record.job) else None,
        **past,
    )


def _output_end(record: Record, retention: Retention) -> datetime | None:
    """Of a job's output in the workspace, where its step made it."""
    output = record.job.final_output
    made_at = record.last[0].completed_at if output is not None else None
    return retention.end(output["uri"], made_at) if output is not None and made_at is not None else None


def step_response(step: StepRow) -> Step:
    return Step.of(step, stepId=step.step_id, max_attempts=step.timings.max_attempts)


def event_response(event: EventRow) -> Event:
    return Event.of(event, eventId=f"{event.job_id}:{event.seq}", jobId=event.job_id, stepId=event.step_id)


def job_line(row: ListRow, *, status: JobStatus, current_step_id: str | None, seq: int) -> JobLine:
    """A line of a list, from a LIST row; `seq` is the event that status and step are as of."""
    return JobLine.of(
        row,
        jobId=row.job_id,
        status=status,
        current_step_id=None if status.terminal else current_step_id,
        seq=seq,
        links=job_links(row.job_id),
    )


def dead_letter(record: Record) -> DeadLetter:
    """A job that failed for good: where and why."""
    job = record.job
    failed = next((step for step in record.steps if step.status is StepStatus.FAILED_FINAL), None)
    return DeadLetter.of(
        job,
        jobId=job.job_id,
        failed_step_id=failed.step_id if failed else job.current_step_id,
        last_error_code=failed.last_error_code if failed else None,
        links=DeadLetterLinks.model_validate({**_links(job.job_id), "redrive": f"/v1/jobs/{job.job_id}:redrive"}),
    )


def callback_outcome(
    record: Record,
    *,
    applied: bool,
    reason_code: str | None,
    token: str | None = None,
    token_end: datetime | None = None,
) -> CallbackOutcome:
    """What came of a service's callback; the token is a fresh one, as long as the attempt goes on."""
    fresh: dict[str, Any] = {} if token is None else {"token": token, "token_expires_at": token_end}
    outcome: Literal["APPLIED", "IGNORED"] = "APPLIED" if applied else "IGNORED"
    return CallbackOutcome(outcome=outcome, why=reason_code, job_status=record.job.status, **fresh)
