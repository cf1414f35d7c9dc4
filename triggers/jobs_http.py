"""Reading jobs (FEATURES E2): from the ledger only."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.contracts.responses.history import EventPage, Explanation
from shared.contracts.responses.job import Job, JobPage, StepPage
from shared.errors import Refusal
from shared.operations.context import Context
from shared.operations.explain_job import explain_job
from shared.operations.list_jobs import list_jobs
from shared.ports.ledger import Stored
from shared.views.job import event_view, job_view, step_view
from shared.wiring import Wiring
from triggers.history_http import MAX_SEQ_DIGITS, view_as_of
from triggers.http.filters import parse_filter
from triggers.http.long_poll import WAIT, LongPoll, wait_of
from triggers.http.paging import bad_cursor, cursor, page
from triggers.http.parameters import FILTER_PROBLEMS, FILTERS, JOB_ID, PAGE, PAGE_PROBLEMS, job_id_of
from triggers.http.problems import respond
from triggers.http.routes import Parameter, Route, add

AS_OF = Parameter(
    name="asOf",
    where="query",
    schema={"type": "integer", "minimum": 1, "maximum": 9_999_999_999},
    description="Number of an event: the job as that event left it.",
)

LIST = Route(
    function="jobs_list",
    method="GET",
    path="v1/jobs",
    scope=Scope.READ,
    tag="jobs",
    summary="List jobs, newest first",
    description="A call looks at 1,000 rows at most, so that a page may be short, or empty, and have a `next`. "
    "A line is as of event `seq`; that of a living job may be one sweep (a minute) behind the job itself.",
    parameters=(*FILTERS, *PAGE),
    responses={200: JobPage},
    problems=(*FILTER_PROBLEMS, *PAGE_PROBLEMS),
)
READ = Route(
    function="job_read",
    method="GET",
    path="v1/jobs/{jobId}",
    scope=Scope.READ,
    tag="jobs",
    summary="Read a job, as it is or as an event left it",
    parameters=(JOB_ID, AS_OF, WAIT),
    responses={200: Job},
    problems=((400, "AS_OF_INVALID"), (400, "WAIT_INVALID"), (404, "JOB_NOT_FOUND"), (404, "EVENT_NOT_FOUND")),
)
STEPS = Route(
    function="job_steps",
    method="GET",
    path="v1/jobs/{jobId}/steps",
    scope=Scope.READ,
    tag="jobs",
    summary="Read the steps of a job",
    parameters=(JOB_ID,),
    responses={200: StepPage},
    problems=((404, "JOB_NOT_FOUND"),),
)
EVENTS = Route(
    function="job_events",
    method="GET",
    path="v1/jobs/{jobId}/events",
    scope=Scope.READ,
    tag="jobs",
    summary="Read what happened to a job, in order",
    parameters=(JOB_ID, *PAGE),
    responses={200: EventPage},
    problems=((404, "JOB_NOT_FOUND"), *PAGE_PROBLEMS),
)
EXPLAIN = Route(
    function="job_explain",
    method="GET",
    path="v1/jobs/{jobId}/explain",
    scope=Scope.READ,
    tag="jobs",
    summary="Say why a job is where it is, and what comes next",
    parameters=(JOB_ID,),
    responses={200: Explanation},
    problems=((404, "JOB_NOT_FOUND"),),
)
ROUTES = (LIST, READ, STEPS, EVENTS, EXPLAIN)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """`GET /v1/jobs`, `/v1/jobs/{jobId}`, `/steps`, `/events`."""
    bp = df.Blueprint()
    long_poll = LongPoll()

    async def job_read(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context, wait_s = wiring.context_for(caller), wait_of(req)
        if (seq := req.params.get("asOf")) is not None:
            return respond(req, await view_as_of(context, job_id_of(req), seq))

        async def read() -> tuple[func.HttpResponse, bool]:
            record = (await _job(context, req)).record
            return respond(req, job_view(record)), record.job.status.terminal

        return await long_poll.wait(wait_s, read)

    async def job_steps(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        stored = await _job(wiring.context_for(caller), req)
        return respond(req, {"steps": [step_view(step) for step in stored.record.steps], "next": None})

    async def job_events(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context = wiring.context_for(caller)
        stored = await _job(context, req)
        limit, position = page(req)
        if position and not (position.isdecimal() and len(position) <= MAX_SEQ_DIGITS):
            raise bad_cursor()
        after = int(position or 0)
        events = await context.ledger.events(stored.record.job.job_id, after_seq=after, limit=limit)
        full = len(events) == limit and events[-1].seq < stored.record.job.event_seq
        return respond(
            req,
            {"events": [event_view(event) for event in events], "next": cursor(str(events[-1].seq)) if full else None},
        )

    async def job_explain(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        context = wiring.context_for(caller)
        stored = await _job(context, req)
        return respond(req, await explain_job(context, stored.record))

    async def jobs_list(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        limit, position = page(req)
        listed, after = await list_jobs(
            wiring.context_for(caller), parse_filter(req, caller), after=position or None, limit=limit
        )
        return respond(req, {"jobs": listed, "next": cursor(after)})

    add(bp, LIST, jobs_list, wiring)
    add(bp, READ, job_read, wiring)
    add(bp, STEPS, job_steps, wiring)
    add(bp, EVENTS, job_events, wiring)
    add(bp, EXPLAIN, job_explain, wiring)
    return bp


async def _job(context: Context, req: func.HttpRequest) -> Stored:
    job_id = job_id_of(req)
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id}")
    return stored
