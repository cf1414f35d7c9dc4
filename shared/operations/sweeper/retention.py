"""Clears an ended job part by part, when each part is due (R21).

A clearing first deletes the durable histories, by instance id, unless a process has already deleted them. The
idempotency record is deleted after its retention. If jobs have a retention, the job itself is cleared last. Its audit
bundle goes into the archive, an ARCHIVED row replaces its LIST row, and another ARCHIVED row replaces the rows of its
partition.

The job's ENDED row has the due time of the next part and is deleted last, so the next sweep continues an interrupted
clearing.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

from shared import telemetry
from shared.api.audit import bundle
from shared.core.incidents import job_incident_id
from shared.core.jobs.job import Job
from shared.core.jobs.recovery import instances
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import encode_key
from shared.errors import Conflict, DataLost, Undecodable, UnknownStatus
from shared.operations.events.feed_comparison import is_behind
from shared.operations.jobs.dead_letters import settle_dead_letter
from shared.operations.jobs.read_history import read_history
from shared.operations.process.context import Context
from shared.operations.sweeper.repair import UNREADABLE_INTERVAL
from shared.operations.sweeper.report import RepairKind
from shared.ports.durable import Orchestrations
from shared.ports.index import EndedRow
from shared.ports.ledger import ArchivedRow

#: time until the next check of an orchestration that missed its job's end; its own timers may end it
RETRY_PURGE_AFTER = timedelta(hours=1)
#: age at which an orchestration that missed its job's end counts as stuck
TERMINATE_AFTER = timedelta(days=1)
#: age at which the clearing continues without an orchestration that does not end; it keeps its history
GIVE_UP_PURGE_AFTER = timedelta(days=2)
#: maximum time for which an unwritable feed delays the deletion of rows past their retention
GIVE_UP_FEED_AFTER = timedelta(days=2)


async def clear(context: Context, orchestrations: Orchestrations, ended: EndedRow) -> RepairKind:
    """Checks one ended job and returns the action.

    Raises Conflict if the job was written in the meantime, DataLost, Undecodable, and Transient. Completed work is not
    repeated.
    """
    try:
        stored = await context.ledger.read(ended.job_id)
    except UnknownStatus:
        await context.index.reschedule_clearing(ended, context.clock.now() + RETRY_PURGE_AFTER, purged=ended.purged)
        return RepairKind.SKIP
    except (DataLost, Undecodable):
        await context.index.reschedule_clearing(ended, context.clock.now() + UNREADABLE_INTERVAL, purged=ended.purged)
        raise
    if stored is None:
        await context.ledger.delete_remainder(ended.job_id)
        await _forget(context, ended)
        await context.index.finish_clearing(ended)
        return RepairKind.REMOVE
    record, job = stored.record, stored.record.job
    if ended.owed:
        claim_ends = (job.completed_at or job.updated_at) + timedelta(days=context.settings.idempotency_ttl_days)
        for key in await context.index.write_owed(job, claim_expires_at=claim_ends):
            telemetry.warn("ROW_REFUSED", jobId=job.job_id, tenant_id=job.tenant, row=key)
    if job.status is JobStatus.FAILED_FINAL:
        await settle_dead_letter(context, job)
    now, ended_at = context.clock.now(), job.completed_at or job.updated_at
    # events that no feed has when the rows are deleted are lost
    is_unfed, look_again = await is_behind(context, job), now + RETRY_PURGE_AFTER
    if not ended.purged:
        left = [each for each in instances(record) if not await orchestrations.purge(each)]
        if left and now < ended_at + GIVE_UP_PURGE_AFTER:
            for instance_id in left if now >= ended_at + TERMINATE_AFTER else ():
                await orchestrations.terminate(instance_id, "the job of this orchestration ended at least a day ago")
            await context.index.reschedule_clearing(ended, now + RETRY_PURGE_AFTER)
            return RepairKind.PURGE_LATER
        if left:
            telemetry.warn("HISTORY_KEPT", jobId=job.job_id, tenant_id=job.tenant, instances=left)
    expires_at = await _find_claim_end(context, job, now)
    if expires_at is not None:
        await context.index.reschedule_clearing(
            ended, min(expires_at, look_again) if is_unfed else expires_at, purged=True
        )
        return RepairKind.PURGE
    retention = context.settings.retention_days
    kept_until = ended_at + timedelta(days=retention or context.settings.idempotency_ttl_days)
    if is_unfed and now < kept_until + GIVE_UP_FEED_AFTER:
        await context.index.reschedule_clearing(ended, look_again, purged=True)
        return RepairKind.HINT
    if retention is None:
        await context.index.finish_clearing(ended)
        return RepairKind.DROP_CLAIM
    if kept_until > now:
        await context.index.reschedule_clearing(ended, kept_until, purged=True)
        return RepairKind.DROP_CLAIM
    try:
        whole, events = await read_history(context, ended.job_id)
    except (DataLost, Undecodable):
        await context.index.reschedule_clearing(ended, now + UNREADABLE_INTERVAL, purged=True)
        raise
    if whole.job.event_seq != job.event_seq:
        # Race archived: a late reply arrived, and its rows belong in the bundle
        raise Conflict
    # the same rows always make the same blob
    text = json.dumps(bundle(whole, events, kept_until), ensure_ascii=False)
    row = _make_archived_row(job, text.encode(), now)
    await context.archive.put(row.blob, text)
    await context.index.delete_listing(job, now)
    await context.ledger.remove(stored, row)
    await _forget(context, ended)
    await context.index.finish_clearing(ended)
    telemetry.info("JOB_ARCHIVED", jobId=job.job_id, tenant_id=job.tenant)
    return RepairKind.ARCHIVE


async def _forget(context: Context, ended: EndedRow) -> None:
    """Deletes the SEEN row last, after the job's rows. Otherwise a hint that finds rows without SEEN writes all events
    again.
    """
    if context.events is not None:
        await context.events.feed.forget(ended.tenant, ended.job_id)
        await context.events.feed.forget(ended.tenant, job_incident_id(ended.job_id))


def _make_archived_row(job: Job, written: bytes, at: datetime) -> ArchivedRow:
    sha256 = hashlib.sha256(written).hexdigest()
    return ArchivedRow(
        job_id=job.job_id,
        tenant=job.tenant,
        blob=archive_name(job, sha256),
        sha256=sha256,
        size=len(written),
        archived_at=at,
    )


def archive_name(job: Job, sha256: str) -> str:
    """Returns `{tenant}/{yyyymm of creation}/{job id}.{digest}.json`, the blob of an audit bundle.

    Race sweeps: a sweeper that read the job before a late reply must not replace the bundle that another sweeper wrote
    after that reply. So the name has a part of the digest.
    """
    return f"{encode_key(job.tenant)}/{job.created_at:%Y%m}/{job.job_id}.{sha256[:16]}.json"


async def _find_claim_end(context: Context, job: Job, now: datetime) -> datetime | None:
    """Returns the time when the job's idempotency record expires. Returns None if the record does not exist, or is of a
    later job. Deletes an expired record and returns None.
    """
    claim = await context.index.read_claim(job.tenant, job.idempotency_hash)
    if claim is None or claim.job_id != job.job_id:
        return None
    if claim.expires_at is None or claim.expires_at > now:
        return claim.expires_at or now + RETRY_PURGE_AFTER
    # Race expired-claim: a request may replace it at this moment, under the same ETag
    await context.index.delete_claim(job.tenant, job.idempotency_hash, claim)
    return None
