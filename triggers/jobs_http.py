"""Reading jobs (FEATURES E2): from the ledger only."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.core.view import event_view, job_view, step_view
from shared.errors import Refusal
from shared.operations.explain_job import explain_job
from shared.operations.list_jobs import list_jobs
from shared.ports import Stored
from shared.wiring import Wiring
from triggers.filters import wanted
from triggers.history_http import view_as_of
from triggers.paging import bad_cursor, cursor, page
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """`GET /v1/jobs`, `/v1/jobs/{jobId}`, `/steps`, `/events`."""
    bp = df.Blueprint()

    @bp.function_name("job_read")
    @bp.route(route="v1/jobs/{jobId}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_read(req: func.HttpRequest) -> func.HttpResponse:
        if (seq := req.params.get("asOf")) is not None:
            return answer(req, await view_as_of(wiring.context(), req.route_params["jobId"], seq))
        stored = await _job(wiring, req)
        return answer(req, job_view(stored.record))

    @bp.function_name("job_steps")
    @bp.route(route="v1/jobs/{jobId}/steps", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_steps(req: func.HttpRequest) -> func.HttpResponse:
        stored = await _job(wiring, req)
        return answer(req, {"steps": [step_view(step) for step in stored.record.steps], "next": None})

    @bp.function_name("job_events")
    @bp.route(route="v1/jobs/{jobId}/events", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_events(req: func.HttpRequest) -> func.HttpResponse:
        stored = await _job(wiring, req)
        limit, position = page(req)
        if position and not position.isdecimal():
            raise bad_cursor()
        after = int(position or 0)
        events = await wiring.context().ledger.events(stored.record.job.job_id, after_seq=after, limit=limit)
        full = len(events) == limit and events[-1].seq < stored.record.job.event_seq
        return answer(
            req,
            {"events": [event_view(event) for event in events], "next": cursor(str(events[-1].seq)) if full else None},
        )

    @bp.function_name("job_explain")
    @bp.route(route="v1/jobs/{jobId}/explain", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def job_explain(req: func.HttpRequest) -> func.HttpResponse:
        stored = await _job(wiring, req)
        return answer(req, await explain_job(wiring.context(), stored.record))

    @bp.function_name("jobs_list")
    @bp.route(route="v1/jobs", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def jobs_list(req: func.HttpRequest) -> func.HttpResponse:
        limit, position = page(req)
        listed, after = await list_jobs(wiring.context(), wanted(req), after=position or None, limit=limit)
        return answer(req, {"jobs": listed, "next": cursor(after)})

    return bp


async def _job(wiring: Wiring, req: func.HttpRequest) -> Stored:
    job_id = req.route_params["jobId"]
    # a colon never stands in a job id: it sets off a control, as in `:cancel`
    stored = None if ":" in job_id or len(job_id) > 128 else await wiring.context().ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id[:128]}")
    return stored
