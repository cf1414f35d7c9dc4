"""Clears an ended job away, part by part, when each part is due (R21).

First the durable histories, by instance id. Then its claim, when that has expired. Last, where a retention is set, the
job itself: its audit bundle into the archive, its LIST row, then its partition. The job's ENDED row holds when the next
part is due and is deleted last, so the next sweep continues what was interrupted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.canonical import encode_key
from shared.core.job import Job, Record
from shared.core.recovery import instances
from shared.errors import Conflict, DataLost, LuciusError, UnknownStatus
from shared.operations.context import Context
from shared.operations.read_history import read_history
from shared.operations.sweeper.repair import UNREADABLE_INTERVAL
from shared.operations.sweeper.report import Action, SweepAction
from shared.ports.durable import Orchestrations
from shared.ports.index import EndedRow
from shared.views.audit import bundle

#: bounds of one sweep
MAX_CLEARED_A_TENANT = 100
MAX_CLEARED = 500
_AT_ONCE = 8
#: an orchestration that has not heard of its job's end is looked at again after this; its own timers will end it
RETRY_PURGE_AFTER = timedelta(hours=1)


async def clear_due(
    context: Context, orchestrations: Orchestrations, tenants: Sequence[str], *, dry_run: bool
) -> tuple[list[Action], bool]:
    """What was done, or would be looked at, and whether a bound was reached: there may be more to clear.

    A job that cannot be cleared is left for the next sweep.

    Raises LedgerUnavailable for the listing alone.
    """
    due: list[EndedRow] = []
    more = False
    for tenant in tenants:
        limit = min(MAX_CLEARED_A_TENANT, MAX_CLEARED - len(due))
        found = await context.index.due_for_clearing(tenant, now=context.clock.now(), limit=limit) if limit else []
        more = more or len(found) == limit
        due += found
    if dry_run:
        return [Action(ended.job_id, SweepAction.CLEAR) for ended in due], more
    semaphore = asyncio.Semaphore(_AT_ONCE)

    async def one(ended: EndedRow) -> Action:
        async with semaphore:
            try:
                return Action(ended.job_id, await clear(context, orchestrations, ended))
            except LuciusError as fault:
                telemetry.record_fault(fault)
                telemetry.warn("CLEAR_FAILED", jobId=ended.job_id, reason=str(fault))
                return Action(ended.job_id, SweepAction.FAILED)

    return list(await asyncio.gather(*map(one, due))), more


async def clear(context: Context, orchestrations: Orchestrations, ended: EndedRow) -> SweepAction:
    """One look at one job, and what was done. Raises Conflict where the job was written to meanwhile, and
    Transient; what is done already is not done again.
    """
    try:
        stored = await context.ledger.read(ended.job_id)
    except UnknownStatus:
        await context.index.reschedule_clearing(ended, context.clock.now() + RETRY_PURGE_AFTER)
        return SweepAction.SKIP
    except DataLost:
        await context.index.reschedule_clearing(ended, context.clock.now() + UNREADABLE_INTERVAL)
        raise
    if stored is None:
        await context.ledger.delete_remainder(ended.job_id)
        await context.index.finish_clearing(ended)
        return SweepAction.REMOVE
    record, job = stored.record, stored.record.job
    now, ended_at = context.clock.now(), job.completed_at or job.updated_at
    purged = [await orchestrations.purge(instance_id) for instance_id in instances(record)]
    if not all(purged):
        await context.index.reschedule_clearing(ended, now + RETRY_PURGE_AFTER)
        return SweepAction.PURGE_LATER
    expires_at = await _claim_ends(context, job, now)
    if expires_at is not None:
        await context.index.reschedule_clearing(ended, expires_at)
        return SweepAction.PURGE
    retention = context.settings.retention_days
    if retention is None:
        await context.index.finish_clearing(ended)
        return SweepAction.DROP_CLAIM
    if ended_at + timedelta(days=retention) > now:
        await context.index.reschedule_clearing(ended, ended_at + timedelta(days=retention))
        return SweepAction.DROP_CLAIM
    try:
        whole, events = await read_history(context, ended.job_id)
    except DataLost:
        await context.index.reschedule_clearing(ended, now + UNREADABLE_INTERVAL)
        raise
    if whole.job.event_seq != job.event_seq:
        # Race archived: a late reply came; what it wrote belongs into the bundle
        raise Conflict
    await context.archive.put(archive_name(record), json.dumps(bundle(whole, events, now), ensure_ascii=False))
    await context.index.delete_listing(job)
    await context.ledger.remove(stored)
    await context.index.finish_clearing(ended)
    telemetry.info("JOB_ARCHIVED", jobId=job.job_id, tenant_id=job.tenant)
    return SweepAction.ARCHIVE


def archive_name(record: Record) -> str:
    """`{tenant}/{yyyymm of creation}/{job id}.json`; the bundle is what `lucius audit verify` proves."""
    job = record.job
    return f"{encode_key(job.tenant)}/{job.created_at:%Y%m}/{job.job_id}.json"


async def _claim_ends(context: Context, job: Job, now: datetime) -> datetime | None:
    """When the job's claim ends; None: it is gone, or never was there, or stands for a later job by now."""
    claim = await context.index.read_claim(job.tenant, job.idempotency_hash)
    if claim is None or claim.job_id != job.job_id:
        return None
    if claim.expires_at is None or claim.expires_at > now:
        return claim.expires_at or now + RETRY_PURGE_AFTER
    # Race expired-claim: a request may replace it at this moment, under the same ETag
    await context.index.delete_claim(job.tenant, job.idempotency_hash, claim)
    return None
