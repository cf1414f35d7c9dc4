"""Requests that create or control jobs, and their responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.api.job import JobLinks
from shared.api.response import Instant, JobId, JobStatusName, Problem, RequestBody, Response, Why
from shared.api.wait_reason import QuotaWait
from shared.contracts.envelope import TextLine


class Accepted(Response):
    """The job, newly created or already existing."""

    jobId: JobId
    status: JobStatusName
    links: JobLinks
    created_at: Instant
    gate: str | None = None
    """New jobs that wait for a quota only. Name of the quota, such as `tenant acme, type OCR` or `platform`."""
    position: int | None = None
    """New jobs that wait for a quota only. Queue position at submission."""
    nextEligibleAt: Instant | None = None
    """New jobs that wait for a quota only. Estimated start. Null if time alone does not start the job; see
    `quota_wait`."""
    waits_for: str | None = None
    """New jobs that wait for a quota only. `quota_wait` and the position, in one sentence."""
    quota_wait: QuotaWait | None = None


class DryRoute(Response):
    """Lane and topic of the job's directives."""

    lane: int
    topic: str
    routing_key_used: str
    resolved_mode: Literal["DEFAULT", "BURST"]
    decision_source: str


class DryIdempotency(Response):
    """Result of the idempotency check."""

    claim: str
    verdict: Literal["NEW", "DUPLICATE", "CONFLICT"]
    jobId: str | None = None
    """Id of the job with the same request or the same key. Null if no such job exists."""


class DryQuota(Response):
    """Result of the limits check. For a quota over all tenants, an estimate from the last allocation."""

    verdict: Literal["ADMITTED", "STAGED", "REFUSED"]
    """ADMITTED: the quotas admit the job. STAGED: the job waits for a quota. REFUSED: LUCIUS refuses the request.

    A duplicate or a conflict is always ADMITTED. A job with dependencies is ADMITTED or REFUSED, because LUCIUS checks
    its quotas after the dependencies have ended."""
    limit: str | None
    """STAGED: quota that the job waits for, in words. REFUSED: reached limit, as in `limit` of the error LIMIT_REACHED.
    ADMITTED: null."""
    tenant_limit: int | None
    """Maximum active jobs of the tenant. Null if there is no limit."""
    tenant_active: int | None
    """Number of active jobs of the tenant. Null if no limit applies to the tenant."""


class DryRun(Response):
    """Result of a dry run: the decisions about the job request, without a new job. A dry run does not look up the
    dependencies."""

    dryRun: Literal[True]
    tenant: str
    """Tenant, trimmed and lower-cased."""
    protocol_id: str
    protocol_version: int
    route: DryRoute
    idempotency: DryIdempotency
    quota: DryQuota
    directives: list[dict[str, Any]]
    """Directive of each step, without the job id and the fields of an attempt."""


class LineOutcome(Response):
    """Result of one line of a batch: a job, a dry run or an error."""

    line: Annotated[int, Field(ge=1)]
    """Line number in the body. Blank lines count."""
    status: int
    """HTTP status of the same request sent alone: 202, 200 (dry run), 4xx or 5xx."""
    jobId: JobId | None = None
    links: JobLinks | None = None
    replayed: bool | None = None
    """`true` if the job existed already."""
    dryRun: DryRun | None = None
    problem: Problem | None = None


class BatchCounts(Response):
    """Counts of the lines of a batch. The other fields add up to `lines`."""

    lines: int
    created: int
    replayed: int
    checked: int
    """Number of dry runs without an error."""
    refused: int
    """Number of job requests with status 4xx. Correct the job request or, after 429, retry later."""
    failed: int
    """Number of job requests with status 5xx. A retry can succeed."""


class BatchOutcome(Response):
    """Outcomes of the job requests, in their order in the body."""

    results: list[LineOutcome]
    counts: BatchCounts


class ControlRequest(BaseModel):
    """Reason for cancelling, pausing or resuming a job. Recorded in the job's history."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    reason: Annotated[TextLine, Field(max_length=1024, examples=["wrong document"])] | None = None
    """Reason, one line."""


class PriorityChange(RequestBody):
    """New priority of a waiting job, with the reason."""

    priority: Annotated[Literal["low", "normal", "high", "emergency"], Field(examples=["high"])]
    """Priority, as in a job request."""
    reason: Why
    """Reason, one line. Recorded in the job's history."""


class RedriveRequest(ControlRequest):
    """Reason for a redrive, and its options."""

    ignoreDependencies: StrictBool = False
    """`true` to create the new job without the job's dependencies. Cannot be combined with `withDependants`."""
    withDependants: StrictBool = False
    """`true` to also redrive every job that failed because of this job. The request then returns 202 with a bulk
    operation."""


class Admission(RequestBody):
    """Reason for admitting a job past its quotas."""

    reason: Why
    """Reason, one line. Recorded in the log of the tenant's quota and in the job's history."""
