"""The activity `settle`: decides from the ledger after a timer of the orchestration fired (R30)."""

from __future__ import annotations

from shared.core.jobs.history import Origin
from shared.core.jobs.job import Step
from shared.core.jobs.occurrences import DeadlinePassed, LaneBacklog
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import Verdict, VerdictKind, verdict_for
from shared.operations.jobs.backlog import what_waits
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.telemetry import SpanName, tracing
from shared.telemetry.spans import activity_span


async def settle_step(
    context: Context,
    orchestrations: Orchestrations,
    *,
    job_id: str,
    instance_id: str,
    step_id: str,
    attempt_no: int,
) -> Verdict:
    """Ends the attempt if its lease has expired, unless a backlog of its lane explains the silence (R8). Returns the
    ledger's verdict in any case.

    Race settle: a reply that arrives while the lanes are read takes precedence. Raises Contended, LedgerUnavailable,
    and OrchestrationUnavailable if the job ended.
    """
    began_ns = tracing.now_ns()
    stored = await context.ledger.read(job_id)
    with activity_span(SpanName.SETTLE, stored.record if stored else None, step_id, began_ns) as report:
        verdict = await _settle(context, orchestrations, stored, instance_id, step_id, attempt_no)
        report(verdict)
        return verdict


async def _settle(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored | None,
    instance_id: str,
    step_id: str,
    attempt_no: int,
) -> Verdict:
    step = stored.record.step(step_id) if stored is not None else None
    if stored is None or step is None or stored.record.job.instance_id != instance_id:
        return Verdict(VerdictKind.END)
    # in a publish backoff no silence counts, unless the job only waits for the attempt to end
    owes_publish = step.owes_publish and stored.record.job.status is not JobStatus.CANCELLING
    if step.attempt_no == attempt_no and not owes_publish:
        stored = await _end(context, orchestrations, stored, step, instance_id)
    now = context.clock.now()
    verdict = verdict_for(stored.record, step_id, instance_id, now)
    if verdict.kind is VerdictKind.RECORD or (verdict.kind is VerdictKind.AWAIT_ACK and owes_publish):
        # only dispatch records attempts and sends directives
        return Verdict(VerdictKind.BACKOFF, attempt_no, now)
    return verdict


async def _end(
    context: Context, orchestrations: Orchestrations, stored: Stored, step: Step, instance_id: str
) -> Stored:
    """Ends the attempt if its lease has expired, or later if the bus has a backlog (R8). Returns the job."""
    deadline = step.silent_until
    if not step.status.in_flight or deadline is None or deadline > context.clock.now():
        return stored
    key = f"{instance_id}:{step.step_id}:{step.attempt_no}:{deadline.isoformat()}"
    if (what := await what_waits(context, stored.record.job.job_id, step, deadline)) is not None:
        origin = Origin(cause_id=f"backlog:{key}", actor="system", source="settle")
        waited = await transition(
            context, stored, LaneBacklog(step.step_id, step.attempt_no, what), origin, orchestrations=orchestrations
        )
        stored = waited.stored
        if waited.outcome.reason_code != IgnoreReason.BACKLOG_TOO_LONG:
            return stored
    origin = Origin(cause_id=f"settle:{key}", actor="system", source="settle")
    passed = DeadlinePassed(step.step_id, step.attempt_no)
    return (await transition(context, stored, passed, origin, orchestrations=orchestrations)).stored
