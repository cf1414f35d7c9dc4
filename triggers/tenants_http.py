"""`POST /v1/admin/purge`: deletes a tenant's data."""

from __future__ import annotations

from typing import Annotated, Literal

import azure.functions as func
from pydantic import Field, StrictBool

from shared import refusals
from shared.access.caller import Scope
from shared.api.bulk import Bulk, bulk_response
from shared.api.response import RequestBody, Response, Why
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route
from shared.archive_refusals import PurgeForbidden, TenantLive
from shared.core.jobs.routing import normalise
from shared.operations.bulks.purge_tenant import preview_purge, start_purge
from triggers.bulk_http import accepted
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request


class PurgeBody(RequestBody):
    """The tenant to purge, and the reason."""

    tenant: Annotated[str, Field(min_length=1, max_length=256, examples=["acme"])]
    """Tenant to purge."""
    reason: Why
    """Reason, one line. Recorded in the bulk operation."""
    dryRun: StrictBool = False
    """Preview: return the numbers of jobs, without changing anything."""


class PurgePreview(Response):
    """Preview of a purge. Each number stops at 1,000, even if more jobs exist."""

    dryRun: Literal[True]
    tenant: str
    living: int
    """Number of jobs that have not ended. A purge requires 0."""
    jobs: int
    """Number of jobs that have ended, including archived jobs."""


@Route(
    function="admin_purge",
    method="POST",
    path="v1/admin/purge",
    scope=Scope.ADMIN,
    tag="admin",
    summary="Delete a tenant's data",
    description="Operators only. Deletes the tenant's jobs, archived jobs, idempotency records, events, webhooks, "
    "incidents, quotas, usage, bulk operations and rejected messages, as a bulk operation. "
    "If a job is submitted during the purge, the purge ends early. The job, and all data that is not deleted yet, then "
    "stay.\n\n"
    "Idempotent: while a purge runs, repeating the request returns the same purge. A request with another reason "
    "returns 409.",
    body=PurgeBody,
    body_required=True,
    responses={202: Bulk, 200: PurgePreview},
    headers={202: ("Location", "Idempotency-Replayed")},
    problems=(
        *BODY_PROBLEMS,
        ProblemCode.PURGE_INVALID,
        PurgeForbidden,
        TenantLive,
        refusals.BulkLimit,
        refusals.IdempotencyConflict,
    ),
)
async def _purge(request: Request) -> func.HttpResponse:
    body = optional_body(request.http, PurgeBody, ProblemCode.PURGE_INVALID)
    if not request.caller.moves_all:
        raise PurgeForbidden
    tenant, context = normalise(body.tenant), request.context().of_all_tenants
    if not tenant:
        raise RequestError(ProblemCode.PURGE_INVALID, "tenant must not be blank", errors=(("tenant", "is blank"),))
    if body.dryRun:
        found = await preview_purge(context, tenant)
        return respond(request.http, PurgePreview(dryRun=True, tenant=tenant, living=found.living, jobs=found.jobs))
    bulk, replayed = await start_purge(context, tenant, reason=body.reason, actor=request.caller.actor)
    return accepted(request.http, bulk_response(bulk), replayed=replayed)
