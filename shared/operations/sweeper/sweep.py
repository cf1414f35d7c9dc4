"""Runs one sweep: the duties of `shared.operations.sweeper.duties`, with span, metrics and mark.

A sweep is over all tenants or over a share of them. The time budgets of its duties are less than a minute in total. The
next sweep continues at the stored position (docs/decisions/0022-the-sweeper-works-by-the-clock.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shared import telemetry
from shared.core.usage import HOUR, hour_of
from shared.errors import Transient
from shared.operations.process.context import Context
from shared.operations.sweeper.duties import do_duties
from shared.operations.sweeper.gauges import age_s, set_breaker_gauges, set_work_gauges
from shared.operations.sweeper.minutes import find_tight_quotas
from shared.operations.sweeper.report import SweepReport
from shared.operations.sweeper.state import Pass
from shared.ports.durable import Orchestrations
from shared.ports.sweeps import SweeperShare, SweepMark, SweepPosition, WorkCounts
from shared.telemetry import SpanName, tracing

_EVERYTHING = SweeperShare()


async def sweep(
    context: Context, orchestrations: Orchestrations, share: SweeperShare = _EVERYTHING, *, dry_run: bool = False
) -> SweepReport:
    """Runs one sweep over the tenants of `share`. A job whose repair fails is left for a later sweep.

    Finishes the other work, then raises the first fault of a required duty, of a tenant's list of jobs, or of the
    stored position. Raises LedgerUnavailable immediately if the tenants cannot be listed.
    """
    if dry_run:
        return (await _run(context, orchestrations, share, dry_run=True)).report
    began = context.clock.now()
    with tracing.span(SpanName.SWEEP, parent=tracing.context_of(None)) as span:
        try:
            one = await _run(context, orchestrations, share, dry_run=False)
        except Exception as fault:
            telemetry.record_fault(fault)
            telemetry.increment("sweeper_passes_total", outcome="failed")
            raise
        report = one.report
        telemetry.increment("sweeper_passes_total", outcome="more" if report.more else "done")
        telemetry.observe("sweeper_pass_seconds", (context.clock.now() - began).total_seconds())
        for action in report.actions:
            telemetry.increment("sweeper_actions_total", action=action.kind.code)
        span.set_attributes({"lucius.looked_at": report.looked_at, "lucius.actions": len(report.actions)})
        # the sweep itself is complete
        with telemetry.tolerate(Exception, "STOCK_UNKNOWN"):
            if one.is_of_timer:
                await _leave_mark(one)
    return report


async def _run(context: Context, orchestrations: Orchestrations, share: SweeperShare, *, dry_run: bool) -> Pass:
    """Runs the duties, then raises the faults that must fail the sweep."""
    now, faults = context.clock.now(), list[Exception]()
    awake = {each.tenant: each for each in await context.index.awake_tenants(now=now) if share.has(each.tenant)}
    position: SweepPosition | None
    try:
        position = await context.index.read_position(share.number)
    except Exception as fault:
        # a sweep can start anywhere, and replaces the row
        telemetry.record_fault(fault, "SWEEP_FAILED")
        faults.append(fault)
        position = None
    last = position.hourly_at if position is not None else None
    # otherwise, during an outage of the position's row, each sweep would be an hourly one
    is_away = any(isinstance(fault, Transient) for fault in faults)
    is_hourly = not is_away and (last is None or hour_of(now) >= hour_of(last) + HOUR)
    begins_at = replace(position or SweepPosition(), hourly_at=now if is_hourly else last)
    one = Pass(
        context=context,
        orchestrations=orchestrations,
        share=share,
        dry_run=dry_run,
        report=SweepReport(dry_run),
        began=now,
        awake=awake,
        position=begins_at,
        stored=position,
        is_of_timer=share.of == context.settings.sweepers,
        is_hourly=is_hourly,
        faults=faults,
    )
    await do_duties(one)
    report = one.report
    report.more = report.more or one.position.look is not None or one.position.clear is not None
    telemetry.info(
        "SWEPT",
        looked_at=report.looked_at,
        actions=len(report.actions),
        dead_replies=report.dead_replies,
        dry_run=dry_run or None,
    )
    if one.faults:
        raise one.faults[0]
    return one


async def _leave_mark(one: Pass) -> None:
    """Sets the gauges and writes the mark for health, both with the counts of the last complete survey.

    Raises LedgerUnavailable.
    """
    context, share, now = one.context, one.share, one.context.clock.now()
    marks, counts = context.sweep_marks, one.counts
    if one.has_all_gates:
        set_breaker_gauges(share, one.gates, now)
    quotas = await find_tight_quotas(one) if one.has_all_gates else None
    is_whole = counts is not None and quotas is not None and one.hooks.unseen == set()
    known = await marks.read(share.of) if share.of > 1 or not is_whole else {}
    last = known.get(share.number)
    if counts is None:
        counts = last.counts if last is not None else None
    if counts is not None and share.number == 0:
        others = [mark.counts for number, mark in known.items() if number != share.number]
        set_work_gauges(sum(others, counts), now)
    suspended = one.hooks.update_suspended(last.suspended_hooks if last is not None else Counter())
    telemetry.set_gauge("webhooks_suspended", suspended.total())
    undelivered = one.hooks.update_undelivered(last.undelivered if last is not None else {})
    telemetry.set_gauge("webhook_oldest_seconds", age_s(min(undelivered.values(), default=None), now))
    mark = SweepMark(
        ended_at=now,
        looked_at=one.report.looked_at,
        actions=len(one.report.actions),
        more=one.report.more,
        counts=counts or WorkCounts(),
        quotas=quotas if quotas is not None else last.quotas if last is not None else (),
        suspended_hooks=suspended,
        undelivered=undelivered,
    )
    await marks.write(share.number, mark)
