"""The `$management` node: replies that the SDKs do not show, and invalid requests."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.message import DATA, AmqpMessage, Request
from servicebus_emulator.amqp.values import Array, Timestamp
from servicebus_emulator.atom.rules_xml import write_rule
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.broker.sessions import SessionQueue
from servicebus_emulator.management_node import MAX_PEEK_BYTES, ManagementNode, Reply
from tests.servicebus_emulator.fakes import Receiver, StillClock, Text


@pytest.fixture
def broker() -> Broker:
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    return broker


def ask(broker: Broker, operation: str, **body: Any) -> Reply:
    fields = {name.replace("_", "-"): value for name, value in body.items()}
    request = Request(uuid.uuid4(), "r", {"operation": f"com.microsoft:{operation}"}, fields)
    return ManagementNode(broker, "q", 262_144).handle(request)


def message(size: int) -> bytes:
    return encode_described(DATA, bytes(size))


def test_a_peek_of_large_messages_is_cut(broker: Broker) -> None:
    """A reply holds at most a megabyte of messages; the next peek continues after it."""
    for _ in range(10):
        broker.destination("q").send(AmqpMessage.parse(message(200_000)))
    first = ask(broker, "peek-message", from_sequence_number=1, message_count=10).body["messages"]
    assert sum(len(entry["message"]) for entry in first) <= MAX_PEEK_BYTES
    rest = ask(broker, "peek-message", from_sequence_number=len(first) + 1, message_count=10).body["messages"]
    assert (len(first), len(rest)) == (5, 5)


def test_a_peek_without_bodies(broker: Broker) -> None:
    """With `omit-message-body` the properties come, and no body (azure-sdk-for-js, `peekMessagesOptions.spec.ts`)."""
    broker.destination("q").send(AmqpMessage.parse(message(200_000)))
    arguments = {"from_sequence_number": 1, "message_count": 1}
    [entry] = ask(broker, "peek-message", **arguments, omit_message_body=True).body["messages"]
    peeked = AmqpMessage.parse(entry["message"])
    assert (peeked.body, peeked.message_id) == (b"", broker.queue("q").peek(0, 1)[0].content.message_id)
    [entry] = ask(broker, "peek-message", **arguments, omit_message_body=False).body["messages"]
    assert AmqpMessage.parse(entry["message"]).body == message(200_000)


def test_scheduling_and_cancelling_are_all_or_none(broker: Broker) -> None:
    """One message that is too large, or one unknown number, makes the whole request fail."""
    good, bad = {"message": message(10)}, {"message": message(300_000)}
    reply = ask(broker, "schedule-message", messages=[good, bad])
    assert (reply.status, reply.condition) == (413, "amqp:link:message-size-exceeded")
    numbers = ask(broker, "schedule-message", messages=[good, good]).body["sequence-numbers"].items
    reply = ask(broker, "cancel-scheduled-message", sequence_numbers=Array(0x81, (*numbers, 99)))
    assert (reply.status, reply.condition) == (404, "com.microsoft:message-not-found")
    queue = broker.queue("q")
    broker.timers.run_due(broker.clock.now_ms())
    assert queue.counts()["active"] == 2


def test_a_lost_lock_is_gone(broker: Broker) -> None:
    """Settling and renewing by an unknown token gives 410."""
    tokens = Array(0x98, (uuid.uuid4(),))
    for reply in (
        ask(broker, "renew-lock", lock_tokens=tokens),
        ask(broker, "update-disposition", lock_tokens=tokens, disposition_status="completed"),
    ):
        assert (reply.status, reply.condition) == (410, "com.microsoft:message-lock-lost")


def test_batches_are_deleted_oldest_first(broker: Broker) -> None:
    """Unlocked messages from before the time are deleted, at most as many as requested; 204 if there are none."""
    clock, queue = broker.clock, broker.queue("q")
    assert isinstance(clock, StillClock)
    for _ in range(5):
        broker.destination("q").send(AmqpMessage.parse(message(10)))
        clock.advance(1)
    queue.request_messages(Receiver(credit=1))
    before = Timestamp(clock.now_ms() - 1)
    assert ask(broker, "batch-delete-messages", message_count=2, enqueued_time_utc=before).body == {"message-count": 2}
    assert [item.sequence_number for item in queue.peek(0, 9)] == [1, 4, 5]
    assert ask(broker, "batch-delete-messages", message_count=9, enqueued_time_utc=before).body == {"message-count": 1}
    reply = ask(broker, "batch-delete-messages", message_count=9, enqueued_time_utc=before)
    assert (reply.status, reply.condition) == (204, "com.microsoft:message-not-found")


def test_batches_of_a_session_are_deleted_by_its_holder() -> None:
    """The request needs the session's id and its lock; other sessions keep their messages."""
    broker = Broker(StillClock())
    queue = broker.add_queue(QueueDescription("q", requires_session=True))
    assert isinstance(queue, SessionQueue)
    for name in ("a", "a", "b"):
        queue.accept(Text(name, session_id=name))
    arguments = {"message_count": 9, "enqueued_time_utc": Timestamp(broker.clock.now_ms() + 1)}
    assert ask(broker, "batch-delete-messages", **arguments).status == 400
    assert (
        ask(broker, "batch-delete-messages", **arguments, session_id="a").condition == "com.microsoft:session-lock-lost"
    )
    holder = Holder()
    queue.lock("a", holder)
    assert ask(broker, "batch-delete-messages", **arguments, session_id="a").body == {"message-count": 2}
    assert [item.sequence_number for item in queue.peek(0, 9)] == [3]


def test_a_date_that_the_management_api_cannot_write_is_refused(broker: Broker) -> None:
    """A rule over AMQP may hold dates of the years 1 to 9999, which are those of .NET and of XML."""
    broker.add_topic(TopicDescription("t"))
    subscription = broker.add_subscription("t", SubscriptionDescription(QueueDescription("s")))
    for number, (ms, status) in enumerate(((-62_135_596_800_000, 200), (8_640_000_000_000_000, 400))):
        description = {"correlation-filter": {"properties": {"at": Timestamp(ms)}}}
        body = {"rule-name": f"r{number}", "rule-description": description}
        request = Request(uuid.uuid4(), "r", {"operation": "com.microsoft:add-rule"}, body)
        assert ManagementNode(broker, subscription.queue.path, 262_144).handle(request).status == status
    [_, rule] = subscription.description.rules
    assert "0001-01-01T00:00:00Z" in write_rule(rule, "")


class Holder:
    def session_lock_lost(self) -> None:
        raise AssertionError("nobody takes the session")


@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        ("peek-message", {}, 400),
        ("peek-message", {"from_sequence_number": "x", "message_count": 1}, 400),
        ("renew-lock", {"lock_tokens": 7}, 400),
        ("renew-lock", {"lock_tokens": [[]]}, 400),
        ("schedule-message", {"messages": [{"message": b"nonsense"}]}, 400),
        ("schedule-message", {"messages": [{"message": "text"}]}, 400),
        ("update-disposition", {"lock_tokens": [], "disposition_status": "eaten"}, 400),
        ("update-disposition", {"lock_tokens": [], "disposition_status": "abandoned", "properties_to_modify": 5}, 400),
        ("renew-session-lock", {"session_id": "s"}, 400),
        ("add-rule", {"rule_name": "r", "rule_description": {}}, 404),
        ("batch-delete-messages", {"message_count": 1}, 400),
        ("make-coffee", {}, 501),
    ],
)
def test_invalid_requests_get_an_error(broker: Broker, operation: str, body: dict[str, Any], status: int) -> None:
    """A value that is missing, of the wrong type or unknown gives an error reply with the reason."""
    reply = ask(broker, operation, **body)
    assert (reply.status, reply.condition is not None, bool(reply.description)) == (status, True, True)
