"""`GET /v1/rejected`, `/v1/rejected/{id}`, `POST /v1/rejected/{id}:redrive`: messages that no job could take."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.contracts.responses.rejected import RejectedMessage, RejectedPage
from shared.core import durable_names
from shared.errors import Refusal
from shared.operations.rejected_messages import list_rejected, read_rejected, redrive_rejected, what_if
from shared.ports.rejected import day_partition
from shared.views.job import rejected_view
from shared.wiring import Wiring
from triggers.http.paging import bad_cursor, cursor, page
from triggers.http.parameters import PAGE, PAGE_PROBLEMS
from triggers.http.problems import respond
from triggers.http.routes import Parameter, Route, add

REJECTED_ID = Parameter(
    name="rejectedId",
    where="path",
    required=True,
    schema={"type": "string", "pattern": "^rej_[0-9]{13}_[0-9a-f]{24}$"},
)
DATE = Parameter(
    name="date",
    where="query",
    schema={"type": "string", "format": "date"},
    description="Only messages of this day of the UTC calendar.",
)

LIST = Route(
    function="rejected_list",
    method="GET",
    path="v1/rejected",
    scope=Scope.ADMIN,
    tag="rejected messages",
    summary="List messages that no job could take",
    description="Of the last 90 days, newest first.",
    parameters=(DATE, *PAGE),
    responses={200: RejectedPage},
    problems=((400, "DATE_INVALID"), *PAGE_PROBLEMS),
)
READ = Route(
    function="rejected_read",
    method="GET",
    path="v1/rejected/{rejectedId}",
    scope=Scope.ADMIN,
    tag="rejected messages",
    summary="Read one whole, with what a redrive would do",
    parameters=(REJECTED_ID,),
    responses={200: RejectedMessage},
    problems=((404, "REJECTED_NOT_FOUND"),),
)
REDRIVE = Route(
    function="rejected_redrive",
    method="POST",
    path="v1/rejected/{rejectedId}:redrive",
    scope=Scope.ADMIN,
    tag="rejected messages",
    summary="Hand a message in again",
    description="Once a job took it, asking again changes nothing.",
    parameters=(REJECTED_ID,),
    responses={200: RejectedMessage},
    problems=((404, "REJECTED_NOT_FOUND"), (409, "STILL_NOT_APPLICABLE")),
)
ROUTES = (LIST, READ, REDRIVE)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The three routes."""
    bp = df.Blueprint()

    async def rejected_list(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        limit, position = page(req)
        if position:
            try:
                day_partition(position)
            except ValueError:
                raise bad_cursor() from None
        found, last = await list_rejected(
            wiring.context_for(caller), day=_date(req), after=position or None, limit=limit
        )
        shown = [rejected_view(message, body=False) for message in found]
        return respond(req, {"rejected": shown, "next": cursor(last)})

    async def rejected_read(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context = wiring.context_for(caller)
        message = await read_rejected(context, req.route_params["rejectedId"])
        kind, why = await what_if(context, message)
        return respond(req, {**_whole(message), "what_if": {"outcome": kind, "why": why}})

    async def rejected_redrive(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        orchestrations = DurableOrchestrations(client, durable_names.JOB)
        context = wiring.context_for(caller)
        return respond(req, _whole(await redrive_rejected(context, orchestrations, req.route_params["rejectedId"])))

    add(bp, LIST, rejected_list, wiring)
    add(bp, READ, rejected_read, wiring)
    add(bp, REDRIVE, rejected_redrive, wiring, client=True)
    return bp


def _whole(message: Any) -> dict[str, Any]:
    return rejected_view(message, body=True)


def _date(req: func.HttpRequest) -> date | None:
    given = req.params.get("date")
    if given is None:
        return None
    try:
        return datetime.strptime(given, "%Y-%m-%d").date()  # noqa: DTZ007  a day of the UTC calendar has no zone
    except ValueError:
        raise Refusal(400, "DATE_INVALID", "date must be a day of the UTC calendar as YYYY-MM-DD") from None
