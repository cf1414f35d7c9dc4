"""Reads jobs, steps, histories and lists of jobs."""

from __future__ import annotations

from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.audit import AuditBundle, bundle
from shared.api.bulk import DependencyPage, related_job
from shared.api.dead_letter import DeadLetterPage
from shared.api.explain import Explanation, explain
from shared.api.job import (
    EventPage,
    Job,
    JobPage,
    StepPage,
    event_response,
    job_response,
    step_response,
)
from shared.api.receipt import Receipt, receipt
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_query
from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.filters import JobFilter
from shared.core.jobs.as_of import rebuild_as_of
from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus
from shared.errors import excerpt
from shared.operations.gates.waiting import read_position
from shared.operations.jobs.backlog import directives_ahead
from shared.operations.jobs.dead_letters import list_dead_letters
from shared.operations.jobs.list_jobs import MAX_READ_MORE, list_jobs
from shared.operations.jobs.read_archived import ArchivedJob, read_archived
from shared.operations.jobs.read_history import last_transition, read_history, read_job
from shared.operations.jobs.related_jobs import dependants_of, dependencies_of, find_missing
from shared.refusals import JobNotFound
from triggers.http.filters import FILTER_PROBLEMS, FILTERS, filter_of
from triggers.http.long_poll import UNTIL, WAIT, Answer, LongPoll, Until, counted_as, history_tail, until_of, wait_of
from triggers.http.parameters import JOB_ID, PAGE, PAGE_PROBLEMS, bad_cursor, cursor, job_id_of, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request
from triggers.http.sse import EVENT_STREAM, LAST_EVENT_ID, TICKET, wants_stream
from triggers.job_stream import AFTER, MAX_SEQ_DIGITS, job_stream

AS_OF = in_query(
    "asOf",
    {"type": "integer", "minimum": 1, "maximum": 9_999_999_999},
    "Event number. Returns the job as of that event. Default: the job now.",
)

_PARTIAL = (
    f"A call reads at most {MAX_READ_MORE} rows more than it returns. If fewer than `limit` of these rows match, the "
    "page is short or empty, with `partial` and `next`."
)

#: problems of every read of one job
READ_PROBLEMS = (JobNotFound, ArchiveGone, ArchiveInvalid)

route = partial(Route, scope=Scope.READ, tag="jobs")


@route(
    function="jobs_list",
    method="GET",
    path="v1/jobs",
    summary="List jobs",
    description="Lists jobs, newest first. Eventually consistent: the item of a job that has not ended can be one "
    f"minute old, or several minutes if many jobs have not ended.\n\n{_PARTIAL}",
    parameters=(*FILTERS, *PAGE),
    responses={200: JobPage},
    problems=(*FILTER_PROBLEMS, *PAGE_PROBLEMS),
)
async def jobs_list(request: Request) -> func.HttpResponse:
    """Returns a page of jobs. Raises FilterInvalid, TenantForbidden, LedgerUnavailable, RequestError (400)."""
    limit, position = page(request.http)
    job_filter = filter_of(request.http, request.caller, JobFilter)
    found = await list_jobs(request.context(), job_filter, after=position or None, limit=limit)
    return respond(request.http, JobPage(jobs=found.lines, next=cursor(found.after), partial=found.partial))


@route(
    function="job_read",
    method="GET",
    path="v1/jobs/{jobId}",
    summary="Get a job",
    description="Returns the job now or, with `asOf`, as of an event.",
    parameters=(JOB_ID, AS_OF, WAIT, UNTIL),
    responses={200: Job},
    problems=(ProblemCode.AS_OF_INVALID, ProblemCode.WAIT_INVALID, *READ_PROBLEMS, ProblemCode.EVENT_NOT_FOUND),
)
async def job_read(request: Request) -> func.HttpResponse:
    """Returns a job. Raises JobNotFound, ArchiveGone, ArchiveInvalid, LedgerUnavailable, RequestError (400, 404)."""
    return await _job_read(request, LongPoll(request.context().process.waiters))


async def _job_read(request: Request, long_poll: LongPoll) -> func.HttpResponse:
    req, wait_s, until = request.http, wait_of(request.http), until_of(request.http)
    if (seq := req.params.get("asOf")) is not None:
        return await _job_as_of(request, seq)

    async def read() -> Answer:
        record, archived = await _job(request)
        ended = record.job.status.terminal
        final = ended or (until is Until.ADMITTED and not record.job.is_staged)
        archived_at = archived.archived_at if archived is not None else None
        response = respond(req, job_response(record, request.context().settings.retention, archived_at=archived_at))
        return Answer(response, record.job.event_seq, final, ended)

    with history_tail(request.context(), job_id_of(req)) as tail:
        return await long_poll.wait(wait_s, counted_as(request.caller), read, tail, until=until)


async def _job_as_of(request: Request, given: str) -> func.HttpResponse:
    """Returns the job as it was after event `given`, with that event under `as_of`. Raises RequestError (400, 404)."""
    if not given.isdecimal() or len(given) > MAX_SEQ_DIGITS or int(given) < 1:
        detail = f"asOf must be an event number from 1 to {10**MAX_SEQ_DIGITS - 1}, not {excerpt(given)}"
        raise RequestError(ProblemCode.AS_OF_INVALID, detail)
    record, events = await read_history(request.context(), job_id_of(request.http))
    try:
        at = rebuild_as_of(record, events, int(given))
    except ValueError as missing:
        raise RequestError(ProblemCode.EVENT_NOT_FOUND, f"event not found: {int(given)}; {missing}") from None
    retention = request.context().settings.retention
    return respond(request.http, job_response(at, retention, as_of=events[int(given) - 1]))


@route(
    function="job_steps",
    method="GET",
    path="v1/jobs/{jobId}/steps",
    summary="List a job's steps",
    parameters=(JOB_ID,),
    responses={200: StepPage},
    problems=READ_PROBLEMS,
)
async def _job_steps(request: Request) -> func.HttpResponse:
    record, _ = await _job(request)
    return respond(request.http, StepPage(steps=[step_response(step) for step in record.steps], next=None))


@route(
    function="job_events",
    method="GET",
    path="v1/jobs/{jobId}/events",
    summary="List a job's events",
    description=f"Lists events, oldest first. With `Accept: {EVENT_STREAM}` the response is a stream of server-sent "
    "events. Default for streams: new events only. A stream returns 204 if the job has ended and no event follows the "
    "position (`after` or `Last-Event-ID`).",
    streams=True,
    parameters=(JOB_ID, *PAGE, AFTER, LAST_EVENT_ID, TICKET),
    responses={200: EventPage, 204: None},
    descriptions={204: "Streams only. The job has ended, and no event follows the cursor."},
    problems=(*READ_PROBLEMS, *PAGE_PROBLEMS),
)
async def _job_events(request: Request) -> func.HttpResponse:
    if wants_stream(request.http):
        return await job_stream(request)
    record, archived = await _job(request)
    job, (limit, position) = record.job, page(request.http)
    if position and not (position.isdecimal() and len(position) <= MAX_SEQ_DIGITS):
        raise bad_cursor()
    seq = int(position or 0)
    if archived is not None:
        events = archived.events[seq : seq + limit]
    else:
        events = await request.context().ledger.events(job.job_id, after_seq=seq, limit=limit)
    full = len(events) == limit and events[-1].seq < job.event_seq
    following = cursor(str(events[-1].seq)) if full else None
    return respond(request.http, EventPage(events=[event_response(event) for event in events], next=following))


@route(
    function="job_explain",
    method="GET",
    path="v1/jobs/{jobId}/explain",
    summary="Explain a job's state",
    description="Returns the reason of the job's state, and the possible next events.",
    parameters=(JOB_ID,),
    responses={200: Explanation},
    problems=READ_PROBLEMS,
)
async def _job_explain(request: Request) -> func.HttpResponse:
    context, (record, archived) = request.context(), await _job(request)
    last = await last_transition(context, record, archived.events if archived is not None else None)
    ahead = await directives_ahead(context, record)
    standing = await read_position(context, record.job) if record.job.is_staged else None
    waits = record.job.status is JobStatus.WAITING_FOR_JOBS
    missing = await find_missing(context, record.job) if waits else None
    explained = explain(record, context.clock.now(), last, directives_ahead=ahead, standing=standing, missing=missing)
    return respond(request.http, explained)


@route(
    function="job_dependencies",
    method="GET",
    path="v1/jobs/{jobId}/dependencies",
    summary="List a job's dependencies",
    description="Returns the jobs that the job depends on, and a page of its dependants. If the job SUCCEEDED, the "
    "response omits the jobs that waited for this success.",
    parameters=(JOB_ID, *PAGE),
    responses={200: DependencyPage},
    problems=(*READ_PROBLEMS, *PAGE_PROBLEMS),
)
async def _job_dependencies(request: Request) -> func.HttpResponse:
    context, job = request.context(), (await _job(request))[0].job
    limit, position = page(request.http)
    try:
        found = await dependants_of(context, job, after=position or None, limit=limit)
    except ValueError:
        raise bad_cursor() from None
    answer = DependencyPage(
        jobId=job.job_id,
        dependencies=[related_job(*each) for each in await dependencies_of(context, job)],
        dependants=[related_job(*each) for each in found.lines],
        next=cursor(found.after),
    )
    return respond(request.http, answer)


@route(
    function="job_audit",
    method="GET",
    path="v1/jobs/{jobId}/audit",
    summary="Get a job's audit bundle",
    description="Returns the evidence of every transition of the job. Store the bundle unchanged. `lucius audit "
    "verify` verifies the bundle offline.",
    parameters=(JOB_ID,),
    responses={200: AuditBundle},
    problems=READ_PROBLEMS,
)
async def _job_audit(request: Request) -> func.HttpResponse:
    context, job_id = request.context(), job_id_of(request.http)
    if await context.ledger.read(job_id) is None and (archived := await read_archived(context, job_id)) is not None:
        return respond(request.http, archived.bundle)
    record, events = await read_history(context, job_id)
    return respond(request.http, bundle(record, events, context.clock.now()))


@route(
    function="job_receipt",
    method="GET",
    path="v1/jobs/{jobId}/receipt",
    summary="Get a job's time breakdown",
    description="Returns the time and operations breakdown of the job.",
    parameters=(JOB_ID,),
    responses={200: Receipt},
    problems=READ_PROBLEMS,
)
async def _job_receipt(request: Request) -> func.HttpResponse:
    context = request.context()
    record, events = await read_history(context, job_id_of(request.http))
    return respond(request.http, receipt(record, events, context.clock.now()))


@Route(
    function="dead_letters_list",
    method="GET",
    path="v1/deadletters",
    scope=Scope.READ,
    tag="dead letters",
    summary="List dead letters",
    description=f"Lists failed jobs that are neither redriven nor dismissed, most recent first. {_PARTIAL}",
    parameters=(*FILTERS, *PAGE),
    responses={200: DeadLetterPage},
    problems=(*FILTER_PROBLEMS, *PAGE_PROBLEMS),
)
async def _dead_letters_list(request: Request) -> func.HttpResponse:
    limit, position = page(request.http)
    job_filter = filter_of(request.http, request.caller, JobFilter)
    if position and not position.startswith("LIST:" if job_filter.is_keyed else "DEAD:"):
        raise bad_cursor()
    found = await list_dead_letters(request.context(), job_filter, after=position or None, limit=limit)
    page_ = DeadLetterPage(deadletters=found.lines, next=cursor(found.after), partial=found.partial)
    return respond(request.http, page_)


async def _job(request: Request) -> tuple[Record, ArchivedJob | None]:
    """Reads the job. Raises JobNotFound, ArchiveGone, ArchiveInvalid, LedgerUnavailable."""
    return await read_job(request.context(), job_id_of(request.http))
