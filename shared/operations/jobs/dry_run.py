"""Previews a request without creating a job. The only write is a missing count of the tenant's jobs."""

from __future__ import annotations

from typing import Literal

from shared.api.job_requests import DryIdempotency, DryQuota, DryRoute, DryRun
from shared.contracts.envelope import Envelope
from shared.core.jobs.directive import directive_of
from shared.core.jobs.job import Job
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX, normalise
from shared.operations.gates import admissions
from shared.operations.gates.platform_gates import preview_decision
from shared.operations.jobs.create_job import ValidRequest, plan_record, validate_request
from shared.operations.jobs.creation import is_expired
from shared.operations.process.context import Context
from shared.refusals import LimitReached


async def dry_run(context: Context, envelope: Envelope, *, correlation_id: str | None) -> DryRun:
    """Checks the request in a turn of the tenant, and returns the decisions. Does not look up the dependencies.

    A conflict of the idempotency key and a reached limit are in the result. Raises the errors of `validate_request`,
    Overloaded, and Transient.
    """
    request = validate_request(context, envelope, correlation_id)
    async with context.process.submissions.turn(normalise(envelope.tenant_id)):
        return await _verdicts(context, request)


async def _verdicts(context: Context, request: ValidRequest) -> DryRun:
    """Returns the decisions about the request. Raises Transient."""
    named, identity = request.envelope.dependencies, request.identity
    record = plan_record(context, request, "job_dry_run", context.clock.now(), dependencies=named)
    claim = await context.index.read_claim(record.job.tenant, identity.claim)
    if claim is None or is_expired(context, claim):
        idempotency = DryIdempotency(claim=identity.claim, verdict="NEW")
    else:
        verdict: Literal["DUPLICATE", "CONFLICT"] = "DUPLICATE" if claim.body_hash == identity.body else "CONFLICT"
        idempotency = DryIdempotency(claim=identity.claim, verdict=verdict, jobId=claim.job_id)
    lane = request.lane_decision
    return DryRun(
        dryRun=True,
        tenant=record.job.tenant,
        protocol_id=record.job.protocol_id,
        protocol_version=record.job.protocol_version,
        route=DryRoute.of(lane, topic=f"{DIRECTIVE_TOPIC_PREFIX}{lane.lane}"),
        idempotency=idempotency,
        quota=await _preview_quota(context, record.job, new=idempotency.verdict == "NEW"),
        directives=[
            directive_of(record, step).model_dump(
                mode="json", exclude={"jobId", "attempt_no", "lease_id", "input_ref", "input_refs", "workspace_ref"}
            )
            for step in record.steps
        ],
    )


async def _preview_quota(context: Context, job: Job, *, new: bool) -> DryQuota:
    """Returns the verdict of the quotas now: refused, waiting, or started. A duplicate is never refused (R17).

    Raises Contended, LedgerUnavailable.
    """
    active, tenant_limit = await admissions.count_active(context, job.tenant)
    if not new:
        return DryQuota(verdict="ADMITTED", limit=None, tenant_limit=tenant_limit, tenant_active=active)
    verdict: Literal["ADMITTED", "STAGED", "REFUSED"] = "ADMITTED"
    limit: str | None = None
    try:
        decision = await preview_decision(context, job)
        if decision is not None and decision.stopped_by is not None:
            verdict, limit = "STAGED", decision.stopped_by.gate.display_name
    except LimitReached as reached:
        verdict, limit = "REFUSED", reached.limit
    return DryQuota(verdict=verdict, limit=limit, tenant_limit=tenant_limit, tenant_active=active)
