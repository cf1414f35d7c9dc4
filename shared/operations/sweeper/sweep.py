"""One pass of the sweeper: over active jobs that are due for a check, and ended jobs that are due for clearing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from shared import telemetry
from shared.errors import LuciusError
from shared.operations.admission import count
from shared.operations.context import Context
from shared.operations.rejected_messages import remove_old
from shared.operations.sweeper.dead_replies import drain_replies
from shared.operations.sweeper.gauges import count_work, set_gauges
from shared.operations.sweeper.listing import relist
from shared.operations.sweeper.repair import repair
from shared.operations.sweeper.report import SweepAction, SweepReport
from shared.operations.sweeper.retention import clear_due
from shared.ports.durable import Orchestrations
from shared.ports.index import SweepMark
from shared.telemetry import SpanName, tracing

#: bounds of one sweep; the next one goes on, since every job looked at gets a later `check_at`
MAX_JOBS_A_TENANT = 100
MAX_JOBS = 500


async def sweep(context: Context, orchestrations: Orchestrations, *, dry_run: bool = False) -> SweepReport:
    """One pass. A job whose repair fails is left for the next one.

    Raises LedgerUnavailable where the due jobs cannot be listed, or the active ones counted.
    """
    if dry_run:
        return await _sweep(context, orchestrations, dry_run)
    return await _observed(context, lambda: _sweep(context, orchestrations, dry_run))


async def _sweep(context: Context, orchestrations: Orchestrations, dry_run: bool) -> SweepReport:
    report = SweepReport(dry_run)
    drained = await drain_replies(context, orchestrations, dry_run=dry_run)
    report.dead_replies, report.undrained = drained.replies, drained.unfinished
    report.unheard = drained.unheard
    if not dry_run:
        await count(context.index, context.settings, context.clock.now())
        try:
            await relist(context)
        except LuciusError as fault:
            # lists are for people to look at: no job's repair waits for them
            telemetry.record_fault(fault)
            telemetry.warn("RELIST_FAILED", reason=str(fault))
        try:
            report.more = await remove_old(context)
        except LuciusError as fault:
            # no job waits for it
            telemetry.record_fault(fault)
            telemetry.warn("REJECTED_KEPT", reason=str(fault))
    # after the relisting, which makes an ended job due at once
    now = context.clock.now()
    tenants = rotated(await context.index.tenants(), now)
    for tenant in tenants:
        due = await context.index.due(tenant, now=now, limit=MAX_JOBS_A_TENANT)
        report.more = report.more or len(due) == MAX_JOBS_A_TENANT
        for active in due:
            if report.looked_at >= MAX_JOBS:
                report.more = True
                break
            report.looked_at += 1
            try:
                await repair(context, orchestrations, active, report)
            except LuciusError as fault:
                telemetry.record_fault(fault)
                telemetry.warn("SWEEP_FAILED", jobId=active.job_id, tenant_id=active.tenant, reason=str(fault))
                report.add_action(active.job_id, SweepAction.FAILED)
    cleared, more = await clear_due(context, orchestrations, tenants, dry_run=dry_run)
    report.actions += cleared
    report.more = report.more or more
    telemetry.info(
        "SWEPT",
        looked_at=report.looked_at,
        actions=len(report.actions),
        dead_replies=report.dead_replies,
        dry_run=dry_run or None,
    )
    return report


def rotated(tenants: list[str], now: datetime) -> list[str]:
    """Another tenant comes first every minute, so that the bounds of a sweep starve no tenant (R19)."""
    start = int(now.timestamp() // 60) % max(len(tenants), 1)
    return sorted(tenants)[start:] + sorted(tenants)[:start]


async def _observed(context: Context, sweep: Callable[[], Awaitable[SweepReport]]) -> SweepReport:
    """Runs a pass that repairs: its span, its counts, and the mark that health reads. Raises what it raises."""
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
            telemetry.increment("sweeper_actions_total", action=action.kind.code)
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
