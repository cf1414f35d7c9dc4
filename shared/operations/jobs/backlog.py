"""Reads messages that wait on a job's lane, for `explain` and before a silence counts as a failure (R8)."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared import telemetry
from shared.core.jobs.directive import message_id
from shared.core.jobs.job import Record, Step
from shared.core.jobs.states import StepStatus
from shared.errors import BusUnavailable
from shared.operations.process.context import Context

#: time for which one read of a lane serves every job of the process: 10,000 waiting jobs cost a few reads a second
LOOK_SHARED = timedelta(seconds=10)


async def what_waits(context: Context, job_id: str, step: Step, deadline: datetime) -> str | None:
    """Returns a text that names the waiting message which may explain the silence of an attempt until `deadline`.
    Returns None if nothing explains the silence.

    An unreachable bus explains the silence too. A read that is at most ten seconds old can show that the directive
    waits, so all jobs on a lane share such a read. To show that neither the directive nor a reply from the time of the
    lease waits, the read must be later than the deadline.
    """
    initiated, ended_at = step.status is StepStatus.INITIATED, step.lease_expires_at or deadline
    recent = context.clock.now() - LOOK_SHARED
    try:
        for since in (recent, deadline) if initiated else ():
            if await _ahead(context, job_id, step, since) is not None:
                return "the directive of the attempt waits on the lane"
        if (await context.bus.lanes.replies(step.lane, since=deadline)).has_older(ended_at):
            return "unread replies wait on the lane"
    except BusUnavailable as fault:
        telemetry.record_fault(fault)
        return str(fault)
    return None


async def directives_ahead(context: Context, record: Record) -> int | None:
    """Returns the number of directives ahead of the job's open step, as `LaneLook.ahead_of`.

    Returns None if the directive was received or not sent, or if the bus cannot be read.
    """
    step = next(iter(record.open_steps), None)
    if step is None or step.status is not StepStatus.INITIATED or step.owes_publish or record.job.status.terminal:
        return None
    try:
        return await _ahead(context, record.job.job_id, step, context.clock.now() - LOOK_SHARED)
    except BusUnavailable:
        return None


async def _ahead(context: Context, job_id: str, step: Step, since: datetime) -> int | None:
    look = await context.bus.lanes.directives(step.lane, step.service, since=since)
    return look.ahead_of(message_id(job_id, step.step_id, step.attempt_no), step.sent_at)
