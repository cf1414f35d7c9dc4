"""`EventTopic` over the topic `lucius-events`: one sender, opened on first use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.adapters.servicebus_links import BUS_FAULTS, close_link
from shared.core.routing import EVENTS_TOPIC
from shared.errors import BusUnavailable
from shared.ports.feed import FeedEvent
from shared.time_limits import time_limit

#: of a send, and of the first one, which opens the link: the next batch of hints waits for it
_SEND_S, _OPEN_S = 2.0, 6.0
#: structured mode (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/amqp-protocol-binding.md#32)
_CONTENT_TYPE = "application/cloudevents+json"


class ServiceBusEvents:
    """See `shared.ports.feed.EventTopic`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._client = client
        self._sender: ServiceBusSender | None = None
        #: Race sender: an aio sender must not be used by two coroutines at once
        self._lock = asyncio.Lock()

    async def send(self, events: Sequence[FeedEvent]) -> None:
        messages = [_message(event) for event in events]
        async with self._lock:
            is_open = self._sender is not None
            try:
                async with time_limit(_SEND_S if is_open else _OPEN_S):
                    if self._sender is None:
                        self._sender = self._client.get_topic_sender(EVENTS_TOPIC)
                    await self._sender.send_messages(messages)
            except MessageSizeExceededError as error:
                raise BusUnavailable("the events are too large for the bus") from error
            except BUS_FAULTS as error:
                await self._drop()
                raise BusUnavailable(f"the bus did not take events: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self._drop()
                raise

    async def close(self) -> None:
        await self._drop()

    async def _drop(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await close_link(sender)


def _message(event: FeedEvent) -> ServiceBusMessage:
    whole: dict[str, Any] = json.loads(event.text)
    filters = {"tenant": whole.get("tenant"), "type": event.event_type, "jobType": whole["data"].get("jobType")}
    return ServiceBusMessage(
        event.text,
        message_id=event.event_id,
        content_type=_CONTENT_TYPE,
        subject=event.event_type,
        application_properties={name: value for name, value in filters.items() if value is not None},
    )
