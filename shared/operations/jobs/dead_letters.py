"""Dead letters: failed jobs that are neither redriven nor dismissed, most recent first.

The rows in the index (R60) name the jobs. The other fields of a list item are read from the ledger.
"""

from __future__ import annotations

from functools import partial

from shared import telemetry
from shared.api.dead_letter import DeadLetter, dead_letter
from shared.core.filters import JobFilter
from shared.core.incidents import (
    Incident,
    IncidentState,
    Settlement,
    escalates,
    incident_of,
    job_incident_id,
    make_unseen_retry,
)
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import Contended, LuciusError
from shared.operations.jobs.list_jobs import Page, fill, walk_list
from shared.operations.jobs.read_archived import not_in_ledger
from shared.operations.jobs.read_history import read_for_list
from shared.operations.process.context import Context
from shared.operations.process.log_hints import note_incident
from shared.ports.dead_letters import DeadRow, LetterState, ended_at
from shared.ports.index import ListRow
from shared.refusals import ControlNotPossible


async def list_dead_letters(
    context: Context, job_filter: JobFilter, *, after: str | None, limit: int
) -> Page[DeadLetter]:
    """Returns one page, with the reason and the step of each failure. No archived job is a dead letter.

    Raises LedgerUnavailable.
    """
    if job_filter.archived:
        return Page([], None)
    if job_filter.is_keyed:
        return await walk_list(context, job_filter, partial(_if_dead, context), after=after, limit=limit)

    async def of_tenant(tenant: str, after: str | None, count: int) -> list[DeadRow]:
        return await context.index.dead_letters(tenant, after=after, limit=count, since=job_filter.since)

    def may_match(dead: DeadRow) -> bool:
        return job_filter.has_time(dead.created_at) and job_filter.may_match(
            JobStatus.FAILED_FINAL, dead.request_type, dead.labels
        )

    async def render(dead: DeadRow) -> DeadLetter | None:
        return await _dead_letter(context, dead.job_id)

    every_row = job_filter.matches_every_row and job_filter.since is None and job_filter.until is None
    return await fill(context, job_filter, of_tenant, may_match, render, after=after, limit=limit, every_row=every_row)


async def _if_dead(context: Context, listed: ListRow) -> DeadLetter | None:
    return await _dead_letter(context, listed.job_id) if listed.dead_letter == LetterState.LISTED else None


async def _dead_letter(context: Context, job_id: str) -> DeadLetter | None:
    stored = await read_for_list(context.ledger, job_id)
    # Race letter: the row is deleted right after the redrive, or by the next sweep
    return dead_letter(stored.record) if stored is not None and stored.record.job.redriven_by is None else None


async def dismiss_dead_letter(context: Context, job_id: str, origin: Origin) -> Job:
    """Dismisses a dead letter permanently. The job itself does not change and can still be redriven.

    An open incident of the job is dismissed too, with the actor and the reason in its log. Idempotent. Raises
    JobNotFound, JobArchived, Transient, and ControlNotPossible if the job is not a dead letter or was redriven.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise await not_in_ledger(context, job_id)
    job = stored.record.job
    if job.status is not JobStatus.FAILED_FINAL or job.redriven_by is not None:
        raise ControlNotPossible(
            job_id,
            job.status,
            "dismiss",
            f"is {job.status}, and only a FAILED_FINAL job that was not redriven is a dead letter",
        )
    now, reason = context.clock.now(), origin.reason or ""
    settlement = Settlement(state=IncidentState.DISMISSED, actor=origin.actor, reason=reason, at=now)
    state = await end_dead_letter(context, job, LetterState.DISMISSED, settlement)
    if state is LetterState.REDRIVEN:
        raise ControlNotPossible(
            job_id, job.status, "dismiss", "was redriven; dismiss the new job if that job fails too"
        )
    telemetry.info(
        "DEAD_LETTER_DISMISSED", jobId=job_id, tenant_id=job.tenant, actor=origin.actor, reason=origin.reason
    )
    return job


async def end_dead_letter(context: Context, job: Job, state: LetterState, settlement: Settlement) -> LetterState:
    """Ends the job's dead letter and, in the same transaction, closes its incident if one is open (R64).

    Returns the final state of the dead letter: `state`, or the state that an earlier call wrote. Raises
    LedgerUnavailable, and Contended if the lists do not show yet that the job ended.
    """
    found = await context.index.end_dead_letter(job, state, settlement)
    if found is None:
        raise Contended(f"job {job.job_id} has ended, but the lists do not show this state yet")
    await leave_open(context, job)
    return found


async def leave_open(context: Context, job: Job) -> None:
    """Calls `leave_list` for the job's incident if the incident is closed. Logs a fault of `leave_list`, and the
    sweeper repeats its work. Raises LedgerUnavailable if the incident cannot be read.
    """
    if (incident := await incident_of_job(context, job)) is None or incident.is_open:
        return
    note_incident(context.events, incident)
    with telemetry.tolerate(LuciusError):
        await leave_list(context, incident)


async def leave_list(context: Context, incident: Incident) -> None:
    """Deletes a job's closed incident from the list of open incidents. In a deployment with feeds, writes the closed
    state to the list instead. The sweeper then deletes the entry after the feed has the incident (R79).


    Raises LedgerUnavailable.
    """
    if context.events is None:
        await context.incidents.leave_open(incident)
    else:
        await context.incidents.enter_open(incident, context.clock.now())


async def incident_of_job(context: Context, job: Job) -> Incident | None:
    """Returns the job's incident, or None if the job has none. Raises LedgerUnavailable."""
    if not escalates(job):
        return None
    return await context.incidents.read(job.tenant, job_incident_id(job.job_id), ended_at(job))


async def list_open(context: Context, job: Job) -> bool:
    """Adds the incident of a failed job to the list of open incidents, and sends the incident's hint. Returns `False`
    after a fault.

    Logs a fault. The sweeper then adds the incident when it clears the job.
    """
    if (found := incident_of(job)) is None:
        return True
    note_incident(context.events, *found)
    try:
        await context.incidents.enter_open(found[0], context.clock.now())
    except LuciusError as fault:
        telemetry.record_fault(fault)
        return False
    return True


async def settle_dead_letter(context: Context, job: Job) -> None:
    """Ends the dead letter of a job whose redrive was interrupted before this step. Adds the job's open incident to the
    list again.

    Raises Contended, LedgerUnavailable.
    """
    if job.redriven_by is not None:
        await context.index.end_dead_letter(job, LetterState.REDRIVEN, make_unseen_retry(job))
    if (incident := await incident_of_job(context, job)) is not None and incident.is_open:
        await context.incidents.enter_open(incident, context.clock.now())
