"""Redrives a failed or cancelled job: a new job continues it (R39)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared import telemetry
from shared.core.jobs.as_of import find_total_time
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Event, Record, Ref
from shared.core.jobs.reasons import IgnoreReason, Reason
from shared.core.jobs.redrive import claim_key_of, not_redrivable, plan_redrive
from shared.core.jobs.states import JobStatus
from shared.errors import Contended
from shared.operations.jobs.admission import notify
from shared.operations.jobs.creation import (
    MAX_CLAIM_RACES,
    Created,
    initial_status_of,
    is_expired,
    reserve,
    write_rows,
)
from shared.operations.jobs.dependencies import again_awaited
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.read_archived import not_in_ledger
from shared.operations.jobs.redrive_marks import end_letter, mark_redriven
from shared.operations.jobs.references import wrong_references
from shared.operations.jobs.starting import check_not_withdrawn
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.refusals import NotRedrivable, RequestInvalid


async def redrive_job(
    context: Context, orchestrations: Orchestrations, job_id: str, origin: Origin, *, ignore_dependencies: bool = False
) -> Created:
    """Returns the new job. Idempotent: a repeated call returns the same job and finishes an interrupted call.

    The order is that of every creation: idempotency record, rows, mark of the old job, start. So the sweeper finishes
    or withdraws an abandoned redrive. Race redrives: two concurrent calls make one new job.

    If a job never began because of its dependencies, the new job waits for them again, or for their redrives. With
    `ignore_dependencies`, the new job waits for no job. Raises JobNotFound, JobArchived, NotRedrivable, LimitReached,
    Overloaded, ArchiveGone, ArchiveInvalid, Transient, and RequestInvalid if the present policy does not allow the
    job's references.
    """
    old = await context.ledger.read(job_id)
    if old is None:
        raise await not_in_ledger(context, job_id)
    _refuse(old.record)
    async with context.process.submissions.turn(old.record.job.tenant):
        return await _redrive(context, orchestrations, old, origin, ignore_dependencies)


async def _redrive(
    context: Context, orchestrations: Orchestrations, old: Stored, origin: Origin, ignore_dependencies: bool
) -> Created:
    if old.record.job.redriven_by is not None:
        # also after the retention of the idempotency record
        known = await context.ledger.read(old.record.job.redriven_by)
        if known is not None:
            await end_letter(context, old.record.job, old.record.job.redriven_by, origin)
            return Created(await reconcile_place(context, orchestrations, known), replayed=True)
    job_id, tenant = old.record.job.job_id, old.record.job.tenant
    claim_key = claim_key_of(job_id)
    for _ in range(MAX_CLAIM_RACES):
        claim = await context.index.read_claim(tenant, claim_key)
        if claim is not None and not is_expired(context, claim):
            stored = await context.ledger.read(claim.job_id)
            if stored is None:
                initial = await initial_status_of(context, tenant, claim.job_id)
                waits = initial is JobStatus.WAITING_FOR_JOBS
                dependencies = await again_awaited(context, old.record.job) if waits else []
                planned = await _plan(context, old, claim.job_id, claim.created_at, origin, initial, dependencies)
                stored = await write_rows(context, *planned)
            return Created(await _link(context, orchestrations, old, stored, origin), replayed=True)
        if wrong := wrong_references(context, tenant, _references(old.record)):
            raise RequestInvalid(wrong)
        new_id, now = context.new_job_id(), context.clock.now()
        dependencies = [] if ignore_dependencies else await again_awaited(context, old.record.job)
        record, event = await _plan(context, old, new_id, now, origin, dependencies=dependencies)
        _refuse_expired(context, record)
        if (reserved := await reserve(context, orchestrations, record, replacing=claim)) is not None:
            if reserved.initial_status is not record.job.status:
                record, event = await _plan(context, old, new_id, now, origin, reserved.initial_status, dependencies)
            stored = await write_rows(context, record, event)
            telemetry.info("JOB_REDRIVEN", jobId=job_id, redriven_by=record.job.job_id, tenant_id=tenant)
            linked = await _link(context, orchestrations, old, stored, origin)
            await notify(context, orchestrations, tenant, reserved.entered)
            return Created(linked, replayed=False, decision=reserved.decision)
    raise Contended("the idempotency record of this redrive changed at every try")


def _references(record: Record) -> dict[str, Ref]:
    """Returns the references for the new job: those of the old job, and carried results."""
    refs = {"input_ref": record.job.input_ref, "output_ref": record.job.output_ref}
    return refs | {f"{step.step_id}.result_ref": step.result_ref for step in record.steps if step.result_ref}


def _refuse(record: Record) -> None:
    job = record.job
    if job.error_code == Reason.WITHDRAWN:
        raise NotRedrivable(
            Reason.WITHDRAWN, f"cannot redrive job {job.job_id}: the job was never created; submit its request again"
        )
    if (why := not_redrivable(record)) is not None:
        detail = f"cannot redrive job {job.job_id}: the job is {job.status}, not FAILED_FINAL or CANCELLED"
        raise NotRedrivable(why, detail)


def _refuse_expired(context: Context, new: Record) -> None:
    """Raises NotRedrivable if a result in the workspace is past its retention, since the step that reads the result
    fails (R47).
    """
    retention, now = context.settings.retention, context.clock.now()
    for step in new.steps:
        if not step.carried or step.next_input is None or step.completed_at is None:
            continue
        end = retention.end(step.next_input["uri"], step.completed_at)
        if end is not None and end <= now:
            detail = (
                f"the result of step {step.step_id} was retained until {end:%Y-%m-%d}, and the new job needs the "
                "result; submit the original request again, with a new idempotency_key"
            )
            raise NotRedrivable(IgnoreReason.RESULT_EXPIRED, detail)


async def _plan(
    context: Context,
    old: Stored,
    job_id: str,
    created_at: datetime,
    origin: Origin,
    initial_status: JobStatus = JobStatus.QUEUED,
    dependencies: Sequence[str] = (),
) -> tuple[Record, Event]:
    old_id = old.record.job.job_id
    if not (events := await context.ledger.events(old_id, limit=1)):
        # Race purge: the job was archived or purged since
        raise await not_in_ledger(context, old_id)
    return plan_redrive(
        old.record,
        job_id=job_id,
        created_at=created_at,
        allowed=find_total_time(events[0]),
        initial_status=initial_status,
        dependencies=dependencies,
        origin=origin,
        salt=context.new_salt(),
    )


async def _link(
    context: Context, orchestrations: Orchestrations, old: Stored, stored: Stored, origin: Origin
) -> Stored:
    """Writes the new job's id into the old job, ends the old job's dead letter, then starts the new job."""
    check_not_withdrawn(stored)
    await mark_redriven(context, orchestrations, old, stored.record.job.job_id, origin)
    return await reconcile_place(context, orchestrations, stored)
