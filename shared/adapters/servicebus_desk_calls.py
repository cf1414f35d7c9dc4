"""`DeskCalls` over the queue `lucius-admission`: one sender, opened on first use."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from shared.adapters.servicebus_links import BUS_FAULTS, close_link
from shared.core.routing import ADMISSION_QUEUE
from shared.errors import BusUnavailable
from shared.time_limits import time_limit

#: of one send, with the opening of its link; nobody waits longer, since the sweeper makes up for a lost call
_SEND_S = 15.0


class ServiceBusDeskCalls:
    """See `shared.ports.bus.DeskCalls`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._client = client
        self._sender: ServiceBusSender | None = None
        #: Race sender: an aio sender must not be used by two coroutines at once
        self._lock = asyncio.Lock()

    async def call(
        self, tenant: str, job_id: str | None = None, *, bulk_id: str | None = None, at: datetime | None = None
    ) -> None:
        named = {"tenant": tenant, "job_id": job_id, "bulk": bulk_id}
        await self._send({name: value for name, value in named.items() if value is not None}, at)

    async def divide(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        await self._send({"gate": gate_id, "since": (since or at).isoformat()}, at if at > datetime.now(UTC) else None)

    async def _send(self, called: dict[str, str], at: datetime | None) -> None:
        options: dict[str, Any] = {} if at is None else {"scheduled_enqueue_time_utc": at}
        message = ServiceBusMessage(json.dumps(called), content_type="application/json", subject="CALL", **options)
        async with self._lock:
            try:
                async with time_limit(_SEND_S):
                    if self._sender is None:
                        self._sender = self._client.get_queue_sender(ADMISSION_QUEUE)
                    await self._sender.send_messages(message)
            except BUS_FAULTS as error:
                await self._drop()
                raise BusUnavailable(f"the bus did not take a call to a desk: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self._drop()
                raise

    async def close(self) -> None:
        await self._drop()

    async def _drop(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await close_link(sender)
