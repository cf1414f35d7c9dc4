"""`GET /v1/usage` and `GET /v1/sources`: the usage of a tenant's jobs, and the sources that the jobs named."""

from __future__ import annotations

from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.usage import SourcePage, UsageReport, seen_source, usage_sum
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_query
from shared.core.filters import parse_instant
from shared.core.jobs.routing import normalise
from shared.core.usage import Axis
from shared.errors import excerpt
from shared.operations.gates import admission_turns
from shared.operations.usage.read_usage import DEFAULT_SINCE, FARTHEST, MAX_ROWS, read_usage
from shared.refusals import FilterInvalid, TenantForbidden
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, bad_cursor, cursor, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

TENANT = in_query("tenant", {"type": "string"}, "Tenant to read. Default: the caller's tenant.")
SINCE = in_query(
    "since",
    {"type": "string", "format": "date-time"},
    f"First hour. Default: {DEFAULT_SINCE.days * 24} hours ago. Earliest: {FARTHEST.days} days ago.",
)
BY = in_query("by", {"enum": [each.value for each in Axis]}, "Additional sums per job type, source or hour.")
_TENANT_PROBLEMS = (ProblemCode.TENANT_REQUIRED, TenantForbidden)

_route = partial(Route, method="GET", scope=Scope.READ, tag="quotas")


@_route(
    function="usage_read",
    path="v1/usage",
    summary="Sum a tenant's usage",
    description="Counts the tenant's jobs by hour of creation. At most the last three hours have no rollup yet. If "
    f"these hours have at least {MAX_ROWS:,} jobs, the response is `partial`.",
    parameters=(TENANT, SINCE, BY),
    responses={200: UsageReport},
    problems=(*_TENANT_PROBLEMS, ProblemCode.SINCE_INVALID, ProblemCode.BY_INVALID),
)
async def _usage(request: Request) -> func.HttpResponse:
    context, tenant = request.context(), _tenant(request)
    now, params = context.clock.now(), request.http.params
    since = parse_instant("since", params["since"]) if "since" in params else now - DEFAULT_SINCE
    if since < now - FARTHEST:
        raise FilterInvalid("since", f"must be within the last {FARTHEST.days} days, not {since.isoformat()}")
    by = params.get("by")
    if by is not None and by not in list(Axis):
        raise RequestError(ProblemCode.BY_INVALID, f"by must be one of {', '.join(Axis)}, not {excerpt(by)}")
    used = await read_usage(context, tenant, since, Axis(by) if by is not None else None)
    report = UsageReport(
        tenant=tenant,
        since=used.since,
        until=used.until,
        total=usage_sum(used.total),
        groups={key: usage_sum(each) for key, each in used.groups.items()} if by is not None else None,
        partial=used.partial,
    )
    return respond(request.http, report)


@_route(
    function="sources_list",
    path="v1/sources",
    summary="List a tenant's sources",
    description="Lists sources that the tenant's jobs named, with the first job of each source and the hour of the "
    "last use of the source. Maximum 1,000 sources per tenant.",
    parameters=(TENANT, *PAGE),
    responses={200: SourcePage},
    problems=(*_TENANT_PROBLEMS, *PAGE_PROBLEMS),
)
async def _sources(request: Request) -> func.HttpResponse:
    context, tenant = request.context(), _tenant(request)
    limit, position = page(request.http)
    if position and not position.startswith("SOURCE:"):
        raise bad_cursor()
    rows = await context.usage.sources(tenant, after=position, limit=limit)
    counted = (await admission_turns.read_directory(context)).concerns(tenant)
    stored = await context.admissions.read(tenant) if counted else None
    admission, now = stored.admission if stored is not None else None, context.clock.now()
    following = cursor(rows[-1].cursor) if len(rows) == limit else None
    found = [seen_source(row, tenant, admission, now) for row in rows]
    return respond(request.http, SourcePage(sources=found, next=following))


def _tenant(request: Request) -> str:
    """Returns the normalised tenant. Raises TenantForbidden, RequestError (400)."""
    tenant = request.caller.tenant_for(request.http.params.get("tenant")) or request.caller.tenant
    if not tenant or not normalise(tenant):
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant=...")
    return normalise(tenant)
