"""`GET /v1/health/live`, `/v1/health/ready` (FEATURES J5)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.contracts.answers.health import Live, Ready
from shared.core.access import Caller
from shared.wiring import Wiring
from triggers.problems import answer
from triggers.routes import Route, add

LIVE = Route(
    function="health_live",
    method="GET",
    path="v1/health/live",
    scope=None,
    tag="health",
    summary="Whether this process answers",
    answers={200: Live},
)
READY = Route(
    function="health_ready",
    method="GET",
    path="v1/health/ready",
    scope=None,
    tag="health",
    summary="Whether what it needs answers too",
    answers={200: Ready},
)
ROUTES = (LIVE, READY)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Live: this process answers. Ready: the ledger answers too; a 503 problem says what does not."""
    bp = df.Blueprint()

    async def health_live(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        return answer(req, {"status": "live"})

    async def health_ready(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        await wiring.context().index.tenants()
        await wiring.fresh_context()
        return answer(
            req,
            {
                "status": "ready",
                "ledger": wiring.settings.storage_backend,
                "protocols": wiring.catalogue().state(),
            },
        )

    add(bp, LIVE, health_live, wiring)
    add(bp, READY, health_ready, wiring)
    return bp
