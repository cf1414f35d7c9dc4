"""What happened to a job."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.contracts.responses.common import Cursor, Instant, JobId, Response


class Event(Response):
    """One event of a job's history: gapless, in order, each chained to the one before by its hash."""

    eventId: str
    """`{jobId}:{seq}`."""
    jobId: JobId
    stepId: str | None
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RESULT"])]
    attempt_no: int | None
    lease_id: str | None
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
    cause_id: str
    """The occurrence that made it: a message, a request, an activity."""
    prev_hash: str
    hash: str
    """SHA-256 over the canonical JSON of all other fields."""


class EventPage(Response):
    """A job's events, in order."""

    events: list[Event]
    next: Cursor
