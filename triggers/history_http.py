"""`GET /v1/jobs/{jobId}/audit`, `/receipt`, and `?asOf=` of the job itself (FEATURES N1, N3, N9)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.contracts.responses.history import AuditBundle, Receipt
from shared.core.as_of import as_of
from shared.errors import Refusal
from shared.operations.context import Context
from shared.operations.read_history import read_history
from shared.views.audit import bundle
from shared.views.job import event_view, job_view
from shared.views.receipt import receipt
from shared.wiring import Wiring
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.problems import respond
from triggers.http.routes import Route, add

AUDIT = Route(
    function="job_audit",
    method="GET",
    path="v1/jobs/{jobId}/audit",
    scope=Scope.READ,
    tag="jobs",
    summary="Read everything that proves what happened to a job",
    description="Keep it byte for byte: `lucius audit verify` proves it offline.",
    parameters=(JOB_ID,),
    responses={200: AuditBundle},
    problems=((404, "JOB_NOT_FOUND"),),
)
RECEIPT = Route(
    function="job_receipt",
    method="GET",
    path="v1/jobs/{jobId}/receipt",
    scope=Scope.READ,
    tag="jobs",
    summary="Read what a job cost",
    parameters=(JOB_ID,),
    responses={200: Receipt},
    problems=((404, "JOB_NOT_FOUND"),),
)
ROUTES = (AUDIT, RECEIPT)


#: of an event's number, as its RowKey has it
MAX_SEQ_DIGITS = 10


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The two routes; `view_as_of` serves `GET /v1/jobs/{jobId}?asOf=SEQ`."""
    bp = df.Blueprint()

    async def job_audit(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context = wiring.context_for(caller)
        record, events = await read_history(context, job_id_of(req))
        return respond(req, bundle(record, events, context.clock.now()))

    async def job_receipt(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context = wiring.context_for(caller)
        record, events = await read_history(context, job_id_of(req))
        return respond(req, receipt(record, events, context.clock.now()))

    add(bp, AUDIT, job_audit, wiring)
    add(bp, RECEIPT, job_receipt, wiring)
    return bp


async def view_as_of(context: Context, job_id: str, given: str) -> dict[str, Any]:
    """The job as event `given` left it, with that event under `as_of`. Raises Refusal (400, 404)."""
    if not given.isdecimal() or len(given) > MAX_SEQ_DIGITS or int(given) < 1:
        raise Refusal(400, "AS_OF_INVALID", "asOf must be the number of an event, from 1")
    record, events = await read_history(context, job_id)
    try:
        at = as_of(record, events, int(given))
    except ValueError as missing:
        raise Refusal(404, "EVENT_NOT_FOUND", str(missing)) from None
    return {**job_view(at), "as_of": event_view(events[int(given) - 1])}
