"""A job that is ahead of its feed: a hint was lost, and is sent again by passes that read the job anyway (R73)."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from shared.core.hints import incident_hint
from shared.core.job import Job
from shared.core.reasons import Reason
from shared.errors import LuciusError
from shared.operations import log_hints
from shared.operations.context import Context
from shared.operations.dead_letters import incident_of_job
from shared.ports.index import first_clearing

#: after its end, of a job whose last hint the queue did not take
_SOON = timedelta(minutes=1)


async def hint_behind(context: Context, job: Job) -> bool:
    """A hint at all that a living job has, whose list row is behind it; False: the queue did not take it."""
    return context.hinting is None or await context.hinting.send(job)


async def is_behind(context: Context, job: Job) -> bool:
    """Whether an ended job, its incident, or the job that it took up again has rows that its feed has not; then these
    are hinted at. Nobody else looks at that old job's last row, which names this one.

    Raises LedgerUnavailable.
    """
    if context.feed is None or context.hinting is None or job.error_code == Reason.WITHDRAWN:
        return False
    if (job.completed_at or job.updated_at) < (await context.feed.identity()).since:
        return False
    incident = await incident_of_job(context, job)
    is_one_behind = incident is not None and await log_hints.is_behind(context, incident_hint(incident))
    old = await context.ledger.read(job.redrive_of) if job.redrive_of is not None else None
    for each in (job, *([old.record.job] if old is not None else [])):
        if await context.feed.seen(each.tenant, each.job_id) < each.event_seq:
            await context.hinting.send(each)
            is_one_behind = True
    return is_one_behind


async def clear_soon(context: Context, job: Job) -> None:
    """The sweeper looks at the ended job in a minute instead of an hour; raises nothing of LUCIUS's."""
    with contextlib.suppress(LuciusError):
        await context.index.reschedule_clearing(first_clearing(job), (job.completed_at or job.updated_at) + _SOON)
