"""Senders of all messages except directives: admission calls, hints, deliveries, and events for their topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.adapters.servicebus.links import BUS_FAULTS, close_link
from shared.core.events.hints import Hint, encode_hint
from shared.core.jobs.routing import ADMISSION_QUEUE, EVENTS_TOPIC, HINTS_QUEUE, WEBHOOKS_QUEUE
from shared.errors import BusUnavailable
from shared.ports.feed import FeedEvent
from shared.ports.webhooks import DeliveryCall, encode_call
from shared.time_limits import time_limit

#: maximum seconds of an admission call, with the opening of its link and without the wait for earlier calls; the
#: sweeper replaces a lost one
_CALL_S = 15.0
#: maximum seconds of any other send, and of a send that opens the link. The end of a job and the next batch of hints
#: wait for it
_SEND_S, _OPEN_S = 2.0, 6.0
#: content type of structured mode
#: (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/amqp-protocol-binding.md#32)
_CLOUDEVENT = "application/cloudevents+json"


class BusSender:
    """A sender to one queue or topic. The first send opens the link, and a send after a failure opens the link
    again.
    """

    def __init__(
        self, name: str, opened: Callable[[str], ServiceBusSender], *, send_s: float, open_s: float | None = None
    ) -> None:
        """Sets the limits. `send_s` is the maximum duration of a send in seconds.

        `open_s` is the maximum duration in seconds of a send that opens the link.
        """
        self._name = name
        self._opened = opened
        self._send_s, self._open_s = send_s, open_s or send_s
        self._sender: ServiceBusSender | None = None
        #: Race sender: an aio sender must not be used by two coroutines at the same time
        self._lock = asyncio.Lock()

    async def send_messages(self, messages: ServiceBusMessage | list[ServiceBusMessage]) -> None:
        """Sends one message, or several together. Raises BusUnavailable."""
        async with self._lock:
            try:
                async with time_limit(self._send_s if self._sender is not None else self._open_s):
                    if self._sender is None:
                        self._sender = self._opened(self._name)
                    await self._sender.send_messages(messages)
            except MessageSizeExceededError as error:
                raise BusUnavailable(f"messages for {self._name} are too large for the bus") from error
            except BUS_FAULTS as error:
                await self.close()
                raise BusUnavailable(f"{self._name} did not accept messages: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self.close()
                raise

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await close_link(sender)


class ServiceBusAdmissionCalls(BusSender):
    """Implementation of `shared.ports.bus.AdmissionCalls` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient) -> None:
        super().__init__(ADMISSION_QUEUE, client.get_queue_sender, send_s=_CALL_S)

    async def call(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        bulk_id: str | None = None,
        breaker_of: str | None = None,
        at: datetime | None = None,
    ) -> None:
        due_at = at.isoformat() if at is not None else None
        named = {"tenant": tenant, "job_id": job_id, "bulk": bulk_id, "gate": breaker_of, "due_at": due_at}
        await self._send({name: value for name, value in named.items() if value is not None}, at)

    async def call_allocation(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        await self._send({"gate": gate_id, "since": (since or at).isoformat()}, at if at > datetime.now(UTC) else None)

    async def _send(self, called: dict[str, str], at: datetime | None) -> None:
        await self.send_messages(_messages([json.dumps(called).encode()], "CALL", at))


class ServiceBusHints(BusSender):
    """Implementation of `shared.ports.feed.HintQueue` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient) -> None:
        super().__init__(HINTS_QUEUE, client.get_queue_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        await self.send_messages(_messages([encode_hint(hint) for hint in hints], "HINT", at))


class ServiceBusDeliveries(BusSender):
    """Implementation of `shared.ports.webhooks.DeliveryQueue` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient) -> None:
        super().__init__(WEBHOOKS_QUEUE, client.get_queue_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        await self.send_messages(_messages([encode_call(call) for call in calls], "DELIVERY", at))


class ServiceBusEvents(BusSender):
    """Implementation of `shared.ports.feed.EventTopic` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient) -> None:
        super().__init__(EVENTS_TOPIC, client.get_topic_sender, send_s=_SEND_S, open_s=_OPEN_S)

    async def send(self, events: Sequence[FeedEvent]) -> None:
        await self.send_messages([_message(event) for event in events])


def _message(event: FeedEvent) -> ServiceBusMessage:
    whole: dict[str, Any] = json.loads(event.text)
    filters = {"tenant": whole.get("tenant"), "type": event.event_type, "jobType": whole["data"].get("jobType")}
    return ServiceBusMessage(
        event.text,
        message_id=event.event_id,
        content_type=_CLOUDEVENT,
        subject=event.event_type,
        application_properties={name: value for name, value in filters.items() if value is not None},
    )


def _messages(bodies: Sequence[bytes], subject: str, at: datetime | None) -> list[ServiceBusMessage]:
    options: dict[str, Any] = {} if at is None else {"scheduled_enqueue_time_utc": at}
    return [ServiceBusMessage(body, content_type="application/json", subject=subject, **options) for body in bodies]
