"""The time to live of a message in a queue with a default (Azure, "Message expiration")."""

from __future__ import annotations

from typing import Any

import pytest

from servicebus_emulator.amqp.decoder import decode
from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.message import HEADER, PROPERTIES, AmqpMessage
from servicebus_emulator.amqp.values import Timestamp, Uint
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.receiver_links import render
from tests.servicebus_emulator.fakes import StillClock, advance

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def content(ttl_ms: int | None) -> AmqpMessage:
    """Returns a message as the SDKs send it: with a time to live, the properties have the same."""
    if ttl_ms is None:
        return AmqpMessage.parse(encode_described(PROPERTIES, ["id"]))
    times = [Timestamp(NOW_MS - 5 + ttl_ms), Timestamp(NOW_MS - 5)]
    header = encode_described(HEADER, [None, None, Uint(ttl_ms)])
    return AmqpMessage.parse(header + encode_described(PROPERTIES, ["id", *[None] * 7, *times]))


def shown(data: bytes) -> tuple[Any, Any, Any]:
    """The time to live in the header; the difference of expiry and creation, and the expiry, in the properties."""
    message = AmqpMessage.parse(data)
    properties = decode(message.properties_raw)[0]
    expiry, creation = [*properties[8:10], None, None][:2]
    return message.time_to_live_ms, expiry and expiry - creation, expiry


@pytest.mark.parametrize(
    ("default_ms", "sent_ms", "expected"),
    [
        (None, None, (None, None, None)),
        (2000, None, (2000, 2000, NOW_MS + 2000)),
        (2000, HOUR_MS, (2000, 2000, NOW_MS + 2000)),
        (HOUR_MS, 2000, (2000, 2000, NOW_MS - 5 + 2000)),
        (60 * 24 * HOUR_MS, None, (0xFFFFFFFF, 60 * 24 * HOUR_MS, NOW_MS + 60 * 24 * HOUR_MS)),
    ],
)
def test_the_shorter_time_stands_on_the_message(default_ms: int | None, sent_ms: int | None, expected: Any) -> None:
    """The default is assumed, a longer time adjusted, a shorter one left as it was sent; restarts keep it."""
    broker = Broker(StillClock(NOW_MS))
    queue = broker.add_queue(QueueDescription("q", default_time_to_live_ms=default_ms))
    broker.destination("q").send(content(sent_ms))
    [message] = queue.peek(0, 1)
    assert shown(render(message)) == expected
    assert shown(message.content.encode()) == expected


def test_a_subscription_takes_the_shortest_of_three() -> None:
    """Topic, subscription and sender: the shortest counts, and a dead letter keeps it."""
    clock = StillClock(NOW_MS)
    broker = Broker(clock)
    broker.add_topic(TopicDescription("t", default_time_to_live_ms=3000))
    description = QueueDescription("s", default_time_to_live_ms=2000, dead_lettering_on_expiration=True)
    queue = broker.add_subscription("t", SubscriptionDescription(description)).queue
    broker.destination("t").send(content(HOUR_MS))
    [message] = queue.peek(0, 1)
    assert shown(render(message)) == (2000, 2000, NOW_MS + 2000)
    advance(broker, clock, 2000)
    assert queue.dead_letters is not None
    [dead] = queue.dead_letters.peek(0, 1)
    assert shown(render(dead)) == (2000, 2000, NOW_MS + 2000)
