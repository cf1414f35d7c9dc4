"""Microsoft's asynchronous Python SDK against the bus over TCP."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from tests.servicebus_emulator.process import Bus, start_bus

WAIT_S = 60


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        yield client


async def test_the_life_of_messages(client: ServiceBusClient, queue: str) -> None:
    """Send, schedule, receive, abandon, renew, defer, dead-letter, peek and complete work as in the synchronous SDK."""
    async with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        await sender.send_messages(ServiceBusMessage("one"))
        await sender.schedule_messages(ServiceBusMessage("two"), datetime.now(UTC) + timedelta(milliseconds=300))
        [one] = await receiver.receive_messages(max_wait_time=WAIT_S)
        before = one.locked_until_utc
        await asyncio.sleep(0.01)
        assert await receiver.renew_message_lock(one) > before
        await receiver.abandon_message(one)
        [one] = await receiver.receive_messages(max_wait_time=WAIT_S)
        assert (str(one), one.delivery_count) == ("one", 1)
        await receiver.defer_message(one)
        [two] = await receiver.receive_messages(max_wait_time=WAIT_S)
        assert str(two) == "two"
        await receiver.dead_letter_message(two, reason="because")
        assert [str(message) for message in await receiver.peek_messages(sequence_number=1)] == ["one"]
        [one] = await receiver.receive_deferred_messages(one.sequence_number)
        await receiver.complete_message(one)
    async with client.get_queue_receiver(
        queue, sub_queue="deadletter", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as dead:
        [two] = await dead.receive_messages(max_wait_time=WAIT_S)
        assert (str(two), two.dead_letter_reason) == ("two", "because")


async def test_forwarding_and_what_is_dead_lettered_on_the_way(client: ServiceBusClient) -> None:
    """A message and its dead letter are forwarded; a refused one and one on which a rule fails are dead-lettered."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE

    async def send(sender: ServiceBusSender, message: ServiceBusMessage) -> None:
        async with sender:
            await sender.send_messages(message)

    async def take(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
        async with receiver:
            [message] = await receiver.receive_messages(max_wait_time=WAIT_S)
            return message

    await asyncio.gather(
        send(client.get_queue_sender("chain-first"), ServiceBusMessage("x")),
        send(client.get_queue_sender("chain-refused"), ServiceBusMessage("no session id")),
        send(client.get_topic_sender("divided"), ServiceBusMessage("y", application_properties={"n": 1, "zero": 0})),
    )
    async with client.get_queue_receiver("chain-last") as last:
        [message] = await last.receive_messages(max_wait_time=WAIT_S)
        await last.dead_letter_message(message, reason="why")
    dead, refused, failed = await asyncio.gather(
        take(client.get_queue_receiver("chain-dead-letters", receive_mode=mode)),
        take(client.get_queue_receiver("chain-refused", sub_queue="deadletter", receive_mode=mode)),
        take(client.get_subscription_receiver("divided", "by-quotient", sub_queue="deadletter", receive_mode=mode)),
    )
    assert (str(dead), dead.dead_letter_reason, dead.dead_letter_source) == ("x", "why", "chain-last")
    assert "SessionId was not set" in (refused.dead_letter_error_description or "")
    assert (str(failed), failed.dead_letter_reason) == ("y", "FilterEvaluationException")


async def test_competing_consumers(client: ServiceBusClient, queue: str) -> None:
    """Six receivers that abandon now and then complete every message exactly once."""
    total = 300
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(f"{number}") for number in range(total)])
    done: Counter[str] = Counter()
    rng = random.Random(7)

    async def consume(receiver: ServiceBusReceiver) -> None:
        while sum(done.values()) < total:
            for message in await receiver.receive_messages(max_message_count=20, max_wait_time=1):
                if rng.random() < 0.1 and message.delivery_count < 5:
                    await receiver.abandon_message(message)
                else:
                    await receiver.complete_message(message)
                    done[str(message)] += 1

    receivers = [client.get_queue_receiver(queue, prefetch_count=5) for _ in range(6)]
    # a link that a receive opens has to be open within the time that it waits
    await asyncio.gather(*(receiver.__aenter__() for receiver in receivers))
    try:
        await asyncio.wait_for(asyncio.gather(*(consume(receiver) for receiver in receivers)), 60)
    finally:
        await asyncio.gather(*(receiver.close() for receiver in receivers))
    assert Counter({f"{number}": 1 for number in range(total)}) == done


async def test_seventy_idle_receivers_cost_nothing(config_path: object) -> None:
    """While many receivers wait, the broker uses hardly any CPU time."""
    bus = start_bus("--config", str(config_path))
    try:
        async with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            receivers = [client.get_queue_receiver(f"plain-{number}") for number in range(70)]
            waits = [asyncio.create_task(receiver.receive_messages(max_wait_time=120)) for receiver in receivers]
            while bus.get("/health")["connections"] < 70:  # noqa: ASYNC110 - another process is waited for
                await asyncio.sleep(0.2)
            # On a busy machine links attach for a while; after that the broker must be idle.
            async with asyncio.timeout(60):
                used = 1.0
                while used > 0.05:
                    before = bus.get("/health")["cpu_s"]
                    await asyncio.sleep(1)
                    used = bus.get("/health")["cpu_s"] - before
            async with client.get_queue_sender("plain-42") as sender:
                await sender.send_messages(ServiceBusMessage("x"))
            assert [str(message) for message in await waits[42]] == ["x"]
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            await asyncio.gather(*(receiver.close() for receiver in receivers))
    finally:
        assert bus.stop() == 0
