"""Applies a reply: commits it to the ledger, then raises the orchestration's event (R2, R37).

Replies of the bus, HTTP callbacks and redriven messages all use this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from shared import telemetry
from shared.contracts.messages import Reply
from shared.core.jobs import durable_names
from shared.core.jobs.history import EventType, Origin
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import NextAttempt, ReplyArrived
from shared.core.jobs.outcome import OutcomeKind
from shared.core.jobs.replies import holds_lease
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import end_event
from shared.core.records.strict_json import parse_json
from shared.errors import (
    Conflict,
    DataLost,
    InstanceEnded,
    InstanceNotFound,
    LedgerRefused,
    LedgerUnavailable,
    ReplyUnfit,
    Undecodable,
)
from shared.operations.gates.guards import has_guard
from shared.operations.jobs.references import with_allowed_result
from shared.operations.jobs.transition import Transitioned, transition, transition_recent
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored
from shared.telemetry import tracing
from shared.telemetry.spans import reply_span

#: minimum time between two notes of a process that a service replied
NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class ReplyResult:
    """The result of a reply to a known job."""

    record: Record
    #: `True` if it moved the job, now or at an earlier delivery
    applied: bool
    #: stable code of the reason if it did not
    reason_code: str | None = None

    @property
    def outcome(self) -> str:
        """Returns `APPLIED`, or `IGNORED:` and the reason code."""
        return "APPLIED" if self.applied else f"IGNORED:{self.reason_code}"


def parse_reply(body: bytes) -> Reply:
    """Decodes a reply. Raises ReplyUnfit."""
    try:
        value = parse_json(body)
    except ValueError as wrong:
        raise ReplyUnfit("NOT_JSON", str(wrong)) from None
    return validate_reply(value)


def validate_reply(value: Any) -> Reply:
    """Validates a reply in parsed JSON. Raises ReplyUnfit."""
    try:
        return Reply.model_validate(dict(value) if isinstance(value, Mapping) else value)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ReplyUnfit("REPLY_INVALID", f"{place}: {first['msg']}") from None


async def apply_reply(
    context: Context,
    orchestrations: Orchestrations,
    reply: Reply,
    *,
    cause_id: str,
    source: str,
    maybe_repeated: bool = False,
    topic: str | None = None,
) -> ReplyResult:
    """Applies a reply, or ignores a late, stale or repeated reply.

    `cause_id`: the same for each delivery of this reply. `maybe_repeated`: an earlier delivery may have been committed.
    `topic`: source of the reply, if the bus delivered it. Raises ReplyUnfit if no job accepts it, Undecodable, DataLost
    for a callback, and Transient.
    """
    began_ns = tracing.now_ns()
    try:
        async with AsyncExitStack() as deciding:
            # concurrent replies of one job would conflict on its ETag
            await deciding.enter_async_context(context.process.recent_jobs.alone(reply.jobId))
            recent = None if maybe_repeated else _recent(context, reply)
            stored = recent or await _read(context, reply)
            with reply_span(stored.record, reply, source, topic, began_ns) as span:
                transitioned = await _decide(
                    context,
                    orchestrations,
                    stored,
                    reply,
                    cause_id=cause_id,
                    source=source,
                    maybe_repeated=maybe_repeated,
                    is_recent=recent is not None,
                )
                await deciding.aclose()
                result = await _notify(orchestrations, transitioned, reply)
                answering = stored.record.step(reply.stepId)
                if answering is not None and (source == "callback" or holds_lease(answering, reply)):
                    await _note_answer(context, answering.service)
                span.set_attribute("lucius.outcome", result.outcome)
                return result
    except LedgerRefused as refused:
        if isinstance(refused, Undecodable):
            raise  # an instance of the release that wrote the row may be able to accept the reply
        if isinstance(refused, DataLost) and source == "callback":
            raise  # the service gets the error, and still has its result
        # the tables refuse it again at every delivery
        raise ReplyUnfit("LEDGER_REFUSED", str(refused)) from None


def _recent(context: Context, reply: Reply) -> Stored | None:
    """Returns the last commit of this process for the job, or None if it is probably outdated.

    A RESULT follows its ACK. If this process does not know the ACK, another process committed the ACK, and the ledger
    refuses a commit of this process.
    """
    recent = context.process.recent_jobs.recall(reply.jobId, context.clock.now())
    step = recent.record.step(reply.stepId) if recent is not None else None
    return None if reply.type == "RESULT" and step is not None and step.status is StepStatus.INITIATED else recent


async def _note_answer(context: Context, service: str) -> None:
    """Records that the service replied, at most once a minute per process. Raises nothing."""
    now, noted = context.clock.now(), context.process.answered.get(service)
    if noted is not None and now - noted < NOTED_EVERY:
        return
    context.process.answered[service] = now
    with telemetry.tolerate(LedgerUnavailable):
        await context.answers.note(service, now)


async def _read(context: Context, reply: Reply) -> Stored:
    """Reads the job. Raises ReplyUnfit, LedgerRefused, LedgerUnavailable."""
    stored = await context.ledger.read(reply.jobId)
    if stored is None:
        raise ReplyUnfit("UNKNOWN_JOB", f"job not found: {reply.jobId}")
    return stored


async def _decide(
    context: Context,
    orchestrations: Orchestrations,
    stored: Stored,
    reply: Reply,
    *,
    cause_id: str,
    source: str,
    maybe_repeated: bool,
    is_recent: bool,
) -> Transitioned:
    """Decides on the reply and commits the outcome. `is_recent`: `stored` is the last commit of this process, and may
    be outdated.
    """
    step = stored.record.step(reply.stepId)
    # a reply is authenticated by its lease, and a callback by its token; any other can come from any sender on the bus
    proven = step is not None and (source == "callback" or holds_lease(step, reply))
    origin = Origin(cause_id=cause_id, actor=f"service:{step.service}" if step and proven else "service", source=source)
    allowed = with_allowed_result(context, stored.record.job.tenant, reply)
    arrived = ReplyArrived(allowed, context.settings.progress_s, await _next_attempt(context, stored.record, reply))
    if not is_recent:
        return await transition(
            context, stored, arrived, origin, orchestrations=orchestrations, maybe_repeated=maybe_repeated
        )
    try:
        done = await transition_recent(context, stored, arrived, origin, orchestrations=orchestrations)
    except Conflict:
        done, maybe_repeated = None, True
    if done is not None:
        return done
    return await _decide(
        context,
        orchestrations,
        await _read(context, reply),
        reply,
        cause_id=cause_id,
        source=source,
        maybe_repeated=maybe_repeated,
        is_recent=False,
    )


async def _next_attempt(context: Context, record: Record, reply: Reply) -> NextAttempt | None:
    """Returns the attempt that a RESULT can record in its own transaction. Returns None if there is no such attempt, or
    if `dispatch` must first check a dispatch limit.

    Raises nothing.
    """
    step = record.step(reply.stepId)
    following = record.after(step) if step is not None and reply.status == "SUCCEEDED" else None
    if following is None or await has_guard(context, following):
        return None
    return NextAttempt(following.step_id, context.new_lease(), context.new_salt())


async def _notify(orchestrations: Orchestrations, transitioned: Transitioned, reply: Reply) -> ReplyResult:
    """Notifies the orchestration. Raises ReplyUnfit if the job does not accept the reply, OrchestrationUnavailable."""
    if transitioned.outcome.kind is OutcomeKind.REFUSED:
        raise ReplyUnfit(transitioned.outcome.reason_code or "", f"the reply does not belong to job {reply.jobId}")
    if transitioned.event is not None and (transitioned.outcome.transitioned or transitioned.repeated):
        await _raise_event(orchestrations, transitioned.stored.record, reply, transitioned.event)
    if transitioned.repeated and transitioned.event is not None:
        # the result of the first delivery
        ignored = transitioned.event.type == EventType.REPLY_IGNORED
        return ReplyResult(transitioned.stored.record, not ignored, transitioned.event.reason if ignored else None)
    return ReplyResult(transitioned.stored.record, transitioned.outcome.transitioned, transitioned.outcome.reason_code)


async def _raise_event(orchestrations: Orchestrations, record: Record, reply: Reply, event: Event) -> None:
    """Raises the reply's event in the orchestration, unless the ledger shows that the orchestration is already past
    this attempt.
    """
    step = record.step(reply.stepId)
    if step is None or step.attempt_no != reply.attempt_no or event.type == EventType.REPLY_IGNORED:
        return
    data: dict[str, Any]
    if reply.type == "RESULT":
        name = durable_names.result_event(step.step_id, step.attempt_no)
        data = {"next": _next(record, step.status)}
        if data["next"] == "END" and step.status is not StepStatus.SUCCEEDED and name == end_event(step):
            return  # already raised with the end of the job
    elif event.from_status == StepStatus.PROCESSING:
        return  # a heartbeat never wakes the orchestration
    else:
        name = durable_names.ack_event(step.step_id, step.attempt_no)
        data = {"until": step.lease_expires_at.isoformat() if step.lease_expires_at else None}
    try:
        await orchestrations.raise_event(record.instance_of(step), name, data)
    except InstanceEnded:
        return  # Race heard: it has already read this state from the ledger
    except InstanceNotFound:
        telemetry.warn("ORCHESTRATION_NOT_FOUND", **telemetry.line_ids(record.job, step))


def _next(record: Record, step: StepStatus) -> str:
    if record.job.status.terminal:
        return "END"
    if step is StepStatus.SUCCEEDED and record.job.status is not JobStatus.PAUSED:
        return "NEXT"
    return "DISPATCH"
