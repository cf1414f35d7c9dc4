"""`GET /v1/deadletters`: jobs that failed for good (FEATURES D8)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.operations.list_jobs import list_dead_letters
from shared.wiring import Wiring
from triggers.paging import cursor, page
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The one route; a dead letter is taken up again by `POST /v1/jobs/{jobId}:redrive`."""
    bp = df.Blueprint()

    @bp.function_name("dead_letters_list")
    @bp.route(route="v1/deadletters", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def dead_letters_list(req: func.HttpRequest) -> func.HttpResponse:
        limit, position = page(req)
        listed, after = await list_dead_letters(
            wiring.context(), tenant_id=req.params.get("tenant_id"), after=position or None, limit=limit
        )
        return answer(req, {"deadletters": listed, "next": cursor(after)})

    return bp
