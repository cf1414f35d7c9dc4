"""`POST /v1/orchestrate` (alias `/v1/commands`): creates a job and returns 202. A body in NDJSON creates many jobs.

With `Prefer: wait=N` (RFC 7240) the request returns 200 with the job if the job ends within N seconds.
"""

from __future__ import annotations

from dataclasses import replace

import azure.functions as func

from shared import refusals, webhook_refusals
from shared.access.caller import ANYONE, Caller, Scope
from shared.api.job import Job, job_links, job_response
from shared.api.job_requests import Accepted, BatchOutcome, DryRun
from shared.api.wait_reason import quota_wait, wait_reason
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route
from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.contracts.envelope import Envelope
from shared.core.gates.queue_position import estimate_start
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.creation import Created
from shared.operations.jobs.dry_run import dry_run
from shared.operations.process.waiters import MAX_WAITERS
from triggers.http.batch import MEDIA_TYPE, lines_of, submit_lines
from triggers.http.bodies import BODY_PROBLEMS, bounded_body, json_body, json_of_text, media_type_of
from triggers.http.long_poll import PREFER, LongPoll, counted_as, preferred_wait_of
from triggers.http.parameters import DRY_RUN, dry_run_of
from triggers.http.problems import RequestError
from triggers.http.responses import correlation_id, respond
from triggers.http.routes import Request

ORCHESTRATE = Route(
    function="orchestrate",
    method="POST",
    path="v1/orchestrate",
    scope=Scope.OPERATE,
    durable_client=True,
    tag="jobs",
    summary="Submit jobs",
    description=(
        "Submitting is idempotent: requests with the same `idempotency_key` and body return the same job. The same key "
        "with another body returns 409. The default key is the hash of the compared fields (see `idempotency_key` of "
        "the body). An NDJSON body has one job request per line, each with its own outcome.\n\n"
        "With `Prefer: wait=N` the request returns 200 with the job if the job ends within N seconds, otherwise 202. "
        f"A process has {MAX_WAITERS} slots for waiting requests. The request of a caller of one tenant waits only if "
        "the tenant uses fewer slots than are free. Without a slot, the response is immediate."
    ),
    parameters=(DRY_RUN, PREFER),
    body=Envelope,
    body_required=True,
    media_types=("application/json", MEDIA_TYPE),
    responses={202: Accepted, 200: Job | DryRun | BatchOutcome},
    descriptions={
        200: "With `Prefer: wait=N`, the ended job. With `dryRun`, the result of the dry run. For an NDJSON body, the "
        "outcomes of the job requests, in their order in the body."
    },
    headers={
        202: ("Location", "Idempotency-Replayed", "Preference-Applied"),
        200: ("JobLocation", "Idempotency-Replayed", "Preference-Applied"),
    },
    problems=(
        refusals.RequestInvalid,
        webhook_refusals.HookUrlRefused,
        ProblemCode.ENVELOPE_INVALID,
        refusals.ProtocolUnknown,
        *BODY_PROBLEMS,
        ProblemCode.NOT_STORABLE,
        ProblemCode.BATCH_EMPTY,
        ProblemCode.DRY_RUN_INVALID,
        refusals.DependencyUnknown,
        ArchiveGone,
        ArchiveInvalid,
        refusals.IdempotencyConflict,
        ProblemCode.TOO_MANY_LINES,
        refusals.DirectiveTooLarge,
        refusals.LimitReached,
        refusals.Overloaded,
    ),
)


@replace(ORCHESTRATE, function="orchestrate_commands", path="v1/commands", successor="/v1/orchestrate")
@ORCHESTRATE
async def _orchestrate(request: Request) -> func.HttpResponse:
    req = request.http
    if media_type_of(req) == MEDIA_TYPE:
        return await _orchestrate_lines(request)
    envelope = envelope_of(json_body(req), request.caller)
    context = await request.fresh_context()
    if dry_run_of(req):
        return respond(req, await dry_run(context, envelope, correlation_id=correlation_id(req)))
    created = await create_job(context, request.orchestrations(), envelope, correlation_id=correlation_id(req))
    answer = accepted(created)
    headers = {"Location": answer.links.self}
    if created.replayed:
        headers["Idempotency-Replayed"] = "true"
    if (wait_s := preferred_wait_of(req)) is not None:
        poll = LongPoll(context.process.waiters)
        ended, applied = await poll.ended(wait_s, counted_as(request.caller), context, created.stored)
        if applied:
            headers["Preference-Applied"] = f"wait={wait_s}"
        if ended is not None:
            return respond(req, job_response(ended, context.settings.retention), headers=headers)
    return respond(req, answer, status=202, headers=headers)


async def _orchestrate_lines(request: Request) -> func.HttpResponse:
    req = request.http
    context, sent_id, dry = await request.fresh_context(), correlation_id(req), dry_run_of(req)
    orchestrations = request.orchestrations()

    async def submit(line: bytes) -> tuple[Accepted, bool] | DryRun:
        envelope = envelope_of(line, request.caller)
        if dry:
            return await dry_run(context, envelope, correlation_id=sent_id)
        created = await create_job(context, orchestrations, envelope, correlation_id=sent_id, own_trace=True)
        return accepted(created), created.replayed

    return respond(req, await submit_lines(lines_of(bounded_body(req)), submit, sent_id))


def accepted(created: Created) -> Accepted:
    """Returns the response to a submission. For a new job that is THROTTLED, the response has the quota, the position
    and the estimated start.
    """
    job, decision = created.stored.record.job, created.decision
    if decision is None or decision.stopped_by is None or job.status is not JobStatus.THROTTLED:
        return Accepted.of(job, jobId=job.job_id, links=job_links(job.job_id))
    expected_at = estimate_start(decision.admission, decision.verdicts, decision.position, job.created_at)
    wait = quota_wait(decision.stopped_by, expected_at)
    return Accepted.of(
        job,
        jobId=job.job_id,
        links=job_links(job.job_id),
        gate=decision.stopped_by.gate.display_name,
        position=decision.position,
        nextEligibleAt=expected_at,
        waits_for=wait_reason(wait, decision.position),
        quota_wait=wait,
    )


def envelope_of(body: bytes, caller: Caller) -> Envelope:
    """Returns the job request. Raises ValidationError, RequestError (400) and TenantForbidden.

    With tokens, the caller's actor replaces `requested_by` of the body. A source in the token replaces the body's
    source.
    """
    value = json_of_text(body)
    if not isinstance(value, dict):
        raise RequestError(ProblemCode.ENVELOPE_INVALID, "the body must be a JSON object")
    envelope = Envelope.model_validate(value)
    caller.tenant_for(envelope.tenant_id, moving=True)
    if caller is ANYONE:
        return envelope
    source = {"source": caller.source} if caller.source is not None else {}
    return envelope.model_copy(update={"requested_by": caller.actor, **source})
