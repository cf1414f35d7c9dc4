"""`/v1/runs/{jobId}`: the log of a run, its artifacts, and heartbeats of a runner without access to the bus."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.job import CallbackOutcome
from shared.api.run import ArtifactLink, RunArtifact, RunArtifacts
from shared.apidocs.message_schemas import callback
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, Route, in_path, in_query
from shared.errors import excerpt
from shared.operations.jobs.runs import Run, link_artifact
from shared.refusals import JobNotFound
from triggers.callbacks_http import CALLBACK_PROBLEMS, IDEMPOTENCY_KEY, receive_reply
from triggers.http.long_poll import MAX_WAIT_S, WAIT
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.problems import RequestError
from triggers.http.responses import Content, respond, weights_of
from triggers.http.routes import Request
from triggers.http.sse import EVENT_STREAM, LAST_EVENT_ID, TICKET, wants_stream
from triggers.jobs_http import READ_PROBLEMS
from triggers.run_log import AFTER, find_run, log_stream, log_text

#: lifetime of a link to an artifact
LINK_LIFE = timedelta(minutes=5)
_MAX_DIGITS = 9

WAIT_FOR_OUTPUT = replace(
    WAIT,
    description=f"Long poll. Maximum seconds to wait for output before the response. Default 0, maximum {MAX_WAIT_S}.",
)
ATTEMPT = in_query(
    "attempt", {"type": "integer", "minimum": 1}, "Attempt of the run. Default: the last attempt that was started."
)
NAME = in_path("name", {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"}, "Name of the artifact.")

route = partial(Route, scope=Scope.READ, tag="runs")


@route(
    function="run_logs",
    method="GET",
    path="v1/runs/{jobId}/logs",
    summary="Get a run's log",
    description="Returns the output of the program in the order of the run's attempts, each byte once. The default "
    "response is text of at most 4 MiB. `Link` with `rel=next` has the path of the rest.\n\n"
    f"With `Accept: {EVENT_STREAM}` the response is a stream of server-sent events: pieces of the log, and an event "
    "`end` when the run has ended. The request after `end` returns 204.",
    streams=True,
    parameters=(JOB_ID, AFTER, WAIT_FOR_OUTPUT, LAST_EVENT_ID, TICKET),
    responses={200: "text/plain", 204: None},
    descriptions={200: "Part of the log.", 204: "Streams only. The position is that of the event `end`."},
    headers={200: ("RunLink",)},
    problems=(*READ_PROBLEMS, ProblemCode.RUN_NOT_FOUND, ProblemCode.CURSOR_INVALID, ProblemCode.WAIT_INVALID),
)
async def _run_logs(request: Request) -> func.HttpResponse:
    """Returns the log. Raises RunsUnavailable, RequestError (400, 404), and errors as `read_job` does."""
    return await log_stream(request) if wants_stream(request.http) else await log_text(request)


@route(
    function="run_artifacts",
    method="GET",
    path="v1/runs/{jobId}/artifacts",
    summary="List a run's artifacts",
    description="Lists the files that the program wrote to `artifacts/`, by name. The runner stores the files when the "
    "program has ended.",
    parameters=(JOB_ID, ATTEMPT),
    responses={200: RunArtifacts},
    problems=(*READ_PROBLEMS, ProblemCode.RUN_NOT_FOUND, ProblemCode.ATTEMPT_INVALID),
)
async def _run_artifacts(request: Request) -> func.HttpResponse:
    job_id = job_id_of(request.http)
    run = await find_run(request.context(), job_id)
    attempt = _attempt(request.http, run)
    found = [RunArtifact.of(each) for each in await run.artifacts(attempt)]
    return respond(request.http, RunArtifacts(jobId=job_id, attempt=attempt, artifacts=found))


@route(
    function="run_artifact",
    method="GET",
    path="v1/runs/{jobId}/artifacts/{name}",
    summary="Get a run's artifact",
    description="Redirects to a link to the artifact. The link works without a token for five minutes. With "
    "`Accept: application/json` the response is the link.",
    parameters=(JOB_ID, NAME, ATTEMPT),
    responses={200: ArtifactLink, 307: None},
    descriptions={307: "`Location` has the link to the artifact."},
    headers={307: ("RunLocation",)},
    caching=NO_STORE,
    problems=(
        *READ_PROBLEMS,
        ProblemCode.RUN_NOT_FOUND,
        ProblemCode.ARTIFACT_NOT_FOUND,
        ProblemCode.ATTEMPT_INVALID,
    ),
)
async def _run_artifact(request: Request) -> func.HttpResponse:
    req, context = request.http, request.context()
    run = await find_run(context, job_id_of(req))
    attempt, name = _attempt(req, run), req.route_params["name"]
    until = (context.clock.now() + LINK_LIFE).replace(microsecond=0)
    url = await link_artifact(run, attempt, name, until)
    if url is None:
        detail = f"artifact not found: {name[:128]!r} of attempt {attempt}; list the run's artifacts"
        raise RequestError(ProblemCode.ARTIFACT_NOT_FOUND, detail)
    if weights_of(req.headers.get("Accept", "")).get("application/json", 0.0) > 0:
        return respond(req, ArtifactLink(url=url, expires_at=until))
    return respond(req, Content(b"", "text/plain"), status=307, headers={"Location": url})


@route(
    function="run_heartbeat",
    method="POST",
    path="v1/runs/{jobId}/heartbeat",
    # the directive's token authorizes the call
    scope=None,
    every_tenant=True,
    durable_client=True,
    summary="Send a run's HEARTBEAT",
    description="Extends the lease of the run's attempt, as `POST /v1/callbacks/heartbeat` does. Requires the token of "
    "the attempt's directive.",
    callback=True,
    parameters=(JOB_ID, IDEMPOTENCY_KEY),
    body_schema=callback("HEARTBEAT"),
    responses={200: CallbackOutcome},
    caching=NO_STORE,
    problems=(*CALLBACK_PROBLEMS, JobNotFound),
)
async def _run_heartbeat(request: Request) -> func.HttpResponse:
    return await receive_reply(request, "HEARTBEAT", job_id_of(request.http))


def _attempt(req: func.HttpRequest, run: Run) -> int:
    """Parses the number of an attempt. Raises RequestError (400)."""
    given = req.params.get("attempt", str(run.last_attempt))
    if not (given.isascii() and given.isdecimal() and len(given) <= _MAX_DIGITS and int(given) >= 1):
        detail = f"attempt must be a number from 1 to {10**_MAX_DIGITS - 1}, not {excerpt(given)}"
        raise RequestError(ProblemCode.ATTEMPT_INVALID, detail)
    return int(given)
