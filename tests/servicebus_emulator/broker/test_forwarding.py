"""Auto-forwarding between entities, and of dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.broker.queue import DESCRIPTION, REASON, MessageQueue
from tests.servicebus_emulator.fakes import Receiver, StillClock, Text, advance, text_of


def texts(queue: MessageQueue | None) -> list[str]:
    assert queue is not None
    return [text_of(message) for message in queue.peek(0, 99)]


def test_a_chain_of_entities() -> None:
    """A message to the first queue arrives in the last one through a topic, and stays nowhere else."""
    broker = Broker(StillClock())
    first = broker.add_queue(QueueDescription("first", forward_to="topic"))
    broker.add_topic(TopicDescription("topic"))
    middle = broker.add_subscription("topic", SubscriptionDescription(QueueDescription("s", forward_to="LAST")))
    last = broker.add_queue(QueueDescription("last"))
    broker.destination("first").send(Text("x"))
    assert (texts(first), texts(middle.queue), texts(last)) == ([], [], ["x"])


def test_the_topics_time_to_live_counts_too() -> None:
    """The shortest time to live of message, topic and subscription counts; a forwarded copy starts again."""
    clock = StillClock()
    broker = Broker(clock)
    broker.add_topic(TopicDescription("t", default_time_to_live_ms=1000))
    description = QueueDescription("s", default_time_to_live_ms=5000)
    queue = broker.add_subscription("t", SubscriptionDescription(description)).queue
    broker.add_queue(QueueDescription("target"))
    broker.add_subscription("t", SubscriptionDescription(QueueDescription("f", forward_to="target")))
    broker.destination("t").send(Text("topic's"))
    broker.destination("t").send(Text("own", time_to_live_ms=10))
    advance(broker, clock, 10)
    assert texts(queue) == ["topic's"]
    advance(broker, clock, 990)
    assert texts(queue) == []
    assert texts(broker.queue("target")) == ["topic's"]


def test_a_circle_ends_in_the_dead_letters() -> None:
    """After four hops a message is dead-lettered in the queue that it reached."""
    broker = Broker(StillClock())
    queues = [broker.add_queue(QueueDescription(name, forward_to=to)) for name, to in (("a", "b"), ("b", "a"))]
    broker.destination("a").send(Text("x"))
    assert [texts(queue.dead_letters) for queue in queues] == [["x"], []]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({}, "could not be found"),
        ({"max_size_bytes": 1}, "maximum entity size"),
        ({"status": "SendDisabled"}, "disabled"),
    ],
)
def test_a_message_that_its_target_refuses_is_a_dead_letter(target: dict[str, Any], why: str) -> None:
    """The target is missing, full or disabled: the send succeeds."""
    broker = Broker(StillClock())
    source = broker.add_queue(QueueDescription("source", forward_to="target"))
    if target:
        broker.add_queue(QueueDescription("target", **target))
    broker.destination("source").send(Text("xyz"))
    assert source.dead_letters is not None
    [message] = source.dead_letters.peek(0, 9)
    properties = message.content.application_properties()
    assert properties[REASON] == "TransferFailed"
    assert "Forwarding to 'target' failed" in properties[DESCRIPTION]
    assert why in properties[DESCRIPTION]


def test_dead_letters_are_forwarded_with_their_source() -> None:
    """A dead letter goes to the configured queue and carries the name of its source."""
    broker = Broker(StillClock())
    queue = broker.add_queue(QueueDescription("work", forward_dead_letters_to="dead"))
    target = broker.add_queue(QueueDescription("dead"))
    broker.destination("work").send(Text("x"))
    receiver = Receiver(1)
    queue.request_messages(receiver)
    token = receiver.messages[0].lock_token
    assert token is not None
    queue.dead_letter(token, "why", None)
    [message] = target.peek(0, 9)
    assert (texts(queue.dead_letters), text_of(message), message.dead_letter_source) == ([], "x", "work")
    assert message.content.application_properties()[REASON] == "why"
