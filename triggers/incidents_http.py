"""`/v1/incidents`: incidents and actions on them, and the dismissal of dead letters (R63)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

import azure.functions as func

from shared import refusals
from shared.access.caller import Scope
from shared.api.incident import IncidentDetail, IncidentPage, IncidentRequest, incident, incident_detail
from shared.api.job import Job, job_response
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_path
from shared.archive_refusals import JobArchived
from shared.core.filters import IncidentFilter
from shared.core.incidents import Incident
from shared.core.jobs.history import Origin
from shared.operations.incidents import incidents
from shared.operations.jobs.dead_letters import dismiss_dead_letter
from shared.operations.jobs.list_jobs import MAX_READ_MORE
from shared.operations.process.context import Context
from triggers.controls_http import REDRIVE_PROBLEMS
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.filters import filter_of, filter_problems, query_parameters
from triggers.http.parameters import JOB_ID, PAGE, PAGE_PROBLEMS, bad_cursor, cursor, job_id_of, page
from triggers.http.responses import respond
from triggers.http.routes import Request

INCIDENT_ID = in_path(
    "incidentId", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,160}$"}, "`incidentId` of the incident."
)
_ID = re.compile(r"[A-Za-z0-9_-]{1,160}")
#: form of the cursors of `shared.ports.incidents`
_CURSOR = re.compile(r"\d{13}:[A-Za-z0-9_-]{1,160}")
#: maximum entries of a log, far more than an incident has
_WHOLE_LOG = 100

_ACT_PROBLEMS = (*BODY_PROBLEMS, ProblemCode.REASON_INVALID, refusals.IncidentNotFound, refusals.IncidentSettled)

_Act = Callable[[Context, str, Origin], Awaitable[Incident]]

_read_route = partial(Route, method="GET", scope=Scope.READ, tag="incidents")
_act_route = partial(
    Route,
    method="POST",
    scope=Scope.OPERATE,
    tag="incidents",
    parameters=(INCIDENT_ID,),
    body=IncidentRequest,
    body_required=True,
    responses={200: IncidentDetail},
)


@_read_route(
    function="incidents_list",
    path="v1/incidents",
    summary="List incidents",
    description=f"Lists incidents, most recently opened first. A call reads at most {MAX_READ_MORE} rows more than it "
    "returns. If fewer than `limit` of these rows match, the page is short or empty, with `partial` and `next`.",
    parameters=(*query_parameters(IncidentFilter), *PAGE),
    responses={200: IncidentPage},
    problems=(*filter_problems(IncidentFilter), *PAGE_PROBLEMS),
)
async def _list(request: Request) -> func.HttpResponse:
    req, caller = request.http, request.caller
    limit, position = page(req)
    if position and _CURSOR.fullmatch(position) is None:
        raise bad_cursor()
    incident_filter = filter_of(req, caller, IncidentFilter)
    found = await incidents.list_incidents(request.context(), incident_filter, after=position or None, limit=limit)
    lines = [incident(each) for each in found.lines]
    return respond(req, IncidentPage(incidents=lines, next=cursor(found.after), partial=found.partial))


@_read_route(
    function="incident_read",
    path="v1/incidents/{incidentId}",
    summary="Get an incident",
    description="Returns the incident with its log.",
    parameters=(INCIDENT_ID,),
    responses={200: IncidentDetail},
    problems=(refusals.IncidentNotFound,),
)
async def _read(request: Request) -> func.HttpResponse:
    context = request.context()
    return await _shown(request, context, await incidents.read_incident(context, _incident_id(request)))


@_act_route(
    function="incident_resolve",
    path="v1/incidents/{incidentId}:resolve",
    summary="Resolve an incident",
    description="Closes the incident. Its job, if any, stays a dead letter. Idempotent: a repeated request changes "
    "nothing.",
    problems=_ACT_PROBLEMS,
)
async def _resolve(request: Request) -> func.HttpResponse:
    return await _act(request, incidents.resolve_incident)


@_act_route(
    function="incident_retry",
    path="v1/incidents/{incidentId}:retry",
    durable_client=True,
    summary="Redrive an incident's job",
    description="Creates a new job, which `retried_by` names, and closes the incident. Idempotent: repeating the "
    "request returns the same new job.",
    headers={200: ("Location", "Idempotency-Replayed")},
    problems=(*_ACT_PROBLEMS, refusals.IncidentNoJob, *REDRIVE_PROBLEMS),
)
async def _retry(request: Request) -> func.HttpResponse:
    incident_id, origin = _incident_id(request), _origin(request)
    context = await request.fresh_context()
    after, created = await incidents.retry_incident(context, request.orchestrations(), incident_id, origin)
    headers = {"Location": f"/v1/jobs/{created.stored.record.job.job_id}"}
    if created.replayed:
        headers["Idempotency-Replayed"] = "true"
    return await _shown(request, context, after, headers)


@_act_route(
    function="incident_dismiss",
    path="v1/incidents/{incidentId}:dismiss",
    summary="Dismiss an incident",
    description="Closes the incident. Its job, if any, leaves the dead letters. Idempotent: a repeated request changes "
    "nothing.",
    problems=_ACT_PROBLEMS,
)
async def _dismiss(request: Request) -> func.HttpResponse:
    return await _act(request, incidents.dismiss_incident)


@Route(
    function="dead_letter_dismiss",
    method="POST",
    path="v1/deadletters/{jobId}:dismiss",
    scope=Scope.OPERATE,
    tag="dead letters",
    summary="Dismiss a dead letter",
    description="Removes the job from the dead letters and dismisses the job's open incident. The job does not change "
    "and can be redriven. Idempotent: a repeated request changes nothing.",
    parameters=(JOB_ID,),
    body=IncidentRequest,
    body_required=True,
    responses={200: Job},
    problems=(
        *BODY_PROBLEMS,
        ProblemCode.REASON_INVALID,
        refusals.JobNotFound,
        JobArchived,
        refusals.ControlNotPossible,
    ),
)
async def _dismiss_letter(request: Request) -> func.HttpResponse:
    job_id, origin, context = job_id_of(request.http), _origin(request), request.context()
    await dismiss_dead_letter(context, job_id, origin)
    stored = await context.ledger.read(job_id)
    assert stored is not None
    return respond(request.http, job_response(stored.record, context.settings.retention))


async def _act(request: Request, act: _Act) -> func.HttpResponse:
    incident_id, origin, context = _incident_id(request), _origin(request), request.context()
    return await _shown(request, context, await act(context, incident_id, origin))


async def _shown(
    request: Request, context: Context, found: Incident, headers: dict[str, str] | None = None
) -> func.HttpResponse:
    log = await context.incidents.log(found, after=0, limit=_WHOLE_LOG)
    return respond(request.http, incident_detail(found, log), headers=headers)


def _incident_id(request: Request) -> str:
    """Returns the incident's id. Raises IncidentNotFound for an invalid form, since such an id cannot be a key of a
    table.
    """
    given: str = request.http.route_params["incidentId"]
    if _ID.fullmatch(given) is None:
        raise refusals.IncidentNotFound(given)
    return given


def _origin(request: Request) -> Origin:
    """Returns the actor and the reason. Raises BodyTooLarge and RequestError (400, 411, 415)."""
    body = optional_body(request.http, IncidentRequest, ProblemCode.REASON_INVALID)
    return Origin(cause_id=f"request:{uuid.uuid4()}", actor=request.caller.actor, source="http", reason=body.reason)
