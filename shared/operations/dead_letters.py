"""Dead letters: jobs that failed for good and that nobody has taken up or put aside, the last that failed first.

The rows in the index (R60) say which; what a line tells of a job is read from the ledger.
"""

from __future__ import annotations

from shared import telemetry
from shared.core.filters import JobFilter
from shared.core.history import Origin
from shared.core.job import Job
from shared.core.states import JobStatus
from shared.errors import Contended, ControlNotPossible, JobNotFound
from shared.operations.context import Context
from shared.operations.list_jobs import Page, fill
from shared.operations.read_history import read_for_list
from shared.ports.dead_letters import DeadRow, LetterState
from shared.responses.job import DeadLetter
from shared.views.job import dead_letter


async def list_dead_letters(
    context: Context, job_filter: JobFilter, *, after: str | None, limit: int
) -> Page[DeadLetter]:
    """One page, with why and where each job failed. Raises LedgerUnavailable."""

    async def of_tenant(tenant: str, after: str | None, count: int) -> list[DeadRow]:
        return await context.index.dead_letters(tenant, after=after, limit=count, since=job_filter.since)

    def may_match(dead: DeadRow) -> bool:
        return job_filter.has_time(dead.created_at) and job_filter.may_match(
            JobStatus.FAILED_FINAL, dead.request_type, dead.labels
        )

    async def render(dead: DeadRow) -> DeadLetter | None:
        stored = await read_for_list(context.ledger, dead.job_id)
        # Race letter: its row goes right after its redrive, or at the sweeper's next look
        return dead_letter(stored.record) if stored is not None and stored.record.job.redriven_by is None else None

    every_row = job_filter.matches_every_row and job_filter.since is None and job_filter.until is None
    return await fill(context, job_filter, of_tenant, may_match, render, after=after, limit=limit, every_row=every_row)


async def dismiss_dead_letter(context: Context, job_id: str, origin: Origin) -> Job:
    """Takes a job off the dead letters for good, the job itself as it is: it can still be redriven.

    The job's history does not tell it: who asks for it keeps who did it, and why. Again is harmless. Raises
    JobNotFound, ControlNotPossible (no dead letter, or redriven), Transient.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise JobNotFound(job_id)
    job = stored.record.job
    if job.status is not JobStatus.FAILED_FINAL or job.redriven_by is not None:
        raise ControlNotPossible(job_id, job.status, "be dismissed: it is no dead letter")
    state = await context.index.end_dead_letter(job, LetterState.DISMISSED)
    if state is None:
        raise Contended(f"the end of job {job_id} is not in the lists yet")
    if state is LetterState.REDRIVEN:
        raise ControlNotPossible(job_id, job.status, "be dismissed: it was taken up again")
    telemetry.info(
        "DEAD_LETTER_DISMISSED", jobId=job_id, tenant_id=job.tenant, actor=origin.actor, reason=origin.reason
    )
    return job
