"""Queues: delivery, locks, settlement, expiry, schedules and size, with a clock that the tests advance."""

from __future__ import annotations

import uuid

import pytest

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.errors import MessageLockLost, MessageNotFound, QuotaExceeded
from servicebus_emulator.broker.message import Message, MessageState
from servicebus_emulator.broker.queue import DESCRIPTION, REASON, MessageQueue
from tests.servicebus_emulator.fakes import Receiver, StillClock, Text, advance, text_of


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def broker(clock: StillClock) -> Broker:
    return Broker(clock)


@pytest.fixture
def queue(broker: Broker) -> MessageQueue:
    return broker.add_queue(QueueDescription("q", lock_duration_ms=60_000, max_delivery_count=3))


def fill(queue: MessageQueue, *texts: str) -> None:
    for text in texts:
        queue.accept(Text(text))


def receive(queue: MessageQueue, credit: int = 1, *, delete: bool = False) -> Receiver:
    receiver = Receiver(credit, delete)
    queue.request_messages(receiver)
    return receiver


def token(message: Message) -> uuid.UUID:
    assert message.lock_token is not None
    return message.lock_token


def dead_of(queue: MessageQueue) -> MessageQueue:
    assert queue.dead_letters is not None
    return queue.dead_letters


def test_messages_go_out_in_order_as_far_as_credit_goes(queue: MessageQueue) -> None:
    """A receiver gets the oldest messages first, no more than its credit."""
    fill(queue, "a", "b", "c")
    receiver = receive(queue, 2)
    assert receiver.texts == ["a", "b"]
    receiver.credit = 5
    queue.request_messages(receiver)
    fill(queue, "d")
    assert receiver.texts == ["a", "b", "c", "d"]


def test_receivers_take_turns_and_the_last_to_ask_is_first(queue: MessageQueue) -> None:
    """Waiting receivers share the messages; the latest request is served first."""
    first, second = receive(queue, 2), receive(queue, 2)
    fill(queue, "a", "b", "c", "d")
    assert (first.texts, second.texts) == (["b", "d"], ["a", "c"])


def test_a_removed_receiver_gets_nothing(queue: MessageQueue) -> None:
    """A receiver whose link ended gets no message."""
    gone = receive(queue)
    queue.remove_consumer(gone)
    fill(queue, "a")
    assert gone.texts == []
    assert receive(queue).texts == ["a"]


def test_an_abandoned_message_takes_its_old_place(queue: MessageQueue) -> None:
    """It comes before younger ones, one delivery counted."""
    fill(queue, "a", "b")
    [a] = receive(queue).messages
    queue.abandon(token(a), {"note": 1})
    receiver = receive(queue, 2)
    assert receiver.texts == ["a", "b"]
    assert (a.delivery_count, a.content.application_properties()) == (1, {"note": 1})


def test_a_released_message_is_not_counted(queue: MessageQueue) -> None:
    """A release does not count a delivery."""
    fill(queue, "a")
    [a] = receive(queue).messages
    queue.release(token(a))
    assert [message.delivery_count for message in receive(queue).messages] == [0]


def test_a_lock_ends_at_its_time_and_renewal_restarts_it(
    broker: Broker, clock: StillClock, queue: MessageQueue
) -> None:
    """One millisecond before its end the lock holds; at its end the message is free and the token invalid."""
    fill(queue, "a")
    [a] = receive(queue).messages
    old = token(a)
    advance(broker, clock, 59_999)
    assert clock.now_ms() + 60_000 == queue.renew(old)
    advance(broker, clock, 59_999)
    assert queue.holds(old)
    advance(broker, clock, 1)
    assert not queue.holds(old)
    for operation in (queue.complete, queue.abandon, queue.defer, queue.release, queue.renew):
        with pytest.raises(MessageLockLost):
            operation(old)
    [again] = receive(queue).messages
    assert (1, old != again.lock_token) == (again.delivery_count, True)


def test_the_last_failed_delivery_dead_letters(broker: Broker, clock: StillClock, queue: MessageQueue) -> None:
    """Abandons and lock expiries count equally; at the limit the message is dead-lettered with its number."""
    fill(queue, "other", "a")
    receive(queue)  # holds "other"
    for _ in range(2):
        [a] = receive(queue).messages
        queue.abandon(token(a))
    receive(queue)
    advance(broker, clock, 60_000)
    [dead] = dead_of(queue).peek(0, 10)
    assert (text_of(dead), dead.sequence_number, dead.delivery_count) == ("a", 2, 3)
    assert dead.content.application_properties() == {
        REASON: "MaxDeliveryCountExceeded",
        DESCRIPTION: "Message could not be consumed after 3 delivery attempts.",
    }


def test_a_dead_letter_stays_in_its_queue(queue: MessageQueue) -> None:
    """A dead letter returns to the dead-letter queue when it is abandoned or dead-lettered there."""
    fill(queue, "a")
    [a] = receive(queue).messages
    queue.dead_letter(token(a), "r", None, {"k": "v"})
    dead = dead_of(queue)
    for _ in range(10):
        [message] = receive(dead).messages
        dead.abandon(token(message))
    [message] = receive(dead).messages
    dead.dead_letter(token(message), "again", "text")
    [message] = receive(dead).messages
    assert message.content.application_properties() == {REASON: "again", DESCRIPTION: "text", "k": "v"}
    dead.complete(token(message))
    assert dead.peek(0, 1) == []


def test_idle_deferred_and_returned_messages_expire(broker: Broker, clock: StillClock) -> None:
    """The shorter time to live counts; a locked message expires when its lock ends."""
    queue = broker.add_queue(
        QueueDescription("t", default_time_to_live_ms=1000, dead_lettering_on_expiration=True, lock_duration_ms=5000)
    )
    queue.enqueue(Text("deferred", time_to_live_ms=5000))
    queue.enqueue(Text("locked"))
    queue.enqueue(Text("short", time_to_live_ms=10))
    [deferred] = receive(queue).messages
    queue.defer(token(deferred))
    [locked] = receive(queue).messages
    advance(broker, clock, 10)
    dead = dead_of(queue)
    assert [text_of(message) for message in dead.peek(0, 9)] == ["short"]
    advance(broker, clock, 990)
    assert [text_of(message) for message in dead.peek(0, 9)] == ["deferred", "short"]
    assert queue.holds(token(locked))
    queue.abandon(token(locked))
    dead_letters = dead.peek(0, 9)
    assert [text_of(message) for message in dead_letters] == ["deferred", "locked", "short"]
    assert {"TTLExpiredException"} == {message.content.application_properties()[REASON] for message in dead_letters}
    advance(broker, clock, 1_000_000_000)
    assert len(dead.peek(0, 9)) == 3


def test_without_dead_lettering_expired_messages_are_dropped(
    broker: Broker, clock: StillClock, queue: MessageQueue
) -> None:
    """Neither the messages nor their size are left."""
    queue.enqueue(Text("x", time_to_live_ms=0))
    queue.enqueue(Text("y", time_to_live_ms=1))
    advance(broker, clock, 1)
    assert (queue.counts()["active"], queue.size_bytes, dead_of(queue).peek(0, 9)) == (0, 0, [])


def test_deferring_counts_a_delivery(queue: MessageQueue) -> None:
    """A deferred message has one delivery more, in the dead-letter queue too; the last delivery makes a dead letter.

    Azure/azure-sdk-for-js, `deferredMessage.spec.ts` (live test), and Azure/azure-service-bus, issue 375.
    """
    fill(queue, "twice", "dead-lettered")
    for message in receive(queue, 2).messages:
        queue.defer(token(message))
    twice, rejected = queue.receive_deferred([1, 2], delete=False)
    assert (twice.delivery_count, rejected.delivery_count) == (1, 1)
    queue.dead_letter(token(rejected), "why", None)
    queue.defer(token(twice))
    [twice] = queue.receive_deferred([1], delete=False)
    assert twice.delivery_count == 2
    queue.defer(token(twice))
    assert queue.counts()["deferred"] == 0
    assert queue.dead_letters is not None
    exhausted, rejected = queue.dead_letters.peek(0, 9)
    assert (exhausted.delivery_count, rejected.delivery_count) == (3, 1)
    assert exhausted.content.application_properties()["DeadLetterReason"] == "MaxDeliveryCountExceeded"


def test_deferred_messages_are_fetched_by_number(queue: MessageQueue) -> None:
    """All or none are received: locked, or removed with `delete`; an abandoned one is deferred again."""
    fill(queue, "a", "b")
    for message in receive(queue, 2).messages:
        queue.defer(token(message))
    assert receive(queue).texts == []
    with pytest.raises(MessageNotFound):
        queue.receive_deferred([1, 3], delete=False)
    [a] = queue.receive_deferred([1], delete=False)
    with pytest.raises(MessageNotFound):
        queue.receive_deferred([1], delete=False)
    queue.abandon(token(a))
    assert (a.state, a.delivery_count) == (MessageState.DEFERRED, 2)
    assert [text_of(message) for message in queue.receive_deferred([1, 2], delete=True)] == ["a", "b"]
    assert queue.counts()["deferred"] == 0


def test_scheduled_messages_get_a_new_number_when_due(broker: Broker, clock: StillClock, queue: MessageQueue) -> None:
    """Until then the first number cancels and peeks; the time to live starts when the message is due."""
    number = queue.schedule.add(Text("later", time_to_live_ms=100), clock.now_ms() + 1000)
    cancelled = queue.schedule.add(Text("never"), clock.now_ms() + 1000)
    queue.schedule.cancel(cancelled)
    with pytest.raises(MessageNotFound):
        queue.schedule.cancel(cancelled)
    fill(queue, "now")
    assert [(number, MessageState.SCHEDULED), (3, MessageState.ACTIVE)] == [
        (message.sequence_number, message.state) for message in queue.peek(0, 9)
    ]
    advance(broker, clock, 1000)
    receiver = receive(queue, 2)
    assert [(text_of(m), m.sequence_number) for m in receiver.messages] == [("now", 3), ("later", 4)]
    with pytest.raises(MessageNotFound):
        queue.schedule.cancel(number)


def test_a_full_entity_refuses(broker: Broker) -> None:
    """A full entity accepts nothing until a message is removed."""
    queue = broker.add_queue(QueueDescription("small", max_size_bytes=3))
    fill(queue, "ab")
    with pytest.raises(QuotaExceeded, match="maximum entity size of 3 bytes"):
        fill(queue, "cd")
    receive(queue, delete=True)
    fill(queue, "cd")


def test_scheduled_messages_and_dead_letters_fill_an_entity_too(broker: Broker, clock: StillClock) -> None:
    """They count until they are cancelled, delivered or removed."""
    queue = broker.add_queue(QueueDescription("small", max_size_bytes=4))
    number = broker.destination("small").schedule(Text("ab"), clock.now_ms() + 1000)
    fill(queue, "cd")
    [message] = receive(queue).messages
    queue.dead_letter(token(message), None, None)
    with pytest.raises(QuotaExceeded):
        fill(queue, "e")
    queue.schedule.cancel(number)
    fill(queue, "ef")
    [dead] = receive(dead_of(queue)).messages
    dead_of(queue).complete(token(dead))
    fill(queue, "gh")


def test_renewed_locks_leave_no_timers_behind(broker: Broker, queue: MessageQueue) -> None:
    """After many locks and releases the heap of timers is small."""
    fill(queue, "a")
    for _ in range(10_000):
        [message] = receive(queue).messages
        queue.release(token(message))
    assert len(broker.timers) < 3000
