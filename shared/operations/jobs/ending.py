"""Does the remaining work after the commit that ended a job. `transition` calls this module by `Context.follow_end`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.jobs import durable_names
from shared.core.jobs.job import Event, Job, Record
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import end_event
from shared.errors import InstanceEnded, InstanceNotFound, LuciusError
from shared.operations.gates import freed
from shared.operations.jobs.admission import notify
from shared.operations.jobs.dead_letters import list_open
from shared.operations.jobs.dependants import notify_dependants, request_action
from shared.operations.process.context import Context
from shared.operations.process.hinting import is_sent
from shared.ports.durable import Orchestrations
from shared.ports.index import first_clearing
from shared.ports.ledger import Stored

#: delay of the clearing after its end, for a job whose last hint was not sent, or whose incident is not listed
_SOON = timedelta(minutes=1)


async def follow_end(
    context: Context, orchestrations: Orchestrations, stored: Stored, rows: Sequence[Event] = ()
) -> None:
    """Does the steps after the commit that ended a job. `rows`: the job's EVENT rows, if they were committed now.

    The ACTIVE row is deleted in step 4. If a process dies before step 4, the row stays and the sweeper repeats every
    step. Every step is idempotent. A fault after step 4 is logged, and the sweeper repeats the step when it clears the
    job.

    Raises Contended, LedgerUnavailable, OrchestrationUnavailable.
    """
    job = stored.record.job
    # 1. Notify its orchestrations. First, because without ACTIVE no sweep would notify them (R12).
    if not job.is_staged:
        await resume_parked(orchestrations, stored.record)
        await raise_end(orchestrations, stored.record)
    # 2. Send its last hint. Before ACTIVE is deleted: from then on no sweep compares the job with the feed until it is
    # cleared (R71).
    hinted = context.events.hinting.begin(job, rows) if context.events is not None else None
    # 3. Count its end at its dependants (R53). Before ACTIVE is deleted, by which the sweeper finds the others. Until
    # each has counted it, only the job's slot is free, and a call or the sweeper repeats the steps.
    if job.awaited and not (informed := await _notify_dependants(context, job)):
        if await freed.release_slot(context, job):
            await _admit_next(context, orchestrations, job)
        if informed is not None:
            # after a fault, a call would meet the same fault immediately
            await request_action(context, job.tenant, job.job_id)
        return
    # 4. Write its end to its rows in the index. 5. Start the next jobs: before the other steps, for which they need not
    # wait.
    if await _close(context, stored):
        await _admit_next(context, orchestrations, job)
    # 6. Add its incident, which step 4 has written, to the list of open ones.
    is_listed = await list_open(context, job)
    # 7. Purge the durable histories of earlier ends, and later its own. If the sweeper must list its incident or
    # compare it with the feed, it clears the job in a minute instead. Last, since the hint may take seconds.
    if not is_listed or (hinted is not None and not await is_sent(hinted)):
        with contextlib.suppress(LuciusError):
            ended_at = job.completed_at or job.updated_at
            await context.index.reschedule_clearing(first_clearing(job), ended_at + _SOON)
    else:
        # a caller may be able to move the job without access to its tenant's feed
        events = context.of_all_tenants.events
        await context.process.recent_ends.clear_and_note(
            orchestrations,
            stored.record,
            claim_ends=_claim_ends(context, job),
            now=context.clock.now(),
            feed=events.feed if events is not None else None,
        )


async def resume_parked(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the resume event of the latest pause, also for a job that ended. Early and repeated events are harmless.

    Race resume: an orchestration that still waits at an earlier pause, whose event was lost, gets the sweeper's
    wake-up. Raises OrchestrationUnavailable.
    """
    job = record.job
    if not job.park_no or job.status is JobStatus.PAUSED or job.is_staged:
        return
    for instance_id in sorted({record.instance_of(step) for step in record.steps}):
        try:
            await orchestrations.raise_event(
                instance_id, durable_names.resume_event(job.park_no), {"status": job.status}
            )
        except (InstanceEnded, InstanceNotFound) as gone:
            telemetry.info("ORCHESTRATION_GONE", **telemetry.line_ids(job), reason=type(gone).__name__)


async def raise_end(orchestrations: Orchestrations, record: Record) -> None:
    """Raises an event in the orchestration of each current step that did not succeed, because the job failed or was
    cancelled (R12).

    Without the event, these orchestrations wait for leases and backoffs of steps that have ended. In a job that
    SUCCEEDED, each step has had its RESULT. Repeated events are harmless. Raises OrchestrationUnavailable.
    """
    for step in record.open_steps:
        # Race heard: an orchestration that starts later reads the ledger
        with contextlib.suppress(InstanceEnded, InstanceNotFound):
            await orchestrations.raise_event(record.instance_of(step), end_event(step), {"next": "END"})


async def _notify_dependants(context: Context, job: Job) -> bool | None:
    """Returns `True` if every dependant has counted the job as ended, `False` if some have not, and None after a
    fault.
    """
    with telemetry.tolerate(LuciusError, "DEPENDANTS_UNTOLD", **telemetry.line_ids(job)):
        return await notify_dependants(context, job)
    return None


async def _admit_next(context: Context, orchestrations: Orchestrations, job: Job) -> None:
    """Takes the turn of the tenant for the freed slot, and starts the admitted jobs. Raises no error of LUCIUS."""
    await notify(context, orchestrations, job.tenant, await freed.take_turn_after_end(context, job.tenant, job.job_id))


async def _close(context: Context, stored: Stored) -> bool:
    """Writes the index transaction of an ended job. Returns `True` if the transaction leaves a slot for a turn of the
    tenant.

    Raises Contended, LedgerUnavailable.
    """
    job = stored.record.job
    return await context.index.close(
        job,
        claim_expires_at=_claim_ends(context, job),
        purged=context.process.recent_ends.take_purged(job.tenant),
        counted=await freed.may_be_counted(context, job),
    )


def _claim_ends(context: Context, job: Job) -> datetime:
    if job.completed_at is None:
        raise ValueError("only a job that ended is closed")
    return job.completed_at + timedelta(days=context.settings.idempotency_ttl_days)
