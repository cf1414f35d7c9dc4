"""`GET /v1/health/live`, `/v1/health/ready` (FEATURES J5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.build import build_view
from shared.contracts.responses.health import Live, Ready
from shared.core import durable_names
from shared.errors import Refusal
from shared.operations.readiness import Check, Dependency, Readiness, sweeper_late
from shared.ports.index import SweepMark
from shared.wiring import SystemClock, Wiring
from triggers.http.problems import respond
from triggers.http.routes import Route, add

LIVE = Route(
    function="health_live",
    method="GET",
    path="v1/health/live",
    scope=None,
    tag="health",
    summary="Whether this process answers",
    responses={200: Live},
)
READY = Route(
    function="health_ready",
    method="GET",
    path="v1/health/ready",
    scope=None,
    tag="health",
    summary="Whether what it needs answers too",
    description="503 names what does not answer, and since when.",
    responses={200: Ready},
    problems=((503, "NOT_READY"),),
)
ROUTES = (LIVE, READY)

#: no instance has this id; asking for it shows that the engine answers
_NOBODY = "health"
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Live: this process answers. Ready: tables, blobs, bus and durable engine answer it."""
    bp = df.Blueprint()
    readiness = Readiness(SystemClock())
    # what the look at the tables read; a look that failed never comes to tell it
    mark: SweepMark | None = None

    async def health_live(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        return respond(req, {"status": "live", "build": build_view(wiring.settings.build_commit)})

    async def health_ready(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        context = await wiring.fresh_context()

        async def tables() -> None:
            nonlocal mark
            mark = await wiring.sweep_marks().read()

        checks: dict[str, Check] = {
            "tables": tables,
            "servicebus": lambda: context.lanes.has_waiting_reply(0, before=_LONG_AGO),
            "durable": lambda: DurableOrchestrations(client, durable_names.JOB).state(_NOBODY),
        }
        if (probe := wiring.blob_probe()) is not None:
            checks["blob"] = probe.check
        found = await readiness.check_all(checks)
        told = {each.name: _told(each) for each in found}
        down = [each for each in found if each.fault is not None]
        if down:
            detail = "; ".join(f"{each.name} is down since {_instant(each.since)}: {each.fault}" for each in down)
            raise Refusal(503, "NOT_READY", detail, headers={"Retry-After": "5"}, dependencies=told)
        versions = {protocol.definition.request_type: protocol.definition.version for protocol in context.registry}
        return respond(
            req,
            {
                "status": "ready",
                "ledger": wiring.settings.storage_backend,
                "protocols": {**wiring.catalog().state(), "versions": versions},
                "build": build_view(wiring.settings.build_commit),
                "dependencies": told,
                "sweeper": _sweeper(mark, context.clock.now()),
            },
        )

    add(bp, LIVE, health_live, wiring)
    add(bp, READY, health_ready, wiring, client=True)
    return bp


def _told(dependency: Dependency) -> dict[str, Any]:
    told = {"status": "ok" if dependency.fault is None else "down", "since": _instant(dependency.since)}
    return told if dependency.fault is None else {**told, "reason": dependency.fault}


def _sweeper(mark: SweepMark | None, now: datetime) -> dict[str, Any]:
    return {
        "last_pass_at": _instant(mark.ended_at) if mark is not None else None,
        "looked_at": mark.looked_at if mark is not None else None,
        "actions": mark.actions if mark is not None else None,
        "more": mark.more if mark is not None else None,
        "late": sweeper_late(mark, now),
    }


def _instant(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
