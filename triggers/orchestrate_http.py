"""`POST /v1/orchestrate` (alias `/v1/commands`): a job in, 202 out; many as NDJSON (FEATURES A1-A8, A12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import ANYONE, Caller, Scope
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.contracts.envelope import Envelope
from shared.contracts.responses.job import Accepted, BatchOutcome, DryRun, JobLinks
from shared.core import durable_names
from shared.core.strict_json import parse_json
from shared.errors import Refusal
from shared.operations.create_job import Created, create_job
from shared.operations.dry_run import dry_run
from shared.views.job import links
from shared.wiring import Wiring
from triggers.http.batch import MEDIA_TYPE, is_batch, lines_of, outcomes
from triggers.http.parameters import DRY_RUN, dry_run_of
from triggers.http.problems import correlation_id, json_body, respond
from triggers.http.routes import Route, add

ORCHESTRATE = Route(
    function="orchestrate",
    method="POST",
    path="v1/orchestrate",
    scope=Scope.OPERATE,
    tag="jobs",
    summary="Submit a job, or many as NDJSON",
    description=(
        "The same request again is the same job: by `idempotency_key`, else by the body. With `dryRun` nothing is "
        "written. NDJSON is an envelope a line, each with an outcome of its own."
    ),
    parameters=(DRY_RUN,),
    body=Envelope,
    body_required=True,
    media_types=("application/json", MEDIA_TYPE),
    responses={202: Accepted, 200: DryRun | BatchOutcome},
    headers={202: ("Location", "Idempotency-Replayed")},
    problems=(
        (400, "REQUEST_INVALID"),
        (400, "ENVELOPE_INVALID"),
        (400, "PROTOCOL_UNKNOWN"),
        (400, "NOT_JSON"),
        (400, "NOT_STORABLE"),
        (400, "BATCH_EMPTY"),
        (400, "DRY_RUN_INVALID"),
        (403, "TENANT_FORBIDDEN"),
        (409, "IDEMPOTENCY_CONFLICT"),
        (413, "BODY_TOO_LARGE"),
        (413, "TOO_MANY_LINES"),
        (413, "DIRECTIVE_TOO_LARGE"),
        (415, "NOT_JSON"),
        (429, "LIMIT_REACHED"),
    ),
)
COMMANDS = replace(ORCHESTRATE, function="orchestrate_commands", path="v1/commands", successor="/v1/orchestrate")
ROUTES = (ORCHESTRATE, COMMANDS)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The two routes; a route is matched by the alphabetical order of function names, so none may overlap."""
    bp = df.Blueprint()

    async def orchestrate(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        if is_batch(req):
            return await batch(req, caller, client)
        envelope = _envelope(json_body(req), caller)
        if dry_run_of(req):
            context = await wiring.fresh_context_for(caller)
            return respond(req, await dry_run(context, envelope, correlation_id=correlation_id(req)))
        created = await create_job(
            await wiring.fresh_context_for(caller),
            DurableOrchestrations(client, durable_names.JOB),
            envelope,
            correlation_id=correlation_id(req),
        )
        body = _accepted(created)
        headers = {"Location": f"/v1/jobs/{body['jobId']}"}
        if created.replayed:
            headers["Idempotency-Replayed"] = "true"
        return respond(req, body, status=202, headers=headers)

    async def batch(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        context, req_id, dry = await wiring.fresh_context_for(caller), correlation_id(req), dry_run_of(req)
        orchestrations = DurableOrchestrations(client, durable_names.JOB)

        async def submit(line: bytes) -> dict[str, Any]:
            envelope = _envelope(line, caller)
            if dry:
                return {"status": 200, "dryRun": await dry_run(context, envelope, correlation_id=req_id)}
            created = await create_job(context, orchestrations, envelope, correlation_id=req_id, own_trace=True)
            body = _accepted(created)
            return {"status": 202, "jobId": body["jobId"], "links": body["links"], "replayed": created.replayed}

        told = await outcomes(lines_of(req.get_body()), submit, req_id)
        return respond(req, told, headers={"X-Correlation-Id": req_id})

    for route in ROUTES:
        add(bp, route, orchestrate, wiring, client=True)
    return bp


def _accepted(created: Created) -> dict[str, Any]:
    job = created.stored.record.job
    found = JobLinks.model_validate(links(job.job_id))
    accepted = Accepted(jobId=job.job_id, status=job.status.value, links=found, created_at=job.created_at)
    return accepted.model_dump(mode="json")


def _envelope(body: bytes, caller: Caller) -> Envelope:
    """Raises ValidationError, and Refusal (400, 403).

    With tokens, who asked is the token's subject, whatever the body says.
    """
    envelope = Envelope.model_validate(_object(body))
    caller.tenant_for(envelope.tenant_id)
    return envelope if caller is ANYONE else envelope.model_copy(update={"requested_by": caller.actor})


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = parse_json(body)
    except ValueError as wrong:
        raise Refusal(400, "NOT_JSON", str(wrong)) from None
    if not isinstance(value, dict):
        raise Refusal(400, "ENVELOPE_INVALID", "the body must be a JSON object")
    return value
