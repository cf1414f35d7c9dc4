"""Cancel, pause and resume, applied where they are asked for (LIFECYCLE "Controls")."""

from __future__ import annotations

from shared.core.history import Origin
from shared.core.occurrences import Control, ControlKind
from shared.core.outcome import OutcomeKind
from shared.core.reasons import IgnoreReason
from shared.errors import Refusal
from shared.operations.context import Context
from shared.operations.transition import resume_parked, transition
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored


async def control_job(
    context: Context, orchestrations: Orchestrations, job_id: str, kind: ControlKind, origin: Origin
) -> Stored:
    """The job afterwards. Raises Refusal (404, 409) and Transient."""
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id}")
    transitioned = await transition(context, stored, Control(kind), origin, orchestrations=orchestrations)
    job = transitioned.stored.record.job
    if transitioned.outcome.kind is OutcomeKind.REFUSED:
        code = (
            "JOB_TERMINAL" if transitioned.outcome.reason_code == IgnoreReason.JOB_TERMINAL else "CONTROL_NOT_POSSIBLE"
        )
        raise Refusal(409, code, f"job {job_id} is {job.status}: it cannot be asked to {kind.lower()}")
    await resume_parked(orchestrations, transitioned.stored.record)
    return transitioned.stored
