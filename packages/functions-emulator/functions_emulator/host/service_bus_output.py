"""Service Bus outputs. The value of a function is sent as one message, and a list as one message for each item."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from functions_emulator.host.functions import Binding
from functions_emulator.host.settings import Settings


class ServiceBusWriter:
    """A writer with one sender for each queue or topic. Replaces a failed sender for the next message."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[str, ServiceBusClient] = {}
        self._senders: dict[tuple[str, str], ServiceBusSender] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def write(self, binding: Binding, value: Any, trigger_data: Mapping[str, Any]) -> None:
        entity = binding.text("topicName") or str(binding.fields["queueName"])
        connection = self._settings.connection(binding.connection, binding.service)
        messages = [_message(one) for one in (value if isinstance(value, list) else [value])]
        key = (connection, entity)
        async with self._locks.setdefault(key, asyncio.Lock()):
            sender = self._senders.get(key)
            if sender is None:
                sender = self._senders[key] = self._open(connection, entity, topic=binding.text("topicName"))
            try:
                await sender.send_messages(messages)
            except Exception:
                del self._senders[key]
                await sender.close()
                raise

    def _open(self, connection: str, entity: str, *, topic: str | None) -> ServiceBusSender:
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = ServiceBusClient.from_connection_string(connection)
        return client.get_topic_sender(entity) if topic else client.get_queue_sender(entity)

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
        for client in self._clients.values():
            await client.close()


def _message(value: Any) -> ServiceBusMessage:
    if isinstance(value, str | bytes):
        return ServiceBusMessage(value)
    return ServiceBusMessage(json.dumps(value), content_type="application/json")
