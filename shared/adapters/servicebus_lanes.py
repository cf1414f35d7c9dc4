"""`Lanes` over Service Bus: peeks, which take nothing and see locked messages too."""

from __future__ import annotations

from datetime import UTC, datetime

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from shared.core.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import BusUnavailable

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
