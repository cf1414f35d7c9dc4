"""`GET /v1/health/live`, `/v1/health/ready`: probes for the platform."""

from __future__ import annotations

from datetime import datetime

import azure.functions as func

from shared.access.caller import Scope
from shared.api.health import DependencyState, Live, ProtocolSource, Ready, SettingNotRead, SweeperState, WorkInProgress
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route
from shared.build import build_info
from shared.errors import LuciusError
from shared.operations.process.readiness import Dependency, sweeper_late
from shared.operations.sweeper.gauges import age_s
from shared.ports.sweeps import SweepMark
from shared.wiring import Wiring
from triggers.http.problems import RequestError
from triggers.http.responses import json_of, respond
from triggers.http.routes import Request


@Route(
    function="health_live",
    method="GET",
    path="v1/health/live",
    scope=None,
    tag="health",
    summary="Check liveness",
    responses={200: Live},
)
async def health_live(request: Request) -> func.HttpResponse:
    return respond(request.http, Live(status="live", build=build_info(request.settings.build_commit)))


@Route(
    function="health_ready",
    method="GET",
    path="v1/health/ready",
    scope=None,
    every_tenant=True,
    durable_client=True,
    tag="health",
    summary="Check readiness",
    description="Returns 503 if a dependency is down. The error names the dependency and the time of the fault. "
    "Requires no token. `sweeper.work` and `protocols.problems` describe all tenants, so both are null unless the "
    "caller has `orch:read` for all tenants.",
    responses={200: Ready},
    problems=(ProblemCode.NOT_READY,),
)
async def health_ready(request: Request) -> func.HttpResponse:
    wiring, context = request.wiring, await request.fresh_context()
    found = await wiring.look(request.orchestrations())
    dependencies = {each.name: dependency(each) for each in found}
    down = [each for each in found if each.fault is not None]
    if down:
        raise RequestError(
            ProblemCode.NOT_READY,
            "; ".join(f"{each.name} has been down since {_instant(each.since)}: {each.fault}" for each in down),
            headers={"Retry-After": "5"},
            members={"dependencies": {name: json_of(each) for name, each in dependencies.items()}},
        )
    sees_all = await _sees_all_tenants(wiring, request.http)
    source = wiring.catalog().state() | ({} if sees_all else {"problems": None})
    versions = {protocol.definition.request_type: protocol.definition.version for protocol in context.registry}
    return respond(
        request.http,
        Ready(
            status="ready",
            ledger=wiring.settings.storage_backend,
            auth=wiring.settings.auth_mode,
            protocols=ProtocolSource(**source, versions=versions),
            build=build_info(wiring.settings.build_commit),
            dependencies=dependencies,
            sweeper=_sweeper(wiring.readiness.mark, context.clock.now(), has_work=sees_all),
            settings_not_read=[
                SettingNotRead(name=name, instead=instead) for name, instead in wiring.settings.not_read
            ],
        ),
    )


async def _sees_all_tenants(wiring: Wiring, req: func.HttpRequest) -> bool:
    """Returns True if the request has a token with read access to all tenants. An invalid token counts as no token,
    since probes must not fail.
    """
    try:
        caller = await wiring.callers().caller(req.headers.get("Authorization"))
    except LuciusError:
        return False
    return caller.sees_all and Scope.READ in caller.scopes


def dependency(found: Dependency) -> DependencyState:
    """Formats the result of one check."""
    if found.fault is None:
        return DependencyState(status="ok", since=found.since)
    return DependencyState(status="down", since=found.since, reason=found.fault)


def _sweeper(mark: SweepMark | None, now: datetime, *, has_work: bool) -> SweeperState:
    if mark is None:
        return SweeperState(last_pass_at=None, looked_at=None, actions=None, more=None, late=False, work=None)
    counts = mark.counts
    work = WorkInProgress(
        active=dict(counts.active),
        queued_oldest_seconds=age_s(counts.queued_since, now),
        unacked=counts.unacked,
        unacked_oldest_seconds=age_s(counts.unacked_since, now),
    )
    return SweeperState.of(
        mark, last_pass_at=mark.ended_at, late=sweeper_late(mark, now), work=work if has_work else None
    )


def _instant(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
