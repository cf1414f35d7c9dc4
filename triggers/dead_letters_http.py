"""`GET /v1/deadletters`: jobs that failed for good (FEATURES D8)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.contracts.responses.job import DeadLetterPage
from shared.operations.list_jobs import list_dead_letters
from shared.wiring import Wiring
from triggers.http.paging import cursor, page
from triggers.http.parameters import PAGE, PAGE_PROBLEMS, TENANT_ID
from triggers.http.problems import respond
from triggers.http.routes import Route, add

LIST = Route(
    function="dead_letters_list",
    method="GET",
    path="v1/deadletters",
    scope=Scope.READ,
    tag="dead letters",
    summary="List the jobs that failed for good",
    description="Take one up again with `POST /v1/jobs/{jobId}:redrive`.",
    parameters=(TENANT_ID, *PAGE),
    responses={200: DeadLetterPage},
    problems=((400, "NOT_STORABLE"), (403, "TENANT_FORBIDDEN"), *PAGE_PROBLEMS),
)
ROUTES = (LIST,)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The one route; a dead letter is taken up again by `POST /v1/jobs/{jobId}:redrive`."""
    bp = df.Blueprint()

    async def dead_letters_list(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        limit, position = page(req)
        tenant_id = caller.tenant_for(req.params.get("tenant_id"))
        context = wiring.context_for(caller)
        listed, after = await list_dead_letters(context, tenant_id=tenant_id, after=position or None, limit=limit)
        return respond(req, {"deadletters": listed, "next": cursor(after)})

    add(bp, LIST, dead_letters_list, wiring)
    return bp
