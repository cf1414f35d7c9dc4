"""One job of a sweep: finishes what was left half done, and decides whether a reply is lost or late.

Every repair is a transition that a function could make at the same moment, so a sweep is safe during normal work and
during another sweep (Race sweeps).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core import durable_names
from shared.core.durable_names import restarts
from shared.core.history import Origin
from shared.core.job import Job, Record, Step
from shared.core.occurrences import OrchestrationEnded, RecordAttempt, Repaired
from shared.core.plan import tombstone
from shared.core.reasons import Reason
from shared.core.states import JobStatus, StepStatus
from shared.core.verdict import Shown
from shared.errors import AlreadyExists, BusUnavailable, DataLost, InstanceEnded, InstanceNotFound, UnknownStatus
from shared.operations.context import Context
from shared.operations.creation import orchestration_input
from shared.operations.redrive_job import mark_redriven
from shared.operations.settle_step import settle_step
from shared.operations.sweeper.report import SweepAction, SweepReport
from shared.operations.transition import transition
from shared.ports.durable import Instance, InstanceState, Orchestrations
from shared.ports.index import ActiveRow
from shared.ports.ledger import Stored

#: a creation without rows is withdrawn after this
WITHDRAW_AFTER = timedelta(minutes=5)
#: beyond a deadline, before the orchestration's own timer counts as lost
GRACE = timedelta(seconds=60)
#: before a job that has not begun is behind: an engine with a long queue needs no more events in it
START_GRACE = timedelta(minutes=4)
#: between two looks at a job that is in order, at the least
RECHECK_AFTER = timedelta(minutes=1)
#: between two repairs of the same job
REPAIR_INTERVAL = timedelta(minutes=5)
#: looks that a living orchestration may leave unheard, before it counts as stuck
MAX_SILENT_LOOKS = 3
#: between two looks at a job of which a part is lost, in case that it is restored
UNREADABLE_INTERVAL = timedelta(hours=1)


@dataclass(frozen=True)
class Looks:
    """Looks in a row that an orchestration did not hear, and the number that it waited for meanwhile."""

    count: int = 0
    look_no: int = 0


async def repair(context: Context, orchestrations: Orchestrations, active: ActiveRow, report: SweepReport) -> None:
    """One look at one active job. Raises LuciusError; the next sweep looks again."""
    now = context.clock.now()
    try:
        stored = await context.ledger.read(active.job_id)
    except UnknownStatus:
        # a later release runs beside this one, or was taken back: its jobs must not take the room of the others
        report.add_action(active.job_id, SweepAction.SKIP)
        if not report.dry_run:
            await context.index.reschedule_check(active, now + REPAIR_INTERVAL)
        return
    except DataLost:
        # else it would be the longest due of its tenant in every sweep
        if not report.dry_run:
            await context.index.reschedule_check(active, now + UNREADABLE_INTERVAL)
        raise
    if stored is None:
        await _withdraw(context, active, report, now)
        return
    job = stored.record.job
    if job.error_code == Reason.WITHDRAWN:
        # the sweep that wrote the tombstone died before it freed the claim
        await _withdraw(context, active, report, now)
        return
    if job.status.terminal:
        report.add_action(job.job_id, SweepAction.CLOSE)
        if not report.dry_run:
            repaired = Repaired("close", before="its ACTIVE row was there", after="its index rows say how it ended")
            # one EVENT, however often this dies before the index follows
            await transition(
                context, stored, repaired, _origin("close"), orchestrations=orchestrations, maybe_repeated=True
            )
        return
    instance = await orchestrations.look_up(job.instance_id)
    next_check, looks = now + REPAIR_INTERVAL, Looks()
    if instance.state is InstanceState.NOT_FOUND:
        report.add_action(job.job_id, SweepAction.START)
        if not report.dry_run:
            await mark_redriven(context, stored.record)
            repaired = Repaired("start", before="no orchestration", after=f"orchestration {job.instance_id}")
            await transition(context, stored, repaired, _origin(f"start:{job.instance_id}"), maybe_repeated=True)
            await orchestrations.start(job.instance_id, orchestration_input(stored.record))
    elif instance.state is InstanceState.ENDED:
        report.add_action(job.job_id, SweepAction.RESTART)
        if not report.dry_run:
            await _restart(context, orchestrations, stored)
    elif job.status is not JobStatus.PAUSED:
        deadlines = [(step, _deadline(step, job)) for step in stored.record.open_steps]
        if overdue := [step for step, deadline in deadlines if deadline + GRACE <= now]:
            looks = await _nudge(context, orchestrations, stored, instance, overdue, active, report)
        elif deadlines:
            next_check = max(min(deadline for _, deadline in deadlines) + GRACE, now + RECHECK_AFTER)
    if not report.dry_run:
        await context.index.reschedule_check(active, next_check, looks=looks.count, look_no=looks.look_no)


async def _withdraw(context: Context, active: ActiveRow, report: SweepReport, now: datetime) -> None:
    """A creation that died after its claim. Race tombstone: it comes first, so that a late creator cannot go on."""
    if active.created_at + WITHDRAW_AFTER > now:
        if not report.dry_run:
            await context.index.reschedule_check(active, active.created_at + WITHDRAW_AFTER)
        return
    report.add_action(active.job_id, SweepAction.WITHDRAW)
    if report.dry_run:
        return
    record, event = tombstone(
        active.job_id,
        tenant=active.tenant,
        claim=active.claim,
        created_at=active.created_at,
        now=now,
        salt=context.new_salt(),
    )
    try:
        await context.ledger.create(record, event)
    except AlreadyExists:
        stored = await context.ledger.read(active.job_id)
        if stored is not None and stored.record.job.error_code != Reason.WITHDRAWN:
            return  # the creator came first after all
    await context.index.withdraw(active)


async def _restart(context: Context, orchestrations: Orchestrations, stored: Stored, *, silent: bool = False) -> None:
    """Race restart: of two sweeps one gives the new instance its name, and both start that one."""
    record = stored.record
    old = record.job.instance_id
    ended = OrchestrationEnded(old, silent)
    transitioned = await transition(context, stored, ended, _origin(f"restart:{old}"), orchestrations=orchestrations)
    after = transitioned.stored.record
    if not after.job.status.terminal:
        await orchestrations.start(after.job.instance_id, orchestration_input(after))
    if silent:
        # fenced off already: it does no harm, and an engine that comes back need not run it
        for instance_id in sorted({old, *(record.instance_of(step) for step in record.steps)}):
            await orchestrations.terminate(instance_id, f"replaced by {after.job.instance_id}")


async def _nudge(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored,
    instance: Instance,
    overdue: Sequence[Step],
    active: ActiveRow,
    report: SweepReport,
) -> Looks:
    """The orchestration lives and is behind: settle what is over, then ask it to look at the ledger.

    One that heard none of several looks is replaced, whatever the engine says of it (R18).
    """
    record = stored.record
    if any([await _end_by_time(context, orchestrations, stored, step, report) for step in overdue]):
        return Looks()
    waiting = [await _waiting_for(orchestrations, record, step, instance) for step in overdue]
    look_no = sum(shown.look_no for _, shown in waiting)
    looks = Looks(active.looks + 1 if look_no == active.look_no else 1, look_no)
    if looks.count > silent_looks(record):
        report.add_action(record.job.job_id, SweepAction.REPLACE)
        if not report.dry_run:
            await _restart(context, orchestrations, stored, silent=True)
        return Looks()
    for step, (instance_id, shown) in zip(overdue, waiting, strict=True):
        report.add_action(record.job.job_id, SweepAction.RAISE, durable_names.look(shown.look_no))
        if not report.dry_run:
            await _look(context, orchestrations, record.job, step, instance_id, shown, report)
    return looks


async def _end_by_time(
    context: Context, orchestrations: Orchestrations, stored: Stored, step: Step, report: SweepReport
) -> bool:
    """Whether the total time of the step is over instead of a new attempt: the job ends, whoever hears of it."""
    cap = stored.record.cap_of(step)
    if cap is None or cap > context.clock.now() or step.status.in_flight:
        return False
    report.add_action(stored.record.job.job_id, SweepAction.END)
    if not report.dry_run:
        origin = _origin(f"cap:{step.step_id}:{step.attempt_no}")
        attempt = RecordAttempt(step.step_id, context.new_lease())
        await transition(context, stored, attempt, origin, orchestrations=orchestrations)
    return True


async def _look(
    context: Context,
    orchestrations: Orchestrations,
    job: Job,
    step: Step,
    instance_id: str,
    shown: Shown,
    report: SweepReport,
) -> None:
    if step.status.in_flight and (step.lane in report.undrained or job.job_id in report.unheard):
        raise BusUnavailable("its RESULT may lie among the dead letters of its lane")
    knows = (shown.step_id, shown.attempt_no) == (step.step_id, step.attempt_no)
    # an attempt of which its orchestration was not told was perhaps never sent: that orchestration, or the one that
    # replaces it, sends it under the same name
    if step.status is StepStatus.PROCESSING or (step.status is StepStatus.INITIATED and knows):
        await settle_step(
            context,
            orchestrations,
            job_id=job.job_id,
            instance_id=job.instance_id,
            step_id=step.step_id,
            attempt_no=step.attempt_no,
        )
    again = await context.ledger.read(job.job_id)
    if again is None or again.record.job.status.terminal:
        return
    event = durable_names.look(shown.look_no)
    repaired = Repaired(event, before="its orchestration is behind", after=f"told to look: {event}")
    await transition(context, again, repaired, _origin(f"{event}:{context.clock.now().isoformat()}"))
    with contextlib.suppress(InstanceEnded, InstanceNotFound):  # the next look sees to that
        await orchestrations.raise_event(instance_id, event, {})


async def _waiting_for(
    orchestrations: Orchestrations, record: Record, step: Step, instance: Instance
) -> tuple[str, Shown]:
    """The orchestration that waits for the step, and what it shows; before its group begins it is the job's own."""
    own_id = record.instance_of(step)
    if own_id != record.job.instance_id:
        own = await orchestrations.look_up(own_id)
        if own.state is not InstanceState.NOT_FOUND:
            return own_id, own.shown
    return record.job.instance_id, instance.shown


def silent_looks(record: Record) -> int:
    """How many looks in a row may go unheard: three, and twice as many after each replacement, up to 96.

    An engine that is away for a day so costs a few replacements for each job and not hundreds.
    """
    return MAX_SILENT_LOOKS << min(restarts(record.job.instance_id), 5)


def _origin(key: str) -> Origin:
    return Origin(cause_id=f"sweep:{key}", actor="system", source="sweeper")


def _deadline(step: Step, job: Job) -> datetime:
    """Until when the step may be silent; in the past where it owes a move already."""
    match step.status:
        case StepStatus.PENDING:
            return job.updated_at if job.attempts_total else job.updated_at + START_GRACE
        case StepStatus.INITIATED | StepStatus.PROCESSING:
            # in a publish backoff it is the next try that is owed
            return step.due_at or step.silent_until or step.updated_at
        case _:
            return step.due_at or step.updated_at
