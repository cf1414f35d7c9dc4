"""Every HTTP trigger of the app, and the route `OPTIONS` for all paths."""

from __future__ import annotations

import re

import azure.durable_functions as df
import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route
from shared.time_limits import REQUEST_S, limited
from shared.wiring import Wiring
from triggers import (
    audit_http,
    breakers_http,
    bulk_http,
    callbacks_http,
    controls_http,
    dashboard_http,
    dashboard_page_http,
    deliveries_http,
    documents_http,
    events_http,
    graphql_http,
    health_http,
    incidents_http,
    jobs_http,
    limits_http,
    orchestrate_http,
    protocols_http,
    quotas_http,
    receipts_http,
    reconcile_http,
    rejected_http,
    replay_http,
    runs_http,
    tenants_http,
    usage_http,
    webhooks_http,
)
from triggers.http.problems import RequestError, problem_response
from triggers.http.responses import correlation_id
from triggers.http.routes import build_blueprint, list_routes

_MODULES = (
    orchestrate_http,
    jobs_http,
    receipts_http,
    runs_http,
    controls_http,
    replay_http,
    bulk_http,
    events_http,
    graphql_http,
    webhooks_http,
    deliveries_http,
    incidents_http,
    quotas_http,
    breakers_http,
    limits_http,
    usage_http,
    protocols_http,
    audit_http,
    rejected_http,
    reconcile_http,
    tenants_http,
    callbacks_http,
    dashboard_http,
    health_http,
    dashboard_page_http,
)

#: all routes, in the order of the documentation
ROUTES: tuple[Route, ...] = (*(route for route, _ in list_routes(_MODULES)), *documents_http.ROUTES)

OPTIONS_FUNCTION = "options"


def blueprints(wiring: Wiring) -> list[df.Blueprint]:
    """Returns the blueprints of all HTTP functions, over the app's own wiring."""
    return [
        build_blueprint(_MODULES, wiring),
        documents_http.blueprint(wiring, lambda: ROUTES),
        options_blueprint(ROUTES),
        dashboard_page_http.root_blueprint(),
    ]


def options_blueprint(routes: tuple[Route, ...]) -> df.Blueprint:
    """Makes the function of `OPTIONS`, which returns the methods of a path (RFC 9110 9.3.7).

    All paths have one function, since two functions must not match the same request. Cross-origin preflights do not
    reach the function if the platform's own CORS is on.
    """
    bp = df.Blueprint()
    known = [(_pattern(route.path), route.method) for route in routes]

    @bp.function_name(OPTIONS_FUNCTION)
    @bp.route(route="v1/{*path}", methods=["OPTIONS"], auth_level=func.AuthLevel.ANONYMOUS)
    @limited(REQUEST_S)
    async def options(req: func.HttpRequest) -> func.HttpResponse:
        path = f"v1/{req.route_params.get('path', '')}"
        methods = {method for pattern, method in known if pattern.fullmatch(path)}
        if not methods:
            detail = f"path not found: {path[:128]}; GET /v1/openapi.json lists all paths"
            nowhere = RequestError(ProblemCode.ROUTE_NOT_FOUND, detail)
            return problem_response(nowhere, correlation_id(req))
        allowed = sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
        headers = {"Allow": ", ".join(allowed), "X-Correlation-Id": correlation_id(req)}
        return func.HttpResponse(status_code=204, headers=headers)

    return bp


def _pattern(path: str) -> re.Pattern[str]:
    """Returns a pattern for the path. A colon separates an id from the action on it."""
    parts = re.split(r"{\w+}", path)
    return re.compile("[^/:]+".join(map(re.escape, parts)))
