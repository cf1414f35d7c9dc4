"""`GET /v1/audit/heads`, `/v1/audit/anchors`, `/v1/audit/keys`: signed data for auditors (R91)."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.audit_heads import Anchor, AnchorPage, AuditKey, AuditKeys, DsseEnvelope, HeadsPage
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_query
from shared.audit_refusals import AuditOff, HeadsIncomplete, HeadsMissing, SigningUnavailable
from shared.core.audit.heads import day_of
from shared.core.filters import parse_instant
from shared.core.jobs.routing import PLATFORM, normalise
from shared.operations.audit.complete_heads import SETTLED
from shared.operations.audit.read_anchors import read_anchors
from shared.operations.audit.sign_statement import list_keys
from shared.operations.audit.signed_heads import sign_heads
from shared.refusals import TenantForbidden
from triggers.http.parameters import CURSOR, bad_cursor, cursor, page
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

TENANT = in_query(
    "tenant",
    {"type": "string"},
    f"Tenant to read. Default: the caller's tenant. `{PLATFORM}`: logs that belong to no tenant, for all-tenants "
    "callers only.",
)
_INSTANT = {"type": "string", "format": "date-time"}
_DEFAULT_DAYS = 31
_TENANT_PROBLEMS = (ProblemCode.TENANT_REQUIRED, TenantForbidden)
_WINDOW_PROBLEMS = (*_TENANT_PROBLEMS, ProblemCode.SINCE_INVALID, ProblemCode.UNTIL_INVALID, ProblemCode.CURSOR_INVALID)

_route = partial(Route, method="GET", scope=Scope.AUDIT, tag="audit")


@_route(
    function="audit_heads",
    path="v1/audit/heads",
    summary="List signed heads",
    description="Lists heads. A head is the last event of one UTC day in a history, with the hash of the event. The "
    "history is that of a job, or the log of a quota or incident.\n\n"
    "Pages are signed and chained, and each event from `since` to `until` has a head on one page. If an event of this "
    "window has no head yet, LUCIUS does not sign the window.",
    parameters=(
        TENANT,
        in_query("since", _INSTANT, "Start of the window. Default: the earliest head."),
        in_query(
            "until",
            _INSTANT,
            f"End of the window, after its start, and at least {SETTLED // timedelta(minutes=1)} minutes ago. Default: "
            "the latest time for which heads are complete.",
        ),
        CURSOR,
    ),
    responses={200: HeadsPage},
    headers={409: ("HeadsRetry-After",)},
    problems=(*_WINDOW_PROBLEMS, AuditOff, HeadsIncomplete, HeadsMissing, SigningUnavailable),
)
async def _heads(request: Request) -> func.HttpResponse:
    since, until = _instant(request, "since"), _instant(request, "until")
    # signed, so its form differs from other cursors
    position = request.http.params.get("cursor") or None
    try:
        envelope, following = await sign_heads(
            request.context(), _tenant(request), since=since, until=until, cursor=position
        )
    except (ValueError, KeyError, TypeError):
        raise bad_cursor() from None
    return respond(request.http, HeadsPage(envelope=DsseEnvelope.model_validate(envelope), next=following))


@_route(
    function="audit_anchors",
    path="v1/audit/anchors",
    summary="List anchors",
    description="Lists anchors. An anchor is the signed list of the digests of all tenants' files of one UTC day. A "
    "tenant's file has the tenant's heads. Each anchor in the response has the records of the requested tenant's file.",
    parameters=(
        TENANT,
        in_query("since", _INSTANT, f"Timestamp on the first UTC day to list. Default: {_DEFAULT_DAYS} days ago."),
        in_query("until", _INSTANT, "Timestamp on the last UTC day to list. Default: now."),
        CURSOR,
    ),
    responses={200: AnchorPage},
    problems=(*_WINDOW_PROBLEMS, AuditOff),
)
async def _anchors(request: Request) -> func.HttpResponse:
    context, tenant = request.context(), _tenant(request)
    now = context.clock.now()
    since = _instant(request, "since") or now - timedelta(days=_DEFAULT_DAYS)
    until = _instant(request, "until") or now
    _, position = page(request.http)
    try:
        found, following = await read_anchors(
            context, tenant, first=day_of(since), last=day_of(until), position=position or None
        )
    except ValueError:
        raise bad_cursor() from None
    anchors = [Anchor.model_validate(vars(each)) for each in found]
    return respond(request.http, AnchorPage(anchors=anchors, next=cursor(following)))


@_route(
    function="audit_keys",
    path="v1/audit/keys",
    summary="List signing keys",
    description="Lists public keys of heads and anchors, including retired keys. Compare the keys with a key that you "
    "stored earlier.",
    responses={200: AuditKeys},
    problems=(AuditOff,),
)
async def _keys(request: Request) -> func.HttpResponse:
    known = await list_keys(request.context())
    keys = [
        AuditKey(
            keyid=each.key.key_id,
            pem=each.key.pem,
            state="active" if each.is_active else "retired",
            first_signed_at=each.since,
        )
        for each in known
    ]
    return respond(request.http, AuditKeys(keys=keys))


def _instant(request: Request, name: str) -> datetime | None:
    """Parses a time. Raises FilterInvalid."""
    given = request.http.params.get(name)
    return parse_instant(name, given) if given else None


def _tenant(request: Request) -> str:
    """Returns the normalised tenant. Raises TenantForbidden, RequestError (400)."""
    tenant = request.caller.tenant_for(request.http.params.get("tenant")) or request.caller.tenant
    if not tenant or not normalise(tenant):
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant=...")
    return normalise(tenant)
