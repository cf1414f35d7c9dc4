"""Microsoft's synchronous Python SDK, unmodified, against the bus over TCP."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from tests.servicebus_emulator.process import Bus

#: The longest wait for a message; only a failure takes so long.
WAIT_S = 60
#: The wait for a message that must not come.
NOTHING_S = 0.3


@pytest.fixture(scope="module")
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        yield client


@pytest.fixture(scope="module")
def timed_client(timed_bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(timed_bus.connection_string) as client:
        yield client


def receive(receiver: Any, count: int) -> list[ServiceBusReceivedMessage]:
    """Receives exactly `count` messages, in any number of calls."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        batch = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=WAIT_S)
        assert batch, f"{len(messages)} of {count} messages came"
        messages += batch
    return messages


@contextmanager
def both(client: ServiceBusClient, queue: str, **options: Any) -> Iterator[tuple[ServiceBusSender, ServiceBusReceiver]]:
    """Yields the sender and receiver of a queue, opened and closed in parallel: each takes the SDK half a second."""
    sender, receiver = client.get_queue_sender(queue), client.get_queue_receiver(queue, **options)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda handler: handler.__enter__(), (sender, receiver)))
        try:
            yield sender, receiver
        finally:
            list(pool.map(lambda handler: handler.close(), (sender, receiver)))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_every_property_arrives_as_it_was_sent(client: ServiceBusClient, queue: str) -> None:
    """Properties, application properties and body of a message come through unchanged."""
    application = {
        "text": "ä",
        "int": 7,
        "float": 0.5,
        "bool": True,
        "id": uuid.UUID(int=5),
    }
    sent = ServiceBusMessage(
        b"body \x00\xff",
        application_properties=application,
        message_id="m-1",
        correlation_id="c-1",
        subject="subject",
        to="to",
        reply_to="reply-to",
        reply_to_session_id="rs",
        content_type="application/json",
        partition_key="p",
        time_to_live=timedelta(hours=1),
    )
    before = datetime.now(UTC)
    with both(client, queue) as (sender, receiver):
        sender.send_messages(sent)
        [message] = receive(receiver, 1)
        locked_for = message.locked_until_utc - message.enqueued_time_utc
        receiver.complete_message(message)
    assert b"".join(message.body) == b"body \x00\xff"
    # The SDK returns keys and strings as bytes.
    received = {key.decode(): value for key, value in message.application_properties.items()}
    assert {**application, "text": "ä".encode()} == received
    assert (
        message.message_id,
        message.correlation_id,
        message.subject,
        message.to,
    ) == ("m-1", "c-1", "subject", "to")
    assert (
        message.reply_to,
        message.reply_to_session_id,
        message.content_type,
        message.partition_key,
    ) == ("reply-to", "rs", "application/json", "p")
    assert timedelta(hours=1) == message.time_to_live
    assert message.delivery_count == 0
    assert 1 == message.sequence_number == message.enqueued_sequence_number
    assert before - timedelta(seconds=1) < message.enqueued_time_utc < datetime.now(UTC) + timedelta(seconds=1)
    assert timedelta(seconds=50) < locked_for < timedelta(seconds=70)


@pytest.mark.parametrize(
    ("body_type", "body"),
    [
        (AmqpMessageBodyType.DATA, [b"one", b"two"]),
        (AmqpMessageBodyType.SEQUENCE, [[1, "two"], [3]]),
        (AmqpMessageBodyType.VALUE, {b"key": [1, 2, {b"deep": None}]}),
    ],
)
def test_all_body_kinds(client: ServiceBusClient, queue: str, body_type: AmqpMessageBodyType, body: Any) -> None:
    """Data, sequence and value bodies arrive as the same kind."""
    kind = {
        AmqpMessageBodyType.DATA: "data_body",
        AmqpMessageBodyType.SEQUENCE: "sequence_body",
        AmqpMessageBodyType.VALUE: "value_body",
    }[body_type]
    with both(client, queue) as (sender, receiver):
        sender.send_messages(AmqpAnnotatedMessage(**{kind: body}))
        [message] = receive(receiver, 1)
        receiver.complete_message(message)
    assert body_type == message.body_type
    received = message.body if body_type is AmqpMessageBodyType.VALUE else list(message.body)
    if body_type is AmqpMessageBodyType.SEQUENCE:
        received = [[item.decode() if isinstance(item, bytes) else item for item in part] for part in received]
    assert body == received


def test_batches_and_order(client: ServiceBusClient, queue: str) -> None:
    """Batches and lists arrive in the order sent, with growing sequence numbers, to one receiver."""
    with both(client, queue, prefetch_count=50) as (sender, receiver):
        batch = sender.create_message_batch()
        for number in range(60):
            batch.add_message(ServiceBusMessage(f"{number}"))
        sender.send_messages(batch)
        sender.send_messages([ServiceBusMessage(f"{number}") for number in range(60, 100)])
        messages = receive(receiver, 100)
        for message in messages:
            receiver.complete_message(message)
    assert [f"{number}" for number in range(100)] == [str(message) for message in messages]
    numbers = [message.sequence_number for message in messages]
    assert sorted(set(numbers)) == numbers


def test_large_messages(client: ServiceBusClient, queue: str) -> None:
    """A message of many frames arrives complete; one above 256 KiB is refused, and the sender stays usable."""
    body = bytes(range(256)) * 1000
    with both(client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage(body))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(300_000)))
        sender.send_messages(ServiceBusMessage("after"))
        messages = receive(receiver, 2)
        for message in messages:
            receiver.complete_message(message)
    assert [body, b"after"] == [b"".join(message.body) for message in messages]


def test_receive_and_delete(client: ServiceBusClient, queue: str, bus: Bus) -> None:
    """A message that is received in receive-and-delete mode is removed, without a lock."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        assert [str(message) for message in receive(receiver, 2)] == ["a", "b"]
    assert bus.get("/entities")[queue]["active"] == 0


def test_abandon_counts_deliveries_until_the_message_is_dead_lettered(
    client: ServiceBusClient, twice_queue: str
) -> None:
    """An abandoned message returns with a higher count, and is dead-lettered at the limit."""
    queue = twice_queue
    with both(client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage("x"))
        for count in range(2):
            [message] = receive(receiver, 1)
            assert count == message.delivery_count
            receiver.abandon_message(message)
        assert receiver.receive_messages(max_wait_time=NOTHING_S) == []
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = receive(dead, 1)
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert message.dead_letter_error_description == "Message could not be consumed after 2 delivery attempts."
        dead.complete_message(message)


def test_dead_letter_with_reason(client: ServiceBusClient, queue: str) -> None:
    """A message dead-lettered by its receiver carries the reason and keeps its properties and number."""
    with both(client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage("x", application_properties={"kept": 1}))
        [message] = receive(receiver, 1)
        receiver.dead_letter_message(message, reason="bad", error_description="not json")
    with client.get_queue_receiver(queue, sub_queue="deadletter") as dead:
        [dead_letter] = receive(dead, 1)
        dead.complete_message(dead_letter)
    assert (dead_letter.dead_letter_reason, dead_letter.dead_letter_error_description) == ("bad", "not json")
    assert dead_letter.application_properties[b"kept"] == 1
    assert message.sequence_number == dead_letter.sequence_number


def test_defer_and_receive_deferred(client: ServiceBusClient, queue: str) -> None:
    """A deferred message is received by its sequence number only, and settled like any other."""
    with both(client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage("later"))
        [message] = receive(receiver, 1)
        number = message.sequence_number
        receiver.defer_message(message)
        assert receiver.receive_messages(max_wait_time=NOTHING_S) == []
        [peeked] = receiver.peek_messages(sequence_number=1)
        assert peeked.state == ServiceBusMessageState.DEFERRED
        [deferred] = receiver.receive_deferred_messages(number)
        assert str(deferred) == "later"
        receiver.complete_message(deferred)
        assert receiver.peek_messages(sequence_number=1) == []


def test_lock_renewal_and_expiry(timed_bus: Bus, timed_client: ServiceBusClient, queue: str) -> None:
    """A renewed lock lasts longer; an expired one cannot settle, and the message returns with a delivery counted."""
    with both(timed_client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage("x"))
        [message] = receive(receiver, 1)
        first_end = message.locked_until_utc
        timed_bus.post("/clock/advance", {"seconds": 10})
        assert receiver.renew_message_lock(message) > first_end + timedelta(seconds=9)
        assert receiver.receive_messages(max_wait_time=NOTHING_S) == []
        timed_bus.post("/clock/advance", {"seconds": 61})
        [again] = receive(receiver, 1)  # not settled: it is delivered again when the lock ends
        assert again.delivery_count == 1
        with pytest.raises((MessageLockLostError, ServiceBusError)):
            receiver.complete_message(message)
        receiver.complete_message(again)
        with pytest.raises((MessageAlreadySettled, ValueError, ServiceBusError)):
            receiver.complete_message(again)


def test_expiry(client: ServiceBusClient, expiring_queue: str, queue: str, bus: Bus) -> None:
    """A message expires by the time to live of the entity or its own: dead-lettered if configured, else dropped."""
    with client.get_queue_sender(expiring_queue) as sender, client.get_queue_sender(queue) as dropping:
        sender.send_messages(ServiceBusMessage("x"))
        dropping.send_messages(ServiceBusMessage("y", time_to_live=timedelta(milliseconds=300)))
    with client.get_queue_receiver(expiring_queue, sub_queue="deadletter") as dead:
        [message] = receive(dead, 1)
        assert message.dead_letter_reason == "TTLExpiredException"
        dead.complete_message(message)
    until(lambda: bus.get("/entities")[queue]["active"] == 0, "the message did not expire")
    assert bus.get("/entities")[queue]["dead_letter"] == 0


def test_scheduled_messages(timed_bus: Bus, timed_client: ServiceBusClient, queue: str) -> None:
    """A scheduled message comes at its time; a cancelled one never does."""
    with both(timed_client, queue) as (sender, receiver):
        sender.send_messages(ServiceBusMessage("what time is it?"))
        [first] = receive(receiver, 1)
        receiver.complete_message(first)
        due = first.enqueued_time_utc + timedelta(hours=1)
        far = due + timedelta(minutes=1)
        numbers = sender.schedule_messages([ServiceBusMessage("soon"), ServiceBusMessage("soon too")], due)
        [cancelled] = sender.schedule_messages(ServiceBusMessage("never"), far)
        sender.send_messages(ServiceBusMessage("by property", scheduled_enqueue_time_utc=due))
        peeked = receiver.peek_messages(max_message_count=10)
        assert {ServiceBusMessageState.SCHEDULED} == {message.state for message in peeked}
        sender.cancel_scheduled_messages(cancelled)
        assert receiver.receive_messages(max_wait_time=NOTHING_S) == []
        timed_bus.post("/clock/advance", {"seconds": 3600})
        messages = receive(receiver, 3)
        assert {"soon", "soon too", "by property"} == {str(message) for message in messages}
        assert min(message.sequence_number for message in messages) > max(numbers)
        for message in messages:
            receiver.complete_message(message)
    timed_bus.post("/clock/advance", {"seconds": 60})
    counts = timed_bus.get("/entities")[queue]
    assert counts.pop("enqueued") >= max(message.sequence_number for message in messages)
    assert counts == {
        "active": 0,
        "locked": 0,
        "deferred": 0,
        "scheduled": 0,
        "dead_letter": 0,
    }


def test_peek_leaves_everything_as_it_is(client: ServiceBusClient, queue: str) -> None:
    """Peek shows messages from a sequence number on without locking them."""
    with both(client, queue) as (sender, receiver):
        sender.send_messages([ServiceBusMessage(f"{number}") for number in range(5)])
        until(lambda: len(receiver.peek_messages(max_message_count=10, sequence_number=1)) == 5, "not all to peek")
        peeked = receiver.peek_messages(max_message_count=2, sequence_number=3)
        assert [str(message) for message in peeked] == ["2", "3"]
        assert peeked[0].state == ServiceBusMessageState.ACTIVE
        messages = receive(receiver, 5)
        assert {0} == {message.delivery_count for message in messages}
        for message in messages:
            receiver.complete_message(message)


def test_duplicate_detection(client: ServiceBusClient, deduplicating_queue: str, bus: Bus) -> None:
    """A message id seen within the window is accepted and dropped."""
    with client.get_queue_sender(deduplicating_queue) as sender:
        for _ in range(3):
            sender.send_messages(ServiceBusMessage("x", message_id="same"))
        sender.send_messages([ServiceBusMessage("x", message_id=name) for name in ("same", "other", "other")])
    assert bus.get("/entities")[deduplicating_queue]["active"] == 2


def test_topic_rules(client: ServiceBusClient, bus: Bus) -> None:
    """Each subscription gets what its rules select, once; a configured `$Default` rule replaces the built-in one."""
    with client.get_topic_sender("steps") as sender:
        sender.send_messages(ServiceBusMessage("1", application_properties={"step_type": "OCR"}, subject="urgent"))
        sender.send_messages(ServiceBusMessage("2", application_properties={"step_type": "SIS"}))
        sender.send_messages(ServiceBusMessage("3"))

    def take(name: str) -> list[str]:
        count = bus.get("/entities")[f"steps/Subscriptions/{name}"]["active"]
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_subscription_receiver("steps", name, receive_mode=mode) as receiver:
            return [str(message) for message in receive(receiver, count)]

    names = ("ocr", "urgent", "everything")
    with ThreadPoolExecutor() as pool:
        texts = dict(zip(names, pool.map(take, names), strict=True))
    assert texts == {"ocr": ["1"], "urgent": ["1"], "everything": ["1", "2", "3"]}


def test_unknown_entities_are_refused_by_name(client: ServiceBusClient) -> None:
    """Links to unknown entities fail at once with the name of the entity."""
    with pytest.raises(MessagingEntityNotFoundError, match="nowhere"), client.get_queue_sender("nowhere") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    with (
        pytest.raises(MessagingEntityNotFoundError, match="nothing"),
        client.get_subscription_receiver("steps", "nothing") as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)


def test_a_closed_receiver_returns_prefetched_messages(client: ServiceBusClient, queue: str) -> None:
    """Prefetched messages return uncounted; one that the application holds stays locked."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("held"), ServiceBusMessage("prefetched")])
    with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
        assert [str(message) for message in receive(receiver, 1)] == ["held"]
    with client.get_queue_receiver(queue) as other:
        [prefetched] = receive(other, 1)
        assert (str(prefetched), prefetched.delivery_count) == ("prefetched", 0)
        other.complete_message(prefetched)
        assert other.receive_messages(max_wait_time=NOTHING_S) == []
