"""The dashboard, a page that every caller can open. The page reads the API with its user's token. The path `/`
redirects to the page.
"""

from __future__ import annotations

from html import escape
from urllib.parse import urlsplit

import azure.durable_functions as df
import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import IMMUTABLE, PUBLIC, Route, in_path
from shared.dashboard_assets import dashboard
from shared.time_limits import REQUEST_S, limited
from triggers.http.problems import RequestError
from triggers.http.responses import Content, content_of, correlation_id, respond_packed, respond_page
from triggers.http.routes import Request

#: scripts, styles and requests of the app only; no inline script or style, no HTML from a string (W3C Trusted Types)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "require-trusted-types-for 'script'; trusted-types 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ROOT_FUNCTION = "dashboard_root"


@Route(
    function="dashboard_page",
    method="GET",
    path="v1/dashboard",
    scope=None,
    caching=PUBLIC,
    tag="documents",
    summary="Get the dashboard",
    description="Returns a page for browsers. The page reads its data from the routes of this API, with the user's "
    "token.",
    responses={200: "text/html"},
)
async def dashboard_page(request: Request) -> func.HttpResponse:
    page, policy = dashboard().page, POLICY
    if sign_in := request.settings.sign_in:
        attributes = (("issuer", sign_in.issuer), ("client-id", sign_in.client_id), ("scope", sign_in.scope))
        named = " ".join(f'data-{name}="{escape(value)}"' for name, value in attributes)
        page = page.replace("</head>", f'<meta name="sign-in" {named}></head>', 1)
        parts = urlsplit(sign_in.issuer)
        policy = policy.replace("connect-src 'self'", f"connect-src 'self' {parts.scheme}://{parts.netloc}")
    return respond_page(request.http, content_of(page, "text/html"), "dashboard", policy=policy)


@Route(
    function="dashboard_asset",
    method="GET",
    path="v1/dashboard/assets/{file}",
    scope=None,
    caching=IMMUTABLE,
    tag="documents",
    summary="Get a dashboard file",
    parameters=(in_path("file", {"type": "string"}, "File name, as in the page."),),
    responses={200: "text/javascript"},
    problems=(ProblemCode.ROUTE_NOT_FOUND,),
)
async def dashboard_asset(request: Request) -> func.HttpResponse:
    """Returns a file of the dashboard. Raises RequestError (404)."""
    asset = dashboard().assets.get(request.http.route_params["file"])
    if asset is None:
        raise RequestError(ProblemCode.ROUTE_NOT_FOUND, "dashboard file not found; reload the page")
    return respond_packed(
        request.http, lambda packed: Content(asset.packed if packed else asset.body, asset.media_type)
    )


def root_blueprint() -> df.Blueprint:
    """Makes the function that redirects `/` to the dashboard.

    The host shows its own page at `/` for an empty route, but not for a route with an optional parameter that is always
    empty (github.com/Azure/azure-functions-host/issues/4638).
    """
    bp = df.Blueprint()

    @bp.function_name(ROOT_FUNCTION)
    @bp.route(route="{ignored:maxlength(0)?}", methods=["GET", "HEAD"], auth_level=func.AuthLevel.ANONYMOUS)
    @limited(REQUEST_S)
    async def root(req: func.HttpRequest) -> func.HttpResponse:
        headers = {"Location": "v1/dashboard", "Cache-Control": PUBLIC, "X-Correlation-Id": correlation_id(req)}
        return func.HttpResponse(status_code=302, headers=headers)

    return bp
