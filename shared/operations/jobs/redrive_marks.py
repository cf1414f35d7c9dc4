"""Marks the old job of a redrive or replay with the new job's id, and ends the dead letter of a redriven job (R39)."""

from __future__ import annotations

from contextlib import suppress

from shared.core.incidents import IncidentState, Settlement
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job, Record
from shared.core.jobs.occurrences import Redriven, Replayed
from shared.core.jobs.states import JobStatus
from shared.errors import JobVanished
from shared.operations.jobs.dead_letters import leave_open
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.ports.dead_letters import LetterState
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored


async def mark_unnamed(context: Context, orchestrations: Orchestrations, record: Record) -> None:
    """Marks the old job of a redrive or replay that was interrupted before the mark.

    Raises Contended, LedgerUnavailable, OrchestrationUnavailable.
    """
    job, origin = record.job, Origin(cause_id="", actor="system", source="sweeper")
    named = job.redrive_of or job.replay_of
    old = await context.ledger.read(named) if named is not None else None
    if old is None:
        return
    if job.redrive_of is not None:
        await mark_redriven(context, orchestrations, old, job.job_id, origin)
    else:
        await mark_replayed(context, orchestrations, old, job, origin)


async def mark_replayed(
    context: Context, orchestrations: Orchestrations, original: Stored, replay: Job, origin: Origin
) -> None:
    """Adds the event with the replay's id to the original job, once. Raises Contended,
    LedgerUnavailable, OrchestrationUnavailable.

    Race purge: an original that is archived or purged in the meantime gets no event, and its replay runs.
    """
    cause_id = f"replay:{replay.job_id}"
    mark = Origin(cause_id=cause_id, actor=origin.actor, source=origin.source, reason=origin.reason)
    named = Replayed(replay.job_id, replay.replay_mode or "")
    with suppress(JobVanished):
        await transition(context, original, named, mark, orchestrations=orchestrations, maybe_repeated=True)


async def mark_redriven(
    context: Context, orchestrations: Orchestrations, old: Stored, new_id: str, origin: Origin
) -> None:
    """Writes the new job's id into the old job, and ends the old job's dead letter. Raises Contended,
    LedgerUnavailable, OrchestrationUnavailable.

    Race purge: an old job that is archived or purged in the meantime gets no mark, and its redrive runs.
    """
    mark = Origin(cause_id=f"redrive:{new_id}", actor=origin.actor, source=origin.source, reason=origin.reason)
    with suppress(JobVanished):
        await transition(context, old, Redriven(new_id), mark, orchestrations=orchestrations)
        await end_letter(context, old.record.job, new_id, origin)


async def end_letter(context: Context, job: Job, new_id: str, origin: Origin) -> None:
    """Ends the dead letter of a redriven job and closes its incident. A cancelled job has neither.

    Raises Contended, LedgerUnavailable.
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
