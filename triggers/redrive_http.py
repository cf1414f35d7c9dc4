"""`POST /v1/jobs/{jobId}:redrive`: a failed or cancelled job as a new one (LIFECYCLE "Redrive, replay")."""

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
from shared.operations.redrive_job import redrive_job
from shared.views.job import job_view
from shared.wiring import Wiring
from triggers.controls_http import CONTROL_PROBLEMS, reason_of
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.problems import respond
from triggers.http.routes import Route, add

REDRIVE = Route(
    function="job_redrive",
    method="POST",
    path="v1/jobs/{jobId}:redrive",
    scope=Scope.OPERATE,
    tag="jobs",
    summary="Take a failed or cancelled job up again, as a new one",
    description="Steps that SUCCEEDED are not run again. Asked for again, it answers the same new job.",
    parameters=(JOB_ID,),
    body=ControlRequest,
    responses={200: Job},
    descriptions={200: "The new job."},
    headers={200: ("Location", "Idempotency-Replayed")},
    problems=(
        *CONTROL_PROBLEMS,
        (409, "JOB_LIVE"),
        (409, "JOB_SUCCEEDED"),
        (409, "WITHDRAWN"),
        (429, "LIMIT_REACHED"),
    ),
)
ROUTES = (REDRIVE,)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """200 with the new job; asked again, the same one, and `Idempotency-Replayed: true`."""
    bp = df.Blueprint()

    async def job_redrive(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        origin = Origin(cause_id=f"request:{uuid.uuid4()}", actor=caller.actor, source="http", reason=reason_of(req))
        orchestrations = DurableOrchestrations(client, durable_names.JOB)
        redriven = await redrive_job(wiring.context_for(caller), orchestrations, job_id_of(req), origin)
        record = redriven.stored.record
        headers = {"Location": f"/v1/jobs/{record.job.job_id}"}
        if redriven.replayed:
            headers["Idempotency-Replayed"] = "true"
        return respond(req, job_view(record), headers=headers)

    add(bp, REDRIVE, job_redrive, wiring, client=True)
    return bp
