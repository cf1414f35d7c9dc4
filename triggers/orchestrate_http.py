"""`POST /v1/orchestrate` (alias `/v1/commands`): a job in, 202 out (FEATURES A1-A8)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.contracts.envelope import Accepted, Envelope
from shared.core.strict_json import parse
from shared.core.view import links
from shared.errors import Refusal
from shared.operations.create_job import create_job
from shared.operations.dry_run import dry_run
from shared.wiring import Wiring
from triggers.problems import answer, answers_problems, correlation_id, json_body


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The two routes; a route is matched by the alphabetical order of function names, so none may overlap."""
    bp = df.Blueprint()

    async def orchestrate(req: func.HttpRequest, client) -> func.HttpResponse:
        envelope = Envelope.model_validate(_object(json_body(req)))
        if req.params.get("dryRun", "false").lower() == "true":
            return answer(req, await dry_run(wiring.context(), envelope, correlation_id=correlation_id(req)))
        created = await create_job(
            wiring.context(), DurableOrchestrations(client, names.JOB), envelope, correlation_id=correlation_id(req)
        )
        job = created.stored.record.job
        body = Accepted(
            jobId=job.job_id, status=job.status.value, links=links(job.job_id), created_at=job.created_at
        ).model_dump(mode="json")
        headers = {"Location": f"/v1/jobs/{job.job_id}"}
        if created.replayed:
            headers["Idempotency-Replayed"] = "true"
        return answer(req, body, status=202, headers=headers)

    for name, route in (("orchestrate", "v1/orchestrate"), ("orchestrate_commands", "v1/commands")):
        handler = answers_problems(orchestrate)
        handler = bp.durable_client_input(client_name="client")(handler)
        handler = bp.route(route=route, methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)(handler)
        bp.function_name(name)(handler)
    return bp


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = parse(body)
    except ValueError as wrong:
        raise Refusal(400, "NOT_JSON", str(wrong)) from None
    if not isinstance(value, dict):
        raise Refusal(400, "ENVELOPE_INVALID", "the body must be a JSON object")
    return value
