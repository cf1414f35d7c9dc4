"""Replays an ended job: a new job runs the same steps again and names the ended job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.archive_refusals import NotReplayable
from shared.core.jobs.as_of import find_total_time
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Event, Record
from shared.core.jobs.reasons import IgnoreReason, Reason
from shared.core.jobs.replay import ReplayRequest, plan_replay
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
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.read_archived import read_archived
from shared.operations.jobs.redrive_marks import mark_replayed
from shared.operations.jobs.references import wrong_references
from shared.operations.jobs.starting import check_not_withdrawn
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.refusals import IdempotencyConflict, JobNotFound, RequestInvalid


@dataclass(frozen=True)
class _Original:
    record: Record
    first_event: Event
    #: rows of the original; None if it is archived, and gets no event
    stored: Stored | None


async def replay_job(
    context: Context, orchestrations: Orchestrations, request: ReplayRequest, origin: Origin
) -> Created:
    """Returns the new job. Idempotent: a repeated call returns the same job and finishes an interrupted call.

    The order is that of every creation: idempotency record, rows, event of the original, start. So the sweeper finishes
    or withdraws an abandoned replay. Race replays: two concurrent calls make one new job. Raises JobNotFound,
    NotReplayable, IdempotencyConflict, LimitReached, Overloaded, ArchiveGone, ArchiveInvalid, Transient, and
    RequestInvalid if the present policy does not allow the references.
    """
    original = await _read_original(context, request.job_id)
    async with context.process.submissions.turn(original.record.job.tenant):
        return await _replay(context, orchestrations, original, request, origin)


async def _replay(
    context: Context, orchestrations: Orchestrations, original: _Original, request: ReplayRequest, origin: Origin
) -> Created:
    tenant = original.record.job.tenant

    def plan(job_id: str, created_at: datetime, status: JobStatus = JobStatus.QUEUED) -> tuple[Record, Event]:
        return plan_replay(
            original.record,
            request,
            job_id=job_id,
            created_at=created_at,
            allowed=find_total_time(original.first_event),
            workspace_uri=context.settings.workspace_uri,
            initial_status=status,
            origin=origin,
            salt=context.new_salt(),
        )

    for _ in range(MAX_CLAIM_RACES):
        claim = await context.index.read_claim(tenant, request.claim)
        if claim is not None and not is_expired(context, claim):
            if claim.body_hash != request.body_hash:
                raise IdempotencyConflict(claim.job_id)
            stored = await context.ledger.read(claim.job_id)
            if stored is None:
                initial = await initial_status_of(context, tenant, claim.job_id)
                stored = await write_rows(context, *plan(claim.job_id, claim.created_at, initial))
            return Created(await _start(context, orchestrations, original, stored, origin), replayed=True)
        _check_can_run(context, original.record)
        record, event = plan(context.new_job_id(), context.clock.now())
        refs = {"input_ref": record.job.input_ref, "output_ref": record.job.output_ref}
        if wrong := wrong_references(context, tenant, refs):
            raise RequestInvalid(wrong)
        if (reserved := await reserve(context, orchestrations, record, replacing=claim)) is not None:
            if reserved.initial_status is not record.job.status:
                record, event = plan(record.job.job_id, record.job.created_at, reserved.initial_status)
            stored = await write_rows(context, record, event)
            started = await _start(context, orchestrations, original, stored, origin)
            await notify(context, orchestrations, tenant, reserved.entered)
            return Created(started, replayed=False, decision=reserved.decision)
    raise Contended("the idempotency record of this replay changed at every try")


async def _read_original(context: Context, job_id: str) -> _Original:
    """Returns the job to replay. Raises JobNotFound, NotReplayable, and errors of the archive."""
    stored = await context.ledger.read(job_id)
    # Race purge: none if the job was archived or purged since
    events = await context.ledger.events(job_id, limit=1) if stored is not None else []
    if stored is not None and events:
        record, first = stored.record, events[0]
    elif (archived := await read_archived(context, job_id)) is not None:
        stored, record, first = None, archived.record, archived.events[0]
    else:
        raise JobNotFound(job_id)
    job = record.job
    if job.error_code == Reason.WITHDRAWN:
        raise NotReplayable(
            Reason.WITHDRAWN, f"cannot replay job {job_id}: the job was never created; submit its request again"
        )
    if not job.status.terminal:
        raise NotReplayable(
            IgnoreReason.JOB_LIVE, f"cannot replay job {job_id}: the job is {job.status}; wait until the job has ended"
        )
    return _Original(record, first, stored)


def _check_can_run(context: Context, record: Record) -> None:
    """Raises NotReplayable if the protocol of the job, or the service of a step, no longer exists."""
    job, registry = record.job, context.registry
    if registry.find(job.request_type) is None:
        raise NotReplayable(
            "PROTOCOL_GONE",
            f"cannot replay job {job.job_id}: no protocol has request_type {job.request_type}; an "
            "operator must add the protocol again",
        )
    for step in record.steps:
        if registry.services.get(step.service) != step.step_type:
            raise NotReplayable(
                "SERVICE_GONE",
                f"cannot replay job {job.job_id}: no service {step.service} receives step_type {step.step_type}; an "
                "operator must add the service again",
            )


async def _start(
    context: Context, orchestrations: Orchestrations, original: _Original, stored: Stored, origin: Origin
) -> Stored:
    """Adds the event to the original, then starts the new job."""
    check_not_withdrawn(stored)
    if original.stored is not None:
        await mark_replayed(context, orchestrations, original.stored, stored.record.job, origin)
    return await reconcile_place(context, orchestrations, stored)
