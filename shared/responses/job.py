"""A job, its steps, its dead letter, and lists of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.contracts.messages import Artifact
from shared.contracts.reference import Reference
from shared.responses.history import Event
from shared.responses.response import (
    Cursor,
    ErrorCode,
    FailureCauseName,
    Instant,
    JobId,
    JobStatusName,
    LeaseDigest,
    Partial,
    Problem,
    Response,
    StepStatusName,
)


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


class Accepted(Response):
    """A job that is there now, or was there already."""

    jobId: JobId
    status: JobStatusName
    links: JobLinks
    created_at: Instant
    gate: str | None = None
    """Of a job that waits: the gate that keeps it, in words."""
    position: int | None = None
    """Of a job that waits: its place in its line when it came."""
    nextEligibleAt: Instant | None = None
    """Of a job that waits: an estimate, by time alone; null: only an end or a person lets it in."""


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


class DryRoute(Response):
    """Where its directives would go."""

    lane: int
    topic: str
    routing_key_used: str
    resolved_mode: Literal["DEFAULT", "BURST"]
    decision_source: str


class DryIdempotency(Response):
    """Whether the request is a job already."""

    claim: str
    verdict: Literal["NEW", "DUPLICATE", "CONFLICT"]
    jobId: str | None = None
    """The job that it is, or that has its key."""


class DryQuota(Response):
    """Whether a limit would refuse the job now; for a quota over all tenants an estimate by its last allocation."""

    verdict: Literal["ADMITTED", "STAGED", "REFUSED"]
    """A duplicate is always admitted."""
    limit: str | None
    """The limit that would refuse it."""
    tenant_limit: int | None
    """How many active jobs the tenant may have; null: as many as it wants."""
    tenant_active: int | None
    """How many it has, where there is a limit."""


class DryRun(Response):
    """All that a POST would decide; nothing was written."""

    dryRun: Literal[True]
    tenant: str
    """As it is compared: trimmed and lower-cased."""
    protocol_id: str
    protocol_version: int
    route: DryRoute
    idempotency: DryIdempotency
    quota: DryQuota
    directives: list[dict[str, Any]]
    """The directive of each step, without what only an attempt has."""


class LineOutcome(Response):
    """What came of one line: a job, a dry run or a problem."""

    line: Annotated[int, Field(ge=1)]
    """Its number in the body, blank lines counted too."""
    status: int
    """What a request of its own would have been answered with: 202, 200 (dry run), 4xx or 5xx."""
    jobId: JobId | None = None
    links: JobLinks | None = None
    replayed: bool | None = None
    """The job was there already."""
    dryRun: DryRun | None = None
    problem: Problem | None = None


class BatchCounts(Response):
    """Sums; all but `lines` add up to `lines`."""

    lines: int
    created: int
    replayed: int
    checked: int
    """Dry runs that would do."""
    refused: int
    """4xx: will be refused again."""
    failed: int
    """5xx: may go through when sent again."""


class BatchOutcome(Response):
    """The outcomes in the order of the lines."""

    results: list[LineOutcome]
    counts: BatchCounts
