"""One lane of the bus in a verification: sends directives, receives replies, and peeks at the service's
subscription.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from lucius_service.directive import DIRECTIVE_TOPIC_PREFIX

#: seconds for the bus to respond at first
CONNECT_TIMEOUT_S = 15.0


class Lane:
    """The links to one lane, opened with `open`."""

    def __init__(self, number: int, sender: ServiceBusSender, peekers: dict[bool, ServiceBusReceiver]) -> None:
        self.number = number
        self._sender = sender
        self._peekers = peekers
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        stack: AsyncExitStack,
        client: ServiceBusClient,
        number: int,
        *,
        subscription: str,
        reply_topic: str,
        reply_subscription: str,
        take: Callable[[bytes, int, int], None],
    ) -> Lane:
        """Opens the links, which `stack` closes.

        `take` gets the body of each reply, the number of the lane and the sequence number of the message. Raises
        ServiceBusError, ValueError, OSError, TimeoutError if the bus does not respond, refuses the connection or has no
        such lane.
        """
        topic = f"{DIRECTIVE_TOPIC_PREFIX}{number}"
        receiver = client.get_subscription_receiver(reply_topic, reply_subscription)
        sender = client.get_topic_sender(topic)
        peekers = {
            dead: client.get_subscription_receiver(
                topic,
                subscription,
                sub_queue=ServiceBusSubQueue.DEAD_LETTER if dead else None,
                # this receiver only peeks
                prefetch_count=0,
            )
            for dead in (False, True)
        }
        links: tuple[ServiceBusReceiver | ServiceBusSender, ...] = (receiver, sender, *peekers.values())
        # closed together, since each has a connection of its own whose close waits half a second
        stack.push_async_callback(_together, *(link.close for link in links))
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await _together(*(link.__aenter__ for link in links))
        listening = asyncio.create_task(_listen(receiver, number, take))
        stack.push_async_callback(_ended, listening)
        return cls(number, sender, peekers)

    async def send(self, message: ServiceBusMessage) -> None:
        """Sends a message to the directive topic."""
        async with self._turn:
            await self._sender.send_messages(message)

    async def messages(self, *, dead: bool) -> list[ServiceBusReceivedMessage]:
        """Returns the messages in the service's subscription or its dead-letter queue, including locked messages."""
        async with self._turn:
            found: list[ServiceBusReceivedMessage] = []
            # page by page, since a queue of earlier runs may be long
            while page := await self._peekers[dead].peek_messages(
                max_message_count=200, sequence_number=(found[-1].sequence_number or 0) + 1 if found else 1
            ):
                found += page
            return found


async def _listen(receiver: ServiceBusReceiver, number: int, take: Callable[[bytes, int, int], None]) -> None:
    while True:
        for message in await receiver.receive_messages(max_message_count=50, max_wait_time=60):
            take(b"".join(message.body), number, message.sequence_number or 0)
            await receiver.complete_message(message)


async def _together(*calls: Callable[[], Awaitable[object]]) -> None:
    """Runs the awaitables concurrently. Raises the first error after all have ended."""
    for ended in await asyncio.gather(*(call() for call in calls), return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


async def _ended(task: asyncio.Task[None]) -> None:
    # the SDK swallows a cancellation that arrives together with a frame
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)
    await asyncio.gather(task, return_exceptions=True)
