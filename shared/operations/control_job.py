"""Cancel, pause and resume, applied where they are asked for (LIFECYCLE "Controls")."""

from __future__ import annotations

from shared import telemetry
from shared.core import event_names
from shared.core.controls import JOB_TERMINAL
from shared.core.history import Origin
from shared.core.job import Job
from shared.core.occurrences import Control, ControlKind
from shared.core.outcome import OutcomeKind
from shared.core.states import JobStatus
from shared.errors import InstanceEnded, InstanceNotFound, Refusal
from shared.operations.context import Context
from shared.operations.move import move
from shared.ports import Orchestrations, Stored


async def control_job(
    context: Context, orchestrations: Orchestrations, job_id: str, kind: ControlKind, origin: Origin
) -> Stored:
    """The job afterwards. Raises Refusal (404, 409) and Transient."""
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id}")
    moved = await move(context, stored, Control(kind), origin)
    job = moved.stored.record.job
    if moved.outcome.kind is OutcomeKind.REFUSED:
        code = "JOB_TERMINAL" if moved.outcome.why == JOB_TERMINAL else "CONTROL_NOT_POSSIBLE"
        raise Refusal(409, code, f"job {job_id} is {job.status}: it cannot be asked to {kind.lower()}")
    if job.park_no and job.status is not JobStatus.PAUSED:
        # whoever is parked goes on, to the next attempt or to its end; too early or too often is harmless
        for instance_id in sorted({moved.stored.record.instance_of(step) for step in stored.record.open_steps}):
            await _wake(orchestrations, instance_id, job)
    return moved.stored


async def _wake(orchestrations: Orchestrations, instance_id: str, job: Job) -> None:
    try:
        await orchestrations.raise_event(instance_id, event_names.resume(job.park_no), {"status": job.status})
    except (InstanceEnded, InstanceNotFound) as gone:
        telemetry.info("ORCHESTRATION_GONE", jobId=job.job_id, reason=type(gone).__name__)
