"""`GET /v1/events`: a tenant's feed from a cursor, in pages or as a stream, and tickets for streams (R74-R77)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import azure.functions as func

from shared.access.caller import Scope
from shared.access.stream_ticket import sign_ticket, ticket_for
from shared.api.feed import FeedPage, Ticket, TicketRequest
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, Route, in_query
from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.events.event_types import PublicType
from shared.core.filters import parse_label
from shared.core.jobs.routing import normalise
from shared.errors import excerpt
from shared.operations.events.read_feed import EARLIEST, LATEST, MAX_LOOKED_AT, EventFilter, follow_feed
from shared.operations.events.read_feed import FeedPage as Page
from shared.operations.jobs.read_history import read_job
from shared.refusals import CursorExpired, EventsOff, JobNotFound, TenantForbidden
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.long_poll import MAX_WAIT_S, wait_of
from triggers.http.parameters import LIMIT, bad_cursor, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request
from triggers.http.sse import EVENT_STREAM, HOLD_S, LAST_EVENT_ID, TICKET, gap, position, stream, wants_stream

EVENTS = Route(
    function="events_read",
    method="GET",
    path="v1/events",
    scope=Scope.READ,
    tag="events",
    summary="List a tenant's events",
    description="Lists CloudEvents of the tenant's jobs, quotas, incidents and webhooks: exactly once, ordered per "
    f"subject, numbered without gaps. A call with a filter reads at most {MAX_LOOKED_AT:,} events, so the page can be "
    f"short or empty.\n\nWith `Accept: {EVENT_STREAM}` the response is a stream of server-sent events. Default for "
    "streams: new events only. If the cursor has expired, a stream has an event `gap` instead of the error 410.",
    streams=True,
    parameters=(
        in_query(
            "after",
            {"type": "string", "default": EARLIEST},
            f"`next` of the previous page. `{EARLIEST}`: from the first retained event. `{LATEST}`: new events only.",
        ),
        in_query(
            "types",
            {"type": "array", "minItems": 1, "items": {"enum": [each.value for each in PublicType]}},
            "One or more event types, separated by commas.",
        ),
        in_query(
            "jobType",
            {"type": "string"},
            "Only events of jobs, quotas and incidents of this job type, spelled as in `request_type`.",
        ),
        in_query("jobId", {"type": "string"}, "Only events of this job and of its incident."),
        in_query(
            "label",
            {"type": "string", "pattern": r"^[^:]+:"},
            "`key:value`. Only events of jobs whose label `key` is exactly `value`.",
        ),
        in_query("terminal", {"type": "boolean", "default": False}, "Only events that end a job."),
        in_query(
            "tenant_id",
            {"type": "string"},
            "Tenant to read. Default: the caller's tenant. `=platform`: events that belong to no tenant, "
            "for all-tenants callers only.",
        ),
        in_query(
            "wait",
            {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
            f"Long poll. Maximum seconds to wait for an event if the page is empty. Default 0, maximum {MAX_WAIT_S}.",
        ),
        LIMIT,
        LAST_EVENT_ID,
        TICKET,
    ),
    responses={200: FeedPage},
    problems=(
        ProblemCode.TENANT_REQUIRED,
        ProblemCode.CURSOR_INVALID,
        ProblemCode.LIMIT_INVALID,
        ProblemCode.WAIT_INVALID,
        ProblemCode.TYPES_INVALID,
        ProblemCode.TERMINAL_INVALID,
        ProblemCode.LABEL_INVALID,
        TenantForbidden,
        EventsOff,
        CursorExpired,
    ),
)


@replace(
    EVENTS,
    function="dashboard_events",
    path="v1/dashboard/events",
    summary="List events for a dashboard",
)
@EVENTS
async def events_read(request: Request) -> func.HttpResponse:
    """Returns a page or a stream of events. Raises CursorExpired, EventsOff, FilterInvalid, TenantForbidden,
    LedgerUnavailable, RequestError (400).
    """
    if wants_stream(request.http):
        return await _events_stream(request)
    req = request.http
    found, _ = await _wait_for_page(request, req.params.get("after") or EARLIEST, wait_of(req))
    return respond(req, {"events": found.events, "next": found.next})


async def _events_stream(request: Request) -> func.HttpResponse:
    req = request.http
    try:
        found, crowded = await events_after(request, position(req))
    except CursorExpired as expired:
        return gap(req, expired.earliest)
    return stream(
        req,
        zip(found.cursors, found.events, strict=True),
        following=found.next,
        crowded_by=request.caller.actor if crowded else None,
    )


async def events_after(request: Request, after: str | None) -> tuple[Page, bool]:
    """Returns a part of a stream after `after`. Also returns True if the part is empty because the limit of waiting
    responses is reached. `after` None means now.

    Raises errors as `events_read` does.
    """
    # a reader without a position gets one immediately, so that it misses no event
    wait_s = 0 if after in (None, LATEST) else HOLD_S
    found, held = await _wait_for_page(request, after or LATEST, wait_s)
    return found, bool(wait_s) and not held and not found.events


async def _wait_for_page(request: Request, after: str, wait_s: float) -> tuple[Page, bool]:
    """Returns a page, and True if the request could wait for the page."""
    req, context = request.http, request.context()
    limit, _ = page(req)
    tenant = normalise(_tenant_of(request, req.params.get("tenant_id")))
    room = wait_s > 0 and context.process.waiters.has_room(tenant, follower=True)
    with context.process.waiters.hold(tenant, follower=True) if room else contextlib.nullcontext():
        found = await follow_feed(
            context,
            tenant,
            after=after,
            event_filter=_filter_of(req),
            limit=limit,
            invalid=lambda: bad_cursor("`next` of the previous page, or the `id` of an event of the stream"),
            wait_s=wait_s if room else 0,
        )
    return found, room


@Route(
    function="events_ticket",
    method="POST",
    path="v1/events:ticket",
    scope=Scope.READ,
    only_reads=True,
    tag="events",
    summary="Create a stream ticket",
    description="Allows a browser's EventSource to read one stream. EventSource cannot send `Authorization`, so "
    "EventSource opens `path` with `?ticket=`. The ticket reads only that path, for one tenant, until "
    "`expires_at`. Keep the ticket out of logs.",
    body=TicketRequest,
    body_required=True,
    responses={200: Ticket},
    caching=NO_STORE,
    problems=(
        ProblemCode.TICKET_INVALID,
        ProblemCode.TENANT_REQUIRED,
        *BODY_PROBLEMS,
        TenantForbidden,
        JobNotFound,
        ArchiveGone,
        ArchiveInvalid,
        ProblemCode.TICKETS_OFF,
    ),
)
async def _ticket(request: Request) -> func.HttpResponse:
    asked = optional_body(request.http, TicketRequest, ProblemCode.TICKET_INVALID)
    context = request.context()
    if not context.settings.callback_keys:
        raise RequestError(
            ProblemCode.TICKETS_OFF,
            "tickets are disabled in this deployment; an operator must set LUCIUS_CALLBACK_KEYS",
        )
    if (job_id := asked.job_id) is not None:
        tenant = (await read_job(context, job_id))[0].job.tenant
    else:
        tenant = normalise(_tenant_of(request, asked.tenant_id))
    ticket = ticket_for(request.caller, tenant, asked.path, context.clock.now())
    signed = sign_ticket(ticket, context.settings.callback_keys, deployment=context.settings.environment)
    return respond(request.http, Ticket(ticket=signed, expires_at=ticket.expires_at))


def _tenant_of(request: Request, named: str | None) -> str:
    """Returns the tenant. Raises RequestError (400), TenantForbidden."""
    tenant = request.caller.tenant_for(named) or request.caller.tenant
    if tenant is None:
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant_id=...")
    return tenant


def _filter_of(req: func.HttpRequest) -> EventFilter:
    """Returns the filter. Raises FilterInvalid, RequestError (400)."""
    given = req.params.get("types")
    types = [each.strip() for each in given.split(",")] if given is not None else None
    unknown = [each for each in types or () if each not in {*PublicType}]
    if unknown:
        detail = f"types must be one or more of {', '.join(PublicType)}, not {excerpt(unknown[0])}"
        raise RequestError(ProblemCode.TYPES_INVALID, detail)
    terminal = req.params.get("terminal", "false")
    if terminal not in ("true", "false"):
        raise RequestError(ProblemCode.TERMINAL_INVALID, f"terminal must be true or false, not {excerpt(terminal)}")
    label = parse_label("label", req.params["label"]) if "label" in req.params else None
    return EventFilter(
        types=frozenset(map(PublicType, types)) if types is not None else None,
        job_type=req.params.get("jobType"),
        job_id=req.params.get("jobId"),
        label=label,
        terminal=terminal == "true",
    )
