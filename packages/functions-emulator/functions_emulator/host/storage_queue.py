"""Storage queue triggers and outputs, by the rules of the Functions extension.

A message is hidden while its function runs. Success deletes the message, and failure makes the message visible again.
After `maxDequeueCount` failures the message goes to `{queue}-poison`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.functions.queue import QueueMessage
from azure.storage.queue import QueueMessage as StoredMessage
from azure.storage.queue.aio import QueueClient

from functions_emulator.host.expressions import data_of_body, fill
from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.settings import Settings

_LOG = logging.getLogger("functions_emulator.host")

#: seconds for which a message is hidden while its function runs; renewed after half of them
_HIDDEN_S = 60
_FIRST_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """`extensions.queues` of host.json. Times are in seconds."""

    batch_size: int
    max_dequeue_count: int
    max_poll_s: float
    visibility_s: float
    base64: bool


class QueueTrigger:
    """A queue trigger. `invoke` runs the function with a `func.QueueMessage` and the binding data, and returns `True`
    if it succeeded.
    """

    def __init__(
        self,
        function: Function,
        connection: str,
        options: QueueOptions,
        invoke: Callable[[Function, Any, Mapping[str, Any]], Awaitable[bool]],
    ) -> None:
        self._function = function
        self._connection = connection
        self._options = options
        self._invoke = invoke
        self._name = str(function.trigger.fields["queueName"])
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Runs until cancelled. Polls an empty queue at growing intervals, up to `max_poll_s`."""
        delay, lost = _FIRST_POLL_S, False
        async with QueueClient.from_connection_string(self._connection, self._name) as queue:
            while True:
                try:
                    taken = await self._take(queue)
                    lost = False
                except AzureError as error:
                    if not lost:
                        why = str(error).partition("\n")[0]
                        _LOG.warning("%s cannot read the queue %s, retrying: %s", self._function.name, self._name, why)
                    taken, lost = 0, True
                delay = _FIRST_POLL_S if taken else min(delay * 2, self._options.max_poll_s)
                await asyncio.sleep(0 if taken else delay)

    async def _take(self, queue: QueueClient) -> int:
        free = self._options.batch_size - len(self._running)
        if free <= 0:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            return 1
        count = 0
        try:
            async for message in queue.receive_messages(max_messages=min(free, 32), visibility_timeout=_HIDDEN_S):
                count += 1
                task = asyncio.ensure_future(self._handle(queue, message))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                if count >= free:
                    break
        except ResourceNotFoundError:
            return 0  # the first writer creates the queue
        return count

    async def _handle(self, queue: QueueClient, message: StoredMessage) -> None:
        body = self._decode(str(message.content))
        value = QueueMessage(  # type: ignore[no-untyped-call]  # the SDK's
            id=message.id,
            body=body,
            dequeue_count=message.dequeue_count,
            expiration_time=message.expires_on,
            insertion_time=message.inserted_on,
            time_next_visible=message.next_visible_on,
            pop_receipt=message.pop_receipt,
        )
        data = {**data_of_body(body), "queueTrigger": body.decode(errors="replace"), "Id": message.id}
        running = asyncio.ensure_future(self._invoke(self._function, value, data))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_HIDDEN_S / 2)
                if not running.done():
                    message = await queue.update_message(message, visibility_timeout=_HIDDEN_S)
            await self._settle(queue, message, running.result())
        except AzureError as error:
            _LOG.warning("queue %s: message %s could not be settled: %s", self._name, message.id, error)

    async def _settle(self, queue: QueueClient, message: StoredMessage, succeeded: bool) -> None:
        if not succeeded and (message.dequeue_count or 0) < self._options.max_dequeue_count:
            await queue.update_message(message, visibility_timeout=int(self._options.visibility_s))
            return
        if not succeeded:
            _LOG.error(
                "queue %s: message %s reached maxDequeueCount; it goes to the poison queue", self._name, message.id
            )
            async with QueueClient.from_connection_string(self._connection, f"{self._name}-poison") as poison:
                await send(poison, str(message.content))
        await queue.delete_message(message)

    def _decode(self, content: str) -> bytes:
        if self._options.base64:
            try:
                return base64.b64decode(content, validate=True)
            except binascii.Error:
                return content.encode()  # the client does not encode, as some explorers
        return content.encode()


async def send(queue: QueueClient, content: str) -> None:
    """Sends a message. Creates the queue if the queue does not exist."""
    try:
        await queue.send_message(content)
    except ResourceNotFoundError:
        with contextlib.suppress(ResourceExistsError):  # another writer may create it first
            await queue.create_queue()
        await queue.send_message(content)


class QueueWriter:
    """Queue outputs. A value is text, bytes, a `func.QueueMessage`, or a list of these. Other values become JSON."""

    def __init__(self, settings: Settings, *, encode: bool) -> None:
        self._settings = settings
        self._encode = encode

    async def write(self, binding: Binding, value: Any, trigger_data: Mapping[str, Any]) -> None:
        name = fill(str(binding.fields["queueName"]), trigger_data)
        connection = self._settings.connection(binding.connection, binding.service)
        async with QueueClient.from_connection_string(connection, name) as queue:
            for one in value if isinstance(value, list) else [value]:
                body = _body(one)
                await send(queue, base64.b64encode(body).decode() if self._encode else body.decode())

    async def close(self) -> None:
        """Does nothing, since no connection stays open."""


def _body(value: Any) -> bytes:
    if hasattr(value, "get_body"):
        value = value.get_body()
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else json.dumps(value).encode()
