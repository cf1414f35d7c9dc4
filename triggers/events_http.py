"""`GET /v1/events`: a tenant's feed, in pages from a cursor on (R74)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Scope
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter, Route
from shared.core.filters import parse_filter
from shared.core.public_events import PublicType
from shared.core.routing import normalise
from shared.operations.read_feed import EARLIEST, LATEST, EventFilter, read_feed
from shared.responses.feed import FeedPage
from shared.wiring import Wiring
from triggers.http.parameters import LIMIT, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request, add

EVENTS = Route(
    function="events_read",
    method="GET",
    path="v1/events",
    scope=Scope.READ,
    tag="events",
    summary="Read what happened to a tenant's jobs, in order",
    description="CloudEvents of the tenant's feed: each once, each job's in its order, numbered without gaps. `next` "
    "is the cursor to go on from, also at the end: ask again with it, and nothing is missed. A page may be short, "
    "or empty, because few events match.",
    parameters=(
        Parameter(
            name="after",
            where="query",
            schema={"type": "string", "default": EARLIEST},
            description=f"`next` of the page before; `{EARLIEST}`: all that is kept, `{LATEST}`: from now on.",
        ),
        Parameter(
            name="types",
            where="query",
            schema={"type": "array", "minItems": 1, "items": {"enum": [each.value for each in PublicType]}},
            description="One or more types, with commas between.",
        ),
        Parameter(name="jobType", where="query", schema={"type": "string"}),
        Parameter(name="jobId", where="query", schema={"type": "string"}),
        Parameter(
            name="label",
            where="query",
            schema={"type": "string", "pattern": r"^[^:]+:"},
            description="`key:value`: of jobs whose label of that name has exactly that value.",
        ),
        Parameter(
            name="terminal",
            where="query",
            schema={"type": "boolean", "default": False},
            description="Only what ends a job.",
        ),
        Parameter(
            name="tenant_id",
            where="query",
            schema={"type": "string"},
            description="Whose feed; without it that of the token's tenant.",
        ),
        LIMIT,
    ),
    responses={200: FeedPage},
    problems=(
        (400, ProblemCode.TENANT_REQUIRED),
        (400, ProblemCode.CURSOR_INVALID),
        (400, ProblemCode.LIMIT_INVALID),
        (400, ProblemCode.TYPES_INVALID),
        (400, ProblemCode.TERMINAL_INVALID),
        (400, ProblemCode.LABEL_INVALID),
        (403, ProblemCode.TENANT_FORBIDDEN),
        (404, ProblemCode.EVENTS_OFF),
        (410, ProblemCode.CURSOR_EXPIRED),
    ),
)
ROUTES = (EVENTS,)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The one route."""
    bp = df.Blueprint()
    add(bp, EVENTS, _events_read, wiring)
    return bp


async def _events_read(request: Request) -> func.HttpResponse:
    req = request.http
    limit, _ = page(req)
    tenant = request.caller.tenant_for(req.params.get("tenant_id")) or request.caller.tenant
    if tenant is None:
        raise RequestError(ProblemCode.TENANT_REQUIRED, "name a tenant: tenant_id=...")
    found = await read_feed(
        request.context(),
        normalise(tenant),
        after=req.params.get("after") or EARLIEST,
        event_filter=_filter_of(req),
        limit=limit,
        invalid=lambda: RequestError(ProblemCode.CURSOR_INVALID, "take the cursor from `next` of the page before"),
    )
    return respond(req, {"events": found.events, "next": found.next})


def _filter_of(req: func.HttpRequest) -> EventFilter:
    """Raises FilterInvalid, RequestError (400)."""
    given = req.params.get("types")
    types = [each.strip() for each in given.split(",")] if given is not None else None
    if types is not None and not {*types} <= {*PublicType}:
        raise RequestError(ProblemCode.TYPES_INVALID, f"types is one or more of {', '.join(PublicType)}")
    terminal = req.params.get("terminal", "false")
    if terminal not in ("true", "false"):
        raise RequestError(ProblemCode.TERMINAL_INVALID, "terminal is true or false")
    label = parse_filter({"label": req.params["label"]}).label if "label" in req.params else None
    return EventFilter(
        types=frozenset(map(PublicType, types)) if types is not None else None,
        job_type=req.params.get("jobType"),
        job_id=req.params.get("jobId"),
        label=label,
        terminal=terminal == "true",
    )
