"""`POST /v1/limits/pause`, `/throttle`, `/resume`: holds, throttles and resumes a quota (R48)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import azure.functions as func

from shared.api.quota_changes import Pause, Resume, Slowdown
from shared.apidocs.problem_codes import ProblemCode
from shared.core.gates.rules import EVERY, PARTS, Gate
from shared.core.jobs.routing import normalise
from shared.operations.gates.find_gate import find_gate, find_platform_gate
from shared.operations.process.context import Context
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By, Changed
from shared.ports.durable import Orchestrations
from shared.refusals import GateNotFound, GateUnclear, QuotaForbidden, QuotaInvalid, TenantForbidden, TooManyRules
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.routes import Handler, Request
from triggers.quotas_http import change_response, change_route

_PROBLEMS = (
    GateUnclear,
    QuotaInvalid,
    TooManyRules,
    *BODY_PROBLEMS,
    ProblemCode.NOT_STORABLE,
    TenantForbidden,
    QuotaForbidden,
    GateNotFound,
)
_WHOSE = (
    "Name exactly one quota: of a tenant, or of a job type or source of the tenant. Operators can also name a quota "
    "over all tenants: by `name`, by `service`, or by `job_type` if neither the request nor the token names a tenant."
)

_Act = Callable[[Context, Orchestrations, Gate, By, Resume], Awaitable[Changed]]


def _route(action: str, body: type[Resume], summary: str, description: str) -> Callable[[_Act], Handler]:
    """Declares the route of an action, for operators and for a tenant's own callers, which can end their own
    actions.
    """

    def declare(act: _Act) -> Handler:
        @change_route(
            function=f"limits_{action}",
            method="POST",
            path=f"v1/limits/{action}",
            summary=summary,
            description=f"{description}\n\n{_WHOSE}",
            body=body,
            body_required=True,
            problems=_PROBLEMS,
        )
        async def handle(request: Request) -> func.HttpResponse:
            asked = optional_body(request.http, body, QuotaInvalid)
            context = await request.fresh_context()
            gate = await _gate(request, context, asked)
            by = By(actor=request.caller.actor, reason=asked.reason, own=not request.caller.moves_all)
            changed = await act(context, request.orchestrations(), gate, by, asked)
            return await change_response(request, context, changed)

        return handle

    return declare


@_route(
    "pause",
    Pause,
    "Hold a quota",
    "Stops starting jobs or, for a service or lane, new attempts of steps. Running jobs and attempts continue.",
)
async def _pause(context: Context, orchestrations: Orchestrations, gate: Gate, by: By, body: Resume) -> Changed:
    assert isinstance(body, Pause)
    return await quotas.hold(context, orchestrations, gate, by, until=body.until)


@_route(
    "throttle",
    Slowdown,
    "Throttle a quota",
    "Limits job starts to the rate `max_per_hour`, until the time in `until` or until a resume. The lower of this rate "
    "and the rate of the quota's limits is in effect. A service or lane cannot be throttled.",
)
async def _throttle(context: Context, orchestrations: Orchestrations, gate: Gate, by: By, body: Resume) -> Changed:
    assert isinstance(body, Slowdown)
    return await quotas.throttle(context, orchestrations, gate, by, max_per_hour=body.max_per_hour, until=body.until)


@_route(
    "resume",
    Resume,
    "Resume a quota",
    "Ends the hold and the throttle. A caller of one tenant ends only holds and throttles that callers of the tenant "
    "set. LUCIUS then admits waiting jobs in the order of the waiting queue.",
)
async def _resume(context: Context, orchestrations: Orchestrations, gate: Gate, by: By, body: Resume) -> Changed:
    return await quotas.resume(context, orchestrations, gate, by)


def _find_over_all(request: Request, context: Context, name: str) -> Gate:
    """Returns the quota over all tenants. Raises QuotaForbidden, GateNotFound."""
    if not request.caller.moves_all:
        raise QuotaForbidden
    return find_platform_gate(context, name)


async def _gate(request: Request, context: Context, body: Resume) -> Gate:
    """Returns the quota. Raises GateUnclear, GateNotFound, QuotaForbidden, QuotaInvalid, TenantForbidden."""
    names = {kind.key: getattr(body, kind.key) for kind in PARTS}
    if len([each for each in (*names.values(), body.service, body.name) if each is not None]) > 1:
        raise GateUnclear
    if body.service is not None or body.name is not None:
        if body.tenant is not None:
            raise GateUnclear
        return _find_over_all(request, context, body.name or f"service:{body.service}")
    tenant = request.caller.tenant_for(body.tenant, moving=True) or request.caller.tenant
    if tenant is None:
        if body.job_type is None:
            raise GateUnclear
        return _find_over_all(request, context, f"type:{body.job_type}")
    if normalise(tenant) == EVERY:
        raise QuotaInvalid(
            ("tenant", "`*` is not allowed; name one tenant, or use `name` for a quota over all tenants")
        )
    return await find_gate(context, tenant, **names)
