"""The dead-letter queue of a reply subscription, on the bus emulator."""

from __future__ import annotations

import pytest
from azure.servicebus import ServiceBusMessage

from shared.adapters.servicebus import receivers as servicebus_receivers
from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.servicebus.receivers import ServiceBusDeadReplies
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.errors import BusUnavailable
from shared.ports.bus import DeadReply
from tests.servicebus_emulator.process import start_bus

SENT = [f"m{number}" for number in range(3)]


async def test_a_drain_leaves_what_is_not_taken_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other messages are released at the end, in their positions; an error ends the drain and loses nothing.

    It takes seconds: each drain opens its own link, and the SDK waits on an empty queue.
    """
    monkeypatch.setattr(servicebus_receivers, "_BATCH", 2)
    # longer than a busy machine takes to receive the peeked messages
    monkeypatch.setattr(servicebus_receivers, "_RECEIVE_WAIT_S", 5.0)
    bus = start_bus("--topic", "replies0/app")
    publisher = ServiceBusPublisher.connect(connection=bus.connection_string, namespace=None, credential=None)
    dead = ServiceBusDeadReplies(publisher.client, ReplyEntities("replies", "app", "none"))
    seen: list[str] = []

    async def take(reply: DeadReply) -> bool:
        seen.append(reply.message_id)
        return reply.message_id != "m0"

    async def fail(reply: DeadReply) -> bool:
        raise BusUnavailable

    try:
        async with publisher.client.get_topic_sender("replies0") as sender:
            await sender.send_messages([ServiceBusMessage(b"{}", message_id=each) for each in SENT])
        async with publisher.client.get_subscription_receiver("replies0", "app") as receiver:
            for _ in SENT:
                [message] = await receiver.receive_messages(max_message_count=1, max_wait_time=60)
                await receiver.dead_letter_message(message, reason="Broken")
        with pytest.raises(BusUnavailable):
            await dead.drain(0, fail)
        assert await dead.waiting(0) == len(SENT)
        assert await dead.drain(0, take)
        assert seen == SENT
        assert await dead.waiting(0) == 1
    finally:
        await publisher.close()
        await publisher.client.close()
        bus.kill()
