"""Sessions with both Python SDKs over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.servicebus_emulator.process import Bus

WAIT_S = 60


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
        yield client


async def test_a_session_is_one_receivers(client: ServiceBusClient, session_queue: str) -> None:
    """Its holder gets a session's messages in order; other receivers are refused until it closes."""
    async with client.get_queue_sender(session_queue) as sender:
        for number in range(3):
            await sender.send_messages(ServiceBusMessage(f"a{number}", session_id="a"))
            await sender.send_messages(ServiceBusMessage(f"b{number}", session_id="b"))
        with pytest.raises(ServiceBusError, match="SessionId was not set"):
            await sender.send_messages(ServiceBusMessage("none"))
    async with client.get_queue_receiver(session_queue, session_id="b") as receiver:
        messages = await receiver.receive_messages(max_message_count=3, max_wait_time=WAIT_S)
        assert [str(message) for message in messages] == ["b0", "b1", "b2"][: len(messages)]
        with pytest.raises(SessionCannotBeLockedError):
            async with client.get_queue_receiver(session_queue, session_id="b") as other:
                await other.receive_messages(max_wait_time=1)
        async with client.get_queue_receiver(session_queue, session_id=NEXT_AVAILABLE_SESSION) as other:
            assert other.session.session_id == "a"
            [first] = await other.receive_messages(max_wait_time=WAIT_S)
            assert (str(first), first.session_id) == ("a0", "a")
            await other.complete_message(first)
            await other.session.set_state(b"state of a")
            listed = [session async for session in client.list_queue_sessions(session_queue)]
            assert listed == ["a", "b"]
            past = datetime.now(UTC) - timedelta(minutes=1)
            changed = client.list_queue_sessions(session_queue, state_updated_after=past)
            assert [session async for session in changed] == ["a"]
            assert [str(message) for message in await other.peek_messages(max_message_count=9)] == ["a1", "a2"]
    async with client.get_queue_receiver(session_queue, session_id="a") as receiver:
        assert await receiver.session.get_state() == b"state of a"
        await receiver.session.set_state(None)
        assert not await receiver.session.get_state()
        [message] = await receiver.receive_messages(max_wait_time=WAIT_S)
        assert (str(message), message.delivery_count) == ("a1", 0)
        await receiver.defer_message(message)
        [message] = await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.complete_message(message)


async def test_a_session_lock_is_renewed_and_lost(timed_bus: Bus, session_queue: str) -> None:
    """Renewal prolongs the lock; when it expires, the receiver gets an error and its messages count a delivery."""
    async with AsyncExitStack() as closing:
        connected = ServiceBusClient.from_connection_string(timed_bus.connection_string, retry_total=0)
        client = await closing.enter_async_context(connected)
        async with client.get_queue_sender(session_queue) as sender:
            await sender.send_messages(ServiceBusMessage("x", session_id="s"))
        receiver = await closing.enter_async_context(client.get_queue_receiver(session_queue, session_id="s"))
        [message] = await receiver.receive_messages(max_wait_time=WAIT_S)
        for _ in range(3):
            timed_bus.post("/clock/advance", {"seconds": 30})
            end = await receiver.session.renew_lock()
        assert end == receiver.session.locked_until_utc
        timed_bus.post("/clock/advance", {"seconds": 61})
        async with client.get_queue_receiver(session_queue, session_id=NEXT_AVAILABLE_SESSION) as other:
            [again] = await other.receive_messages(max_wait_time=WAIT_S)
            assert again.delivery_count == 1
            with pytest.raises((SessionLockLostError, ServiceBusError)):
                await receiver.complete_message(message)
            await other.complete_message(again)


async def test_no_session_is_a_timeout(bus: Bus, session_queue: str) -> None:
    """A receiver that waits for any session gets an error when its time is over."""
    async with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
        with pytest.raises(OperationTimeoutError):
            async with client.get_queue_receiver(
                session_queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.3
            ) as receiver:
                await receiver.receive_messages(max_wait_time=0.3)


async def test_receivers_must_fit_the_queue(client: ServiceBusClient, session_queue: str, queue: str) -> None:
    """A plain receiver on a session queue is refused, and a session receiver on a plain one."""
    with pytest.raises(ServiceBusError, match="requires sessions"):
        async with client.get_queue_receiver(session_queue) as receiver:
            await receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        async with client.get_queue_receiver(queue, session_id="s") as receiver:
            await receiver.receive_messages(max_wait_time=1)
