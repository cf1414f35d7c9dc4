"""`GET /v1/rejected`, `/v1/rejected/{id}`, `POST /v1/rejected/{id}:redrive`: messages that no job accepted."""

from __future__ import annotations

from datetime import date, datetime
from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.rejected import RejectedLine, RejectedMessage, RejectedPage, WhatIf
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, Route, in_path, in_query
from shared.core.jobs.routing import normalise
from shared.errors import excerpt
from shared.operations.jobs.rejected_messages import list_rejected, read_rejected, redrive_rejected, what_if
from shared.ports.rejected import day_partition
from shared.refusals import RejectedNotFound, StillNotApplicable, TenantForbidden
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, bad_cursor, cursor, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

REJECTED_ID = in_path("rejectedId", {"type": "string", "pattern": "^rej_[0-9]{13}_[0-9a-f]{24}$"})
TENANT = in_query(
    "tenant",
    {"type": "string"},
    "Only messages that name this tenant. Default: the caller's tenant; for all-tenants callers, all messages.",
)
DATE = in_query("date", {"type": "string", "format": "date"}, "Only messages of this UTC day.")

_route = partial(Route, scope=Scope.ADMIN, tag="rejected messages")


@_route(
    function="rejected_list",
    method="GET",
    path="v1/rejected",
    summary="List rejected messages",
    description="Lists messages that no job could accept in the last 90 days, newest first.",
    parameters=(TENANT, DATE, *PAGE),
    responses={200: RejectedPage},
    problems=(ProblemCode.DATE_INVALID, *PAGE_PROBLEMS, TenantForbidden),
)
async def _rejected_list(request: Request) -> func.HttpResponse:
    limit, position = page(request.http)
    if position:
        try:
            day_partition(position)
        except ValueError:
            raise bad_cursor() from None
    tenant, day = request.caller.tenant_for(request.http.params.get("tenant")), _date(request.http)
    of_tenant = normalise(tenant) if tenant is not None else None
    found, last = await list_rejected(request.context(), day=day, tenant=of_tenant, after=position or None, limit=limit)
    lines = [RejectedLine.of(message) for message in found]
    return respond(request.http, RejectedPage(rejected=lines, next=cursor(last)))


@_route(
    function="rejected_read",
    method="GET",
    path="v1/rejected/{rejectedId}",
    summary="Get a rejected message",
    description="Returns the message, its body as received, and the expected result of a redrive.",
    parameters=(REJECTED_ID,),
    responses={200: RejectedMessage},
    # the body is unchanged, with any content of its sender
    caching=NO_STORE,
    problems=(RejectedNotFound,),
)
async def _rejected_read(request: Request) -> func.HttpResponse:
    context = request.context()
    message = await read_rejected(context, request.http.route_params["rejectedId"])
    outcome, why = await what_if(context, message)
    return respond(request.http, RejectedMessage.of(message, what_if=WhatIf(outcome=outcome, why=why)))


@_route(
    function="rejected_redrive",
    method="POST",
    path="v1/rejected/{rejectedId}:redrive",
    durable_client=True,
    summary="Redrive a rejected message",
    description="Processes the message again. After a job has accepted the message, repeating the request changes "
    "nothing.",
    parameters=(REJECTED_ID,),
    responses={200: RejectedMessage},
    # the body is unchanged, with any content of its sender
    caching=NO_STORE,
    problems=(RejectedNotFound, StillNotApplicable),
)
async def _rejected_redrive(request: Request) -> func.HttpResponse:
    id_ = request.http.route_params["rejectedId"]
    message = await redrive_rejected(await request.fresh_context(), request.orchestrations(), id_)
    return respond(request.http, RejectedMessage.of(message))


def _date(req: func.HttpRequest) -> date | None:
    given = req.params.get("date")
    if given is None:
        return None
    try:
        return datetime.strptime(given, "%Y-%m-%d").date()  # noqa: DTZ007  a day of the UTC calendar has no zone
    except ValueError:
        detail = f"date must be a day of the UTC calendar as YYYY-MM-DD, not {excerpt(given)}"
        raise RequestError(ProblemCode.DATE_INVALID, detail) from None
