"""Checks one job in a sweep: finishes interrupted work, and distinguishes a lost reply from a late reply.

Every repair is a transition that a function could make at the same time. So a sweep is safe during normal work and
during another sweep (Race sweeps).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.gates.admission import ASLEEP
from shared.core.gates.places import Owed, PlaceState, find_owed
from shared.core.jobs import durable_names
from shared.core.jobs.durable_names import restarts
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job, Record, Step
from shared.core.jobs.occurrences import Expired, OrchestrationEnded, Repaired, TimePassed
from shared.core.jobs.plan import make_tombstone
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import Shown
from shared.errors import (
    AlreadyExists,
    BusUnavailable,
    DataLost,
    InstanceEnded,
    InstanceNotFound,
    OrchestrationUnavailable,
    Undecodable,
    UnknownStatus,
)
from shared.operations.gates import admission_turns
from shared.operations.gates.freed import take_turn_after_end
from shared.operations.jobs.admission import notify
from shared.operations.jobs.dependencies import next_check
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.redrive_marks import mark_unnamed
from shared.operations.jobs.settle_step import settle_step
from shared.operations.jobs.starting import orchestration_input
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.operations.sweeper.report import RepairKind, SweepReport
from shared.ports.durable import Instance, InstanceState, Orchestrations
from shared.ports.index import NO_LOOKS, ActiveRow, Looks
from shared.ports.ledger import Stored

#: age at which a creation without rows is withdrawn
WITHDRAW_AFTER = timedelta(minutes=5)
#: time after a deadline before the orchestration's own timer counts as lost
GRACE = timedelta(seconds=60)
#: time before a job that has not begun counts as behind; further events would only lengthen a busy engine's queue
START_GRACE = timedelta(minutes=4)
#: minimum time between two checks of a job without problems
RECHECK_AFTER = timedelta(minutes=1)
#: minimum time between two repairs of the same job
REPAIR_INTERVAL = timedelta(minutes=5)
#: number of wake-ups that a living orchestration may ignore before it counts as stuck
MAX_SILENT_LOOKS = 3
#: time between two checks of a job of which a part is lost or cannot be decoded, in case it is restored
UNREADABLE_INTERVAL = timedelta(hours=1)


async def repair(context: Context, orchestrations: Orchestrations, active: ActiveRow, report: SweepReport) -> None:
    """Checks one job that has an ACTIVE row. Raises LuciusError. A later sweep then checks the job again."""
    now = context.clock.now()
    try:
        stored = await context.ledger.read(active.job_id)
    except UnknownStatus:
        # a later release runs at the same time, or was rolled back: its jobs must not delay the others
        report.add_action(active.job_id, RepairKind.SKIP)
        if not report.dry_run:
            await postpone(context, active, now + REPAIR_INTERVAL)
        return
    except (DataLost, Undecodable):
        # otherwise it would be the longest due job of its tenant in every sweep
        if not report.dry_run:
            await postpone(context, active, now + UNREADABLE_INTERVAL)
        raise
    if stored is None:
        await _withdraw(context, orchestrations, active, report, now)
        return
    job = stored.record.job
    if job.error_code == Reason.WITHDRAWN:
        # the sweep that wrote the tombstone died before it deleted the idempotency record
        await _withdraw(context, orchestrations, active, report, now)
        return
    if job.status.terminal:
        report.add_action(job.job_id, RepairKind.CLOSE)
        if not report.dry_run:
            repaired = Repaired(
                "close", before="the job had an ACTIVE row", after="the index rows show that the job ended"
            )
            # one EVENT, even if this process dies repeatedly before it updates the index
            await transition(
                context, stored, repaired, _origin("close"), orchestrations=orchestrations, maybe_repeated=True
            )
        return
    if job.is_staged:
        await _repair_staged(context, orchestrations, stored, active, report)
        return
    instance = await orchestrations.look_up(job.instance_id)
    next_check, looks = now + REPAIR_INTERVAL, NO_LOOKS
    if instance.state is InstanceState.NOT_FOUND:
        report.add_action(job.job_id, RepairKind.START)
        if not report.dry_run:
            await mark_unnamed(context, orchestrations, stored.record)
            repaired = Repaired("start", before="no orchestration", after=f"orchestration {job.instance_id}")
            origin = _origin(f"start:{job.instance_id}")
            await transition(context, stored, repaired, origin, orchestrations=orchestrations, maybe_repeated=True)
            await orchestrations.start(job.instance_id, orchestration_input(stored.record))
    elif instance.state is InstanceState.ENDED:
        report.add_action(job.job_id, RepairKind.RESTART)
        if not report.dry_run:
            await _restart(context, orchestrations, stored)
    elif job.status is not JobStatus.PAUSED and not await _end_by_time(context, orchestrations, stored, report):
        deadlines = [(step, _deadline(step, job)) for step in stored.record.open_steps if _owes(step, job)]
        if overdue := [step for step, deadline in deadlines if deadline + GRACE <= now]:
            looks = await _catch_up(context, orchestrations, stored, instance, overdue, active, report)
        else:
            # an ignored wake-up has a number, which the next due check compares
            looks = active.looks
            ends = [each for _, each in deadlines]
            ends += [cap for step in stored.record.open_steps if (cap := stored.record.cap_of(step)) is not None]
            next_check = max(min(ends, default=now) + GRACE, now + RECHECK_AFTER)
    if not report.dry_run:
        await context.index.reschedule_check(active, next_check, looks=looks)


async def postpone(context: Context, active: ActiveRow, until: datetime) -> None:
    """Postpones the check of a job whose check failed. Reads the ACTIVE row first, since a DUE row does not show that
    the job is in a waiting queue.

    Raises LedgerUnavailable.
    """
    row = await context.index.read_active(active.tenant, active.job_id)
    if row is not None and row.check_at == active.check_at:
        await context.index.reschedule_check(row, until, looks=row.looks)


async def _repair_staged(
    context: Context, orchestrations: Orchestrations, stored: Stored, active: ActiveRow, report: SweepReport
) -> None:
    """Repairs a waiting job that has expired, or whose creating, admitting or calling process died."""
    job, now = stored.record.job, context.clock.now()
    expired = job.expires_at is not None and job.expires_at <= now
    report.add_action(job.job_id, RepairKind.END if expired else RepairKind.ADMIT)
    if report.dry_run:
        return
    if expired:
        origin = _origin(f"expired:{job.job_id}")
        stored = (await transition(context, stored, Expired(), origin, orchestrations=orchestrations)).stored
    else:
        try:
            stored = await reconcile_place(context, orchestrations, stored)
        except (ArchiveGone, ArchiveInvalid):
            # the end of a dependency is not known until its bundle is restored; the job still expires in time
            if active.check_at <= now:
                await postpone(context, active, next_check(context, job))
            raise
    if active.check_at <= now:
        # otherwise it waits or is set aside: its DUE row must stay asleep
        await _recheck(context, stored.record.job, active)


async def _recheck(context: Context, job: Job, active: ActiveRow) -> None:
    """Schedules the next check after a check. A job with no slot, no queue position and no due action sleeps. The
    survey reads the job, and finds an action after the job has changed.
    """
    row, now = await context.index.read_active(active.tenant, active.job_id), context.clock.now()
    if row is None or row.check_at != active.check_at:
        return
    is_asleep = (
        row.place is not None and row.place.state is PlaceState.OFF and find_owed(job, row.place) is Owed.NOTHING
    )
    wakes_at = next_check(context, job) if job.status is JobStatus.WAITING_FOR_JOBS else job.expires_at or ASLEEP
    until = max(wakes_at, now + RECHECK_AFTER) if is_asleep else now + RECHECK_AFTER
    await context.index.reschedule_check(row, until, looks=row.looks)


async def _withdraw(
    context: Context, orchestrations: Orchestrations, active: ActiveRow, report: SweepReport, now: datetime
) -> None:
    """Withdraws a creation that was interrupted after its idempotency record was written. Race tombstone: the tombstone
    is written first, so that a late creator cannot continue.
    """
    if active.created_at + WITHDRAW_AFTER > now:
        if not report.dry_run:
            await context.index.reschedule_check(active, active.created_at + WITHDRAW_AFTER)
        return
    report.add_action(active.job_id, RepairKind.WITHDRAW)
    if report.dry_run:
        return
    record, event = make_tombstone(
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
            return  # the creator was first
    row = await context.index.read_active(active.tenant, active.job_id)
    counted = (row is not None and row.place is not None) or (await admission_turns.read_directory(context)).concerns(
        active.tenant
    )
    if await context.index.withdraw(active, counted=counted):
        await notify(
            context, orchestrations, active.tenant, await take_turn_after_end(context, active.tenant, active.job_id)
        )


async def _restart(context: Context, orchestrations: Orchestrations, stored: Stored, *, silent: bool = False) -> None:
    """Restarts a job in a new orchestration.

    Race restart: one of two concurrent sweeps names the new instance, and both sweeps start that instance.
    """
    record = stored.record
    old = record.job.instance_id
    ended = OrchestrationEnded(old, silent)
    transitioned = await transition(context, stored, ended, _origin(f"restart:{old}"), orchestrations=orchestrations)
    after = transitioned.stored.record
    if not after.job.status.terminal:
        await orchestrations.start(after.job.instance_id, orchestration_input(after))
    if silent:
        # the old one is fenced off and harmless; if it is not terminated now, the clearing of the ended job does it
        with contextlib.suppress(OrchestrationUnavailable):
            for instance_id in sorted({old, *(record.instance_of(step) for step in record.steps)}):
                await orchestrations.terminate(instance_id, f"replaced by {after.job.instance_id}")


async def _end_by_time(context: Context, orchestrations: Orchestrations, stored: Stored, report: SweepReport) -> bool:
    """Ends the step or job whose total time is over (R10). Returns `True` if there was such a step or job."""
    for step in stored.record.open_steps:
        cap = stored.record.cap_of(step)
        if cap is None or cap + GRACE > context.clock.now() or _may_have_died(step, stored.record.job, report):
            continue
        report.add_action(stored.record.job.job_id, RepairKind.END)
        if report.dry_run:
            return True
        origin = _origin(f"cap:{step.step_id}:{step.attempt_no}")
        passed = await transition(context, stored, TimePassed(step.step_id), origin, orchestrations=orchestrations)
        if passed.outcome.transitioned or passed.repeated:
            return True
    return False


def _may_have_died(step: Step, job: Job, report: SweepReport) -> bool:
    """Returns `True` if a RESULT of the attempt in flight may be among the dead letters of its lane, which were not
    read.
    """
    return step.status.in_flight and (step.lane in report.undrained or job.job_id in report.unheard)


async def _catch_up(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored,
    instance: Instance,
    overdue: Sequence[Step],
    active: ActiveRow,
    report: SweepReport,
) -> Looks:
    """Ends overdue attempts of a living orchestration that is behind the ledger, then wakes the orchestration to check
    the ledger.

    An orchestration that ignored `silent_looks` wake-ups is replaced in any state that the engine reports (R18).
    """
    record = stored.record
    if any(_may_have_died(step, record.job, report) for step in overdue):
        raise BusUnavailable("the RESULT of the attempt can be a dead letter of the lane")
    waiting = [await _waiting_for(orchestrations, record, step, instance) for step in overdue]
    looks: dict[str, tuple[int, int]] = {}
    for step, (_, shown) in zip(overdue, waiting, strict=True):
        look_no, count = active.looks.get(step.step_id, (0, 0))
        looks[step.step_id] = (shown.look_no, count + 1 if look_no == shown.look_no else 1)
    if any(count > silent_looks(record) for _, count in looks.values()):
        report.add_action(record.job.job_id, RepairKind.REPLACE)
        if not report.dry_run:
            await _restart(context, orchestrations, stored, silent=True)
        return NO_LOOKS
    for step, (instance_id, shown) in zip(overdue, waiting, strict=True):
        report.add_action(record.job.job_id, RepairKind.RAISE, durable_names.look_event(shown.look_no))
        if not report.dry_run:
            await _look(context, orchestrations, record.job, step, instance_id, shown)
    return {**active.looks, **looks}


async def _look(
    context: Context, orchestrations: Orchestrations, job: Job, step: Step, instance_id: str, shown: Shown
) -> None:
    # an attempt that its orchestration does not wait for may never have been sent. That orchestration, or its
    # replacement, sends it with the same message id
    cancelling = job.status is JobStatus.CANCELLING
    if step.status is StepStatus.PROCESSING or (step.status.in_flight and (shown.awaits(step) or cancelling)):
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
    event = durable_names.look_event(shown.look_no)
    # one EVENT for each number, even if the event is raised repeatedly
    repaired = Repaired(event, before="the orchestration is behind", after=f"wake-up sent: {event}")
    origin = _origin(f"{instance_id}:{event}")
    await transition(context, again, repaired, origin, orchestrations=orchestrations, maybe_repeated=True)
    with contextlib.suppress(InstanceEnded, InstanceNotFound):  # the next check repeats it
        await orchestrations.raise_event(instance_id, event, {})


async def _waiting_for(
    orchestrations: Orchestrations, record: Record, step: Step, instance: Instance
) -> tuple[str, Shown]:
    """Returns the orchestration that waits for the step, with its custom status. Before a group starts, this is the
    job's own orchestration.
    """
    own_id = record.instance_of(step)
    if own_id != record.job.instance_id:
        own = await orchestrations.look_up(own_id)
        if own.state is not InstanceState.NOT_FOUND:
            return own_id, own.shown
    return record.job.instance_id, instance.shown


def silent_looks(record: Record) -> int:
    """Returns the number of consecutive wake-ups that an orchestration may ignore. The number is 3, and doubles with
    each restart, up to a maximum of 96.

    So an engine that is down for a day does not cost hundreds of restarts for each job.
    """
    return MAX_SILENT_LOOKS << min(restarts(record.job.instance_id), 5)


def _origin(key: str) -> Origin:
    return Origin(cause_id=f"sweep:{key}", actor="system", source="sweeper")


def _owes(step: Step, job: Job) -> bool:
    """Returns `True` if the step will need a transition. While the job only waits for attempts in flight, only steps in
    flight need a transition.
    """
    return step.status.in_flight or job.status not in (JobStatus.PAUSING, JobStatus.CANCELLING)


def _deadline(step: Step, job: Job) -> datetime:
    """Returns the time until which the step can be silent. The time is in the past if a transition is already due."""
    if step.gated_until is not None:
        # a dispatch limit delays its next attempt and is checked again then (R56)
        return step.gated_until
    match step.status:
        case StepStatus.PENDING:
            return job.updated_at if job.attempts_total else job.updated_at + START_GRACE
        case StepStatus.INITIATED | StepStatus.PROCESSING:
            # in a publish backoff, the next try is due
            return step.due_at or step.silent_until or step.updated_at
        case _:
            return step.due_at or step.updated_at
