"""Reading jobs (FEATURES E2): from the ledger only."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.core.access import Caller, Scope
from shared.core.view import event_view, job_view, step_view
from shared.errors import Refusal
from shared.operations.explain_job import explain_job
from shared.operations.list_jobs import list_jobs
from shared.ports import Stored
from shared.wiring import Wiring
from triggers.filters import wanted
from triggers.history_http import view_as_of
from triggers.paging import bad_cursor, cursor, page
from triggers.problems import answer
from triggers.routes import Route, add

LIST = Route(
    function="jobs_list",
    method="GET",
    path="v1/jobs",
    scope=Scope.READ,
    tag="jobs",
    summary="List jobs, newest first",
)
READ = Route(
    function="job_read",
    method="GET",
    path="v1/jobs/{jobId}",
    scope=Scope.READ,
    tag="jobs",
    summary="Read a job, as it is or as an event left it",
)
STEPS = Route(
    function="job_steps",
    method="GET",
    path="v1/jobs/{jobId}/steps",
    scope=Scope.READ,
    tag="jobs",
    summary="Read the steps of a job",
)
EVENTS = Route(
    function="job_events",
    method="GET",
    path="v1/jobs/{jobId}/events",
    scope=Scope.READ,
    tag="jobs",
    summary="Read what happened to a job, in order",
)
EXPLAIN = Route(
    function="job_explain",
    method="GET",
    path="v1/jobs/{jobId}/explain",
    scope=Scope.READ,
    tag="jobs",
    summary="Say why a job is where it is, and what comes next",
)
ROUTES = (LIST, READ, STEPS, EVENTS, EXPLAIN)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """`GET /v1/jobs`, `/v1/jobs/{jobId}`, `/steps`, `/events`."""
    bp = df.Blueprint()

    async def job_read(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        if (seq := req.params.get("asOf")) is not None:
            return answer(req, await view_as_of(wiring.context_for(caller), req.route_params["jobId"], seq))
        stored = await _job(wiring, req, caller)
        return answer(req, job_view(stored.record))

    async def job_steps(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        stored = await _job(wiring, req, caller)
        return answer(req, {"steps": [step_view(step) for step in stored.record.steps], "next": None})

    async def job_events(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        stored = await _job(wiring, req, caller)
        limit, position = page(req)
        if position and not position.isdecimal():
            raise bad_cursor()
        after = int(position or 0)
        events = await wiring.context_for(caller).ledger.events(stored.record.job.job_id, after_seq=after, limit=limit)
        full = len(events) == limit and events[-1].seq < stored.record.job.event_seq
        return answer(
            req,
            {"events": [event_view(event) for event in events], "next": cursor(str(events[-1].seq)) if full else None},
        )

    async def job_explain(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        stored = await _job(wiring, req, caller)
        return answer(req, await explain_job(wiring.context_for(caller), stored.record))

    async def jobs_list(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        limit, position = page(req)
        listed, after = await list_jobs(
            wiring.context_for(caller), wanted(req, caller), after=position or None, limit=limit
        )
        return answer(req, {"jobs": listed, "next": cursor(after)})

    add(bp, LIST, jobs_list, wiring)
    add(bp, READ, job_read, wiring)
    add(bp, STEPS, job_steps, wiring)
    add(bp, EVENTS, job_events, wiring)
    add(bp, EXPLAIN, job_explain, wiring)
    return bp


async def _job(wiring: Wiring, req: func.HttpRequest, caller: Caller) -> Stored:
    job_id = req.route_params["jobId"]
    # a colon never stands in a job id: it sets off a control, as in `:cancel`
    stored = None if ":" in job_id or len(job_id) > 128 else await wiring.context_for(caller).ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id[:128]}")
    return stored
