"""Reconciles a job with its place in the admission state, after a change of either (R49)."""

from __future__ import annotations

from shared.core.gates.admission import ASLEEP
from shared.core.gates.admission_state import Candidate
from shared.core.gates.places import Owed, find_owed
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import DependenciesSettled, DependencyFailed
from shared.core.jobs.states import JobStatus
from shared.errors import Contended
from shared.operations.gates import admissions
from shared.operations.gates.admission_turns import QuotasUnknown
from shared.operations.gates.queue_joins import join_queue
from shared.operations.jobs.admission import admit, notify
from shared.operations.jobs.dependencies import mark, recount_dependencies
from shared.operations.jobs.ending import follow_end
from shared.operations.jobs.starting import check_not_withdrawn, start_once
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored

#: maximum turns; each does one due action, and a job that is paused and resumed in the meantime needs several
_MAX_TURNS = 8


async def reconcile_place(context: Context, orchestrations: Orchestrations, stored: Stored) -> Stored:
    """Reconciles the job with its place, and returns the job afterwards.

    The processes that create, change or sweep the job call this function. Idempotent. Starts an admitted job that may
    never have been started. Raises CreationWithdrawn, Contended, LedgerUnavailable, OrchestrationUnavailable, and for a
    dependency ArchiveGone and ArchiveInvalid.
    """
    for _ in range(_MAX_TURNS):
        check_not_withdrawn(stored)
        job = stored.record.job
        if not job.is_staged and not job.status.terminal:
            return await start_once(orchestrations, stored)
        active = await context.index.read_active(job.tenant, job.job_id)
        if active is None:
            return stored
        place = active.counted_place
        match find_owed(job, place):
            case Owed.NOTHING:
                is_due = job.status is JobStatus.WAITING_FOR_JOBS and active.check_at <= context.clock.now()
                if (
                    not is_due
                    or active.place is None
                    or not await recount_dependencies(context, job, active, active.place)
                ):
                    return stored
            case Owed.NOTIFY:
                if (started := await admit(context, orchestrations, job.job_id)) is not None:
                    return started
            case Owed.MARK:
                await mark(context, orchestrations, stored)
            case Owed.SETTLE:
                await _move(context, orchestrations, stored, DependenciesSettled(), "settled")
            case Owed.FAIL:
                await _move(context, orchestrations, stored, DependencyFailed(place.failed_dependency or ""), "failed")
            case Owed.END:
                await follow_end(context, orchestrations, stored)
                return stored
            case step:
                due_at, candidate = job.expires_at or ASLEEP, Candidate.of(job)
                try:
                    if step is Owed.JOIN_QUEUE:
                        entered = await join_queue(context, job.tenant, job.job_id, due_at, candidate=candidate)
                    else:
                        entered = await admissions.move_in_queue(
                            context, job.tenant, job.job_id, step, due_at, candidate=candidate
                        )
                except QuotasUnknown:
                    # a call, or the sweeper, continues once the quotas and counts are known
                    return stored
                await notify(context, orchestrations, job.tenant, entered)
        again = await context.ledger.read(job.job_id)
        if again is None:
            return stored
        stored = again
    raise Contended("the job changed at every try to move the job in the waiting queue")


async def _move(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored,
    occurrence: DependenciesSettled | DependencyFailed,
    what: str,
) -> None:
    origin = Origin(cause_id=f"dependencies:{what}:{stored.record.job.job_id}", actor="system", source="gates")
    await transition(context, stored, occurrence, origin, orchestrations=orchestrations)
