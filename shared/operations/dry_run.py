"""What a request would become, without writing anything (FEATURES N4)."""

from __future__ import annotations

from typing import Any

from shared.contracts.envelope import Envelope
from shared.core.directive import directive_of
from shared.core.job import Job
from shared.core.plan import digests
from shared.core.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import Refusal
from shared.operations.context import Context
from shared.operations.create_job import is_expired, plan_rows, validate_request


async def dry_run(context: Context, envelope: Envelope, *, correlation_id: str | None) -> dict[str, Any]:
    """The checks of a real POST, then its verdicts. Raises Refusal as the real one would."""
    request = validate_request(context, envelope, correlation_id)
    record, _ = plan_rows(context, request, "job_dry_run", context.clock.now())
    identity = digests(envelope)
    claim = await context.index.read_claim(record.job.tenant, identity.claim)
    verdict: dict[str, Any] = {"claim": identity.claim, "verdict": "NEW"}
    if claim is not None and not is_expired(context, claim):
        same = claim.body_hash == identity.body
        verdict |= {"verdict": "DUPLICATE" if same else "CONFLICT", "jobId": claim.job_id}
    return {
        "dryRun": True,
        "tenant": record.job.tenant,
        "protocol_id": record.job.protocol_id,
        "protocol_version": record.job.protocol_version,
        "route": {
            "lane": request.lane_decision.lane,
            "topic": f"{DIRECTIVE_TOPIC_PREFIX}{request.lane_decision.lane}",
            "routing_key_used": request.lane_decision.routing_key_used,
            "resolved_mode": request.lane_decision.resolved_mode,
            "decision_source": request.lane_decision.decision_source,
        },
        "idempotency": verdict,
        "quota": await _quota(context, record.job, new=verdict["verdict"] == "NEW"),
        "directives": [
            directive_of(record, step).model_dump(
                mode="json", exclude={"jobId", "attempt_no", "lease_id", "input_ref", "workspace_ref"}
            )
            for step in record.steps
        ],
    }


async def _quota(context: Context, job: Job, *, new: bool) -> dict[str, Any]:
    """Whether a limit would refuse the job now, and which; a duplicate is never refused. Raises LedgerUnavailable."""
    limit = context.settings.max_inflight_per_tenant
    active = await context.index.count_gated(job.tenant) if limit is not None else None
    told: dict[str, Any] = {"verdict": "ADMITTED", "limit": None, "tenant_limit": limit, "tenant_active": active}
    if not new:
        return told
    try:
        await context.admission.check(context.index, context.settings, context.clock.now(), job.mode)
    except Refusal as refused:
        return told | {"verdict": "REFUSED", "limit": refused.extra["limit"]}
    if limit is not None and active is not None and active >= limit:
        return told | {"verdict": "REFUSED", "limit": "LUCIUS_MAX_INFLIGHT_PER_TENANT"}
    return told
