"""One pass of the sweeper: over active jobs that are due for a check, ended jobs that are due for clearing, and lists.

A pass is over all tenants or over a share of them. It lasts 45 s at most, and the next one goes on where it stopped
(docs/decisions/0022-the-sweeper-works-by-the-clock.md).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from shared import telemetry
from shared.core.gates.desk import Desk
from shared.core.gates.rules import Directory, GateState
from shared.errors import LuciusError
from shared.operations.breaker_incidents import keep_incident
from shared.operations.context import Context
from shared.operations.desk_turns import Uncounted, at_desk, directory
from shared.operations.divisions import divide_owed
from shared.operations.freed import let_in
from shared.operations.heal_deliveries import heal_deliveries
from shared.operations.rejected_messages import remove_old
from shared.operations.silence import look_for_silence
from shared.operations.sweeper.bulks import look_at_bulks
from shared.operations.sweeper.dead_replies import drain_replies
from shared.operations.sweeper.gauges import set_breaker_gauges, set_queue_gauges, set_work_gauges
from shared.operations.sweeper.listing import Surveyed, survey
from shared.operations.sweeper.logs import compare_logs
from shared.operations.sweeper.repair import postpone, repair
from shared.operations.sweeper.report import SweepAction, SweepReport
from shared.operations.sweeper.retention import Clearing
from shared.operations.sweeper.turns import at_once, from_on, in_turns
from shared.operations.sweeper.usage import fold_usage
from shared.operations.transition import notify
from shared.ports.desks import StoredDesk
from shared.ports.durable import Orchestrations
from shared.ports.index import AWAKE_AFTER_POST, WAKE_LASTS, ActiveRow, AwakeTenant
from shared.ports.sweeps import Share, SweepMark, WorkCounts
from shared.telemetry import SpanName, tracing

#: looks, clearings and comparisons end this long after the pass took up its tenants; looks get what clearings leave
LOOKS_S, CLEARINGS_S, PASS_S = 30.0, 40.0, 45.0
#: of a pass, for the folds of usage
_USAGE_S = 5.0

#: a desk whose counts differ from the rows
_COUNTED_AGAIN = timedelta(minutes=10)

_EVERYTHING = Share()
_Piece = TypeVar("_Piece")


async def sweep(
    context: Context, orchestrations: Orchestrations, share: Share = _EVERYTHING, *, dry_run: bool = False
) -> SweepReport:
    """One pass over the tenants of `share`. A job whose repair fails is left for the next one.

    Raises LedgerUnavailable where what is due could not be listed, of one tenant or of all; those of the other tenants
    are done.
    """
    one_pass = _Pass(context, orchestrations, share, dry_run=dry_run)
    if dry_run:
        return await one_pass.run()
    return await one_pass.run_observed()


class _Pass:
    """What one pass knows."""

    def __init__(self, context: Context, orchestrations: Orchestrations, share: Share, *, dry_run: bool) -> None:
        self._context = context
        self._orchestrations = orchestrations
        self._share = share
        self._dry_run = dry_run
        self._report = SweepReport(dry_run)
        #: of each tenant the last due job that was listed
        self._last: dict[str, ActiveRow] = {}
        #: of listings
        self._faults: list[LuciusError] = []
        self._counts: WorkCounts | None = None
        #: tenants whose FREED rows no turn of this pass is known to have taken
        self._unsettled: set[str] = set()
        #: at the desks that were looked at, and over all tenants
        self._gates: list[GateState] = []
        #: a sweep by hand is over all tenants, also where several sweepers share them: it leaves their marks alone
        self._is_of_timer = share.of == context.settings.sweepers

    async def run(self) -> SweepReport:
        """Raises LedgerUnavailable."""
        context, report = self._context, self._report
        drained = await drain_replies(context, self._orchestrations, dry_run=self._dry_run)
        report.dead_replies, report.undrained, report.unheard = drained.replies, drained.unfinished, drained.unheard
        self._began = context.clock.now()
        awake = {
            each.tenant: each
            for each in await context.index.awake_tenants(now=self._began)
            if self._share.has(each.tenant)
        }
        before = await context.index.read_position(self._share.number)
        clearing = Clearing(context, self._orchestrations, self._began, dry_run=self._dry_run)
        look = await self._in_turns(from_on([*awake], before.look), self._due, self._look, LOOKS_S)
        clear = await self._in_turns(from_on([*awake], before.clear), clearing.page, clearing.serve, CLEARINGS_S)
        if look is not None and not self._is_over(CLEARINGS_S)():
            # what the clearings left of their time
            look = await self._in_turns(from_on([*awake], look), self._due, self._look, CLEARINGS_S)
        if not self._dry_run:
            after = replace(before, look=look, clear=clear)
            await self._look_at_bulks()
            await heal_deliveries(self._context, self._share.has, self._is_over(PASS_S))
            folded_to = await self._fold_usage(awake)
            surveyed = await self._survey(awake, before.listed, folded_to)
            if surveyed is not None:
                after = replace(after, listed=surveyed.stopped_at)
            if after != before and self._is_of_timer:
                await context.index.write_position(self._share.number, after)
            if self._share.number == 0:
                await self._remove_old()
            await self._compare_logs()
        report.actions += clearing.actions
        report.more = report.more or look is not None or clear is not None
        telemetry.info(
            "SWEPT",
            looked_at=report.looked_at,
            actions=len(report.actions),
            dead_replies=report.dead_replies,
            dry_run=self._dry_run or None,
        )
        if self._faults:
            raise self._faults[0]
        return report

    def _is_over(self, seconds: float) -> Callable[[], bool]:
        until = self._began + timedelta(seconds=seconds)
        return lambda: self._context.clock.now() >= until

    async def _in_turns(
        self,
        tenants: Sequence[str],
        page: Callable[[str, int], Awaitable[Sequence[_Piece]]],
        serve: Callable[[_Piece], Awaitable[None]],
        seconds: float,
    ) -> str | None:
        """One tenant whose rows cannot be listed holds up no other."""

        async def listed(tenant: str, limit: int) -> Sequence[_Piece]:
            try:
                return await page(tenant, limit)
            except LuciusError as fault:
                telemetry.record_fault(fault)
                self._faults.append(fault)
                return []

        return await in_turns(tenants, listed, serve, self._is_over(seconds))

    async def _due(self, tenant: str, limit: int) -> list[ActiveRow]:
        index = self._context.index
        found = await index.due(tenant, now=self._began, limit=limit, after=self._last.get(tenant))
        if found:
            self._last[tenant] = found[-1]
        return found

    async def _look(self, active: ActiveRow) -> None:
        report = self._report
        report.looked_at += 1
        try:
            await repair(self._context, self._orchestrations, active, report)
        except Exception as fault:
            # one job stops no pass, whatever its rows are
            telemetry.record_fault(fault)
            telemetry.warn("SWEEP_FAILED", jobId=active.job_id, tenant_id=active.tenant, reason=str(fault))
            report.add_action(active.job_id, SweepAction.FAILED)
            if not self._dry_run and active.check_at <= self._context.clock.now():
                with contextlib.suppress(Exception):
                    # behind those that wait already: else jobs that fail keep the tenant's others from their look
                    await postpone(self._context, active, self._context.clock.now())

    async def _fold_usage(self, awake: dict[str, AwakeTenant]) -> datetime | None:
        """The hour before which the usage of all is folded; None: not known."""
        context = self._context
        await context.tally.write_refused(context.usage, context.clock.now())
        if context.usage is None or not self._is_of_timer or self._is_over(PASS_S)():
            return None
        until = context.clock.now() + timedelta(seconds=_USAGE_S)
        try:
            return await fold_usage(context, context.usage, self._share, awake, lambda: context.clock.now() >= until)
        except Exception as fault:
            # no job waits for it
            telemetry.record_fault(fault)
            telemetry.warn("USAGE_UNFOLDED", reason=str(fault))
            return None

    async def _survey(
        self, awake: dict[str, AwakeTenant], start: tuple[str, str] | None, folded_to: datetime | None
    ) -> Surveyed | None:
        """Lists and counts are for people to look at: no job's repair waits for them, and none fails with them."""
        counted_at = self._context.clock.now()
        try:
            found = await survey(
                self._context,
                [*awake],
                start,
                self._is_over(PASS_S),
                due_at=self._began,
                # one pass an hour
                waiting_too=self._began.minute == 0,
            )
            for tenant in found.ended:
                self._last.pop(tenant, None)
            # this very pass shall close what has ended
            await self._in_turns(sorted(found.ended), self._due, self._look, PASS_S)
            await at_once(found.astray, self._look)
            await at_once(sorted(awake), lambda tenant: self._look_at_desk(tenant, found))
            for tenant in found.idle:
                posted_at = awake[tenant].posted_at + WAKE_LASTS
                # of one that sleeps nobody would fold the hour
                is_folded = self._context.usage is None or (folded_to is not None and posted_at < folded_to)
                is_settled = is_folded and tenant not in self._unsettled
                if counted_at - awake[tenant].posted_at > AWAKE_AFTER_POST and is_settled:
                    await self._context.index.put_to_sleep(awake[tenant])
            if self._share.number == 0:
                over_all = list((await directory(self._context)).over_all.values())
                await self._keep_incidents(over_all)
                self._gates += over_all
            self._counts = found.counts
            if self._share.number == 0:
                for admissions in await divide_owed(self._context):
                    for tenant, entered in admissions.items():
                        await notify(self._context, self._orchestrations, tenant, entered)
            await look_for_silence(self._context, found.untaken)
        except Exception as fault:
            telemetry.record_fault(fault)
            telemetry.warn("RELIST_FAILED", reason=str(fault))
            return None
        return found

    async def _look_at_desk(self, tenant: str, found: Surveyed) -> None:
        """A line moves by this alone where a gate opened by time, or whoever opened it died (R49)."""
        self._unsettled.add(tenant)
        rows = (found.inside[tenant], found.staged[tenant], found.waiting[tenant])
        try:
            if (desk := await _check_counts(self._context, tenant, rows)) is not None:
                await self._keep_incidents(desk.gates.values())
                self._gates += desk.gates.values()
            inside_by = found.inside_by.get(tenant) or Counter()
            await self._context.tally.raise_peaks(self._context.usage, tenant, inside_by, self._context.clock.now())
            if (desk is None or _counts_of(desk) == rows) and tenant not in found.waiting:
                self._unsettled.discard(tenant)
                return
            entered = await let_in(self._context, tenant)
            while entered.job_ids or entered.more:
                await notify(self._context, self._orchestrations, tenant, entered)
                if self._is_over(PASS_S)():
                    self._report.more = True
                    return
                entered = await let_in(self._context, tenant)
            self._unsettled.discard(tenant)
        except Exception as fault:
            telemetry.record_fault(fault)
            telemetry.warn("DESK_UNSEEN", tenant_id=tenant, reason=str(fault))

    async def _keep_incidents(self, gates: Iterable[GateState]) -> None:
        """Makes up for calls that were lost after an opening; a breaker that closed settles its incident (R63)."""
        for state in gates:
            await keep_incident(self._context, state)

    async def _of_other_shares(self, own: WorkCounts) -> WorkCounts:
        """The counts of every share: this one's, and the others' of their last pass."""
        marks = self._context.sweep_marks
        if marks is None or self._share.of == 1:
            return own
        found = await marks.read(self._share.of)
        return sum((mark.counts for share, mark in found.items() if share != self._share.number), own)

    async def _look_at_bulks(self) -> None:
        try:
            await look_at_bulks(self._context, self._orchestrations, self._share.has, self._is_over(PASS_S))
        except Exception as fault:
            telemetry.record_fault(fault)
            telemetry.warn("BULK_UNSEEN", reason=str(fault))

    async def _compare_logs(self) -> None:
        whole, is_over = self._began.minute == 0, self._is_over(PASS_S)
        try:
            await compare_logs(self._context, self._share, self._gates, is_over, whole=whole)
        except Exception as fault:
            # events come a pass later; whoever reads the list of open incidents leaves out what is settled
            telemetry.record_fault(fault)
            telemetry.warn("LOG_UNCOMPARED", reason=str(fault))

    async def _remove_old(self) -> None:
        try:
            self._report.more = await remove_old(self._context) or self._report.more
        except Exception as fault:
            telemetry.record_fault(fault)
            telemetry.warn("REJECTED_KEPT", reason=str(fault))

    async def run_observed(self) -> SweepReport:
        """With its span, its metrics, and the mark that health reads. Raises LedgerUnavailable."""
        began = self._context.clock.now()
        with tracing.span(SpanName.SWEEP, parent=tracing.context_of(None)) as span:
            try:
                swept = await self.run()
            except LuciusError as fault:
                telemetry.record_fault(fault)
                telemetry.increment("sweeper_passes_total", outcome="failed")
                raise
            ended = self._context.clock.now()
            telemetry.increment("sweeper_passes_total", outcome="more" if swept.more else "done")
            telemetry.observe("sweeper_pass_seconds", (ended - began).total_seconds())
            for action in swept.actions:
                telemetry.increment("sweeper_actions_total", action=action.kind.code)
            span.set_attributes({"lucius.looked_at": swept.looked_at, "lucius.actions": len(swept.actions)})
            try:
                if self._is_of_timer:
                    await self._leave_mark(swept)
            except LuciusError as fault:
                # the pass itself is done
                telemetry.record_fault(fault)
                telemetry.warn("STOCK_UNKNOWN", reason=str(fault))
        return swept

    async def _leave_mark(self, swept: SweepReport) -> None:
        """Raises LedgerUnavailable."""
        marks, now = self._context.sweep_marks, self._context.clock.now()
        if self._counts is not None:
            set_queue_gauges(self._share, self._counts)
            set_breaker_gauges(self._share, self._gates, now)
            if self._share.number == 0:
                set_work_gauges(await self._of_other_shares(self._counts), now)
        if marks is not None:
            counts = self._counts
            if counts is None:
                last = (await marks.read(self._share.of)).get(self._share.number)
                counts = last.counts if last is not None else WorkCounts()
            mark = SweepMark(
                ended_at=now,
                looked_at=swept.looked_at,
                actions=len(swept.actions),
                more=swept.more,
                counts=counts,
            )
            await marks.write(self._share.number, mark)


#: active, staged and waiting jobs of a tenant
_Counts = tuple[int, int, int]


def _counts_of(desk: Desk) -> _Counts:
    return desk.active, desk.staged, desk.waiting


async def _check_counts(context: Context, tenant: str, rows: _Counts) -> Desk | None:
    """The desk as it was read; None: there is none.

    Counts anew where `rows`, the jobs of the tenant by their rows, are not what the desk says, every ten minutes.

    Jobs that end while others count differ until their turn; what differs for long was ended by a process that knew no
    gates. Raises Contended, LedgerUnavailable.
    """
    if not (await directory(context)).concerns(tenant):
        return None
    seen, now = await context.desks.read(tenant), context.clock.now()
    if seen is None or _counts_of(seen.desk) == rows or now < seen.desk.counted_at + _COUNTED_AGAIN:
        return seen.desk if seen is not None else None

    async def act(stored: StoredDesk, known: Directory) -> Desk:
        if stored.desk.counted_at == seen.desk.counted_at:
            raise Uncounted(stored)
        return stored.desk

    found = _counts_of(await at_desk(context, tenant, act))
    if found != (counted := _counts_of(seen.desk)):
        telemetry.warn("DESK_COUNTED_ANEW", tenant_id=tenant, counted=counted, found=found)
    return seen.desk
