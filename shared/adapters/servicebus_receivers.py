"""Reads from Service Bus: peeks at lanes, and the dead-letter queues of the reply subscriptions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusError

from shared.core.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import BusUnavailable
from shared.ports.bus import DeadReply

#: of one lane in one drain; the next sweep goes on
MAX_A_DRAIN = 200
#: received together: all of them must be dealt with within the lock of a minute
_BATCH = 10
_PEEKED = 32
_PEEK_TIMEOUT_S = 10.0
#: for the messages that the peek has shown; another sweep may be draining them
_RECEIVE_WAIT_S = 2.0

Take = Callable[[DeadReply], Awaitable[None]]


class ServiceBusDeadReplies:
    """See `shared.ports.bus.DeadReplies`."""

    def __init__(self, client: ServiceBusClient, reply_prefix: str, reply_subscription: str) -> None:
        self._client = client
        self._reply_prefix = reply_prefix
        self._reply_subscription = reply_subscription

    async def waiting(self, lane: int) -> int:
        try:
            async with self._receiver(lane) as receiver:
                return len(await receiver.peek_messages(max_message_count=_PEEKED, timeout=_PEEK_TIMEOUT_S))
        except (ServiceBusError, OSError, TimeoutError, ValueError) as error:
            raise self._away(lane, error) from error

    async def drain(self, lane: int, take: Take) -> int:
        try:
            async with self._receiver(lane) as receiver:
                # a peek answers at once, where a receive would wait
                if not await receiver.peek_messages(max_message_count=1, timeout=_PEEK_TIMEOUT_S):
                    return 0
                return await _drain(receiver, take)
        except (ServiceBusError, OSError, TimeoutError, ValueError) as error:
            raise self._away(lane, error) from error

    def _receiver(self, lane: int) -> ServiceBusReceiver:
        return self._client.get_subscription_receiver(
            f"{self._reply_prefix}{lane}", self._reply_subscription, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        )

    def _away(self, lane: int, error: Exception) -> BusUnavailable:
        return BusUnavailable(f"dead letters of {self._reply_prefix}{lane}: {type(error).__name__}")


async def _drain(receiver: ServiceBusReceiver, take: Take) -> int:
    taken = 0
    while taken < MAX_A_DRAIN:
        batch = await receiver.receive_messages(max_message_count=_BATCH, max_wait_time=_RECEIVE_WAIT_S)
        if not batch:
            break
        for place, message in enumerate(batch):
            try:
                await take(_dead(message))
            except Exception:
                for left in batch[place:]:
                    await receiver.abandon_message(left)
                raise
            await receiver.complete_message(message)
            taken += 1
    return taken


def _dead(message: ServiceBusReceivedMessage) -> DeadReply:
    why = [message.dead_letter_reason or "", message.dead_letter_error_description or ""]
    return DeadReply(
        body=_body(message),
        message_id=message.message_id or "",
        sequence_number=message.sequence_number or 0,
        delivery_count=message.delivery_count or 0,
        enqueued_at=message.enqueued_time_utc or datetime.now(UTC),
        reason=": ".join(part for part in why if part) or "no reason given",
    )


def _body(message: ServiceBusReceivedMessage) -> bytes:
    """The body; of an AMQP value, which no reply has, the text of it, so that it can be quarantined."""
    if message.body_type is AmqpMessageBodyType.DATA:
        return b"".join(message.body)
    return str(message).encode()


#: the oldest of what waits; enough to find a directive among its elders
_PEEKED = 32
_PEEK_TIMEOUT_S = 10.0


class ServiceBusLanes:
    """See `shared.ports.bus.Lanes`. Looks are rare (time-outs only), so each opens its own link."""

    def __init__(self, client: ServiceBusClient, reply_prefix: str, reply_subscription: str) -> None:
        self._client = client
        self._reply_prefix = reply_prefix
        self._reply_subscription = reply_subscription

    async def has_waiting_reply(self, lane: int, *, before: datetime) -> bool:
        waiting = await self._peek(f"{self._reply_prefix}{lane}", self._reply_subscription)
        return any(_enqueued(message) <= before for message in waiting)

    async def has_waiting_directive(self, lane: int, service: str, *, message_id: str, before: datetime) -> bool:
        waiting = await self._peek(f"{DIRECTIVE_TOPIC_PREFIX}{lane}", service)
        return any(message.message_id == message_id or _enqueued(message) <= before for message in waiting)

    async def _peek(self, topic: str, subscription: str) -> list[ServiceBusReceivedMessage]:
        try:
            async with self._client.get_subscription_receiver(topic, subscription) as receiver:
                return await receiver.peek_messages(max_message_count=_PEEKED, timeout=_PEEK_TIMEOUT_S)
        except (ServiceBusError, OSError, TimeoutError, ValueError) as error:
            raise BusUnavailable(f"{topic}/{subscription} cannot be looked at: {type(error).__name__}") from error


def _enqueued(message: ServiceBusReceivedMessage) -> datetime:
    return message.enqueued_time_utc or datetime.min.replace(tzinfo=UTC)
