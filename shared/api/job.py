"""Jobs, their steps and events, made from rows.

A response has a column if the response's model declares the column.
"""

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
from shared.core.jobs.states import JobStatus
from shared.ports.index import ListRow


class Event(Response):
    """Event of a job's history. Events are numbered without gaps, and each event has the hash of the previous event."""

    eventId: str
    """`{jobId}:{seq}`."""
    jobId: JobId
    stepId: str | None
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RESULT"])]
    attempt_no: int | None
    lease_digest: LeaseDigest
    from_status: str | None
    """Status of the step in `stepId` before the event. Null without a step, and for an ignored reply."""
    to_status: str | None
    job_from: str | None
    """Status of the job before the event. Null for the first event."""
    job_to: str
    actor: Annotated[str, Field(examples=["service:ocr"])]
    """`system`, `service:{name}`, or the caller that caused the event. `service` if a reply from the bus lacks the
    lease of the current attempt."""
    source: Annotated[str, Field(examples=["bus"])]
    """Channel of the event: `http`, `bus`, `callback`, `dispatch`, `settle`, `gates`, `bulk`, `sweeper`, `redrive` or
    `dead-letter`."""
    reason: str | None
    at: Instant
    data: Any
    """Details, which depend on `type`. `changes` has the columns that changed."""
    salt: str
    """Random text, so that withheld `data` cannot be guessed from its digest."""
    cause_id: str
    """Id of the cause, for example of a message, a request, an activity or a sweep."""
    rules: int
    """Version of the transition rules that decided the event."""
    prev_hash: str
    hash: str
    """SHA-256 over the event's row, in which a digest of salt and data replaces both."""


class EventPage(Response):
    """A job's events, in order."""

    events: list[Event]
    next: Cursor


class StepResult(Response):
    """Content of a RESULT besides status, error and `result_ref`, as the service sent it."""

    output_ref: Reference | None = None
    """Output that the service wrote to the caller's `output_ref`."""
    artifacts: list[Artifact] | None = None
    """Other outputs of the step."""
    input_digests: Any = None
    digests: Any = None
    metrics: dict[str, Any] | None = None
    reason: str | None = None


class Step(Response):
    """A step of a job."""

    stepId: Annotated[str, Field(examples=["ocr"])]
    step_index: Annotated[int, Field(ge=0)]
    """Index in the protocol, from 0."""
    step_type: Annotated[str, Field(examples=["OCR"])]
    service: Annotated[str, Field(examples=["ocr"])]
    """Platform service that executes the step."""
    status: StepStatusName
    payload: Any
    """The step's part of the job's payload."""
    group: int | None
    """Number of the parallel group. Null if the step runs alone."""
    lane: Annotated[int, Field(ge=0)]
    """Lane of the step's directives, fixed when the job was created."""
    routing_key_used: str
    resolved_mode: Literal["DEFAULT", "BURST"]
    decision_source: Annotated[str, Field(examples=["REQUEST"])]
    """Source of the mode: REQUEST, TENANT_CONFIG or GLOBAL_CONFIG."""
    decision_reason: str
    attempt_no: Annotated[int, Field(ge=0)]
    """Number of the current attempt, from 1. 0 before the first attempt in this job."""
    max_attempts: Annotated[int, Field(ge=1)]
    lease_digest: LeaseDigest
    lease_expires_at: Instant | None
    """Time by which the service must send its ACK or, after the ACK, its next HEARTBEAT or RESULT."""
    initiated_at: Instant | None
    """Time when the current attempt was recorded."""
    backlog_since: Instant | None
    """Time when LUCIUS first postponed the timeout of the attempt, because a directive or replies wait on the lane, or
    because Service Bus is unreachable."""
    gated_since: Instant | None = None
    """Time when a dispatch limit of the service or lane began to delay the next attempt."""
    gated_by: str | None = None
    """Dispatch limit that delays the next attempt, as `service:ocr` or `lane:3`."""
    gated_until: Instant | None = None
    """Time of the next check of the dispatch limit."""
    attempt_deadline_at: Instant | None
    """Time when the time limit of the current attempt ends. Null if no service has ACKed the attempt."""
    deadline_at: Instant | None
    """Time when the total time limit of the step ends. Null if there is no limit, or before the first attempt."""
    due_at: Instant | None
    """Earliest start of the next attempt or, after a failed dispatch, of the next dispatch."""
    retry_cause: FailureCauseName | None
    """Cause of the end of the last attempt, if the step then became FAILED_RETRY. Null after a later reply or
    attempt."""
    input_ref: Reference | None
    workspace_ref: Reference | None
    output_ref: Reference | None
    result_ref: Reference | None
    """URI of the step's output."""
    result: StepResult | None
    """Other content of the current attempt's RESULT. Null before the RESULT, and if the RESULT has no other content."""
    carried: bool
    """`true` if the result comes from the job that this job redrives. The step does not run in this job."""
    last_error_code: str | None
    last_error_message: str | None
    progress: Any
    """Last recorded progress of the current attempt."""
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None


class StepPage(Response):
    """Steps of a job, in protocol order."""

    steps: list[Step]
    next: Cursor


#: mode; empty for a job that was never created
ModeName = Literal["DEFAULT", "BURST", ""]


class JobLinks(Response):
    """Paths of the job."""

    self: Annotated[str, Field(examples=["/v1/jobs/job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]
    steps: str
    events: str
    cancel: str
    """Path of the cancellation, which requires POST."""


class Job(Response):
    """A job and its steps."""

    jobId: JobId
    tenant_id: Annotated[str, Field(examples=["tenant_a"])]
    protocol_id: Annotated[str, Field(examples=["ocr_embedding_sis"])]
    protocol_version: int
    """Protocol version, which never changes for this job."""
    protocol_digest: str
    """SHA-256 of the canonical JSON (RFC 8785) of the protocol definition, with the payload schemas and without
    `ramp_percent`."""
    request_type: Annotated[str, Field(examples=["OCR_EMBEDDING_SIS"])]
    schema_version: Annotated[str, Field(examples=["1.0"])]
    mode: ModeName
    """Distribution of directives over the lanes. Empty for a job that was never created."""
    status: JobStatusName
    instance_id: str
    """Id of the orchestration of the job."""
    idempotency_key: str | None
    idempotency_hash: str
    """Hash that identifies the request: of the idempotency key, of the compared fields of the body, or of the redrive
    or replay."""
    payload_digest: str
    input_ref: Reference
    output_ref: Reference
    doc_id: str | None
    correlation_id: str
    traceparent: str | None
    priority: str
    labels: dict[str, str]
    callback_urls: dict[str, str]
    """Scheme, host and port of each URL, by name. The rest is hidden, because the rest can be a credential."""
    requested_by: str | None
    requested_at: Instant
    source: str | None
    current_step_id: str
    current_step_index: int
    attempts_total: int
    """Number of attempts of all steps."""
    error_code: ErrorCode
    error_message: str | None
    final_output: Reference | None
    """URI of the result. Set if the job SUCCEEDED."""
    final_output_expires_at: Instant | None
    """Time after which the result can be deleted from the workspace. Null if the job has no result, if the result is
    outside of the workspace, or if the retention of the workspace is unlimited."""
    deadline_at: Instant | None
    """Time when the total time limit of the job ends. Null if there is no limit, or before the job is admitted."""
    first_ack_at: Instant | None
    paused_at: Instant | None
    drained_at: Instant | None
    """PAUSED only. Time from which the job had no attempt in flight."""
    redrive_of: str | None
    """Id of the job that this job redrives."""
    redriven_by: str | None
    """Id of the job that redrives this job."""
    replay_of: str | None
    """Id of the job that this job replays. Null if the job is not a replay."""
    replay_mode: Literal["rerun", "compare"] | None
    """Mode of the replay. Null if the job is not a replay."""
    incident: str | None
    """`incidentId` of the job's failure, if any."""
    event_seq: int
    """Number of the last event."""
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None
    staged_at: Instant | None
    """Time when the job started to wait for its quotas or for other jobs. Null if the job did not wait."""
    admitted_at: Instant | None
    """Time when the job was admitted after a wait. Null if the job did not wait, or is not admitted."""
    archived_at: Instant | None
    """Time when the job was archived. Null if the job is not archived, and with `asOf`."""
    steps: list[Step]
    links: JobLinks
    as_of: Event | None = None
    """With `asOf` only. The event as of which the response shows the job."""


class JobLine(Response):
    """A job in a list."""

    jobId: JobId
    tenant_id: str
    request_type: str
    status: JobStatusName
    current_step_id: str | None
    """Id of the step in progress or, before the start, of the first step to run. Null if the job has ended."""
    seq: int
    """Event number of `status` and `current_step_id`. For a job that has not ended, the item can be one minute old, or
    several minutes if many jobs have not ended."""
    labels: dict[str, str]
    created_at: Instant
    completed_at: Instant | None
    """Time when the job ended. Null if the job has not ended."""
    error_code: ErrorCode
    archived_at: Instant | None
    """Time when the job was archived. Null if the job is not archived."""
    links: JobLinks


class JobPage(Response):
    """Jobs, newest first. A `partial` page is short or empty, and has a `next`."""

    jobs: list[JobLine]
    next: Cursor
    partial: Partial


class CallbackOutcome(Response):
    """Result of a callback, and the state of its job."""

    outcome: Literal["APPLIED", "IGNORED"]
    why: str | None
    """Reason for IGNORED, for example STALE_ATTEMPT, LATE, DUPLICATE or JOB_TERMINAL."""
    job_status: JobStatusName
    token: str | None = None
    """New token for the next callback, while the attempt is in progress."""
    token_expires_at: Instant | None = None


def job_links(job_id: str) -> JobLinks:
    return JobLinks.model_validate(links_of(job_id))


def links_of(job_id: str) -> dict[str, str]:
    """Returns the paths of `JobLinks`."""
    path = f"/v1/jobs/{job_id}"
    return {"self": path, "steps": f"{path}/steps", "events": f"{path}/events", "cancel": f"{path}:cancel"}


def job_response(
    record: Record, retention: Retention, as_of: EventRow | None = None, archived_at: datetime | None = None
) -> Job:
    """Makes the response about a job with its steps.

    `as_of` is the event whose state is shown, if the caller requested a state. `archived_at` is None if the job is not
    archived.
    """
    past: dict[str, Any] = {} if as_of is None else {"as_of": event_response(as_of)}
    return Job.of(
        record.job,
        jobId=record.job.job_id,
        priority=record.job.current_priority,
        steps=[step_response(step) for step in record.steps],
        links=job_links(record.job.job_id),
        final_output_expires_at=_output_end(record, retention),
        incident=job_incident_id(record.job.job_id) if escalates(record.job) and archived_at is None else None,
        archived_at=archived_at,
        **past,
    )


def _output_end(record: Record, retention: Retention) -> datetime | None:
    """Returns the time from which a job's output can be deleted from the workspace. Returns None if the job has no
    output, or if the output has no such time.
    """
    output = record.job.final_output
    made_at = record.last[0].completed_at if output is not None else None
    return retention.end(output["uri"], made_at) if output is not None and made_at is not None else None


def step_response(step: StepRow) -> Step:
    # as of an earlier event, `gated_by` and `gated_until` are the current ones, perhaps of a later wait
    is_gated = step.gated_since is not None
    gated = {name: getattr(step, name) if is_gated else None for name in ("gated_since", "gated_by", "gated_until")}
    return Step.of(step, stepId=step.step_id, max_attempts=step.timings.max_attempts, **gated)


def event_response(event: EventRow) -> Event:
    return Event.of(event, eventId=f"{event.job_id}:{event.seq}", jobId=event.job_id, stepId=event.step_id)


def job_line(row: ListRow) -> JobLine:
    """Returns the item of a list for a LIST row."""
    status = JobStatus(row.status)
    return JobLine.of(
        row,
        jobId=row.job_id,
        status=status,
        current_step_id=None if status.terminal else row.current_step_id,
        completed_at=row.ended_at,
        links=job_links(row.job_id),
    )


def callback_outcome(
    record: Record,
    *,
    applied: bool,
    reason_code: str | None,
    token: str | None = None,
    token_end: datetime | None = None,
) -> CallbackOutcome:
    """Makes the response to a service's callback. While the attempt continues, the response has a new token."""
    fresh: dict[str, Any] = {} if token is None else {"token": token, "token_expires_at": token_end}
    outcome: Literal["APPLIED", "IGNORED"] = "APPLIED" if applied else "IGNORED"
    return CallbackOutcome(outcome=outcome, why=reason_code, job_status=record.job.status, **fresh)
