"""`GET /v1/jobs/{jobId}/audit`, `/receipt`, and `?asOf=` of the job itself (FEATURES N1, N3, N9)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.core.as_of import as_of
from shared.core.audit import bundle
from shared.core.receipt import receipt
from shared.core.view import event_view, job_view
from shared.errors import Refusal
from shared.operations.context import Context
from shared.operations.read_history import read_history
from shared.wiring import Wiring
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The two routes; `view_as_of` serves `GET /v1/jobs/{jobId}?asOf=SEQ`."""
    bp = df.Blueprint()

    @bp.function_name("job_audit")
    @bp.route(route="v1/jobs/{jobId}/audit", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_audit(req: func.HttpRequest) -> func.HttpResponse:
        context = wiring.context()
        record, events = await read_history(context, req.route_params["jobId"])
        return answer(req, bundle(record, events, context.clock.now()))

    @bp.function_name("job_receipt")
    @bp.route(route="v1/jobs/{jobId}/receipt", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_receipt(req: func.HttpRequest) -> func.HttpResponse:
        context = wiring.context()
        record, events = await read_history(context, req.route_params["jobId"])
        return answer(req, receipt(record, events, context.clock.now()))

    return bp


async def view_as_of(context: Context, job_id: str, given: str) -> dict[str, Any]:
    """The job as event `given` left it, with that event under `as_of`. Raises Refusal (400, 404)."""
    if not given.isdecimal() or len(given) > 10 or int(given) < 1:
        raise Refusal(400, "AS_OF_INVALID", "asOf must be the number of an event, from 1")
    record, events = await read_history(context, job_id)
    try:
        at = as_of(record, events, int(given))
    except ValueError as missing:
        raise Refusal(404, "EVENT_NOT_FOUND", str(missing)) from None
    return {**job_view(at), "as_of": event_view(events[int(given) - 1])}
