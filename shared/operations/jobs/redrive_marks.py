"""The marks of a redrive on the old job: it names the new job, and is no dead letter any more (R39)."""

from __future__ import annotations

from shared.core.incidents import IncidentState, Settlement
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job, Record
from shared.core.jobs.occurrences import Redriven
from shared.core.jobs.states import JobStatus
from shared.operations.context import Context
from shared.operations.jobs.dead_letters import leave_open
from shared.operations.jobs.transition import transition
from shared.ports.dead_letters import LetterState
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored


async def mark_unnamed(context: Context, orchestrations: Orchestrations, record: Record) -> None:
    """Marks the old job of a redrive that died before it did. Raises LedgerUnavailable, OrchestrationUnavailable."""
    old = await context.ledger.read(record.job.redrive_of) if record.job.redrive_of is not None else None
    if old is not None:
        origin = Origin(cause_id="", actor="system", source="sweeper")
        await mark_redriven(context, orchestrations, old, record.job.job_id, origin)


async def mark_redriven(
    context: Context, orchestrations: Orchestrations, old: Stored, new_id: str, origin: Origin
) -> None:
    """Writes the new job's id into the old job. Raises LedgerUnavailable, OrchestrationUnavailable."""
    mark = Origin(cause_id=f"redrive:{new_id}", actor=origin.actor, source=origin.source, reason=origin.reason)
    await transition(context, old, Redriven(new_id), mark, orchestrations=orchestrations)
    await end_letter(context, old.record.job, new_id, origin)


async def end_letter(context: Context, job: Job, new_id: str, origin: Origin) -> None:
    """Ends the dead letter of a redriven job and settles its incident; a cancelled job has neither.

    Raises LedgerUnavailable.
    """
    if job.status is not JobStatus.FAILED_FINAL:
        return
    settlement = Settlement(
        state=IncidentState.RETRIED,
        actor=origin.actor,
        reason=origin.reason or "",
        at=context.clock.now(),
        retried_by=new_id,
    )
    if await context.index.end_dead_letter(job, LetterState.REDRIVEN, settlement) is not None:
        await leave_open(context, job)
