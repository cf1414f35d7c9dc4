"""Cancels, pauses and resumes jobs (R11), and changes the priority of waiting jobs (R67)."""

from __future__ import annotations

from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import Control, ControlKind, PriorityChanged
from shared.core.jobs.outcome import OutcomeKind
from shared.core.jobs.reasons import IgnoreReason
from shared.operations.jobs.ending import resume_parked
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.read_archived import not_in_ledger
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.refusals import ControlNotPossible, JobTerminal


async def control_job(
    context: Context,
    orchestrations: Orchestrations,
    job_id: str,
    kind: ControlKind,
    origin: Origin,
    *,
    maybe_repeated: bool = False,
) -> Stored:
    """Applies a control and returns the job after it. `maybe_repeated`: as in `transition`.

    Raises JobNotFound, JobArchived, JobTerminal, ControlNotPossible, ArchiveGone, ArchiveInvalid, Transient.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise await not_in_ledger(context, job_id)
    result = await transition(
        context, stored, Control(kind), origin, orchestrations=orchestrations, maybe_repeated=maybe_repeated
    )
    job = result.stored.record.job
    if result.outcome.kind is OutcomeKind.REFUSED:
        terminal = result.outcome.reason_code == IgnoreReason.JOB_TERMINAL
        refused = JobTerminal if terminal else ControlNotPossible
        raise refused(job_id, job.status, kind.lower())
    await resume_parked(orchestrations, result.stored.record)
    if result.stored.record.job.is_staged and not result.stored.record.job.status.terminal:
        return await reconcile_place(context, orchestrations, result.stored)
    return result.stored


async def change_priority(
    context: Context, orchestrations: Orchestrations, job_id: str, priority: str, origin: Origin
) -> Stored:
    """Changes the priority, moves the job in its queue, and returns the job. Idempotent.

    Raises JobNotFound, JobArchived, JobTerminal, ArchiveGone, ArchiveInvalid, Transient, and ControlNotPossible if the
    job no longer waits.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise await not_in_ledger(context, job_id)
    result = await transition(context, stored, PriorityChanged(priority), origin, orchestrations=orchestrations)
    job = result.stored.record.job
    if result.outcome.kind is OutcomeKind.REFUSED:
        refused = JobTerminal if job.status.terminal else ControlNotPossible
        raise refused(job_id, job.status, "change the priority of")
    return await reconcile_place(context, orchestrations, result.stored)
