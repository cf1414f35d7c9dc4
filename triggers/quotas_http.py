"""`/v1/quotas`: the quotas of a tenant, their limits, waiting jobs, and log (R48, R52)."""

from __future__ import annotations

import re
from functools import partial

import azure.functions as func
from pydantic import TypeAdapter, ValidationError

from shared import refusals
from shared.access.caller import Caller, Scope
from shared.api.quota import (
    Quota,
    QuotaChange,
    QuotaLogEntry,
    QuotaLogPage,
    QuotaPage,
    WaitingPage,
    quota,
    quota_change,
    quota_over_all,
    waiting_job,
)
from shared.api.quota_changes import RuleChange
from shared.api.response import Why
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_header, in_path, in_query
from shared.core.gates import changes
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.changes import Patch
from shared.core.gates.queue_position import count_waiting
from shared.core.gates.rules import EVERY, OVER_ALL, OVER_ALL_EXAMPLES, PARTS, Directory, Gate, GateKind, GateState
from shared.core.jobs.routing import normalise
from shared.operations.gates.admission_turns import read_directory
from shared.operations.gates.find_gate import find_gate, find_platform_gate, find_platform_gate_by_id
from shared.operations.gates.gate_logs import read_state
from shared.operations.gates.platform_gates import list_waiting_of_all, read_parts, read_platform_state
from shared.operations.gates.waiting import list_waiting, read_admission, read_oldest
from shared.operations.process.context import Context
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By, Changed
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.parameters import DRY_RUN, PAGE, PAGE_PROBLEMS, bad_cursor, cursor, dry_run_of, page
from triggers.http.problems import RequestError, errors_of
from triggers.http.responses import respond
from triggers.http.routes import Request

_WHY: TypeAdapter[str] = TypeAdapter(Why)

GATE = in_path("gate", {"type": "string", "pattern": "^[0-9a-f]{16}$"}, "`id` of the quota.")
NAMES = (
    in_query(
        "tenant", {"type": "string"}, "Tenant of the quota. Default: the caller's tenant. `*`: limits for every tenant."
    ),
    *(
        in_query(kind.label, {"type": "string"}, f"Quota of one {kind.key.replace('_', ' ')} of the tenant.")
        for kind in PARTS
    ),
)
_EXAMPLES = [f"`{each}`" for each in OVER_ALL_EXAMPLES]
NAME = in_query("name", {"type": "string"}, f"Quota over all tenants: {', '.join(_EXAMPLES[:-1])} or {_EXAMPLES[-1]}.")
IF_MATCH = in_header("If-Match", {"type": "string"}, "`etag` of the quota, or `*` for any `etag`.", required=True)
REASON = in_query("reason", _WHY.json_schema(), "Reason, one line. Recorded in the quota's log.", required=True)
NAME_PROBLEMS = (
    refusals.GateUnclear,
    refusals.QuotaInvalid,
    ProblemCode.NOT_STORABLE,
    ProblemCode.TENANT_REQUIRED,
    refusals.TenantForbidden,
    refusals.GateNotFound,
)
_RULE_PROBLEMS = (
    *NAME_PROBLEMS,
    ProblemCode.DRY_RUN_INVALID,
    refusals.TooManyRules,
    refusals.QuotaForbidden,
    refusals.RuleChanged,
    ProblemCode.IF_MATCH_REQUIRED,
)

_MAX_DIGITS = 10
_MAX_TENANTS = 100

_read_route = partial(Route, method="GET", scope=Scope.READ, tag="quotas")
change_route = partial(
    Route,
    scope=Scope.QUOTA,
    durable_client=True,
    tag="quotas",
    responses={200: QuotaChange},
    headers={200: ("ETag",)},
)


@_read_route(
    function="quotas_list",
    path="v1/quotas",
    summary="List quotas",
    description="Lists the tenant's own quota, then its quotas of job types and sources that have settings, or a "
    "stored state of a rate or breaker. With `type`, `source` or `name` the response has only that quota, with its "
    "`id` and `etag`, even if the quota has no settings.\n\n"
    "All-tenants callers who name `*` get the limits for every tenant, then the quotas over all tenants. Without a "
    "tenant, they get the quotas over all tenants, the limits for every tenant, and the quotas of tenants with own "
    "settings. A tenant that never had own settings is not listed, even if its jobs wait. `limit` "
    f"then counts tenants, at most {_MAX_TENANTS} per page.",
    parameters=(*NAMES, NAME, *PAGE),
    responses={200: QuotaPage},
    problems=(*NAME_PROBLEMS, *PAGE_PROBLEMS),
)
async def quotas_list(request: Request) -> func.HttpResponse:
    """Returns a page of quotas. Raises errors as `_gate` does, LedgerUnavailable, RequestError (400)."""
    req, context = request.http, await request.fresh_context()
    limit, position = page(req)
    tenant = request.caller.tenant_for(req.params.get("tenant"))
    if any(name in req.params for name in ("name", *(kind.label for kind in PARTS))):
        gate = await _gate(request, context, with_id=False)
        return respond(req, QuotaPage(quotas=[await shown(context, gate, request.caller)], next=None))
    if tenant is not None:
        name = normalise(tenant)
        # the tenant's own quota is the first, so that a client finds it, also with the tenant `*`
        over_all = await _over_all(request, context) if name == EVERY else []
        return respond(req, QuotaPage(quotas=[*await _of_tenant(context, name), *over_all], next=None))
    known = sorted({EVERY, *(await context.admissions.directory()).tenants})
    following = [each for each in known if each > position][: min(limit, _MAX_TENANTS)]
    found = await _over_all(request, context) if not position else []
    found += [each for tenant in following for each in await _of_tenant(context, tenant)]
    is_last = not following or following[-1] == known[-1]
    return respond(req, QuotaPage(quotas=found, next=None if is_last else cursor(following[-1])))


@_read_route(
    function="quotas_read",
    path="v1/quotas/{gate}",
    summary="Get a quota",
    description="Returns the quota's limits, and its numbers of active and waiting jobs. The ETag is for `If-Match` of "
    "changes. `If-None-Match` has no effect, since the numbers change without the ETag.",
    parameters=(GATE, *NAMES, NAME),
    responses={200: Quota},
    etag_for_changes=True,
    problems=NAME_PROBLEMS,
)
async def _read(request: Request) -> func.HttpResponse:
    context = await request.fresh_context()
    found = await shown(context, await _gate(request, context), request.caller)
    return respond(request.http, found, etag=found.etag)


@change_route(
    function="quotas_set",
    method="PATCH",
    path="v1/quotas/{gate}",
    summary="Update a quota's limits",
    description="Applies a JSON merge patch (RFC 7396). Operators only. Jobs that fit the new limits start "
    "immediately, and running jobs continue. With `dryRun` the response has the number of jobs that the change "
    "admits, and the number of jobs that continue to wait.",
    parameters=(GATE, *NAMES, NAME, IF_MATCH, DRY_RUN),
    body=RuleChange,
    body_required=True,
    problems=(*_RULE_PROBLEMS, *BODY_PROBLEMS),
)
async def _set(request: Request) -> func.HttpResponse:
    req, context = request.http, await request.fresh_context()
    body = optional_body(req, RuleChange, refusals.QuotaInvalid)
    gate, by, rule_seq = await _changed_by(request, context, body.reason)
    if dry_run_of(req):
        return respond(req, await _preview(request, context, gate, body.patch(), rule_seq))
    orchestrations = request.orchestrations()
    changed = await quotas.set_rule(context, orchestrations, gate, body.patch(), by, rule_seq=rule_seq)
    return await change_response(request, context, changed)


@change_route(
    function="quotas_delete",
    method="DELETE",
    path="v1/quotas/{gate}",
    summary="Delete a quota's limits",
    description="Deletes the quota's own limits. The limits for every tenant, or the limits in the app's settings, "
    "are then in effect. A hold or throttle stays. Operators only.",
    parameters=(GATE, *NAMES, NAME, IF_MATCH, REASON, DRY_RUN),
    problems=_RULE_PROBLEMS,
)
async def _delete(request: Request) -> func.HttpResponse:
    req, context = request.http, await request.fresh_context()
    try:
        reason = _WHY.validate_python(req.params.get("reason", ""), strict=True)
    except ValidationError as wrong:
        raise refusals.QuotaInvalid(*(("reason", text) for _, text in errors_of(wrong))) from None
    gate, by, rule_seq = await _changed_by(request, context, reason)
    if dry_run_of(req):
        return respond(req, await _preview(request, context, gate, None, rule_seq))
    changed = await quotas.delete_rule(context, request.orchestrations(), gate, by, rule_seq=rule_seq)
    return await change_response(request, context, changed)


@_read_route(
    function="quotas_waiting",
    path="v1/quotas/{gate}/waiting",
    summary="List jobs waiting for a quota",
    description="Lists the waiting jobs in the order of admission. For a quota over all tenants, lists only jobs of "
    "tenants in `shares` of the quota, and an allocation can change the order between tenants.",
    parameters=(GATE, *NAMES, NAME, *PAGE),
    responses={200: WaitingPage},
    problems=(*NAME_PROBLEMS, *PAGE_PROBLEMS),
)
async def _waiting(request: Request) -> func.HttpResponse:
    context = await request.fresh_context()
    limit, position = page(request.http)
    after = _number(position)
    gate = await _gate(request, context)
    if gate.kind in OVER_ALL:
        found = await read_parts(context, gate, request.caller.may_see)
        standings = await list_waiting_of_all(context, gate, (part.tenant for part in found if part.waiting))
        total = sum(part.waiting for part in found)
    else:
        admission, known = await read_admission(context, gate.tenant)
        standings = await list_waiting(context, admission, gate, known)
        total = count_waiting(admission, gate)
    chosen = [waiting_job(each, number) for number, each in enumerate(standings, start=1) if number > after][:limit]
    following = cursor(str(after + limit)) if after + limit < len(standings) else None
    return respond(request.http, WaitingPage(waiting=chosen, total=total, next=following))


@_read_route(
    function="quotas_log",
    path="v1/quotas/{gate}/log",
    summary="List a quota's changes",
    description="Lists changes, oldest first. Only callers who see all tenants can read the log of a quota over all "
    "tenants. LUCIUS deletes entries older than `LUCIUS_CHANGE_LOG_DAYS`, except the last of these entries.",
    parameters=(GATE, *NAMES, NAME, *PAGE),
    responses={200: QuotaLogPage},
    problems=(*NAME_PROBLEMS, *PAGE_PROBLEMS, refusals.QuotaForbidden),
)
async def _log(request: Request) -> func.HttpResponse:
    context = await request.fresh_context()
    limit, position = page(request.http)
    gate = await _gate(request, context)
    if gate.tenant == EVERY and not request.caller.sees_all:
        raise refusals.QuotaForbidden("only callers who see all tenants can read the log of a quota over all tenants")
    entries = await context.admissions.log(gate.tenant, gate.id, after=_number(position), limit=limit)
    following = cursor(str(entries[-1].seq)) if len(entries) == limit else None
    return respond(request.http, QuotaLogPage(entries=[QuotaLogEntry.of(each) for each in entries], next=following))


def _number(position: str) -> int:
    """Parses a number. Raises RequestError (400)."""
    if position and not (position.isdecimal() and len(position) <= _MAX_DIGITS):
        raise bad_cursor()
    return int(position or 0)


async def _gate(request: Request, context: Context, *, with_id: bool = True) -> Gate:
    """Returns the quota. Raises TenantForbidden, GateNotFound, GateUnclear, QuotaInvalid, RequestError (400)."""
    req = request.http
    moving = req.method not in ("GET", "HEAD")
    if (name := req.params.get("name")) is not None:
        if any(kind.label in req.params for kind in PARTS):
            raise refusals.GateUnclear
        return find_platform_gate(context, name)
    if with_id and (found := find_platform_gate_by_id(context, req.route_params["gate"])) is not None:
        return found
    tenant = request.caller.tenant_for(req.params.get("tenant"), moving=moving) or request.caller.tenant
    if tenant is None:
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant=...")
    return await find_gate(
        context,
        tenant,
        gate_id=req.route_params["gate"] if with_id else None,
        **{kind.key: req.params.get(kind.label) for kind in PARTS},
    )


async def operated_gate(request: Request, context: Context) -> Gate:
    """Returns the quota for a change by an operator. Raises QuotaForbidden, and errors as `_gate` does."""
    gate = await _gate(request, context)
    if not request.caller.moves_all:
        raise refusals.QuotaForbidden
    return gate


async def _changed_by(request: Request, context: Context, reason: str) -> tuple[Gate, By, int | None]:
    """Returns the quota, the caller of a change with the reason, and the number in `If-Match`. Raises QuotaForbidden,
    RequestError (428), and errors as `_gate` does.
    """
    gate = await operated_gate(request, context)
    return gate, By(actor=request.caller.actor, reason=reason), _rule_seq(request.http)


def _rule_seq(req: func.HttpRequest) -> int | None:
    """Returns the number in `If-Match`. None means `*`. An unknown ETag matches nothing. Raises RequestError (428)."""
    given: str = req.headers.get("If-Match", "").strip()
    if not given:
        detail = "If-Match missing; send the etag of the quota, or *"
        raise RequestError(ProblemCode.IF_MATCH_REQUIRED, detail)
    if given == "*":
        return None
    tag = re.fullmatch(r'"([0-9a-f]{32})"', given)
    return int(tag[1], 16) if tag is not None else -1


async def _preview(
    request: Request, context: Context, gate: Gate, patch: Patch | None, rule_seq: int | None
) -> QuotaChange:
    found = await quotas.preview_rule(context, gate, patch, rule_seq=rule_seq)
    now = await _after(context, found.changed, request.caller)
    change = quota_change(found.changed.before, found.changed.after, now)
    return change.model_copy(update={"dryRun": True, "released": found.released, "held_back": found.held_back})


async def change_response(request: Request, context: Context, changed: Changed) -> func.HttpResponse:
    """Makes the response to a change, with the quota as it is now."""
    now = await _after(context, changed, request.caller)
    return respond(request.http, quota_change(changed.before, changed.after, now), etag=now.etag)


async def _after(context: Context, changed: Changed, caller: Caller) -> Quota:
    if changed.after.gate.kind in OVER_ALL:
        # its caller is an operator, which can change the jobs of all tenants
        return await _show_over_all(context, changed.after, changed.directory, caller, shows_reasons=True)
    return await _shown(context, changed.admission, changed.directory, changed.after)


async def shown(context: Context, gate: Gate, caller: Caller) -> Quota:
    """Makes the response with the quota. Raises LedgerUnavailable."""
    if gate.kind in OVER_ALL:
        state = await read_platform_state(context, gate, by_operator=caller.sees_all or caller.moves_all)
        return await _show_over_all(
            context, state, await read_directory(context), caller, shows_reasons=caller.sees_all
        )
    admission, known = await read_admission(context, gate.tenant, also=gate)
    return await _shown(context, admission, known, await read_state(context, admission, gate))


async def _shown(context: Context, admission: AdmissionState, known: Directory, state: GateState) -> Quota:
    return quota(admission, known, state, context.clock.now(), await read_oldest(context, admission, state.gate))


async def _show_over_all(
    context: Context, state: GateState, known: Directory, caller: Caller, *, shows_reasons: bool
) -> Quota:
    """Returns the quota. A caller of one tenant gets only that tenant's part."""
    found = await read_parts(context, state.gate, caller.may_see)
    return quota_over_all(known, state, context.clock.now(), found, shows_reasons=shows_reasons)


async def _over_all(request: Request, context: Context) -> list[Quota]:
    gates = [state.gate for state in (await read_directory(context)).over_all.values()]
    return [await shown(context, gate, request.caller) for gate in gates]


async def _of_tenant(context: Context, tenant: str) -> list[Quota]:
    """Returns the tenant's own quota, then the quotas with a state in the tenant's admission state, except quotas over
    all tenants, whose states are in the admission state of tenant `*`.
    """
    admission, known = await read_admission(context, tenant)
    own = Gate(GateKind.TENANT, tenant)
    # a quota that is stored only for its feed is not shown (R79)
    idle = {state.gate for state in admission.gates.values() if changes.is_idle(state, known, context.clock.now())}
    hidden = idle if context.events is not None else set()
    others = {state.gate for state in admission.gates.values() if state.gate.kind not in OVER_ALL} - {own} - hidden
    ordered = sorted(others, key=lambda gate: (gate.kind, gate.name))
    states = [await read_state(context, admission, gate) for gate in (own, *ordered)]
    return [await _shown(context, admission, known, state) for state in states]
