"""Once an hour: what is older than its retention leaves the tables (R74, R88)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.sweeper.prune_logs import prune_logs
from shared.time_limits import SWEEP_S, limited
from shared.wiring import Wiring

#: NCRONTAB, with seconds; not at the full hour, where the sweeper compares the most
_SCHEDULE = "30 17 * * * *"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of `prune`."""
    bp = df.Blueprint()

    @bp.function_name("prune")
    @bp.timer_trigger(arg_name="timer", schedule=_SCHEDULE, use_monitor=False)
    @limited(SWEEP_S)
    async def prune(timer: func.TimerRequest) -> None:
        context = wiring.context()
        # it raises nothing, and has a budget of its own
        await prune_logs(context)
        await prune_feeds(context)

    return bp
