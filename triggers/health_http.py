"""`GET /v1/health/live`, `/v1/health/ready` (FEATURES J5)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.wiring import Wiring
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Live: this process answers. Ready: the ledger answers too; a 503 problem says what does not."""
    bp = df.Blueprint()

    @bp.function_name("health_live")
    @bp.route(route="v1/health/live", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def health_live(req: func.HttpRequest) -> func.HttpResponse:
        return answer(req, {"status": "live"})

    @bp.function_name("health_ready")
    @bp.route(route="v1/health/ready", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def health_ready(req: func.HttpRequest) -> func.HttpResponse:
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

    return bp
