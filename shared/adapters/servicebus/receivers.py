"""Drains dead-lettered replies, and replies that a change of `LUCIUS_REPLIES` left in the shared queue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from shared.adapters.servicebus.links import answer, close_link
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.core.jobs.backlog import MAX_SHOWN
from shared.errors import BusUnavailable
from shared.ports.bus import DeadReply

#: maximum messages of one receiver in one drain; the next sweep continues
MAX_A_DRAIN = 200
_BATCH = 10
#: maximum seconds of the drain of one receiver, which must release its messages before their lock of a minute ends
_DRAIN_S = 40.0
#: maximum seconds to wait for messages that the peek has shown, since another sweep may be draining them
_RECEIVE_WAIT_S = 2.0

_Returned = TypeVar("_Returned")
Take = Callable[[DeadReply], Awaitable[bool]]


class ServiceBusDeadReplies:
    """Implementation of `shared.ports.bus.DeadReplies` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient, replies: ReplyEntities) -> None:
        self._client = client
        self._replies = replies

    async def waiting(self, lane: int | None) -> int:
        count = 0
        for place in self._replies.dead(self._client, lane):
            async with _closing(place) as receiver:
                count += len(await self._peek(lane, receiver, MAX_SHOWN))
        return count

    async def drain(self, lane: int | None, take: Take) -> bool:
        # every receiver, even if an earlier one has more messages than a drain takes
        return all([await self._drain(lane, place, take) for place in self._replies.dead(self._client, lane)])

    async def _drain(self, lane: int | None, place: ServiceBusReceiver, take: Take) -> bool:
        seen, until = 0, time.monotonic() + _DRAIN_S
        async with _closing(place) as receiver:
            # a peek returns immediately, while a receive would wait
            if not await self._peek(lane, receiver, 1):
                return True
            # released at the end: a released message would be received again next
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
                        if await take(self._dead(lane, message)):
                            await self._call(lane, receiver.complete_message(message))
                            held.remove(message)
            finally:
                # if the bus is unreachable, they are released when their locks end
                with suppress(BusUnavailable):
                    for message in held:
                        await self._call(lane, receiver.abandon_message(message))
        return False

    async def _peek(
        self, lane: int | None, receiver: ServiceBusReceiver, count: int
    ) -> list[ServiceBusReceivedMessage]:
        return await self._call(lane, _peek(receiver, count))

    async def _call(self, lane: int | None, call: Awaitable[_Returned]) -> _Returned:
        name = self._replies.queue if lane is None else self._replies.topic(lane)
        return await answer(call, f"dead letters of {name}")

    def _dead(self, lane: int | None, message: ServiceBusReceivedMessage) -> DeadReply:
        why = [message.dead_letter_reason or "", message.dead_letter_error_description or ""]
        return DeadReply(
            body=_body(message),
            lane=self._replies.lane_of(message.application_properties) if lane is None else lane,
            message_id=message.message_id or "",
            sequence_number=message.sequence_number or 0,
            delivery_count=message.delivery_count or 0,
            enqueued_at=message.enqueued_time_utc or datetime.now(UTC),
            reason=": ".join(part for part in why if part) or "no reason given",
        )


@asynccontextmanager
async def _closing(receiver: ServiceBusReceiver) -> AsyncIterator[ServiceBusReceiver]:
    """Yields the receiver, and closes the receiver afterwards. The first call on the receiver opens its link."""
    try:
        yield receiver
    finally:
        await close_link(receiver)


async def _peek(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Returns the oldest messages. Returns no messages for a queue that this bus does not have."""
    with suppress(MessagingEntityNotFoundError):
        return await receiver.peek_messages(max_message_count=count)
    return []


def _body(message: ServiceBusReceivedMessage) -> bytes:
    """Returns the body. An AMQP value, which no reply has, is returned as text, so that the message can be
    quarantined.
    """
    if message.body_type is AmqpMessageBodyType.DATA:
        return b"".join(message.body)
    return str(message).encode()
