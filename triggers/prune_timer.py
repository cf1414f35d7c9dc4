"""The hourly timer, which deletes expired rows (R74, R88), writes the anchors of past days (R91), and continues the
day's export.
"""

from __future__ import annotations

from datetime import timedelta

import azure.durable_functions as df
import azure.functions as func

from shared.operations.audit.write_anchors import write_anchors
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.sweeper.exports import export_tables
from shared.operations.sweeper.prune_logs import prune_logs
from shared.time_limits import SWEEP_S, limited
from shared.wiring import Wiring

#: NCRONTAB with seconds; not at the full hour, when the sweeper compares the most
_SCHEDULE = "30 17 * * * *"
#: maximum time from the start of the run; the remaining time is for the feeds
EXPORT_BUDGET = timedelta(minutes=7)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of `prune`."""
    bp = df.Blueprint()

    @bp.function_name("prune")
    @bp.timer_trigger(arg_name="timer", schedule=_SCHEDULE, use_monitor=False)
    @limited(SWEEP_S)
    async def prune(timer: func.TimerRequest) -> None:
        context = wiring.context()
        began = context.clock.now()
        # these three raise no error of LUCIUS and have time limits, so that the feeds get their turn
        await prune_logs(context)
        await write_anchors(context)
        await export_tables(context, began + EXPORT_BUDGET)
        await prune_feeds(context)

    return bp
