"""`DeskCalls` over the queue `lucius-admission`: one sender, opened on first use."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from shared.adapters.servicebus_links import Sender
from shared.core.routing import ADMISSION_QUEUE

#: of one send, with the opening of its link; nobody waits longer, since the sweeper makes up for a lost call
_SEND_S = 15.0


class ServiceBusDeskCalls:
    """See `shared.ports.bus.DeskCalls`."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._sender = Sender(ADMISSION_QUEUE, client.get_queue_sender, send_s=_SEND_S)

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
        await self._sender.send([message])

    async def close(self) -> None:
        await self._sender.close()
