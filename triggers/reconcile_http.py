"""`POST /v1/admin/reconcile` (older name `v1/admin/outbox/retry`): a sweep by hand (FEATURES D15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.access import Caller, Scope
from shared.core.strict_json import parse
from shared.errors import Refusal
from shared.operations.sweep import sweep
from shared.wiring import Wiring
from triggers.problems import answer, json_body
from triggers.routes import Route, add

RECONCILE = Route(
    function="admin_reconcile",
    method="POST",
    path="v1/admin/reconcile",
    scope=Scope.ADMIN,
    tag="admin",
    summary="Sweep now",
)
OUTBOX_RETRY = replace(
    RECONCILE, function="admin_outbox_retry", path="v1/admin/outbox/retry", successor="/v1/admin/reconcile"
)
ROUTES = (RECONCILE, OUTBOX_RETRY)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The route and its older name."""
    bp = df.Blueprint()

    async def reconcile(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        orchestrations = DurableOrchestrations(client, names.JOB)
        swept = await sweep(wiring.context_for(caller), orchestrations, dry_run=_dry_run(req))
        return answer(
            req,
            {
                "dryRun": swept.dry_run,
                "looked_at": swept.looked_at,
                "dead_replies": swept.dead_replies,
                "actions": swept.actions,
                "more": swept.more,
            },
        )

    for route in ROUTES:
        add(bp, route, reconcile, wiring, client=True)
    return bp


def _dry_run(req: func.HttpRequest) -> bool:
    """`?dryRun=true` or a body `{"dryRun": true}`."""
    given: object = {"true": True, "false": False}.get(req.params.get("dryRun", "false").lower())
    if req.get_body().strip():
        try:
            body = parse(json_body(req))
        except ValueError as wrong:
            raise Refusal(400, "NOT_JSON", str(wrong)) from None
        given = body.get("dryRun", given) if isinstance(body, dict) else None
    if not isinstance(given, bool):
        raise Refusal(400, "DRY_RUN_INVALID", "dryRun must be true or false")
    return given
