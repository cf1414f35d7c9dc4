"""`POST /v1/admin/reconcile` (older name `v1/admin/outbox/retry`): a sweep on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.api.rejected import Reconciled, ReconcileRequest, SweepAction
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route
from shared.operations.jobs.read_history import read_for_list
from shared.operations.sweeper.report import Action
from shared.operations.sweeper.sweep import sweep
from shared.ports.ledger import Ledger
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.parameters import DRY_RUN, dry_run_of
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

RECONCILE = Route(
    function="admin_reconcile",
    method="POST",
    path="v1/admin/reconcile",
    scope=Scope.ADMIN,
    every_tenant=True,
    durable_client=True,
    tag="admin",
    summary="Run a sweep",
    description="Finishes interrupted work, as the sweeper does every minute. Safe at any time. Maximum one requested "
    "sweep at a time per process.",
    parameters=(DRY_RUN,),
    body=ReconcileRequest,
    responses={200: Reconciled},
    problems=(*BODY_PROBLEMS, ProblemCode.DRY_RUN_INVALID, ProblemCode.SWEEP_RUNNING),
)

#: maximum actions in a response: for a tenant's admin, each named job is read first, within the request's time
MAX_ACTIONS = 1000
#: seconds within which most sweeps end
RETRY_AFTER_S = "10"
#: lock of this process's sweep on request
_RUNNING = asyncio.Lock()


@replace(RECONCILE, function="admin_outbox_retry", path="v1/admin/outbox/retry", successor="/v1/admin/reconcile")
@RECONCILE
async def reconcile(request: Request) -> func.HttpResponse:
    """Sweeps once, unless a requested sweep is running in this process.

    Raises RequestError (400, 411, 429), UndeclaredJson (415), BodyTooLarge, and faults as `sweep` does.
    """
    context, dry_run = await request.fresh_context(), _dry_run(request.http)
    if _RUNNING.locked():
        detail = "a requested sweep is running in this process; repeat the request after the sweep has ended"
        raise RequestError(ProblemCode.SWEEP_RUNNING, detail, headers={"Retry-After": RETRY_AFTER_S})
    async with _RUNNING:
        swept = await sweep(context, request.orchestrations(), dry_run=dry_run)
    shown = swept.actions[:MAX_ACTIONS]
    visible = await visible_actions(shown, request.caller, context.ledger)
    return respond(
        request.http,
        Reconciled(
            dryRun=swept.dry_run,
            looked_at=swept.looked_at,
            dead_replies=swept.dead_replies,
            actions=[SweepAction(jobId=each.job_id, action=each.label) for each in visible],
            more=swept.more,
        ),
    )


async def visible_actions(actions: list[Action], caller: Caller, ledger: Ledger) -> list[Action]:
    """Returns the actions on jobs that the caller can see, since a sweep covers every tenant (R24)."""
    if caller.sees_all:
        return actions
    found = [(each, await read_for_list(ledger, each.job_id)) for each in actions]
    return [each for each, stored in found if stored is not None and caller.may_see(stored.record.job.tenant_id)]


def _dry_run(req: func.HttpRequest) -> bool:
    """Returns the value of `?dryRun=true` or of a body `{"dryRun": true}`. Raises BodyTooLarge and RequestError (400,
    411, 415).
    """
    asked = dry_run_of(req)
    return optional_body(req, ReconcileRequest, ProblemCode.DRY_RUN_INVALID).dryRun or asked
