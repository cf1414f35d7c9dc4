"""`POST /v1/jobs/{jobId}:cancel|:pause|:resume` (LIFECYCLE "Controls")."""

from __future__ import annotations

import uuid
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.access import Caller, Scope
from shared.core.history import Origin
from shared.core.occurrences import ControlKind
from shared.core.strict_json import parse
from shared.core.view import job_view
from shared.errors import Refusal
from shared.operations.control_job import control_job
from shared.wiring import Wiring
from triggers.problems import answer, json_body
from triggers.routes import Handler, Route, add

CONTROLS = {
    kind: Route(
        function=f"job_{kind.value.lower()}",
        method="POST",
        path=f"v1/jobs/{{jobId}}:{kind.value.lower()}",
        scope=Scope.OPERATE,
        tag="jobs",
        summary=f"{kind.value.capitalize()} a job",
    )
    for kind in ControlKind
}
ROUTES = tuple(CONTROLS.values())

MAX_REASON = 1024


def blueprint(wiring: Wiring) -> df.Blueprint:
    """One route a control; the body is optional: `{"reason": ...}`."""
    bp = df.Blueprint()
    for kind, route in CONTROLS.items():
        add(bp, route, _control(wiring, kind), wiring, client=True)
    return bp


def _control(wiring: Wiring, kind: ControlKind) -> Handler:
    async def control(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        origin = Origin(cause_id=f"request:{uuid.uuid4()}", actor=caller.actor, source="http", reason=reason_of(req))
        orchestrations = DurableOrchestrations(client, names.JOB)
        stored = await control_job(wiring.context_for(caller), orchestrations, req.route_params["jobId"], kind, origin)
        return answer(req, job_view(stored.record))

    return control


def reason_of(req: func.HttpRequest) -> str | None:
    """What the optional body says. Raises Refusal (400)."""
    if not req.get_body().strip():
        return None
    try:
        body = parse(json_body(req))
    except ValueError as wrong:
        raise Refusal(400, "NOT_JSON", str(wrong)) from None
    reason = body.get("reason") if isinstance(body, dict) else body
    if reason is not None and (not isinstance(reason, str) or len(reason) > MAX_REASON):
        raise Refusal(400, "REASON_INVALID", f"reason must be a string of at most {MAX_REASON} characters")
    return reason
