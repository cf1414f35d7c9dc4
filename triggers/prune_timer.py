"""Once an hour: events leave the feeds when their time is over (R74)."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared.operations.prune_feeds import prune_feeds
from shared.time_limits import SWEEP_S, limited
from shared.wiring import Wiring

#: NCRONTAB, with seconds; not at the full hour, where the sweeper compares the most
_SCHEDULE = "30 17 * * * *"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """`prune`; none with `LUCIUS_EVENTS=off`."""
    bp = df.Blueprint()
    if wiring.settings.events == "off":
        return bp

    @bp.function_name("prune")
    @bp.timer_trigger(arg_name="timer", schedule=_SCHEDULE, use_monitor=False)
    @limited(SWEEP_S)
    async def prune(timer: func.TimerRequest) -> None:
        await prune_feeds(wiring.context())

    return bp
