"""The timer of the sweeper.

Each sweep of the timer starts with the check of the dependencies of `/v1/health/ready`. So an unreachable dependency is
counted even if no request checks it. `POST /v1/admin/reconcile` sweeps on request.
"""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.operations.sweeper.sweep import sweep
from shared.ports.sweeps import SweeperShare
from shared.time_limits import SWEEP_S, limited
from shared.wiring import Wiring


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes `sweep`, and `sweep_1` and so on for each further share of the tenants."""
    bp = df.Blueprint()
    for number in range(wiring.settings.sweepers):
        _register(bp, wiring, SweeperShare(number, wiring.settings.sweepers))
    return bp


def _register(bp: df.Blueprint, wiring: Wiring, share: SweeperShare) -> None:
    @bp.function_name(f"sweep_{share.number}" if share.number else "sweep")
    @bp.timer_trigger(arg_name="timer", schedule=wiring.settings.sweep_schedule, use_monitor=False)
    @bp.durable_client_input(client_name="client")
    @limited(SWEEP_S)
    async def sweep_timer(timer: func.TimerRequest, client) -> None:  # type: ignore[no-untyped-def]
        orchestrations = wiring.orchestrations(client)
        await wiring.look(orchestrations)
        await sweep(await wiring.fresh_context(), orchestrations, share)
