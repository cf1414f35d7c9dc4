"""Exports the tables once a day, in runs with a time limit, so that lost tables can be restored."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared import telemetry
from shared.operations.process.context import Context
from shared.time_limits import time_limit

#: extra time for the part that is being written; then the run stops, since the feeds wait for it
_GRACE = timedelta(minutes=1)


async def export_tables(context: Context, until: datetime) -> None:
    """Continues the day's export until the time `until`. The next run continues. Raises nothing, since no job waits for
    an export.
    """
    days = context.settings.export_days
    if context.exports is None or days is None:
        return
    now = context.clock.now()
    try:
        async with time_limit((until + _GRACE - now).total_seconds()):
            exported = await context.exports.go_on(now, lambda: context.clock.now() >= until)
        if exported is None:
            return
        telemetry.increment("ledger_exports_total", result="completed")
        telemetry.info("TABLES_EXPORTED", name=exported.name, count=exported.rows)
        await context.exports.remove_before(now - timedelta(days=days))
    except Exception as fault:
        telemetry.increment("ledger_exports_total", result="failed")
        telemetry.record_fault(fault, "EXPORT_FAILED")
