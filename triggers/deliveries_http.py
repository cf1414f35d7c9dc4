"""`/v1/webhooks/{hookId}/deliveries`: the deliveries of a webhook and their results (R85)."""

from __future__ import annotations

import re

import azure.functions as func

from shared.api import webhook as views
from shared.api.webhook import Delivery, DeliveryPage
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import in_path, in_query
from shared.core.webhooks.webhooks import DEFAULT_HOOK, DeliveryState
from shared.errors import excerpt
from shared.operations.webhooks import webhooks
from shared.webhook_refusals import DeliveryNotFound
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request
from triggers.webhooks_http import HOOK_ID, HOOK_PROBLEMS, TENANT, hook_id_of, route, tenant_of

_NUMBER = re.compile(r"[0-9]{1,18}")
_MAX_NAME = 64


@route(
    function="webhooks_deliveries",
    method="GET",
    path="v1/webhooks/{hookId}/deliveries",
    summary="List a webhook's deliveries",
    description="Lists deliveries with their results.",
    parameters=(
        HOOK_ID,
        TENANT,
        in_query("state", {"enum": [state.value for state in DeliveryState]}, "Only deliveries in this state."),
        *PAGE,
    ),
    responses={200: DeliveryPage},
    problems=(*HOOK_PROBLEMS, ProblemCode.STATE_INVALID, *PAGE_PROBLEMS),
)
async def _deliveries(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    limit, _ = page(request.http)
    given = request.http.params.get("state")
    if given is not None and given not in {*DeliveryState}:
        raise RequestError(
            ProblemCode.STATE_INVALID, f"state must be one of {', '.join(DeliveryState)}, not {excerpt(given)}"
        )
    found, following = await webhooks.list_deliveries(
        context,
        tenant,
        hook_id,
        state=DeliveryState(given) if given is not None else None,
        after=request.http.params.get("cursor") or None,
        limit=limit,
    )
    return respond(request.http, DeliveryPage(deliveries=[views.delivery(each) for each in found], next=following))


@route(
    function="webhooks_redeliver",
    method="POST",
    path="v1/webhooks/{hookId}/deliveries/{number}:redeliver",
    summary="Redeliver an event",
    description="Starts the next attempt of a waiting or ended delivery now, with the same `webhook-id`. While the "
    "webhook is disabled, is suspended or waits for a probe, the attempt waits, too.",
    parameters=(
        HOOK_ID,
        in_path("number", {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}, "`number` of the delivery."),
        TENANT,
        in_query(
            "name",
            {"type": "string", "maxLength": _MAX_NAME},
            f"`name` of the delivery. Only for webhook `{DEFAULT_HOOK}`.",
        ),
    ),
    responses={200: Delivery},
    problems=(*HOOK_PROBLEMS, DeliveryNotFound),
)
async def _redeliver(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    number, name = request.http.route_params["number"], request.http.params.get("name", "")
    if _NUMBER.fullmatch(number) is None or len(name) > _MAX_NAME:
        raise DeliveryNotFound(hook_id, 0)
    found = await webhooks.redeliver(context, tenant, hook_id, int(number), name, request.caller.actor)
    return respond(request.http, views.delivery(found))
