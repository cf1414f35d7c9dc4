"""A step of a job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.contracts.reference import Reference
from shared.contracts.responses.common import Cursor, Instant, Response

StepStatusName = Literal["PENDING", "INITIATED", "PROCESSING", "FAILED_RETRY", "SUCCEEDED", "FAILED_FINAL", "CANCELLED"]
RetryCause = Literal["ACK_TIMEOUT", "LEASE_EXPIRED", "RESULT"]


class Step(Response):
    """One step of a job, as its row in the ledger says."""

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
    lease_id: str | None
    """The right to the current attempt; replies must name it."""
    lease_expires_at: Instant | None
    """Until when the service may be silent."""
    initiated_at: Instant | None
    """When the current attempt was recorded."""
    backlog_since: Instant | None
    """Since when LUCIUS's own backlog explains the silence; such an attempt does not time out."""
    deadline_at: Instant | None
    """The step's total time limit; null: it has none."""
    due_at: Instant | None
    """When the next try may begin."""
    retry_cause: RetryCause | None
    """What ended the last attempt, where another follows."""
    input_ref: Reference | None
    workspace_ref: Reference | None
    output_ref: Reference | None
    result_ref: Reference | None
    """Where the service put what the step made."""
    carried: bool
    """Done in the job that this one took up again, and not run here."""
    last_error_code: str | None
    last_error_message: str | None
    progress: Any
    """What the service last said of its progress."""
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None


class StepPage(Response):
    """The steps of a job, in the order of its protocol."""

    steps: list[Step]
    next: Cursor
