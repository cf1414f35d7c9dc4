"""One job of a sweep: finishes what was left half done, and decides whether a reply is lost or late.

Every repair is a transition that a function could make at the same moment, so a sweep is safe during normal work and
during another sweep (Race sweeps).
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from shared.core import durable_names
from shared.core.history import Origin
from shared.core.job import Record, Step
from shared.core.occurrences import OrchestrationEnded, RecordAttempt, Repaired
from shared.core.plan import tombstone
from shared.core.reasons import Reason
from shared.core.states import JobStatus, StepStatus
from shared.errors import AlreadyExists, BusUnavailable, DataLost, InstanceEnded, InstanceNotFound, UnknownStatus
from shared.operations.context import Context
from shared.operations.creation import orchestration_input
from shared.operations.redrive_job import mark_redriven
from shared.operations.settle_step import settle_step
from shared.operations.sweeper.report import SweepAction, SweepReport
from shared.operations.transition import transition
from shared.ports.durable import InstanceState, Orchestrations
from shared.ports.index import ActiveRow
from shared.ports.ledger import Stored

#: a creation without rows is withdrawn after this
WITHDRAW_AFTER = timedelta(minutes=5)
#: beyond a deadline, before the orchestration's own timer counts as lost
GRACE = timedelta(seconds=60)
#: between two looks at a job that is in order, at the least
RECHECK_AFTER = timedelta(minutes=1)
#: between two repairs of the same job
REPAIR_INTERVAL = timedelta(minutes=5)
#: between two looks at a job of which a part is lost, in case that it is restored
UNREADABLE_INTERVAL = timedelta(hours=1)


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
    state = await orchestrations.state(job.instance_id)
    next_check = now + REPAIR_INTERVAL
    if state is InstanceState.NOT_FOUND:
        report.add_action(job.job_id, SweepAction.START)
        if not report.dry_run:
            await mark_redriven(context, stored.record)
            repaired = Repaired("start", before="no orchestration", after=f"orchestration {job.instance_id}")
            await transition(context, stored, repaired, _origin(f"start:{job.instance_id}"), maybe_repeated=True)
            await orchestrations.start(job.instance_id, orchestration_input(stored.record))
    elif state is InstanceState.ENDED:
        report.add_action(job.job_id, SweepAction.RESTART)
        if not report.dry_run:
            await _restart(context, orchestrations, stored)
    elif job.status is not JobStatus.PAUSED:
        deadlines = [(step, _deadline(stored.record, step)) for step in stored.record.open_steps]
        for step, deadline in deadlines:
            if deadline + GRACE <= now:
                await _nudge(context, orchestrations, stored, step, report)
        if deadlines and min(deadline for _, deadline in deadlines) + GRACE > now:
            next_check = max(min(deadline for _, deadline in deadlines) + GRACE, now + RECHECK_AFTER)
    if not report.dry_run:
        await context.index.reschedule_check(active, next_check)


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


async def _restart(context: Context, orchestrations: Orchestrations, stored: Stored) -> None:
    """Race restart: of two sweeps one gives the new instance its name, and both start that one."""
    job = stored.record.job
    transitioned = await transition(
        context,
        stored,
        OrchestrationEnded(job.instance_id),
        _origin(f"restart:{job.instance_id}"),
        orchestrations=orchestrations,
    )
    after = transitioned.stored.record
    if not after.job.status.terminal:
        await orchestrations.start(after.job.instance_id, orchestration_input(after))


async def _nudge(
    context: Context, orchestrations: Orchestrations, stored: Stored, step: Step, report: SweepReport
) -> None:
    """The orchestration lives and is behind: settle what is over, then say again what it has not heard."""
    job = stored.record.job
    cap = stored.record.cap_of(step)
    if cap is not None and cap <= context.clock.now() and not step.status.in_flight:
        # instead of a new attempt this is the job's end, whether its orchestration hears or not
        report.add_action(job.job_id, SweepAction.END)
        if not report.dry_run:
            origin = _origin(f"cap:{step.step_id}:{step.attempt_no}")
            attempt = RecordAttempt(step.step_id, context.new_lease())
            await transition(context, stored, attempt, origin, orchestrations=orchestrations)
        return
    events = _missed_events(stored.record, step)
    for name, _ in events:
        report.add_action(job.job_id, SweepAction.RAISE, name)
    if report.dry_run or not events:
        return
    if step.status.in_flight:
        if step.lane in report.undrained or job.job_id in report.unheard:
            raise BusUnavailable("its RESULT may lie among the dead letters of its lane")
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
    for name, data in events:
        repaired = Repaired(name, before="its orchestration is behind", after=f"told {name} again")
        origin = _origin(f"{name}:{context.clock.now().isoformat()}")
        again = (await transition(context, again, repaired, origin)).stored
        # before a group begins, it is the job's own orchestration that may be parked, and the step's is not there yet
        for instance_id in sorted({job.instance_id, stored.record.instance_of(step)}):
            with contextlib.suppress(InstanceEnded, InstanceNotFound):  # the next look sees to that
                await orchestrations.raise_event(instance_id, name, data)


def _origin(key: str) -> Origin:
    return Origin(cause_id=f"sweep:{key}", actor="system", source="sweeper")


def _deadline(record: Record, step: Step) -> datetime:
    """Until when the step may be silent; in the past where it owes a move already."""
    if step.status is StepStatus.PENDING:
        return record.job.updated_at
    until = step.lease_expires_at if step.status.in_flight else step.due_at
    return until or step.updated_at


def _missed_events(record: Record, step: Step) -> list[tuple[str, dict[str, str]]]:
    """The events that would bring an orchestration that missed one to where the ledger stands."""
    events: list[tuple[str, dict[str, str]]] = []
    if not step.status.in_flight and record.job.park_no:
        events += [(durable_names.resume(park_no), {}) for park_no in range(1, record.job.park_no + 1)]
    if step.status is not StepStatus.PENDING:
        events.append((durable_names.result(step.step_id, step.attempt_no), {"next": "DISPATCH"}))
    elif step.group is None and step.step_index:
        before = record.steps[step.step_index - 1]
        # the orchestrations of a group raise the event of the job's
        if before.group is None:
            events.append((durable_names.result(before.step_id, before.attempt_no), {"next": "NEXT"}))
    return events
