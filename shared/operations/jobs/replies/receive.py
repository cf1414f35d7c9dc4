"""Receives a reply from the bus: applies it to its job, or quarantines it with the reason (R37)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.errors import ReplyUnfit
from shared.operations.jobs.replies.apply import apply_reply, parse_reply
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.rejected import RejectedMessage, rejection_id, tenant_named_in

#: maximum difference between a service's clock and the bus's that `clock_skew_total` does not count; replies are sent
#: as soon as they are made
CLOCK_SKEW = timedelta(seconds=60)
#: maximum length of a rejection's detail, so that a list reads no blob for it
MAX_DETAIL = 4000


@dataclass(frozen=True, kw_only=True)
class ReplyMessage:
    """A message as the bus delivered it."""

    body: bytes
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    enqueued_at: datetime
    #: reason why the bus dead-lettered it; None if the trigger of replies received it
    dead_letter: str | None = None
    #: `True` if an earlier delivery started and met a fault
    tried_before: bool = False

    @property
    def maybe_repeated(self) -> bool:
        """Returns `True` if an earlier delivery may have been committed."""
        return self.tried_before or self.delivery_count > 1 or self.dead_letter is not None


async def receive_reply(context: Context, orchestrations: Orchestrations, message: ReplyMessage) -> None:
    """Applies the message, ignores a late, stale or repeated reply, or quarantines the message. Raises Undecodable and
    Transient only.
    """
    cause_id = message_cause(message.lane, message.message_id, message.sequence_number)
    source = "bus" if message.dead_letter is None else "dead-letter"
    try:
        reply = parse_reply(message.body)
        result = await apply_reply(
            context,
            orchestrations,
            reply,
            cause_id=cause_id,
            source=source,
            maybe_repeated=message.maybe_repeated,
            topic=f"{context.settings.reply_prefix}{message.lane}",
        )
    except ReplyUnfit as unfit:
        await quarantine(context, message, unfit.reason, unfit.detail)
        return
    if message.dead_letter is None:
        telemetry.observe("reply_lag_seconds", (context.clock.now() - message.enqueued_at).total_seconds())
    step = result.record.step(reply.stepId)
    if step is not None and reply.timestamp is not None and abs(reply.timestamp - message.enqueued_at) > CLOCK_SKEW:
        telemetry.increment("clock_skew_total", stepType=step.step_type)


def message_cause(lane: int, message_id: str, sequence_number: int) -> str:
    """Returns the cause id of a message: the same for every delivery and for its redrive."""
    return f"message:{lane}:{message_id}:{sequence_number}"


async def quarantine(context: Context, message: ReplyMessage, reason: str, detail: str) -> None:
    """Stores a message among the rejected messages, with the reason. The caller settles the message on the bus.

    Raises LedgerUnavailable.
    """
    if message.dead_letter is not None:
        detail = f"{detail} (dead-lettered: {message.dead_letter})"
    telemetry.warn(
        "MESSAGE_REJECTED",
        lane=message.lane,
        message_id=message.message_id,
        reason=reason,
        detail=detail,
    )
    telemetry.increment("rejected_messages_total", reason=reason)
    identity = rejection_id(
        message.enqueued_at,
        lane=message.lane,
        message_id=message.message_id,
        sequence_number=message.sequence_number,
    )
    body = message.body.decode("utf-8", errors="backslashreplace")
    await context.rejected.quarantine(
        RejectedMessage(
            id=identity,
            received_at=message.enqueued_at,
            reason=reason,
            detail=detail[:MAX_DETAIL],
            lane=message.lane,
            message_id=message.message_id,
            sequence_number=message.sequence_number,
            delivery_count=message.delivery_count,
            tenant=tenant_named_in(body),
            body=body,
        )
    )
