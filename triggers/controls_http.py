"""`POST /v1/jobs/{jobId}:cancel|:pause|:resume` (LIFECYCLE "Controls")."""

from __future__ import annotations

import uuid
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.contracts.requests import ControlRequest
from shared.contracts.responses.job import Job
from shared.core import durable_names
from shared.core.history import Origin
from shared.core.occurrences import ControlKind
from shared.operations.control_job import control_job
from shared.views.job import job_view
from shared.wiring import Wiring
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.problems import optional_body, respond
from triggers.http.routes import Handler, Route, add

#: of every POST about a job whose body is optional
CONTROL_PROBLEMS = (
    (400, "NOT_JSON"),
    (400, "REASON_INVALID"),
    (404, "JOB_NOT_FOUND"),
    (413, "BODY_TOO_LARGE"),
    (415, "NOT_JSON"),
)

CONTROLS = {
    kind: Route(
        function=f"job_{kind.value.lower()}",
        method="POST",
        path=f"v1/jobs/{{jobId}}:{kind.value.lower()}",
        scope=Scope.OPERATE,
        tag="jobs",
        summary=f"{kind.value.capitalize()} a job",
        description="Asked for again, it changes nothing and answers the same.",
        parameters=(JOB_ID,),
        body=ControlRequest,
        responses={200: Job},
        problems=(*CONTROL_PROBLEMS, (409, "JOB_TERMINAL"), (409, "CONTROL_NOT_POSSIBLE")),
    )
    for kind in ControlKind
}
ROUTES = tuple(CONTROLS.values())


def blueprint(wiring: Wiring) -> df.Blueprint:
    """One route a control; the body is optional: `{"reason": ...}`."""
    bp = df.Blueprint()
    for kind, route in CONTROLS.items():
        add(bp, route, _control(wiring, kind), wiring, client=True)
    return bp


def _control(wiring: Wiring, kind: ControlKind) -> Handler:
    async def control(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        origin = Origin(cause_id=f"request:{uuid.uuid4()}", actor=caller.actor, source="http", reason=reason_of(req))
        orchestrations = DurableOrchestrations(client, durable_names.JOB)
        stored = await control_job(wiring.context_for(caller), orchestrations, job_id_of(req), kind, origin)
        return respond(req, job_view(stored.record))

    return control


def reason_of(req: func.HttpRequest) -> str | None:
    """What the optional body says. Raises Refusal (400, 413, 415)."""
    return optional_body(req, ControlRequest, "REASON_INVALID").reason
