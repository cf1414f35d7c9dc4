"""`GET /v1/dashboard/metrics`, the overview of the dashboard and of `lucius status`, and `GET /v1/routing`."""

from __future__ import annotations

import azure.functions as func

from shared.access.caller import Scope
from shared.api.dashboard import DashboardMetrics, Routing, dashboard_metrics, routing
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter, Route
from shared.contracts.envelope import OLDER_MODES
from shared.core.jobs.routing import decide_lane_of, normalise
from shared.errors import excerpt
from shared.operations.overview import read_overview
from shared.refusals import TenantForbidden
from shared.wiring import seen_by
from triggers.health_http import dependency
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

_MODES = ("DEFAULT", "BURST")
_MAX_NAME = 512


@Route(
    function="dashboard_metrics",
    method="GET",
    path="v1/dashboard/metrics",
    scope=Scope.READ,
    every_tenant=True,
    durable_client=True,
    tag="dashboard",
    summary="Get the overview",
    description="Returns the problems, worst first, and counts of jobs, lanes, services, quotas and the last hour. "
    "Counts of all tenants, and the statuses of one tenant's jobs, are one minute old, or several minutes if many jobs "
    "have not ended. The number of a tenant's jobs and the counts of the tenant's quotas are current.\n\nThe overview "
    "of one tenant has only the counts of that tenant. The problems are those of the tenant, dependencies, services, "
    "the sweeper and quotas over all tenants.",
    parameters=(
        Parameter(
            name="tenant",
            where="query",
            schema={"type": "string"},
            description="Tenant of the overview. Default: the caller's tenant; for all-tenants callers, all tenants.",
        ),
    ),
    responses={200: DashboardMetrics},
    problems=(ProblemCode.NOT_STORABLE, TenantForbidden),
)
async def dashboard_metrics_read(request: Request) -> func.HttpResponse:
    """Returns the overview. Raises TenantForbidden, LedgerUnavailable."""
    wiring, caller = request.wiring, request.caller
    named = caller.tenant_for(request.http.params.get("tenant"))
    context = seen_by(caller, wiring.context(), moving=False)
    found = await wiring.look(request.orchestrations())
    mark = wiring.readiness.mark
    overview = await read_overview(context, normalise(named) if named is not None else None, found, mark)
    dependencies = {each.name: dependency(each) for each in found}
    return respond(request.http, dashboard_metrics(overview, mark, dependencies, wiring.settings.lanes))


@Route(
    function="routing_read",
    method="GET",
    path="v1/routing",
    scope=Scope.READ,
    tag="dashboard",
    summary="Get a document's lane",
    description="Returns the lane that a new job of this tenant and document gets now. Creates nothing.",
    parameters=(
        Parameter(
            name="tenant",
            where="query",
            schema={"type": "string"},
            description="Tenant of the document. Default: the caller's tenant.",
        ),
        Parameter(
            name="doc_id",
            where="query",
            schema={"type": "string", "maxLength": _MAX_NAME},
            description="Document id of the tenant. Required for mode BURST.",
        ),
        Parameter(
            name="mode",
            where="query",
            schema={"enum": [*_MODES, *OLDER_MODES]},
            description="Mode of the request. Default: the mode that is configured for the tenant or for all tenants.",
        ),
    ),
    responses={200: Routing},
    problems=(ProblemCode.TENANT_REQUIRED, TenantForbidden, ProblemCode.ROUTING_INVALID),
)
async def routing_read(request: Request) -> func.HttpResponse:
    """Returns the lane of a document. Raises TenantForbidden, RequestError (400)."""
    params, context = request.http.params, await request.fresh_context()
    tenant = request.caller.tenant_for(params.get("tenant")) or request.caller.tenant
    if not tenant or not normalise(tenant):
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant=...")
    doc_id, mode = params.get("doc_id"), params.get("mode")
    mode = OLDER_MODES.get(mode, mode) if mode is not None else None
    if mode not in (None, *_MODES):
        raise RequestError(ProblemCode.ROUTING_INVALID, f"mode must be one of {', '.join(_MODES)}, not {excerpt(mode)}")
    if doc_id is not None and not (doc_id.strip() and len(doc_id) <= _MAX_NAME):
        raise RequestError(
            ProblemCode.ROUTING_INVALID,
            f"doc_id must be non-blank text of at most {_MAX_NAME} characters, not {excerpt(doc_id)}",
        )
    settings = context.settings
    try:
        decision = decide_lane_of(
            tenant, doc_id, mode, default_mode=settings.default_mode, lanes=settings.lanes, modes=context.modes
        )
    except ValueError as wrong:
        raise RequestError(ProblemCode.ROUTING_INVALID, str(wrong)) from None
    return respond(request.http, routing(normalise(tenant), doc_id, decision, settings.reply_prefix))
