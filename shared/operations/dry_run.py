"""What a request would become, without writing anything (FEATURES N4)."""

from __future__ import annotations

from typing import Any

from shared.contracts.envelope import Envelope
from shared.core.directive import directive_of
from shared.core.plan import digests
from shared.core.routing import DIRECTIVE_TOPIC_PREFIX
from shared.operations.context import Context
from shared.operations.create_job import expired, planned, validate


async def dry_run(context: Context, envelope: Envelope, *, correlation_id: str | None) -> dict[str, Any]:
    """The checks of a real POST, then its verdicts. Raises Refusal as the real one would."""
    request = validate(context, envelope, correlation_id)
    record, _ = planned(context, request, "job_dry_run", context.clock.now())
    identity = digests(envelope)
    claim = await context.index.read_claim(record.job.tenant, identity.claim)
    verdict: dict[str, Any] = {"claim": identity.claim, "verdict": "NEW"}
    if claim is not None and not expired(context, claim):
        same = claim.body_hash == identity.body
        verdict |= {"verdict": "DUPLICATE" if same else "CONFLICT", "jobId": claim.job_id}
    return {
        "dryRun": True,
        "tenant": record.job.tenant,
        "protocol_id": record.job.protocol_id,
        "protocol_version": record.job.protocol_version,
        "route": {
            "lane": request.route.lane,
            "topic": f"{DIRECTIVE_TOPIC_PREFIX}{request.route.lane}",
            "routing_key_used": request.route.routing_key_used,
            "resolved_mode": request.route.resolved_mode,
            "decision_source": request.route.decision_source,
        },
        "idempotency": verdict,
        "directives": [
            directive_of(record, step).model_dump(
                mode="json", exclude={"jobId", "attempt_no", "lease_id", "input_ref", "workspace_ref"}
            )
            for step in record.steps
        ],
    }
