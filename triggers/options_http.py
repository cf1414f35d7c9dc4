"""`OPTIONS`: which methods a path has (RFC 9110 9.3.7). One function for all paths, since no two may match a request.

Cross-origin preflights do not get here where the platform's own CORS is on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import azure.durable_functions as df
import azure.functions as func

from shared.errors import Refusal
from triggers.http.problems import correlation_id, responds_with_problems
from triggers.http.routes import Route

FUNCTION = "options"


def blueprint(routes: Iterable[Route]) -> df.Blueprint:
    """Of all `routes`."""
    bp = df.Blueprint()
    known = [(_pattern(route.path), route.method) for route in routes]

    @bp.function_name(FUNCTION)
    @bp.route(route="v1/{*path}", methods=["OPTIONS"], auth_level=func.AuthLevel.ANONYMOUS)
    @responds_with_problems
    async def options(req: func.HttpRequest) -> func.HttpResponse:
        path = f"v1/{req.route_params.get('path', '')}"
        methods = {method for pattern, method in known if pattern.fullmatch(path)}
        if not methods:
            raise Refusal(404, "ROUTE_NOT_FOUND", "there is nothing at this path; GET /v1/openapi.json lists what is")
        allowed = sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()))
        headers = {"Allow": ", ".join(allowed), "X-Correlation-Id": correlation_id(req)}
        return func.HttpResponse(status_code=204, headers=headers)

    return bp


def _pattern(path: str) -> re.Pattern[str]:
    """A colon parts an id from what is asked of it."""
    parts = re.split(r"{\w+}", path)
    return re.compile("[^/:]+".join(map(re.escape, parts)))
