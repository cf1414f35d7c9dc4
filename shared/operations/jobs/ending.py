"""The end of a job: the steps that follow its commit (`transition` calls them by `Context.follow_end`)."""

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
from shared.operations.context import Context
from shared.operations.gates import freed
from shared.operations.jobs.admission import notify
from shared.operations.jobs.dead_letters import list_open
from shared.operations.jobs.dependants import call, notify_dependants
from shared.operations.process.hinting import is_sent
from shared.ports.durable import Orchestrations
from shared.ports.index import first_clearing
from shared.ports.ledger import Stored

#: after its end, of a job whose last hint the queue did not take
_SOON = timedelta(minutes=1)


async def follow_end(
    context: Context, orchestrations: Orchestrations, stored: Stored, rows: Sequence[Event] = ()
) -> None:
    """Does all that follows the end of a job; `rows`: its EVENT rows, if they were committed now.

    The ACTIVE row goes in step 4. A process that dies before leaves it, and the sweeper repeats every step: each one is
    idempotent. What fails after step 4 is logged, and the sweeper does it when it clears the job. Raises
    LedgerUnavailable, OrchestrationUnavailable.
    """
    job = stored.record.job
    # 1. Its orchestrations hear of the end. First, because without ACTIVE no sweep would tell them (R12).
    if not job.is_staged:
        await resume_parked(orchestrations, stored.record)
        await raise_end(orchestrations, stored.record)
    # 2. Its last hint is on its way. Before ACTIVE goes: from then on no sweep compares the job with the feed until it
    #    is cleared (R71).
    hinted = context.events.hinting.begin(job, rows) if context.events is not None else None
    # 3. The jobs that wait for it count its end (R53). Before ACTIVE goes, which is what the sweeper finds the others
    #    by: until each has counted it, only the job's slot is free, and a call or the sweeper repeats the steps.
    if job.awaited and not (informed := await _notify_dependants(context, job)):
        if await freed.release_slot(context, job):
            await _admit_next(context, orchestrations, job)
        if informed is not None:
            # after a fault a call would meet the same fault at once
            await call(context, job.tenant, job.job_id)
        return
    # 4. Its rows in the index say how it ended. 5. The next jobs start: before the rest, which they need not wait for.
    if await _close(context, stored):
        await _admit_next(context, orchestrations, job)
    # 6. Its incident, which step 4 has written, joins the list of open ones.
    is_listed = await list_open(context, job)
    # 7. The durable histories of earlier ends are purged, and later its own. If the sweeper has to list its incident
    #    or to compare it with the feed, it clears the job in a minute instead. Last, since the hint may take seconds.
    if not is_listed or (hinted is not None and not await is_sent(hinted)):
        with contextlib.suppress(LuciusError):
            ended_at = job.completed_at or job.updated_at
            await context.index.reschedule_clearing(first_clearing(job), ended_at + _SOON)
    else:
        # a caller may move the job without seeing its tenant's feed
        events = context.of_all_tenants.events
        await context.process.recent_ends.clear_and_note(
            orchestrations,
            stored.record,
            claim_ends=_claim_ends(context, job),
            now=context.clock.now(),
            feed=events.feed if events is not None else None,
        )


async def resume_parked(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the resume of the newest parking, also for a job that ended; early and repeated ones are harmless.

    Race resume: an orchestration that still waits at an older one, whose resume was lost, hears the sweeper's look.
    Raises OrchestrationUnavailable.
    """
    job = record.job
    if not job.park_no or job.status is JobStatus.PAUSED or job.is_staged:
        return
    for instance_id in sorted({record.instance_of(step) for step in record.steps}):
        try:
            await orchestrations.raise_event(instance_id, durable_names.resume(job.park_no), {"status": job.status})
        except (InstanceEnded, InstanceNotFound) as gone:
            telemetry.info("ORCHESTRATION_GONE", **telemetry.line_ids(job), reason=type(gone).__name__)


async def raise_end(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the end of a failed or cancelled job in the orchestration of each step that did not succeed (R12).

    Else they would wait for the leases and backoffs of steps that are over. Of a job that SUCCEEDED each has had its
    RESULT. Repeated ones are harmless. Raises OrchestrationUnavailable.
    """
    for step in record.open_steps:
        with contextlib.suppress(InstanceEnded, InstanceNotFound):  # Race heard; one that starts later asks the ledger
            await orchestrations.raise_event(record.instance_of(step), end_event(step), {"next": "END"})


async def _notify_dependants(context: Context, job: Job) -> bool | None:
    """Whether each job that waits for this one has counted its end; None: not now, because of a fault."""
    with telemetry.tolerate(LuciusError, "DEPENDANTS_UNTOLD", **telemetry.line_ids(job)):
        return await notify_dependants(context, job)
    return None


async def _admit_next(context: Context, orchestrations: Orchestrations, job: Job) -> None:
    """Takes the turn of the tenant that the freed slot allows, and starts the admitted jobs. Raises nothing of
    LUCIUS's.
    """
    await notify(context, orchestrations, job.tenant, await freed.take_turn_after_end(context, job.tenant, job.job_id))


async def _close(context: Context, stored: Stored) -> bool:
    """Writes the index transaction of the end; whether it leaves a slot for a turn of its tenant.

    Raises LedgerUnavailable.
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
