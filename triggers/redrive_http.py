"""`POST /v1/jobs/{jobId}:redrive`: a failed or cancelled job as a new one (LIFECYCLE "Redrive, replay")."""

from __future__ import annotations

import uuid

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.history import Origin
from shared.core.view import job_view
from shared.operations.redrive_job import redrive_job
from shared.wiring import Wiring
from triggers.controls_http import reason_of
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """200 with the new job; asked again, the same one, and `Idempotency-Replayed: true`."""
    bp = df.Blueprint()

    @bp.function_name("job_redrive")
    @bp.route(route="v1/jobs/{jobId}:redrive", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
    @bp.durable_client_input(client_name="client")
    @answers_problems
    async def job_redrive(req: func.HttpRequest, client) -> func.HttpResponse:
        origin = Origin(cause_id=f"request:{uuid.uuid4()}", actor="caller", source="http", reason=reason_of(req))
        orchestrations = DurableOrchestrations(client, names.JOB)
        redriven = await redrive_job(wiring.context(), orchestrations, req.route_params["jobId"], origin)
        record = redriven.stored.record
        headers = {"Location": f"/v1/jobs/{record.job.job_id}"}
        if redriven.replayed:
            headers["Idempotency-Replayed"] = "true"
        return answer(req, job_view(record), headers=headers)

    return bp
