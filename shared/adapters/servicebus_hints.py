"""`HintQueue` and `DeliveryQueue` over the queues `lucius-hints` and `lucius-webhooks`: a sender each, opened on first
use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from shared.adapters.servicebus_links import Sender
from shared.core.hints import Hint, encode_hint
from shared.core.routing import HINTS_QUEUE, WEBHOOKS_QUEUE
from shared.ports.webhooks import DeliveryCall, encode_call

#: of a send, and of the first one, which opens the link: the end of a job waits for it, and a lost hint is made up for
_SEND_S, _OPEN_S = 2.0, 6.0


def _messages(bodies: Sequence[bytes], subject: str, at: datetime | None) -> list[ServiceBusMessage]:
    options: dict[str, Any] = {} if at is None else {"scheduled_enqueue_time_utc": at}
    return [ServiceBusMessage(body, content_type="application/json", subject=subject, **options) for body in bodies]


class ServiceBusHints:
    """See `shared.ports.feed.HintQueue`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = Sender(HINTS_QUEUE, client.get_queue_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        await self._sender.send(_messages([encode_hint(hint) for hint in hints], "HINT", at))

    async def close(self) -> None:
        await self._sender.close()


class ServiceBusDeliveries:
    """See `shared.ports.webhooks.DeliveryQueue`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = Sender(WEBHOOKS_QUEUE, client.get_queue_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        await self._sender.send(_messages([encode_call(call) for call in calls], "DELIVERY", at))

    async def close(self) -> None:
        await self._sender.close()
