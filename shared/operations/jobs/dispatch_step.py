"""The activity `dispatch`: records an attempt, or finds one that a RESULT recorded, and publishes its directive
(R4).
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from shared import telemetry
from shared.core.jobs.directive import directive_of, message_id
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Step
from shared.core.jobs.next_attempt import cause_of_record, is_late
from shared.core.jobs.occurrences import Gated, Occurrence, PublishFailed, RecordAttempt, RenewLease
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import Verdict, VerdictKind, verdict_for
from shared.errors import Conflict, Contended, PublishUnavailable
from shared.operations.gates.guards import find_shut_guard
from shared.operations.jobs.replies.callbacks import callback_urls
from shared.operations.jobs.transition import Transitioned, transition, transition_recent
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.telemetry import SpanName, tracing
from shared.telemetry.spans import activity_span, publish_span

#: Race dispatch: a verdict can change between our read and our write; maximum number of such turns
_MAX_RACES = 4


async def dispatch_step(
    context: Context, orchestrations: Orchestrations, *, job_id: str, instance_id: str, step_id: str
) -> Verdict:
    """Records and publishes the step's attempt. Repeated calls are safe, since duplicate detection drops a second
    message with the same id.

    Raises Contended, LedgerUnavailable, and OrchestrationUnavailable if the job ended. A publish fault is not raised:
    the verdict has the next action.
    """
    began_ns = tracing.now_ns()
    now = context.clock.now()
    recent = context.process.recent_jobs.recall(job_id, now)
    is_recent = recent is not None and _is_next(recent, step_id, instance_id, now)
    stored = recent if is_recent else await context.ledger.read(job_id)
    with activity_span(SpanName.DISPATCH, stored.record if stored else None, step_id, began_ns) as report:
        verdict = await _dispatch(context, orchestrations, stored, job_id, instance_id, step_id, is_recent=is_recent)
        report(verdict)
        return verdict


async def _dispatch(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored | None,
    job_id: str,
    instance_id: str,
    step_id: str,
    *,
    is_recent: bool,
) -> Verdict:
    # a loop of its own: `transition` waits after a conflict, and here the step is only decided again
    for _ in range(_MAX_RACES):
        now = context.clock.now()
        verdict = verdict_for(stored.record if stored else None, step_id, instance_id, now)
        if stored is None or verdict.kind not in (VerdictKind.RECORD, VerdictKind.AWAIT_ACK):
            return verdict
        step = _step(stored, step_id)
        if verdict.kind is VerdictKind.RECORD:
            shut = await find_shut_guard(context, step)
            if shut is not None and step.gated_until is not None and step.gated_until > now:
                # requested again before the end of its wait, which stays
                if not is_recent:
                    return Verdict(VerdictKind.GATED, step.attempt_no, step.gated_until)
                stored, is_recent = await context.ledger.read(job_id), False
                continue
            if shut is not None:
                occurrence: Occurrence = Gated(step_id, shut.gate.display_name, shut.why)
                key = f"gated:{instance_id}:{step_id}:{verdict.attempt_no}:{now.isoformat()}"
            else:
                occurrence = RecordAttempt(step_id, context.new_lease())
                key = cause_of_record(instance_id, step_id, verdict.attempt_no)
        elif step.backlog_until is not None and step.backlog_until > now:
            # the timeout of the attempt is postponed: its directive is on the lane, or the bus does not respond
            return verdict
        elif stored.record.job.status is JobStatus.CANCELLING:
            # the attempt is not sent any more, and ends with its lease
            return verdict
        elif is_late(step, now) or step.publish_failures:
            occurrence = RenewLease(step_id, step.attempt_no)
            key = f"renew:{instance_id}:{step_id}:{step.attempt_no}:{now.isoformat()}"
        else:
            return await _publish(context, orchestrations, stored, step, instance_id)
        done = await _decide(context, orchestrations, stored, occurrence, key, is_recent=is_recent)
        is_recent = False
        if done is None:
            stored = await context.ledger.read(job_id)
            continue
        stored = done.stored
        step = _step(stored, step_id)
        if (done.outcome.transitioned or done.repeated) and step.status is StepStatus.INITIATED:
            return await _publish(context, orchestrations, stored, step, instance_id)
        if done.outcome.transitioned and step.gated_until is not None:
            return Verdict(VerdictKind.GATED, step.attempt_no, step.gated_until)
        stored = await context.ledger.read(job_id)
    raise Contended(f"job {job_id}, step {step_id} was changed {_MAX_RACES} times during one dispatch")


def _is_next(recent: Stored, step_id: str, instance_id: str, now: datetime) -> bool:
    """Returns `True` if no read is needed, since the last commit of this process has an attempt to send or requires a
    new attempt.

    Until an attempt is late, only a control of another process can have changed the job. Such a control can also follow
    after the directive was sent.
    """
    verdict, step = verdict_for(recent.record, step_id, instance_id, now), recent.record.step(step_id)
    if verdict.kind is VerdictKind.AWAIT_ACK and step is not None:
        return not (is_late(step, now) or step.publish_failures or step.backlog_until)
    return verdict.kind is VerdictKind.RECORD


async def _decide(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored,
    occurrence: Occurrence,
    key: str,
    *,
    is_recent: bool,
) -> Transitioned | None:
    """Applies `occurrence` to `stored`. With `is_recent`, returns None if `stored` is outdated or does not change, and
    the caller must read the job.
    """
    if not is_recent:
        return await transition(context, stored, occurrence, _origin(key), orchestrations=orchestrations)
    with contextlib.suppress(Conflict):
        return await transition_recent(context, stored, occurrence, _origin(key), orchestrations=orchestrations)
    return None


async def _publish(
    context: Context, orchestrations: Orchestrations, stored: Stored, step: Step, instance_id: str
) -> Verdict:
    directive = directive_of(stored.record, step, callback_urls(context.settings, stored.record, step))
    # as long as its job can live: it may wait behind any number of others, and a late one is harmless (R5)
    cap = stored.record.cap_of(step)
    time_to_live_s = None if cap is None else max(1.0, (cap - context.clock.now()).total_seconds())
    topic = f"{DIRECTIVE_TOPIC_PREFIX}{step.lane}"
    own_id = message_id(directive.jobId, step.step_id, step.attempt_no)
    try:
        with publish_span(stored.record, step, directive, topic, own_id) as traced:
            await context.bus.publisher.publish(traced, time_to_live_s=time_to_live_s)
    except PublishUnavailable as fault:
        telemetry.record_fault(fault, "PUBLISH_FAILED", **telemetry.line_ids(stored.record.job, step))
        key = f"publish:{instance_id}:{step.step_id}:{step.attempt_no}:{step.publish_failures + 1}"
        missed = PublishFailed(step.step_id, step.attempt_no, str(fault))
        failed = await transition(context, stored, missed, _origin(key), orchestrations=orchestrations)
        record = failed.stored.record
        return verdict_for(record, step.step_id, instance_id, context.clock.now())
    return Verdict(VerdictKind.SENT, step.attempt_no, step.lease_expires_at)


def _origin(key: str) -> Origin:
    return Origin(cause_id=key, actor="system", source="dispatch")


def _step(stored: Stored, step_id: str) -> Step:
    step = stored.record.step(step_id)
    if step is None:
        raise LookupError(f"no step {step_id}")
    return step
