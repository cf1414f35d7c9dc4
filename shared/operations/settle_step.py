"""A timer of the orchestration fired: what does the ledger say? (LIFECYCLE "The orchestrator's shape", rule 3)"""

from __future__ import annotations

from shared.core.history import Origin
from shared.core.occurrences import DeadlinePassed
from shared.core.verdict import Verdict, VerdictKind, verdict_for
from shared.operations.context import Context
from shared.operations.move import move


async def settle_step(context: Context, *, job_id: str, instance_id: str, step_id: str, attempt_no: int) -> Verdict:
    """Ends the attempt if its lease is over; answers the ledger's verdict either way. Raises LedgerUnavailable."""
    stored = await context.ledger.read(job_id)
    if stored is None or stored.record.job.instance_id != instance_id or stored.record.step(step_id) is None:
        return Verdict(VerdictKind.END)
    step = stored.record.step(step_id)
    lease_ends = step.lease_expires_at.isoformat() if step and step.lease_expires_at else ""
    origin = Origin(
        cause_id=f"settle:{instance_id}:{step_id}:{attempt_no}:{lease_ends}", actor="system", source="settle"
    )
    moved = await move(context, stored, DeadlinePassed(step_id, attempt_no), origin)
    now = context.clock.now()
    verdict = verdict_for(moved.stored.record, step_id, instance_id, now)
    if verdict.kind is VerdictKind.RECORD:
        # attempts are recorded by dispatch alone
        return Verdict(VerdictKind.BACKOFF, attempt_no, now)
    return verdict
