"""`DirectivePublisher` over Service Bus: one client, and one sender per lane, opened on first use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from shared.adapters.servicebus.links import bus_client
from shared.adapters.servicebus.senders import BusSender
from shared.contracts.messages import Directive
from shared.core.jobs.directive import encode_directive, message_id
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import BusUnavailable, Interrupted, PublishUnavailable
from shared.time_limits import time_limit

#: maximum seconds of a send, and of a publish with its wait for the lane's sender and the opening of its link (R43)
_SEND_S, _PUBLISH_S = 20.0, 45.0

#: maximum length of a partition key in Service Bus
_MAX_PARTITION_KEY = 128


def _trace_properties(traceparent: str | None) -> dict[str | bytes, Any]:
    """Returns the trace context in the properties that Service Bus clients read: the W3C name, and the older name with
    the same value (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-end-to-end-tracing).
    """
    return {"traceparent": traceparent, "Diagnostic-Id": traceparent} if traceparent is not None else {}


class ServiceBusPublisher:
    """Implementation of `shared.ports.bus.DirectivePublisher` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.client = client
        self._senders: dict[int, BusSender] = {}

    @classmethod
    def connect(
        cls, *, connection: str | None, namespace: str | None, credential: AsyncTokenCredential | None
    ) -> ServiceBusPublisher:
        return cls(bus_client(connection=connection, namespace=namespace, credential=credential))

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        message = ServiceBusMessage(
            encode_directive(directive),
            message_id=message_id(directive.jobId, directive.stepId, directive.attempt_no),
            correlation_id=directive.correlation_id,
            content_type="application/json",
            subject="DIRECTIVE",
            time_to_live=None if time_to_live_s is None else timedelta(seconds=time_to_live_s),
            application_properties={
                "type": directive.type,
                "mode": directive.mode,
                "tenant_id": directive.tenant_id,
                "step_type": directive.step_type,
                "job_id": directive.jobId,
                "step_id": directive.stepId,
                "attempt_no": directive.attempt_no,
                "lane": directive.lane,
                **_trace_properties(directive.traceparent),
            },
        )
        if len(directive.routing_key_used) <= _MAX_PARTITION_KEY:
            message.partition_key = directive.routing_key_used
        try:
            async with time_limit(_PUBLISH_S):
                await self._sender(directive.lane).send_messages(message)
        except (BusUnavailable, Interrupted) as error:
            raise PublishUnavailable(f"Service Bus did not accept the directive: {error}") from error

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
        await self.client.close()

    def _sender(self, lane: int) -> BusSender:
        if lane not in self._senders:
            topic = f"{DIRECTIVE_TOPIC_PREFIX}{lane}"
            self._senders[lane] = BusSender(topic, self.client.get_topic_sender, send_s=_SEND_S, open_s=_PUBLISH_S)
        return self._senders[lane]
