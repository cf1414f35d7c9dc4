"""What is told of a pass of the sweeper: its span, its counts, and the mark that health reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from shared import telemetry
from shared.errors import LuciusError
from shared.operations.context import Context
from shared.operations.sweeper.gauges import count_work, set_gauges
from shared.ports.index import SweepMark
from shared.telemetry import SpanName, tracing

if TYPE_CHECKING:
    from shared.operations.sweeper.sweep import SweepReport


async def observed_sweep(context: Context, sweep: Callable[[], Awaitable[SweepReport]]) -> SweepReport:
    """Runs a pass that repairs. Raises what it raises."""
    began = context.clock.now()
    with tracing.span(SpanName.SWEEP, parent=tracing.context_of(None)) as span:
        try:
            swept = await sweep()
        except LuciusError as fault:
            telemetry.record_fault(fault)
            telemetry.increment("sweeper_passes_total", outcome="failed")
            raise
        ended = context.clock.now()
        telemetry.increment("sweeper_passes_total", outcome="more" if swept.more else "done")
        telemetry.observe("sweeper_pass_seconds", (ended - began).total_seconds())
        for action in swept.actions:
            # `raise ack:ocr:1` and the like name a step
            telemetry.increment("sweeper_actions_total", action=action["action"].split(" ")[0].rstrip(",:"))
        span.set_attributes({"lucius.looked_at": swept.looked_at, "lucius.actions": len(swept.actions)})
        mark = SweepMark(ended_at=ended, looked_at=swept.looked_at, actions=len(swept.actions), more=swept.more)
        try:
            if context.sweep_marks is not None:
                await context.sweep_marks.write(mark)
            if tracing.enabled():
                set_gauges(await count_work(context))
        except LuciusError as fault:
            # the pass itself is done
            telemetry.record_fault(fault)
            telemetry.warn("STOCK_UNKNOWN", reason=str(fault))
    return swept
