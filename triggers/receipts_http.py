"""`GET /v1/receipts`: time and operations of a tenant's jobs."""

from __future__ import annotations

from dataclasses import replace

import azure.functions as func

from shared.access.caller import Scope
from shared.api.receipt import ReceiptSums
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_query
from shared.core.filters import JobFilter
from shared.errors import excerpt
from shared.operations.usage.sum_receipts import MAX_JOBS, Grouping, sum_receipts
from triggers.http.filters import FILTER_PROBLEMS, FILTERS, filter_of
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, cursor, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

_FILTERS = tuple(
    replace(each, description="Tenant of the jobs. Default: the caller's tenant.") if each.name == "tenant_id" else each
    for each in FILTERS
)
BY = in_query("by", {"enum": [each.value for each in Grouping]}, "Additional sums per job type, source or priority.")


@Route(
    function="receipts_sum",
    method="GET",
    path="v1/receipts",
    scope=Scope.READ,
    tag="jobs",
    summary="Sum time breakdowns of jobs",
    description="Sums time and operations of the jobs that match the filter, newest first. A page sums at most "
    f"{MAX_JOBS} jobs. For a total, add up the pages. Callers without a tenant must set `tenant_id`.",
    parameters=(*_FILTERS, BY, *PAGE),
    responses={200: ReceiptSums},
    problems=(ProblemCode.TENANT_REQUIRED, ProblemCode.BY_INVALID, *FILTER_PROBLEMS, *PAGE_PROBLEMS),
)
async def _receipts_sum(request: Request) -> func.HttpResponse:
    limit, position = page(request.http)
    job_filter = filter_of(request.http, request.caller, JobFilter)
    tenant = job_filter.tenant_id or request.caller.tenant
    if not tenant:
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant_id=...")
    job_filter = replace(job_filter, tenant_id=tenant)
    by = request.http.params.get("by")
    if by is not None and by not in list(Grouping):
        raise RequestError(ProblemCode.BY_INVALID, f"by must be one of {', '.join(Grouping)}, not {excerpt(by)}")
    grouping = Grouping(by) if by is not None else None
    sums, found = await sum_receipts(request.context(), job_filter, after=position or None, limit=limit, by=grouping)
    response = ReceiptSums(
        **sums, since=job_filter.since, until=job_filter.until, next=cursor(found.after), partial=found.partial
    )
    return respond(request.http, response)
