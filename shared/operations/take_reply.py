"""A reply from the bus: into the ledger, then to the orchestration (LIFECYCLE "Replies")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from shared import telemetry
from shared.contracts.messages import Reply
from shared.core import event_names
from shared.core.canonical import digest
from shared.core.history import Origin
from shared.core.job import Event, Record
from shared.core.occurrences import ReplyArrived
from shared.core.states import JobStatus, StepStatus
from shared.core.strict_json import parse
from shared.errors import InstanceEnded, InstanceNotFound, LedgerRefused
from shared.operations.context import Context
from shared.operations.move import move
from shared.ports import Orchestrations, RejectedMessage


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A message as the bus delivered it."""

    body: bytes
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    enqueued_at: datetime


async def take_reply(context: Context, orchestrations: Orchestrations, message: Arrived) -> None:
    """Returns when the message is dealt with: applied, recorded as late, or parked. Raises Transient only."""
    try:
        reply = Reply.model_validate(parse(message.body))
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return await _park(context, message, "REPLY_INVALID", f"{place}: {first['msg']}")
    except ValueError as wrong:
        return await _park(context, message, "NOT_JSON", str(wrong))
    stored = await context.ledger.read(reply.jobId)
    if stored is None:
        return await _park(context, message, "UNKNOWN_JOB", f"no job {reply.jobId}")
    step = stored.record.step(reply.stepId)
    origin = Origin(
        cause_id=f"message:{message.lane}:{message.message_id}:{message.sequence_number}",
        actor=f"service:{step.service}" if step else "service",
        source="bus",
    )
    try:
        moved = await move(context, stored, ReplyArrived(reply), origin)
    except LedgerRefused as refused:
        # a row that the tables refuse is refused again at every delivery
        return await _park(context, message, "LEDGER_REFUSED", str(refused))
    if moved.event is not None and (moved.outcome.moved or moved.repeated):
        await _tell(orchestrations, moved.stored.record, reply, moved.event)
    return None


async def _tell(orchestrations: Orchestrations, record: Record, reply: Reply, event: Event) -> None:
    """Wakes the orchestration, unless the ledger shows that it is past this attempt already (DESIGN truth 5)."""
    step = record.step(reply.stepId)
    if step is None or step.attempt_no != reply.attempt_no or event.type == "REPLY_IGNORED":
        return
    data: dict[str, Any]
    if reply.type == "RESULT":
        name = event_names.result(step.step_id, step.attempt_no)
        data = {"next": _next(record, step.status)}
    elif event.from_status == StepStatus.PROCESSING:
        return  # a heartbeat never wakes the orchestration
    else:
        name = event_names.ack(step.step_id, step.attempt_no)
        data = {"until": step.lease_expires_at.isoformat() if step.lease_expires_at else None}
    try:
        await orchestrations.raise_event(record.job.instance_id, name, data)
    except InstanceEnded:
        return  # it had seen the ledger's word before us
    except InstanceNotFound:
        telemetry.warn("ORCHESTRATION_NOT_FOUND", jobId=record.job.job_id, stepId=step.step_id)


def _next(record: Record, step: StepStatus) -> str:
    if record.job.status.terminal:
        return "END"
    if step is StepStatus.SUCCEEDED and record.job.status is not JobStatus.PAUSED:
        return "NEXT"
    return "DISPATCH"


async def _park(context: Context, message: Arrived, reason: str, detail: str) -> None:
    """Out of the lane, with the reason, for people to look at (CONTRACT "Service Bus")."""
    telemetry.warn("MESSAGE_REJECTED", lane=message.lane, message_id=message.message_id, reason=reason, detail=detail)
    identity = digest(f"{message.lane}:{message.message_id}:{message.sequence_number}")[:32]
    await context.rejected.park(
        RejectedMessage(
            id=identity,
            received_at=message.enqueued_at,
            reason=reason,
            detail=detail,
            lane=message.lane,
            message_id=message.message_id,
            sequence_number=message.sequence_number,
            delivery_count=message.delivery_count,
            body=message.body.decode("utf-8", errors="backslashreplace"),
        )
    )
