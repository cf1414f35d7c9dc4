"""`DirectivePublisher` over Service Bus: one client, and one sender a lane, opened on first use."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError

from shared.adapters.servicebus.links import BUS_FAULTS, bus_client, close_link
from shared.contracts.messages import Directive
from shared.core.jobs.directive import encode_directive, message_id
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import Interrupted, PublishUnavailable
from shared.time_limits import time_limit

_SEND_TIMEOUT_S = 20.0
#: of a publish, with its wait for the lane's sender (R43); longer than the SDK's own time-out
_PUBLISH_S = 45.0

#: Service Bus takes partition keys of up to 128 characters
_MAX_PARTITION_KEY = 128


def _trace_properties(traceparent: str | None) -> dict[str | bytes, Any]:
    """Where Service Bus clients look for a trace: the W3C name, and the older one with the same content
    (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-end-to-end-tracing)."""
    return {"traceparent": traceparent, "Diagnostic-Id": traceparent} if traceparent is not None else {}


class ServiceBusPublisher:
    """See `shared.ports.bus.DirectivePublisher`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.client = client
        self._senders: dict[int, ServiceBusSender] = {}
        #: Race sender: an aio sender must not be used by two coroutines at once
        self._locks: dict[int, asyncio.Lock] = {}

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
                await self._send(directive.lane, message)
        except Interrupted as error:
            raise PublishUnavailable("the bus did not take the directive in time") from error

    async def _send(self, lane: int, message: ServiceBusMessage) -> None:
        async with self._locks.setdefault(lane, asyncio.Lock()):
            try:
                sender = await self._sender(lane)
                await sender.send_messages(message, timeout=_SEND_TIMEOUT_S)
            except MessageSizeExceededError as error:
                raise PublishUnavailable("the directive is too large for the bus") from error
            except BUS_FAULTS as error:
                await self._drop(lane)
                raise PublishUnavailable(f"the bus did not take the directive: {type(error).__name__}") from error
            except asyncio.CancelledError:
                # the time is up, or the SDK gave up: the sender may be in the middle of a frame
                # an SDK's sender that is not closed keeps its connection for good
                await self._drop(lane)
                raise

    async def close(self) -> None:
        for lane in list(self._senders):
            await self._drop(lane)
        await self.client.close()

    async def _sender(self, lane: int) -> ServiceBusSender:
        if lane not in self._senders:
            self._senders[lane] = self.client.get_topic_sender(f"{DIRECTIVE_TOPIC_PREFIX}{lane}")
        return self._senders[lane]

    async def _drop(self, lane: int) -> None:
        """A sender that failed may be broken for good: the next publish opens a new one."""
        sender = self._senders.pop(lane, None)
        if sender is not None:
            await close_link(sender)
