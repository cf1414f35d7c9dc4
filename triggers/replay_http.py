"""`POST /v1/jobs/{jobId}:replay`, and `GET /v1/jobs/{jobId}/comparison` of the replay."""

from __future__ import annotations

import uuid

import azure.functions as func

from shared import refusals
from shared.access.caller import Scope
from shared.api.replay import Comparison, Replay, ReplayBody, comparison_response, replay_response
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_header
from shared.archive_refusals import NotAReplay
from shared.core.jobs.history import Origin
from shared.core.jobs.replay import ReplayMode, ReplayRequest
from shared.operations.jobs.read_history import read_job
from shared.operations.jobs.replay_job import replay_job
from triggers.bulk_http import MAX_KEY, key_of
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.responses import respond
from triggers.http.routes import Request
from triggers.jobs_http import READ_PROBLEMS

_KEY = in_header(
    "Idempotency-Key",
    {"type": "string", "maxLength": MAX_KEY},
    f"Idempotency key, at most {MAX_KEY} characters. The same key and body return the same replay. The same key with "
    "another body returns 409. Default: a key from the body.",
)


@Route(
    function="job_replay",
    method="POST",
    path="v1/jobs/{jobId}:replay",
    scope=Scope.OPERATE,
    durable_client=True,
    tag="jobs",
    summary="Replay a job",
    description="Creates a new job that runs every step of an ended or archived job, with the original's plan. The "
    "output stays in the tenant's workspace. The new job calls no callback URL and waits for no job.\n\nIdempotent: "
    "repeating the request returns the same new job. Returns 400 if the app no longer allows the original's input.",
    parameters=(JOB_ID, _KEY),
    body=ReplayBody,
    body_required=True,
    responses={202: Replay},
    headers={202: ("Location", "Idempotency-Replayed")},
    problems=(
        *BODY_PROBLEMS,
        *READ_PROBLEMS,
        ProblemCode.REPLAY_INVALID,
        refusals.RequestInvalid,
        refusals.IdempotencyConflict,
        ProblemCode.JOB_LIVE,
        ProblemCode.PROTOCOL_GONE,
        ProblemCode.SERVICE_GONE,
        ProblemCode.WITHDRAWN,
        refusals.LimitReached,
        refusals.Overloaded,
    ),
)
async def _replay(request: Request) -> func.HttpResponse:
    """Returns 202 with the new job. A repeated request gets the same job, and `Idempotency-Replayed: true`."""
    body = optional_body(request.http, ReplayBody, ProblemCode.REPLAY_INVALID)
    asked = ReplayRequest(
        job_id=job_id_of(request.http),
        mode=ReplayMode(body.mode),
        reason=body.reason,
        priority=body.priority,
        key=key_of(request.http, ProblemCode.REPLAY_INVALID),
    )
    context = await request.fresh_context()
    cause_id = f"request:{uuid.uuid4()}"
    origin = Origin(cause_id=cause_id, actor=request.caller.actor, source="http", reason=body.reason)
    created = await replay_job(context, request.orchestrations(), asked, origin)
    replay = replay_response(created.stored.record, context.settings.retention)
    headers = {"Location": replay.links.self}
    if created.replayed:
        headers["Idempotency-Replayed"] = "true"
    return respond(request.http, replay, status=202, headers=headers)


@Route(
    function="job_comparison",
    method="GET",
    path="v1/jobs/{jobId}/comparison",
    scope=Scope.READ,
    tag="jobs",
    summary="Get a replay's comparison",
    description="Compares each step of a replay with the same step of its original, by the digests in the RESULTs of "
    "both steps.",
    parameters=(JOB_ID,),
    responses={200: Comparison},
    problems=(*READ_PROBLEMS, NotAReplay),
)
async def _comparison(request: Request) -> func.HttpResponse:
    context, job_id = request.context(), job_id_of(request.http)
    replay, _ = await read_job(context, job_id)
    if replay.job.replay_of is None:
        raise NotAReplay(job_id)
    original, _ = await read_job(context, replay.job.replay_of)
    return respond(request.http, comparison_response(original, replay))
