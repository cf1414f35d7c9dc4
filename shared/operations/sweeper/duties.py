"""The table of the sweeper's duties, in the order of a sweep.

Each duty has a time budget of its own, plus the rest of the earlier budgets. A failing duty does not stop the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from shared.operations.incidents.silent_services import look_for_silence
from shared.operations.jobs.rejected_messages import remove_old
from shared.operations.sweeper.admission import admit_waiting, allocate_due
from shared.operations.sweeper.bulks import look_at_bulks
from shared.operations.sweeper.dead_replies import drain_replies
from shared.operations.sweeper.heal_deliveries import heal_deliveries
from shared.operations.sweeper.incidents import keep_breakers, look_at_directory, settle_row_incidents
from shared.operations.sweeper.living import put_to_sleep, survey_living
from shared.operations.sweeper.logs import compare_logs
from shared.operations.sweeper.looks import clear_ended, look_again, look_at_due
from shared.operations.sweeper.minutes import write_minute
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.usage import roll_up_usage
from shared.time_limits import time_limit

#: maximum seconds of one duty, so that a hanging call does not stop the next duties
DUTY_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Duty:
    """A duty of the sweeper, with its time budget and the sweeps that do it."""

    name: str
    #: time budget in seconds
    budget_s: float
    run: Callable[[Pass, IsOver], Awaitable[None]]
    #: log event of a failure
    failure: str
    #: `True` if a dry run does it too
    dry_run: bool = False
    #: `True` if only the first of several sweepers does it
    first_share: bool = False
    #: `True` if only the first sweep of each hour does it
    hourly: bool = False
    #: `True` if a requested sweep omits its work while several sweepers share the tenants; the duty checks this itself
    timer_only: bool = False
    #: `True` if its failure fails the sweep
    required: bool = False

    def applies(self, one: Pass) -> bool:
        """Returns `True` if this sweep does the duty."""
        return (
            (self.dry_run or not one.dry_run)
            and (not self.first_share or one.share.number == 0)
            and (not self.hourly or one.is_hourly)
        )


async def _take_dead_replies(one: Pass, is_over: IsOver) -> None:
    # until replies are applied, their leases must not end
    one.report.undrained = set(range(one.context.settings.lanes))
    try:
        drained = await drain_replies(one.context, one.orchestrations, dry_run=one.dry_run)
    finally:
        # work that has become due in the meantime is due in this sweep
        one.began = one.context.clock.now()
    one.report.dead_replies, one.report.undrained = drained.replies, drained.unfinished
    one.report.unheard = drained.unheard


async def _heal_deliveries(one: Pass, is_over: IsOver) -> None:
    one.hooks = await heal_deliveries(one.context, one.share.has, is_over)


async def _roll_up_usage(one: Pass, is_over: IsOver) -> None:
    context = one.context
    await context.process.usage_buffer.write_refused(context.usage, context.clock.now())
    if one.is_of_timer:
        one.rolled_up_to = await roll_up_usage(one, context.usage, is_over)


async def _look_for_silence(one: Pass, is_over: IsOver) -> None:
    await look_for_silence(one.context, one.untaken)


async def _compare_logs(one: Pass, is_over: IsOver, *, whole: bool = False) -> None:
    await compare_logs(one.context, one.share, one.gates, is_over, whole=whole)


async def _remove_old(one: Pass, is_over: IsOver) -> None:
    one.report.more = await remove_old(one.context) or one.report.more


DUTIES: tuple[Duty, ...] = (
    Duty(
        name="dead replies",
        budget_s=0,
        run=_take_dead_replies,
        failure="DEAD_REPLIES_UNFINISHED",
        dry_run=True,
        required=True,
    ),
    Duty(name="checks of due jobs", budget_s=30, run=look_at_due, failure="SWEEP_FAILED", dry_run=True, required=True),
    Duty(
        name="clearing of ended jobs", budget_s=10, run=clear_ended, failure="CLEAR_FAILED", dry_run=True, required=True
    ),
    Duty(
        name="more checks of due jobs", budget_s=0, run=look_again, failure="SWEEP_FAILED", dry_run=True, required=True
    ),
    Duty(name="admission", budget_s=3, run=admit_waiting, failure="DESK_UNSEEN"),
    Duty(name="allocation", budget_s=1, run=allocate_due, failure="GATE_UNDIVIDED", first_share=True),
    Duty(name="bulk operations", budget_s=1, run=look_at_bulks, failure="BULK_UNSEEN"),
    Duty(name="deliveries", budget_s=1, run=_heal_deliveries, failure="HOOKS_UNSEEN"),
    Duty(name="survey of active jobs", budget_s=3, run=survey_living, failure="RELIST_FAILED"),
    Duty(name="hourly usage rollup", budget_s=1, run=_roll_up_usage, failure="USAGE_UNFOLDED", timer_only=True),
    Duty(name="idle tenants", budget_s=1, run=put_to_sleep, failure="RELIST_FAILED"),
    Duty(name="silent services", budget_s=1, run=_look_for_silence, failure="RELIST_FAILED"),
    Duty(name="breakers", budget_s=1, run=keep_breakers, failure="INCIDENT_LATE"),
    Duty(
        name="list of tenants with quotas",
        budget_s=0,
        run=look_at_directory,
        failure="DIRECTORY_UNREAD",
        first_share=True,
    ),
    Duty(name="row incidents", budget_s=0, run=settle_row_incidents, failure="INCIDENT_LATE"),
    Duty(name="logs of quotas and incidents", budget_s=1, run=_compare_logs, failure="LOG_UNCOMPARED"),
    Duty(
        name="all logs of quotas and incidents",
        budget_s=1,
        run=partial(_compare_logs, whole=True),
        failure="LOG_UNCOMPARED",
        hourly=True,
    ),
    Duty(
        name="counts of the last hour",
        budget_s=0,
        run=write_minute,
        failure="MINUTES_UNWRITTEN",
        first_share=True,
        timer_only=True,
    ),
    Duty(name="rejected messages", budget_s=0, run=_remove_old, failure="REJECTED_KEPT", first_share=True),
)

#: maximum seconds of a sweep whose every duty uses up its budget
PASS_S = sum(duty.budget_s for duty in DUTIES)


async def do_duties(one: Pass) -> None:
    """Does the duties of a sweep. Logs failures, and also adds those of required duties to `one.faults`.

    After each duty that changed the position, the position is written. So a crash loses the progress of at most one
    duty. Raises nothing.
    """
    now, written = one.context.clock.now, one.stored
    planned = now()
    for duty in DUTIES:
        if not duty.applies(one):
            continue
        budget = timedelta(seconds=duty.budget_s)
        # a duty that took too long does not shorten the budgets of the later ones
        until = max(planned + budget, now() + budget)
        planned += budget
        try:
            async with time_limit(DUTY_S):
                await duty.run(one, _is_over(one, until))
        except Exception as fault:
            if duty.required:
                one.faults.append(fault)
            await one.report_fault(duty.failure, fault, duty=duty.name)
        if one.position != written and one.is_of_timer and not one.dry_run:
            try:
                await one.context.index.write_position(one.share.number, one.position)
            except Exception as fault:
                one.faults.append(fault)
                await one.report_fault("SWEEP_FAILED", fault)
            else:
                written = one.position


def _is_over(one: Pass, until: datetime) -> IsOver:
    return lambda: one.context.clock.now() >= until
