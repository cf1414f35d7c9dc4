"""The sweeper: every minute by timer, and `POST /v1/admin/reconcile` by hand (FEATURES D15)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.strict_json import parse
from shared.errors import Refusal
from shared.operations.sweep import sweep
from shared.wiring import Wiring
from triggers.problems import answer, answers_problems, json_body


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The timer, the route and its older name `v1/admin/outbox/retry`."""
    bp = df.Blueprint()

    @bp.function_name("sweep")
    @bp.timer_trigger(arg_name="timer", schedule=wiring.settings.sweep_schedule, use_monitor=False)
    @bp.durable_client_input(client_name="client")
    async def sweep_timer(timer: func.TimerRequest, client) -> None:
        await sweep(wiring.context(), DurableOrchestrations(client, names.JOB))

    async def reconcile(req: func.HttpRequest, client) -> func.HttpResponse:
        swept = await sweep(wiring.context(), DurableOrchestrations(client, names.JOB), dry_run=_dry_run(req))
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

    for name, route in (("admin_reconcile", "v1/admin/reconcile"), ("admin_outbox_retry", "v1/admin/outbox/retry")):
        handler = answers_problems(reconcile)
        handler = bp.durable_client_input(client_name="client")(handler)
        handler = bp.route(route=route, methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)(handler)
        bp.function_name(name)(handler)
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
