"""`HintQueue` and `DeliveryQueue` over the queues `lucius-hints` and `lucius-webhooks`: a sender each, opened on first
use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.adapters.servicebus_links import BUS_FAULTS, close_link
from shared.core.hints import Hint, encode_hint
from shared.core.routing import HINTS_QUEUE, WEBHOOKS_QUEUE
from shared.errors import BusUnavailable
from shared.ports.webhooks import DeliveryCall, encode_call
from shared.time_limits import time_limit

#: of a send, and of the first one, which opens the link: the end of a job waits for it, and a lost hint is made up for
_SEND_S, _OPEN_S = 2.0, 6.0


class QueueSender:
    """Sends to one queue; a link that failed is opened again at the next send."""

    def __init__(self, client: ServiceBusClient, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._sender: ServiceBusSender | None = None
        #: Race sender: an aio sender must not be used by two coroutines at once
        self._lock = asyncio.Lock()

    async def send(self, bodies: Sequence[bytes], *, subject: str, at: datetime | None) -> None:
        """Together. Raises BusUnavailable."""
        options: dict[str, Any] = {} if at is None else {"scheduled_enqueue_time_utc": at}
        messages = [
            ServiceBusMessage(body, content_type="application/json", subject=subject, **options) for body in bodies
        ]
        async with self._lock:
            is_open = self._sender is not None
            try:
                async with time_limit(_SEND_S if is_open else _OPEN_S):
                    if self._sender is None:
                        self._sender = self._client.get_queue_sender(self._queue)
                    await self._sender.send_messages(messages)
            except MessageSizeExceededError as error:
                raise BusUnavailable(f"messages for {self._queue} are too large for the bus") from error
            except BUS_FAULTS as error:
                await self.close()
                raise BusUnavailable(f"{self._queue} took no messages: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self.close()
                raise

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await close_link(sender)


class ServiceBusHints:
    """See `shared.ports.feed.HintQueue`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = QueueSender(client, HINTS_QUEUE)

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        await self._sender.send([encode_hint(hint) for hint in hints], subject="HINT", at=at)

    async def close(self) -> None:
        await self._sender.close()


class ServiceBusDeliveries:
    """See `shared.ports.webhooks.DeliveryQueue`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = QueueSender(client, WEBHOOKS_QUEUE)

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        await self._sender.send([encode_call(call) for call in calls], subject="DELIVERY", at=at)

    async def close(self) -> None:
        await self._sender.close()
