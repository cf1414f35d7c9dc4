"""The activities `dispatch` and `settle`, which read the ledger and return a verdict."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df

from shared.core.jobs import durable_names
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.settle_step import settle_step
from shared.time_limits import ACTIVITY_S, limited
from shared.wiring import Wiring


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of the activities over the app's wiring."""
    bp = df.Blueprint()

    @bp.function_name(durable_names.DISPATCH)
    @bp.activity_trigger(input_name="request")
    @bp.durable_client_input(client_name="client")
    @limited(ACTIVITY_S)
    async def dispatch(request: dict, client) -> dict:  # type: ignore[no-untyped-def, type-arg]  # the worker's types
        """Records and sends the step's attempt if the attempt is due. Returns a verdict.

        The request is `{"job_id", "instance_id", "step_id"}`.
        """
        return (await dispatch_step(wiring.context(), wiring.orchestrations(client), **_plain(request))).to_json()

    @bp.function_name(durable_names.SETTLE)
    @bp.activity_trigger(input_name="request")
    @bp.durable_client_input(client_name="client")
    @limited(ACTIVITY_S)
    async def settle(request: dict, client) -> dict:  # type: ignore[no-untyped-def, type-arg]
        """Ends the attempt if its lease has expired, unless a backlog of its lane explains the silence (R8). Returns a
        verdict from the ledger in any case.

        The request is `{"job_id", "instance_id", "step_id", "attempt_no"}`.
        """
        return (await settle_step(wiring.context(), wiring.orchestrations(client), **_plain(request))).to_json()

    return bp


def _plain(request: Any) -> dict[str, Any]:
    return dict(request)
