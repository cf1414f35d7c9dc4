"""`/v1/bulk`: one control, redrive or replay of many jobs, and the result of each (R65)."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

import azure.functions as func
from pydantic import StrictBool, WithJsonSchema

from shared.access.caller import Scope
from shared.api.bulk import (
    Bulk,
    BulkActionName,
    BulkItemPage,
    BulkPage,
    BulkPreview,
    bulk_response,
    item_response,
    preview,
)
from shared.api.response import RequestBody, Why
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_header, in_path, in_query
from shared.core.bulks import LASTS, MAX_RUNNING, BulkAction, ItemState
from shared.core.filters import JobFilter, parse_filter
from shared.core.jobs.routing import normalise
from shared.errors import excerpt
from shared.operations.bulks.bulks import (
    MAX_COUNTED,
    MAX_SHOWN,
    bulk_items,
    cancel_bulk,
    preview_bulk,
    read_bulk,
    start_bulk,
)
from shared.refusals import BulkEnded, BulkLimit, BulkNotFound, FilterInvalid, IdempotencyConflict, TenantForbidden
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.filters import FILTER_SCHEMA
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, cursor, is_job_id, page
from triggers.http.parameters import bad_cursor as _bad_cursor
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

_BULK_ID = re.compile(r"bulk_[0-9]{13}[0-9a-f]{16}")
#: maximum length of an Idempotency-Key
MAX_KEY = 512

BULK_ID = in_path(
    "bulkId",
    {"type": "string", "pattern": f"^{_BULK_ID.pattern}$"},
    "Bulk operation id, from the response of the request that created the bulk operation.",
)
TENANT = in_query("tenant", {"type": "string"}, "Tenant of the bulk operation. Default: the caller's tenant.")
OUTCOME = in_query("outcome", {"enum": [each.value for each in ItemState]}, "Only items with this outcome.")
BULK_KEY = in_header(
    "Idempotency-Key",
    {"type": "string", "maxLength": MAX_KEY},
    f"Idempotency key, at most {MAX_KEY} characters. The same key and body return the same bulk operation. The same "
    "key with another body returns 409. Without a key, each request creates another bulk operation.",
)
_TENANT_PROBLEMS = (ProblemCode.TENANT_REQUIRED, ProblemCode.NOT_STORABLE, TenantForbidden)
_READ_PROBLEMS = (*_TENANT_PROBLEMS, BulkNotFound)

_read_route = partial(Route, method="GET", scope=Scope.READ, tag="bulks")


class BulkRequest(RequestBody):
    """Action, filter and reason of a bulk operation."""

    action: BulkActionName
    """Action on each job."""
    filter: Annotated[dict[str, Any], WithJsonSchema(FILTER_SCHEMA)]
    reason: Why
    """Reason, one line. Recorded in each job's history."""
    dryRun: StrictBool = False
    """Preview: return the jobs that match now, without changing anything."""


@Route(
    function="bulk_start",
    method="POST",
    path="v1/bulk",
    scope=Scope.OPERATE,
    tag="bulks",
    summary="Create a bulk operation",
    description="Applies one action, once, to every job that matches the filter and existed before the bulk "
    f"operation. After a temporary error (429, 503) LUCIUS retries the action for up to {LASTS.days} days. Maximum "
    f"{MAX_RUNNING} running bulk operations per tenant. With `dryRun` the request counts the matching jobs, up to "
    f"{MAX_COUNTED:,}, and writes nothing.",
    parameters=(BULK_KEY,),
    body=BulkRequest,
    body_required=True,
    responses={202: Bulk, 200: BulkPreview},
    headers={202: ("Location", "Idempotency-Replayed")},
    problems=(
        *_TENANT_PROBLEMS,
        ProblemCode.BULK_INVALID,
        ProblemCode.FILTER_INVALID,
        *BODY_PROBLEMS,
        BulkLimit,
        IdempotencyConflict,
    ),
)
async def _start(request: Request) -> func.HttpResponse:
    """Returns 202 with the bulk operation, or for a dry run 200 with a preview. A request with the same key gets the
    same bulk operation, and `Idempotency-Replayed: true`.
    """
    body = optional_body(request.http, BulkRequest, ProblemCode.BULK_INVALID)
    words = _checked(body.filter)
    tenant, context = _tenant(request, words.get("tenant_id")), request.context()
    if body.dryRun:
        found, more = await preview_bulk(context, tenant=tenant, words=words)
        return respond(request.http, preview(tenant, body.action, found, more, MAX_SHOWN))
    bulk, replayed = await start_bulk(
        context,
        tenant=tenant,
        action=BulkAction(body.action),
        words=words,
        reason=body.reason,
        actor=request.caller.actor,
        key=key_of(request.http),
    )
    return accepted(request.http, bulk_response(bulk), replayed=replayed)


@_read_route(
    function="bulk_list",
    path="v1/bulk",
    summary="List bulk operations",
    description="Lists bulk operations, newest first.",
    parameters=(TENANT, *PAGE),
    responses={200: BulkPage},
    problems=(*_TENANT_PROBLEMS, *PAGE_PROBLEMS),
)
async def _list(request: Request) -> func.HttpResponse:
    limit, position = page(request.http)
    if position and not _BULK_ID.fullmatch(position):
        raise _bad_cursor()
    tenant = _tenant(request, request.http.params.get("tenant"))
    found = await request.context().bulks.list_bulks(tenant, after=position or None, limit=limit + 1)
    following = cursor(found[limit - 1].bulk_id) if len(found) > limit else None
    return respond(request.http, BulkPage(bulks=[bulk_response(each) for each in found[:limit]], next=following))


@_read_route(
    function="bulk_read",
    path="v1/bulk/{bulkId}",
    summary="Get a bulk operation",
    description="Returns the bulk operation with its numbers of completed, refused and open items.",
    parameters=(BULK_ID, TENANT),
    responses={200: Bulk},
    problems=_READ_PROBLEMS,
)
async def _read(request: Request) -> func.HttpResponse:
    tenant = _tenant(request, request.http.params.get("tenant"))
    return respond(request.http, bulk_response(await read_bulk(request.context(), tenant, _bulk_id(request.http))))


@_read_route(
    function="bulk_items",
    path="v1/bulk/{bulkId}/items",
    summary="List a bulk operation's items",
    description="Lists the result for each job.",
    parameters=(BULK_ID, TENANT, OUTCOME, *PAGE),
    responses={200: BulkItemPage},
    problems=(*_READ_PROBLEMS, ProblemCode.OUTCOME_INVALID, *PAGE_PROBLEMS),
)
async def _items(request: Request) -> func.HttpResponse:
    limit, position = page(request.http)
    if position and not is_job_id(position):
        raise _bad_cursor()
    given = request.http.params.get("outcome")
    if given is not None and given not in list(ItemState):
        raise RequestError(
            ProblemCode.OUTCOME_INVALID, f"outcome must be one of {', '.join(ItemState)}, not {excerpt(given)}"
        )
    context, tenant = request.context(), _tenant(request, request.http.params.get("tenant"))
    bulk = await read_bulk(context, tenant, _bulk_id(request.http))
    outcome = ItemState(given) if given is not None else None
    found = await bulk_items(context, bulk, outcome, after=position or None, limit=limit)
    items = [item_response(each) for each in found.lines]
    return respond(request.http, BulkItemPage(items=items, next=cursor(found.after), partial=found.partial))


@Route(
    function="bulk_cancel",
    method="POST",
    path="v1/bulk/{bulkId}:cancel",
    scope=Scope.OPERATE,
    tag="bulks",
    summary="Cancel a bulk operation",
    description="Stops the remaining actions, except for at most 20 that run. Completed actions stay in effect. "
    "Idempotent: a repeated request changes nothing.",
    parameters=(BULK_ID, TENANT),
    responses={200: Bulk},
    problems=(*_READ_PROBLEMS, BulkEnded),
)
async def _cancel(request: Request) -> func.HttpResponse:
    tenant = _tenant(request, request.http.params.get("tenant"))
    return respond(request.http, bulk_response(await cancel_bulk(request.context(), tenant, _bulk_id(request.http))))


def accepted(req: func.HttpRequest, bulk: Bulk, *, replayed: bool) -> func.HttpResponse:
    headers = {"Location": bulk.links.self, **({"Idempotency-Replayed": "true"} if replayed else {})}
    return respond(req, bulk, status=202, headers=headers)


def key_of(req: func.HttpRequest, invalid: ProblemCode = ProblemCode.BULK_INVALID) -> str | None:
    """Returns the idempotency key, or None without a key. Raises RequestError (400, `invalid`)."""
    key: str = req.headers.get("Idempotency-Key", "").strip()
    if len(key) > MAX_KEY:
        raise RequestError(invalid, f"Idempotency-Key too long; maximum {MAX_KEY} characters")
    return key or None


def _checked(words: dict[str, Any]) -> dict[str, Any]:
    """Checks the filter. Raises RequestError (400) with the name of the invalid parameter."""
    try:
        parse_filter(JobFilter, words)
    except FilterInvalid as wrong:
        errors = tuple((f"filter.{path}", text) for path, text in wrong.errors)
        raise RequestError(ProblemCode.FILTER_INVALID, "invalid filter; see errors", errors=errors) from None
    return words


def _tenant(request: Request, named: str | None) -> str:
    """Returns the normalised tenant of the bulk operation. Raises TenantForbidden, RequestError (400)."""
    moving = request.http.method not in ("GET", "HEAD")
    tenant = request.caller.tenant_for(named, moving=moving) or request.caller.tenant
    if tenant is None or not (tenant := normalise(tenant)):
        where = (
            "set filter.tenant_id"
            if request.http.method == "POST" and not request.http.route_params
            else "add tenant=..."
        )
        raise RequestError(ProblemCode.TENANT_REQUIRED, f"tenant missing; {where}")
    return tenant


def _bulk_id(req: func.HttpRequest) -> str:
    """Returns the bulk operation's id. Raises BulkNotFound for an invalid form, since such an id cannot be a key of a
    table.
    """
    bulk_id: str = req.route_params["bulkId"]
    if not _BULK_ID.fullmatch(bulk_id):
        raise BulkNotFound(bulk_id)
    return bulk_id
