"""`EventTopic` over the topic `lucius-events`: one sender, opened on first use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from shared.adapters.servicebus_links import Sender
from shared.core.routing import EVENTS_TOPIC
from shared.ports.feed import FeedEvent

#: of a send, and of the first one, which opens the link: the next batch of hints waits for it
_SEND_S, _OPEN_S = 2.0, 6.0
#: structured mode (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/amqp-protocol-binding.md#32)
_CONTENT_TYPE = "application/cloudevents+json"


class ServiceBusEvents:
    """See `shared.ports.feed.EventTopic`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = Sender(EVENTS_TOPIC, client.get_topic_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, events: Sequence[FeedEvent]) -> None:
        await self._sender.send([_message(event) for event in events])

    async def close(self) -> None:
        await self._sender.close()


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
