"""`POST /v1/quotas/{gate}:reset`: an operator resets the circuit breaker of a quota (R62)."""

from __future__ import annotations

import azure.functions as func

from shared.api.quota_changes import BreakerReset
from shared.operations.quotas.quotas import By, reset_breaker
from shared.refusals import NoBreaker, QuotaForbidden, QuotaInvalid, TooManyRules
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.routes import Request
from triggers.quotas_http import GATE, NAME, NAME_PROBLEMS, NAMES, change_response, change_route, operated_gate


@change_route(
    function="quotas_reset",
    method="POST",
    path="v1/quotas/{gate}:reset",
    summary="Reset a quota's circuit breaker",
    description="Operators only. Closes the breaker and clears its counts. LUCIUS then admits waiting jobs in the "
    "order of the waiting queue.",
    parameters=(GATE, *NAMES, NAME),
    body=BreakerReset,
    body_required=True,
    problems=(*NAME_PROBLEMS, *BODY_PROBLEMS, QuotaForbidden, NoBreaker, TooManyRules),
)
async def _reset(request: Request) -> func.HttpResponse:
    body = optional_body(request.http, BreakerReset, QuotaInvalid)
    context = await request.fresh_context()
    gate = await operated_gate(request, context)
    by = By(actor=request.caller.actor, reason=body.reason)
    return await change_response(request, context, await reset_breaker(context, request.orchestrations(), gate, by))
