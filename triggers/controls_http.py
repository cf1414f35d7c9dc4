"""Controls of a job: `POST /v1/jobs/{jobId}:cancel`, `:pause`, `:resume`, `:redrive`, `:admit`, and `PATCH
/v1/jobs/{jobId}`.
"""

from __future__ import annotations

import uuid
from functools import partial

import azure.functions as func

from shared import refusals
from shared.access.caller import Scope
from shared.api.bulk import Bulk, bulk_response
from shared.api.job import Job, job_response
from shared.api.job_requests import Admission, ControlRequest, PriorityChange, RedriveRequest
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_header
from shared.archive_refusals import ArchiveGone, ArchiveInvalid, JobArchived
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.operations.bulks.bulks import redrive_tree
from shared.operations.jobs.control_job import change_priority, control_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.process.context import Context
from shared.operations.quotas.admit_job import admit_job
from shared.operations.quotas.quotas import By
from triggers.bulk_http import MAX_KEY, accepted, key_of
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.parameters import JOB_ID, job_id_of
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Handler, Request

#: problems of every change of a job, including the one for an archived job
_CHANGE_PROBLEMS = (*BODY_PROBLEMS, refusals.JobNotFound, JobArchived, ArchiveGone, ArchiveInvalid)

#: problems of every POST that redrives a job
REDRIVE_PROBLEMS = (
    *_CHANGE_PROBLEMS,
    ProblemCode.REASON_INVALID,
    refusals.RequestInvalid,
    ProblemCode.DEPENDENCY_FAILED,
    ProblemCode.JOB_LIVE,
    ProblemCode.JOB_SUCCEEDED,
    ProblemCode.RESULT_EXPIRED,
    ProblemCode.WITHDRAWN,
    refusals.LimitReached,
    refusals.Overloaded,
)

_EFFECTS = {
    ControlKind.CANCEL: "Cancels the job. While attempts are in flight, the job is CANCELLING.",
    ControlKind.PAUSE: "Pauses the job. While attempts are in flight, the job is PAUSING.",
    ControlKind.RESUME: "Resumes a PAUSED job. For a PAUSING job, withdraws the pause.",
}

_BULK_KEY = in_header(
    "Idempotency-Key",
    {"type": "string", "maxLength": MAX_KEY},
    f"Idempotency key with `withDependants`, at most {MAX_KEY} characters. The same key and body return the same bulk "
    "operation. The same key with another body returns 409. Without a key, each request creates another bulk "
    "operation.",
)

_route = partial(Route, scope=Scope.OPERATE, durable_client=True, tag="jobs")


def _control(kind: ControlKind) -> Handler:
    @_route(
        function=f"job_{kind.value.lower()}",
        method="POST",
        path=f"v1/jobs/{{jobId}}:{kind.value.lower()}",
        summary=f"{kind.value.capitalize()} a job",
        description=f"{_EFFECTS[kind]} Idempotent: a repeated request changes nothing.",
        parameters=(JOB_ID,),
        body=ControlRequest,
        responses={200: Job},
        problems=(
            *_CHANGE_PROBLEMS,
            ProblemCode.REASON_INVALID,
            refusals.JobTerminal,
            refusals.ControlNotPossible,
        ),
    )
    async def control(request: Request) -> func.HttpResponse:
        job_id, origin = job_id_of(request.http), _origin(request)
        context = request.context()
        stored = await control_job(context, request.orchestrations(), job_id, kind, origin)
        return respond(request.http, job_response(stored.record, context.settings.retention))

    return control


_cancel, _pause, _resume = (_control(kind) for kind in ControlKind)


@_route(
    function="job_redrive",
    method="POST",
    path="v1/jobs/{jobId}:redrive",
    summary="Redrive a failed or cancelled job",
    description="Creates a new job that does not run SUCCEEDED steps again. If all steps SUCCEEDED before the job was "
    "cancelled, the new job runs the last step again. Idempotent: repeating the request returns the same new job.\n\n"
    "With `withDependants` a bulk operation redrives the job, then every job that failed because of this job.",
    parameters=(JOB_ID, _BULK_KEY),
    body=RedriveRequest,
    responses={200: Job, 202: Bulk},
    descriptions={200: "The new job.", 202: "The bulk operation, with the job as its first item."},
    headers={200: ("Location", "Idempotency-Replayed"), 202: ("Location", "Idempotency-Replayed")},
    problems=(
        *REDRIVE_PROBLEMS,
        ProblemCode.BULK_INVALID,
        refusals.BulkLimit,
        refusals.IdempotencyConflict,
    ),
)
async def _redrive(request: Request) -> func.HttpResponse:
    """Returns 200 with the new job. A repeated request gets the same job, and `Idempotency-Replayed: true`. With
    `withDependants`, returns 202 with a bulk operation.
    """
    job_id, body = job_id_of(request.http), optional_body(request.http, RedriveRequest, ProblemCode.REASON_INVALID)
    context = await request.fresh_context()
    if body.withDependants:
        return await _redrive_tree(request, context, job_id, body)
    redriven = await redrive_job(
        context,
        request.orchestrations(),
        job_id,
        _origin_of(request, body),
        ignore_dependencies=body.ignoreDependencies,
    )
    job = job_response(redriven.stored.record, context.settings.retention)
    headers = {"Location": job.links.self}
    if redriven.replayed:
        headers["Idempotency-Replayed"] = "true"
    return respond(request.http, job, headers=headers)


async def _redrive_tree(request: Request, context: Context, job_id: str, body: RedriveRequest) -> func.HttpResponse:
    if body.ignoreDependencies:
        raise RequestError(
            ProblemCode.REASON_INVALID, "withDependants and ignoreDependencies cannot both be true; omit one of them"
        )
    bulk, replayed = await redrive_tree(
        context, job_id, reason=body.reason, actor=request.caller.actor, key=key_of(request.http)
    )
    return accepted(request.http, bulk_response(bulk), replayed=replayed)


@Route(
    function="job_admit",
    method="POST",
    path="v1/jobs/{jobId}:admit",
    scope=Scope.QUOTA,
    durable_client=True,
    tag="quotas",
    summary="Admit a waiting job",
    description="Operators only. Admits the job once, past its quotas. The job counts as active. A job that has "
    "started does not change.",
    parameters=(JOB_ID,),
    body=Admission,
    body_required=True,
    responses={200: Job},
    problems=(
        *_CHANGE_PROBLEMS,
        ProblemCode.REASON_INVALID,
        refusals.QuotaForbidden,
        refusals.JobTerminal,
        refusals.ControlNotPossible,
    ),
)
async def _admit(request: Request) -> func.HttpResponse:
    job_id, body = job_id_of(request.http), optional_body(request.http, Admission, ProblemCode.REASON_INVALID)
    if not request.caller.moves_all:
        raise refusals.QuotaForbidden
    context, by = request.context(), By(actor=request.caller.actor, reason=body.reason)
    stored = await admit_job(context, request.orchestrations(), job_id, by)
    return respond(request.http, job_response(stored.record, context.settings.retention))


@_route(
    function="job_priority",
    method="PATCH",
    path="v1/jobs/{jobId}",
    summary="Update a waiting job's priority",
    description="Changes the priority and moves the job to the queue position for this priority. Returns 409 if the "
    "job no longer waits. Idempotent: a repeated request changes nothing.",
    parameters=(JOB_ID,),
    body=PriorityChange,
    body_required=True,
    responses={200: Job},
    problems=(
        *_CHANGE_PROBLEMS,
        ProblemCode.PRIORITY_INVALID,
        refusals.JobTerminal,
        refusals.ControlNotPossible,
    ),
)
async def _priority(request: Request) -> func.HttpResponse:
    job_id, body = job_id_of(request.http), optional_body(request.http, PriorityChange, ProblemCode.PRIORITY_INVALID)
    context, origin = request.context(), _origin_of(request, body)
    stored = await change_priority(context, request.orchestrations(), job_id, body.priority, origin)
    return respond(request.http, job_response(stored.record, context.settings.retention))


def _origin(request: Request) -> Origin:
    """Returns the caller and the reason of the optional body. Raises BodyTooLarge and RequestError (400, 411, 415)."""
    return _origin_of(request, optional_body(request.http, ControlRequest, ProblemCode.REASON_INVALID))


def _origin_of(request: Request, body: ControlRequest | PriorityChange) -> Origin:
    return Origin(cause_id=f"request:{uuid.uuid4()}", actor=request.caller.actor, source="http", reason=body.reason)
