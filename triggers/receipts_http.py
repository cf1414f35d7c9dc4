"""`GET /v1/receipts`: what a tenant's jobs spent and cost (FEATURES N9)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.contracts.responses.history import ReceiptSums
from shared.errors import Refusal
from shared.operations.sum_receipts import MAX_JOBS, sum_receipts
from shared.wiring import Wiring
from triggers.http.filters import parse_filter
from triggers.http.paging import cursor, page
from triggers.http.parameters import FILTERS, PAGE, PAGE_PROBLEMS, TENANT_ID
from triggers.http.problems import respond
from triggers.http.routes import Route, add

SUMS = Route(
    function="receipts_sum",
    method="GET",
    path="v1/receipts",
    scope=Scope.READ,
    tag="jobs",
    summary="Sum up what a tenant's jobs spent and cost",
    description=f"Over jobs created in the range, newest first, at most {MAX_JOBS} a page: add the pages up.",
    parameters=(TENANT_ID, *(each for each in FILTERS if each.name in ("since", "until")), *PAGE),
    responses={200: ReceiptSums},
    problems=(
        (400, "TENANT_REQUIRED"),
        (400, "SINCE_INVALID"),
        (400, "UNTIL_INVALID"),
        (400, "NOT_STORABLE"),
        (403, "TENANT_FORBIDDEN"),
        *PAGE_PROBLEMS,
    ),
)
ROUTES = (SUMS,)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The one route."""
    bp = df.Blueprint()

    async def receipts_sum(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        limit, position = page(req)
        range_ = parse_filter(req, caller)
        if range_.tenant_id is None:
            raise Refusal(400, "TENANT_REQUIRED", "name a tenant: tenant_id=...")
        found, after = await sum_receipts(
            wiring.context_for(caller),
            range_.tenant_id,
            since=range_.since,
            until=range_.until,
            after=position or None,
            limit=limit,
        )
        since, until = (each.isoformat() if each else None for each in (range_.since, range_.until))
        return respond(req, {"since": since, "until": until, **found, "next": cursor(after)})

    add(bp, SUMS, receipts_sum, wiring)
    return bp
