"""`POST /v1/admin/reconcile` (older name `v1/admin/outbox/retry`): a sweep by hand (FEATURES D15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.contracts.requests import ReconcileRequest
from shared.contracts.responses.rejected import Reconciled
from shared.core import durable_names
from shared.operations.sweeper.sweep import sweep
from shared.ports.ledger import Ledger
from shared.wiring import Wiring
from triggers.http.parameters import DRY_RUN, dry_run_of
from triggers.http.problems import optional_body, respond
from triggers.http.routes import Route, add

RECONCILE = Route(
    function="admin_reconcile",
    method="POST",
    path="v1/admin/reconcile",
    scope=Scope.ADMIN,
    tag="admin",
    summary="Sweep now",
    description="What the sweeper does every minute: finish what was left half done. Safe at any time.",
    parameters=(DRY_RUN,),
    body=ReconcileRequest,
    responses={200: Reconciled},
    problems=((400, "NOT_JSON"), (400, "DRY_RUN_INVALID"), (413, "BODY_TOO_LARGE"), (415, "NOT_JSON")),
)
OUTBOX_RETRY = replace(
    RECONCILE, function="admin_outbox_retry", path="v1/admin/outbox/retry", successor="/v1/admin/reconcile"
)
ROUTES = (RECONCILE, OUTBOX_RETRY)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The route and its older name."""
    bp = df.Blueprint()

    async def reconcile(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        orchestrations = DurableOrchestrations(client, durable_names.JOB)
        swept = await sweep(wiring.context(), orchestrations, dry_run=_dry_run(req))
        return respond(
            req,
            {
                "dryRun": swept.dry_run,
                "looked_at": swept.looked_at,
                "dead_replies": swept.dead_replies,
                "actions": await seen_of(swept.actions, caller, wiring.context_for(caller).ledger),
                "more": swept.more,
            },
        )

    for route in ROUTES:
        add(bp, route, reconcile, wiring, client=True)
    return bp


async def seen_of(actions: list[dict[str, str]], caller: Caller, ledger: Ledger) -> list[dict[str, str]]:
    """The sweep is everybody's, but an action names a job: those that `ledger`, the caller's own, knows."""
    return [each for each in actions if caller.tenant is None or await ledger.read(each["jobId"]) is not None]


def _dry_run(req: func.HttpRequest) -> bool:
    """`?dryRun=true` or a body `{"dryRun": true}`. Raises Refusal (400, 413, 415)."""
    asked = dry_run_of(req)
    return optional_body(req, ReconcileRequest, "DRY_RUN_INVALID").dryRun or asked
