"""The activity `settle`: a timer of the orchestration fired, and the ledger decides what that means (R30)."""

from __future__ import annotations

import asyncio

from shared.core.directive import message_id
from shared.core.history import Origin
from shared.core.job import Step
from shared.core.occurrences import DeadlinePassed, LaneBacklog
from shared.core.reasons import IgnoreReason
from shared.core.states import StepStatus
from shared.core.verdict import Verdict, VerdictKind, verdict_for
from shared.errors import BusUnavailable
from shared.operations.context import Context
from shared.operations.transition import transition
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.telemetry import SpanName, tracing
from shared.telemetry.spans import activity_span

_BACKLOGS = ("replies wait on the lane", "directives wait on the lane")


async def settle_step(
    context: Context,
    orchestrations: Orchestrations,
    *,
    job_id: str,
    instance_id: str,
    step_id: str,
    attempt_no: int,
) -> Verdict:
    """Ends the attempt if its lease is over; answers the ledger's verdict either way.

    Race settle: a reply that comes while we look at the lanes wins. Raises LedgerUnavailable, and
    OrchestrationUnavailable where the job ended.
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
    if step.attempt_no == attempt_no:
        stored = await _end(context, orchestrations, stored, step, instance_id)
    now = context.clock.now()
    verdict = verdict_for(stored.record, step_id, instance_id, now)
    if verdict.kind is VerdictKind.RECORD:
        # attempts are recorded by dispatch alone
        return Verdict(VerdictKind.BACKOFF, attempt_no, now)
    return verdict


async def _end(
    context: Context, orchestrations: Orchestrations, stored: Stored, step: Step, instance_id: str
) -> Stored:
    """The job after its lease, if that is over; LUCIUS's own backlog is not a failure (R8)."""
    if not step.status.in_flight or step.lease_expires_at is None or step.lease_expires_at > context.clock.now():
        return stored
    key = f"{instance_id}:{step.step_id}:{step.attempt_no}:{step.lease_expires_at.isoformat()}"
    if (what := await _backlog(context, stored.record.job.job_id, step)) is not None:
        origin = Origin(cause_id=f"backlog:{key}", actor="system", source="settle")
        waited = await transition(context, stored, LaneBacklog(step.step_id, step.attempt_no, what), origin)
        stored = waited.stored
        if waited.outcome.reason_code != IgnoreReason.BACKLOG_TOO_LONG:
            return stored
    origin = Origin(cause_id=f"settle:{key}", actor="system", source="settle")
    passed = DeadlinePassed(step.step_id, step.attempt_no)
    return (await transition(context, stored, passed, origin, orchestrations=orchestrations)).stored


async def _backlog(context: Context, job_id: str, step: Step) -> str | None:
    """What still waits on the lane and may explain the silence; None if nothing does."""
    assert step.lease_expires_at is not None
    looks = [context.lanes.has_waiting_reply(step.lane, before=step.lease_expires_at)]
    if step.status is StepStatus.INITIATED:
        own = message_id(job_id, step.step_id, step.attempt_no)
        began = step.initiated_at or step.created_at
        looks.append(context.lanes.has_waiting_directive(step.lane, step.service, message_id=own, before=began))
    try:
        found = await asyncio.gather(*looks)
    except BusUnavailable as fault:
        return str(fault)
    return next((what for what, waits in zip(_BACKLOGS, found, strict=False) if waits), None)
