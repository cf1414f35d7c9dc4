"""`GET /v1/rejected`, `/v1/rejected/{id}`, `POST /v1/rejected/{id}:redrive`: messages that no job could take."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.rejections import day_of
from shared.core.view import rejected_view
from shared.errors import Refusal
from shared.operations.rejected_messages import list_rejected, read_rejected, redrive_rejected, what_if
from shared.wiring import Wiring
from triggers.paging import bad_cursor, cursor, page
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The three routes."""
    bp = df.Blueprint()

    @bp.function_name("rejected_list")
    @bp.route(route="v1/rejected", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def rejected_list(req: func.HttpRequest) -> func.HttpResponse:
        limit, position = page(req)
        if position:
            try:
                day_of(position)
            except ValueError:
                raise bad_cursor() from None
        found, last = await list_rejected(wiring.context(), day=_date(req), after=position or None, limit=limit)
        shown = [rejected_view(message, body=False) for message in found]
        return answer(req, {"rejected": shown, "next": cursor(last)})

    @bp.function_name("rejected_read")
    @bp.route(route="v1/rejected/{rejectedId}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def rejected_read(req: func.HttpRequest) -> func.HttpResponse:
        message = await read_rejected(wiring.context(), req.route_params["rejectedId"])
        kind, why = await what_if(wiring.context(), message)
        return answer(req, {**_whole(message), "what_if": {"outcome": kind, "why": why}})

    @bp.function_name("rejected_redrive")
    @bp.route(route="v1/rejected/{rejectedId}:redrive", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
    @bp.durable_client_input(client_name="client")
    @answers_problems
    async def rejected_redrive(req: func.HttpRequest, client) -> func.HttpResponse:
        orchestrations = DurableOrchestrations(client, names.JOB)
        return answer(
            req, _whole(await redrive_rejected(wiring.context(), orchestrations, req.route_params["rejectedId"]))
        )

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
