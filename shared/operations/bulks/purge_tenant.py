"""Purges a tenant: deletes its data in bounded steps, as a bulk operation. docs/guides/audit.md lists the data that
stays.

First the purge deletes jobs older than itself, each with its history, rows and blobs. Then it deletes the rows of the
tenant itself. Each deletion is idempotent, and the remaining rows are the remaining work, so an interrupted purge
continues with them.

Race purge: a job that is submitted in the meantime stays, and so do the tenant's own rows that are not deleted yet.
The bulk operation counts the job as refused. Another purge deletes the job and these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from shared import telemetry
from shared.archive_refusals import TenantLive
from shared.core.bulks import Bulk, BulkAction, BulkState
from shared.core.incidents import IncidentState, Settlement, job_incident_id
from shared.core.jobs.job import Job
from shared.core.jobs.recovery import instances
from shared.core.records.canonical import encode_key
from shared.errors import Conflict, DataLost, Undecodable
from shared.operations.bulks.bulks import create_bulk, new_bulk
from shared.operations.jobs.dead_letters import incident_of_job
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.webhooks.webhooks import remove_hook
from shared.ports.bulks import BulkWrite, StoredBulk
from shared.ports.durable import Orchestrations
from shared.ports.purging import ListedJob
from shared.refusals import BulkKeyConflict, Refused

#: idempotency key of every purge. No key of a caller begins with a space, so that no caller can use it
_KEY = " purge"
#: maximum jobs that a refusal or a preview counts
MAX_COUNTED = 1000
#: maximum rows with job ids in one step, and maximum jobs at the same time
_STEP, _AT_ONCE = 20, 8
#: maximum rows of the tenant in one step
_ROWS = 100
#: seconds before the next try, for a job that cannot be deleted now, or a tenant that posted within the last hour
_WAIT_S = 300
#: time after which an orchestration that did not end with its job is ignored and keeps its history
_GIVE_UP_AFTER = timedelta(days=2)


@dataclass(frozen=True)
class PurgePreview:
    """The numbers of jobs that a purge finds now. Each number is at most `MAX_COUNTED` (1,000)."""

    living: int
    #: ended jobs, including archived ones
    jobs: int


class _Job(Enum):
    GONE = "gone"
    #: not deleted: it is living, or younger than the purge
    STAYS = "stays"
    #: cannot be deleted now
    HELD = "held"


async def preview_purge(context: Context, tenant: str) -> PurgePreview:
    """Returns the numbers of jobs that a purge finds now. Raises LedgerUnavailable."""
    active = await context.index.list_active(tenant, after=None, limit=MAX_COUNTED)
    listed = await context.index.list_job_rows(tenant, after="", limit=MAX_COUNTED)
    living = {each.job_id for each in active}
    return PurgePreview(len(living), len({each.job_id for each in listed} - living))


async def start_purge(context: Context, tenant: str, *, reason: str, actor: str) -> tuple[Bulk, bool]:
    """Creates a purge, or returns the running one. The flag is `True` for the running one.

    Raises TenantLive, BulkLimit, Contended, LedgerUnavailable, and BulkKeyConflict if a purge with another reason is
    running.
    """
    if living := await context.index.list_active(tenant, after=None, limit=MAX_COUNTED):
        raise TenantLive(tenant, len(living), is_all=len(living) < MAX_COUNTED)
    bulk = new_bulk(context, tenant=tenant, action=BulkAction.PURGE, reason=reason, actor=actor)
    try:
        return await create_bulk(context, bulk, _KEY)
    except BulkKeyConflict as known:
        text = (
            f"a purge of tenant {tenant[:128]} with another reason is running: bulk operation {known.bulk_id}; send "
            "the reason of that purge, or wait until it ends"
        )
        raise BulkKeyConflict(known.bulk_id, text) from None


async def purge_step(context: Context, orchestrations: Orchestrations, stored: StoredBulk) -> tuple[StoredBulk, int]:
    """Deletes a bounded part of the data. Returns the bulk operation, and the seconds to wait before the next step.

    Raises LedgerUnavailable, OrchestrationUnavailable, and Conflict if another process runs the bulk operation.
    """
    bulk = stored.bulk
    if bulk.listed:
        return await _purge_rows(context, stored)
    listed = await context.index.list_job_rows(bulk.tenant, after=bulk.cursor or "", limit=_STEP)
    if not listed:
        if bulk.open == 0:
            return await _write(context, stored, replace(bulk, listed=True, cursor=None)), 0
        # the next round finds postponed jobs again, from the first row on
        again = replace(bulk, matched=bulk.done, cursor=None, wait_s=_WAIT_S)
        return await _write(context, stored, again), _WAIT_S

    async def one(each: ListedJob) -> _Job:
        found = await _purge_job(context, orchestrations, bulk, each.job_id)
        if found is _Job.GONE:
            await context.index.drop_listed(bulk.tenant, each)
        return found

    # only one of several rows of the same job deletes the job
    by_job = {each.job_id: each for each in listed}
    outcomes = await run_concurrently(list(by_job.values()), one, limit=_AT_ONCE)
    gone = {job_id for job_id, found in zip(by_job, outcomes, strict=True) if found is _Job.GONE}
    for each in listed:
        if each.job_id in gone and each is not by_job[each.job_id]:
            await context.index.drop_listed(bulk.tenant, each)
    after = replace(
        bulk,
        matched=bulk.matched + len(gone) + outcomes.count(_Job.HELD),
        done=bulk.done + len(gone),
        cursor=listed[-1].row,
        wait_s=0,
    )
    return await _write(context, stored, after), 0


async def _purge_job(context: Context, orchestrations: Orchestrations, bulk: Bulk, job_id: str) -> _Job:
    """Deletes a job and returns the result. A living job, a younger job, and a job of another tenant stay. Raises
    LedgerUnavailable, OrchestrationUnavailable.
    """
    if await context.index.read_active(bulk.tenant, job_id) is not None:
        return _Job.STAYS
    try:
        stored = await context.ledger.read(job_id)
    except (DataLost, Undecodable) as broken:
        # delete its rows anyway
        telemetry.record_fault(broken)
        stored = None
    if stored is not None:
        job = stored.record.job
        if job.tenant != bulk.tenant or not job.status.terminal or job.created_at >= bulk.created_at:
            return _Job.STAYS
        left = [each for each in instances(stored.record) if not await orchestrations.purge(each)]
        if left and context.clock.now() < (job.completed_at or job.updated_at) + _GIVE_UP_AFTER:
            for instance_id in left:
                await orchestrations.terminate(instance_id, "the tenant of the job is being purged")
            return _Job.HELD
        await _purge_index(context, job)
        try:
            await context.ledger.remove(stored)
        except Conflict:
            return _Job.HELD
    elif (archived := await context.ledger.find_archived(job_id)) is not None:
        if archived.tenant != bulk.tenant:
            return _Job.STAYS
        await context.archive.remove(archived.blob, limit=1)
    await context.ledger.delete_remainder(job_id, with_archived=True)
    if context.events is not None:
        await context.events.feed.forget(bulk.tenant, job_id)
        await context.events.feed.forget(bulk.tenant, job_incident_id(job_id))
    return _Job.GONE


async def _purge_index(context: Context, job: Job) -> None:
    claim = await context.index.read_claim(job.tenant, job.idempotency_hash)
    if claim is not None and claim.job_id == job.job_id:
        await context.index.delete_claim(job.tenant, job.idempotency_hash, claim)
    if (incident := await incident_of_job(context, job)) is not None:
        await context.incidents.leave_open(incident)
    await context.index.delete_listing(job)


async def _purge_rows(context: Context, stored: StoredBulk) -> tuple[StoredBulk, int]:
    """Deletes rows of the tenant itself, after the tenant has no more jobs. Returns the bulk operation, and the seconds
    to wait before the next step.
    """
    bulk, now = stored.bulk, context.clock.now()
    removed = await context.index.purge(bulk, limit=_ROWS)
    if removed is None:
        found = await preview_purge(context, bulk.tenant)
        stays = found.living + found.jobs
        return await _end(context, stored, replace(bulk, matched=bulk.matched + stays, refused=stays), now), 0
    if removed or await _purge_elsewhere(context, bulk):
        return stored, 0
    if not await context.index.forget_tenant(bulk.tenant, now):
        return await _write(context, stored, replace(bulk, wait_s=_WAIT_S)), _WAIT_S
    return await _end(context, stored, bulk, now), 0


async def _purge_elsewhere(context: Context, bulk: Bulk) -> bool:
    """Deletes a page of the tenant's rows in tables of all tenants. Returns `True` if there may be more."""
    tenant = bulk.tenant
    if await context.rejected.purge(tenant, limit=_ROWS):
        return True
    if incidents := await context.incidents.list_of_tenant(tenant, after=None, limit=_STEP):
        for each in incidents:
            incident = each.incident
            if incident.is_open:
                reason, now = bulk.reason or "", context.clock.now()
                ends = Settlement(state=IncidentState.RESOLVED, actor=bulk.actor, reason=reason, at=now)
                incident = await context.incidents.settle(incident, ends)
            await context.incidents.leave_open(incident)
            await context.incidents.remove(incident)
        return True
    # includes bundles of a sweeper that died before it wrote their rows
    if await context.archive.remove(f"{encode_key(tenant)}/", limit=_ROWS):
        return True
    if context.events is not None:
        for hook in await context.events.hooks.all_of(tenant):
            # delete it as a caller would, so that processes that know the webhook learn of it
            with telemetry.tolerate(Refused):
                await remove_hook(context, tenant, hook.hook.id, bulk.actor)
        if await context.events.feed.purge(tenant, limit=_ROWS):
            return True
    # each reads rows of all tenants, so they come last, once
    await _leave_open(context, tenant)
    await context.bulks.drop_due_before(bulk)
    await context.admissions.remove_tenant(tenant)
    context.process.gate_directory.forget()
    return False


async def _leave_open(context: Context, tenant: str) -> None:
    """Removes the tenant's incidents from the list of open incidents, also those of archived jobs."""
    after = None
    while found := await context.incidents.list_open(after=after, limit=_ROWS):
        for each in found:
            if each.incident.tenant == tenant:
                await context.incidents.leave_open(each.incident)
        after = found[-1].cursor


async def _end(context: Context, stored: StoredBulk, after: Bulk, now: datetime) -> StoredBulk:
    after = replace(after, state=BulkState.DONE, ended_at=now)
    # a later request starts another purge
    return await context.bulks.write(BulkWrite(before=stored, after=after, releases_key=True))


async def _write(context: Context, stored: StoredBulk, after: Bulk) -> StoredBulk:
    return await context.bulks.write(BulkWrite(before=stored, after=after))
