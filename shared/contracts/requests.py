"""Bodies of requests other than envelopes and replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.contracts.envelope import Line
from shared.contracts.quotas import Why


class ControlRequest(BaseModel):
    """Why a job is cancelled, paused, resumed or redriven; it stands in the job's history."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    reason: Annotated[Line, Field(max_length=1024, examples=["wrong document"])] | None = None
    """In words, on one line."""


class PriorityChange(BaseModel):
    """The priority with which a job is to wait, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    priority: Annotated[Literal["low", "normal", "high", "emergency"], Field(examples=["high"])]
    """As in the envelope."""
    reason: Why
    """In words, on one line; it stands in the job's history."""


class RedriveRequest(ControlRequest):
    """Why a job is taken up again, and whether it waits for other jobs again."""

    ignoreDependencies: StrictBool = False
    """Begin at once, whatever became of the jobs that it depends on."""
    withDependants: StrictBool = False
    """Then also take up every job that failed because of it: the answer is the bulk that does so (202)."""


class IncidentRequest(BaseModel):
    """Why an incident is resolved, retried or dismissed, or a dead letter dismissed."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    reason: Why
    """In words, on one line; it stands in the incident's log."""


class TicketRequest(BaseModel):
    """Which stream a ticket is for."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    path: Annotated[
        str,
        Field(pattern=r"^/v1/(events|dashboard/events|jobs/[A-Za-z0-9_-]{1,128}/events)$", examples=["/v1/events"]),
    ]
    """Of the stream, from the root of the API, without a query."""
    tenant_id: str | None = None
    """Whose feed; without it that of the token's tenant. A job's stream is its tenant's."""

    @property
    def job_id(self) -> str | None:
        """Of the job whose stream it is; None: it is a feed's."""
        parts = self.path.split("/")
        return parts[3] if parts[2] == "jobs" else None


class QueryRequest(BaseModel):
    """A request of GraphQL over HTTP: one operation of a document."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    query: Annotated[str, Field(examples=["{ jobs { jobs { jobId status } next } }"])]
    """The document."""
    variables: dict[str, Any] | None = None
    """By name, without the dollar."""
    operationName: str | None = None
    """Of a document with more than one operation."""
    extensions: dict[str, Any] | None = None
    """Nothing of it is read."""


class ReconcileRequest(BaseModel):
    """What the sweeper is to do."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    dryRun: StrictBool = False
    """Only say what would be done."""
