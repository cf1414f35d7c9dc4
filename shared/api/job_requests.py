"""Requests that create or control jobs, and the responses to them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.api.job import JobLinks
from shared.api.response import (
    Instant,
    JobId,
    JobStatusName,
    Problem,
    Response,
    Why,
)
from shared.contracts.envelope import Line


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
    """Set while the job waits: estimated start. Null: time alone does not start it; `waits_for` has what does."""
    waits_for: str | None = None
    """Set while the job waits: the cause in words, with actor, reason and times of a hold, and what starts the job."""


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


class Admission(BaseModel):
    """Why a job goes past its gates."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    reason: Why
    """In words, on one line; it is in the log of the tenant's gate and in the job's history."""
