"""Finds jobs and logs whose feed lacks events because a hint was lost, and sends the hint again (R73)."""

from __future__ import annotations

from shared.core.events.hints import Hint, incident_hint
from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.operations.jobs.dead_letters import incident_of_job
from shared.operations.process.context import Context


async def hint_behind(context: Context, job: Job) -> bool:
    """Sends a hint of a living job whose LIST row is behind its history. Returns `False` if neither the queue nor the
    feed has the hint.
    """
    return context.events is None or await context.events.hinting.send(job)


async def is_behind(context: Context, job: Job) -> bool:
    """Returns `True` if the feed lacks rows of an ended job, its incident, or the job that it redrives. Sends hints of
    such rows.

    The last row of the redriven job names the ended job, and can be later than the check of the redriven job itself.
    Raises LedgerUnavailable.
    """
    if context.events is None or job.error_code == Reason.WITHDRAWN:
        return False
    if (job.completed_at or job.updated_at) < (await context.events.feed.identity()).since:
        return False
    incident = await incident_of_job(context, job)
    is_one_behind = incident is not None and await is_log_behind(context, incident_hint(incident))
    old = await context.ledger.read(job.redrive_of) if job.redrive_of is not None else None
    for each in (job, *([old.record.job] if old is not None else [])):
        if await context.events.feed.read_seen(each.tenant, each.job_id) < each.event_seq:
            await context.events.hinting.send(each)
            is_one_behind = True
    return is_one_behind


async def is_log_behind(context: Context, hint: Hint) -> bool:
    """Returns `True` if the feed lacks entries of the log up to `hint.last`. Sends a hint of such entries.

    Does not read the feed if this process knows that the feed has the entries. Raises LedgerUnavailable.
    """
    if context.events is None or not hint.last:
        return False
    if context.events.compared_logs.has(hint.tenant, hint.key, hint.last):
        return False
    seen = await context.events.feed.read_seen(hint.tenant, hint.key)
    context.events.compared_logs.remember(hint.tenant, hint.key, seen)
    if seen >= hint.last:
        return False
    await context.events.hinting.send_hint(hint)
    return True
