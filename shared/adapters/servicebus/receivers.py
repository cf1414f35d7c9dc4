"""The dead-letter queues of the reply subscriptions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpMessageBodyType

from shared.adapters.servicebus.links import answer, close_link
from shared.core.jobs.backlog import MAX_SHOWN
from shared.errors import BusUnavailable
from shared.ports.bus import DeadReply

#: of one lane in one drain; the next sweep goes on
MAX_A_DRAIN = 200
_BATCH = 10
#: of one drain: what it has received it must give back within the lock of a minute
_DRAIN_S = 40.0
#: for the messages that the peek has shown; another sweep may be draining them
_RECEIVE_WAIT_S = 2.0

Answer = TypeVar("Answer")
Take = Callable[[DeadReply], Awaitable[bool]]


class ServiceBusDeadReplies:
    """See `shared.ports.bus.DeadReplies`."""

    def __init__(self, client: ServiceBusClient, reply_prefix: str, reply_subscription: str) -> None:
        self._client = client
        self._reply_prefix = reply_prefix
        self._reply_subscription = reply_subscription

    async def waiting(self, lane: int) -> int:
        async with self._receiver(lane) as receiver:
            return len(await self._call(lane, receiver.peek_messages(max_message_count=MAX_SHOWN)))

    async def drain(self, lane: int, take: Take) -> bool:
        seen, until = 0, time.monotonic() + _DRAIN_S
        async with self._receiver(lane) as receiver:
            # a peek answers at once, where a receive would wait
            if not await self._call(lane, receiver.peek_messages(max_message_count=1)):
                return True
            # held to the end: a message that is given back is the first to come again
            held: list[ServiceBusReceivedMessage] = []
            try:
                while seen < MAX_A_DRAIN and time.monotonic() < until:
                    batch = await self._call(
                        lane, receiver.receive_messages(max_message_count=_BATCH, max_wait_time=_RECEIVE_WAIT_S)
                    )
                    if not batch:
                        return True
                    seen += len(batch)
                    held += batch
                    for message in batch:
                        if time.monotonic() >= until:
                            break
                        if await take(_dead(message)):
                            await self._call(lane, receiver.complete_message(message))
                            held.remove(message)
            finally:
                # where the bus is away, they are back by themselves when their locks end
                with suppress(BusUnavailable):
                    for message in held:
                        await self._call(lane, receiver.abandon_message(message))
        return False

    def _receiver(self, lane: int) -> AbstractAsyncContextManager[ServiceBusReceiver]:
        return _closing(
            self._client.get_subscription_receiver(
                f"{self._reply_prefix}{lane}", self._reply_subscription, sub_queue=ServiceBusSubQueue.DEAD_LETTER
            )
        )

    async def _call(self, lane: int, call: Awaitable[Answer]) -> Answer:
        return await answer(call, f"dead letters of {self._reply_prefix}{lane}")


@asynccontextmanager
async def _closing(receiver: ServiceBusReceiver) -> AsyncIterator[ServiceBusReceiver]:
    """The first call opens the link."""
    try:
        yield receiver
    finally:
        await close_link(receiver)


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
