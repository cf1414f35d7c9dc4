"""The `$management` node of an entity. A request has a map, and its reply has a status and a map.

Operation names, keys and status codes are those of the SDKs (Microsoft, "AMQP 1.0 in Microsoft Azure Service Bus:
request-response-based operations").
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from servicebus_emulator.amqp.errors import DecodeError
from servicebus_emulator.amqp.message import AmqpMessage, Request, simple_message
from servicebus_emulator.amqp.values import Array, Int, Symbol, Timestamp
from servicebus_emulator.broker.broker import SUBSCRIPTIONS, Broker
from servicebus_emulator.broker.destination import Destination
from servicebus_emulator.broker.errors import (
    BusError,
    EntityExists,
    EntityNotFound,
    InvalidRequest,
    MessageTooLarge,
    NotImplementedHere,
    topic_part,
)
from servicebus_emulator.broker.message import Message
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.sessions import SessionQueue
from servicebus_emulator.broker.topic import Subscription
from servicebus_emulator.receiver_links import render
from servicebus_emulator.rule_maps import read_rule, write_rule
from servicebus_emulator.stored_entities import set_rules

_VENDOR = "com.microsoft:"
_LONG, _TIMESTAMP, _STRING = 0x81, 0x83, 0xB1
#: SDKs list sessions with messages by sessions changed since .NET's DateTime.MaxValue, which is later than this
_FAR_FUTURE_MS = 253_000_000_000_000
#: maximum messages of one peek, as in Azure; a larger count is reduced to it
MAX_PEEK = 250
#: maximum messages of one batch delete, as in Azure; a larger count is reduced to it
MAX_DELETE = 4000
#: maximum bytes of messages in the reply to a peek
MAX_PEEK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """The status and the body of the reply to a request."""

    status: int = 200
    body: Mapping[str, Any] = field(default_factory=dict)
    condition: str | None = None
    description: str = "OK"

    def encode(self, request: Request) -> bytes:
        """Returns the reply as a message. Its correlation id is the request's message id, of the same type."""
        application: dict[str, Any] = {"statusCode": Int(self.status), "statusDescription": self.description}
        if self.condition is not None:
            application["errorCondition"] = Symbol(self.condition)
        return simple_message(dict(self.body), application_properties=application, correlation_id=request.message_id)


class ManagementNode:
    """The `$management` node of one entity."""

    def __init__(self, broker: Broker, address: str, max_message_bytes: int) -> None:
        self._broker = broker
        self._address = address
        self._max_message_bytes = max_message_bytes

    def handle(self, request: Request) -> Reply:
        operation = str(request.application.get("operation", ""))
        handler = _OPERATIONS.get(operation.removeprefix(_VENDOR))
        body = request.body if isinstance(request.body, dict) else {}
        try:
            if handler is None:
                raise NotImplementedHere(f"The operation '{operation}' is not supported.")
            return handler(self, body)
        except BusError as error:
            return Reply(error.status, condition=error.condition, description=error.description)
        except (DecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"The request '{operation}' cannot be read: {type(error).__name__} {error}"
            return Reply(400, condition="amqp:decode-error", description=text)

    @property
    def _queue(self) -> MessageQueue:
        return self._broker.queue(self._address)

    @property
    def _destination(self) -> Destination:
        return self._broker.destination(self._address)

    def renew_lock(self, body: Mapping[str, Any]) -> Reply:
        ends = tuple(self._queue.renew(token) for token in _items(body["lock-tokens"]))
        return Reply(body={"expirations": Array(_TIMESTAMP, ends)})

    def peek_message(self, body: Mapping[str, Any]) -> Reply:
        count = min(int(body["message-count"]), MAX_PEEK)
        peeked = self._queue.peek(int(body["from-sequence-number"]), count, body.get("session-id"))
        if not peeked:
            return Reply(204, condition="com.microsoft:no-content", description="No messages to peek.")
        messages: list[dict[str, Any]] = []
        size = 0
        with_body = not body.get("omit-message-body")
        for message in peeked:
            data = render(message, with_body=with_body)
            size += len(data)
            if messages and size > MAX_PEEK_BYTES:
                break  # the SDK requests the rest from the last number on
            messages.append({"message": data})
        return Reply(body={"messages": messages})

    def schedule_message(self, body: Mapping[str, Any]) -> Reply:
        destination = self._destination
        contents = []
        for item in _items(body["messages"]):
            data = item["message"]
            if len(data) > self._max_message_bytes:
                raise MessageTooLarge
            contents.append(AmqpMessage.parse(data))
        destination.entity.check(*contents)
        now = self._broker.clock.now_ms()
        numbers = tuple(destination.schedule(content, content.scheduled_at_ms or now) for content in contents)
        return Reply(body={"sequence-numbers": Array(_LONG, numbers)})

    def cancel_scheduled_message(self, body: Mapping[str, Any]) -> Reply:
        self._destination.entity.schedule.cancel(*_items(body["sequence-numbers"]))
        return Reply()

    def receive_by_sequence_number(self, body: Mapping[str, Any]) -> Reply:
        numbers = [int(number) for number in _items(body["sequence-numbers"])]
        delete = int(body.get("receiver-settle-mode", 1)) == 0
        received = self._queue.receive_deferred(numbers, delete=delete)
        return Reply(body={"messages": [_received(message) for message in received]})

    def update_disposition(self, body: Mapping[str, Any]) -> Reply:
        queue = self._queue
        tokens = _items(body["lock-tokens"])
        changes = {str(key): value for key, value in (body.get("properties-to-modify") or {}).items()}
        status = body["disposition-status"]
        settle: Callable[[uuid.UUID], None]
        if status == "completed":
            settle = queue.complete
        elif status == "abandoned":
            settle = lambda token: queue.abandon(token, changes)  # noqa: E731 - one of four like it
        elif status in ("defered", "deferred"):
            settle = lambda token: queue.defer(token, changes)  # noqa: E731 - one of four like it
        elif status == "suspended":
            reason, text = body.get("deadletter-reason"), body.get("deadletter-description")
            settle = lambda token: queue.dead_letter(token, reason, text, changes)  # noqa: E731 - one of four
        else:
            raise InvalidRequest(f"The disposition status '{status}' is unknown.")
        for token in tokens:
            settle(token)
        return Reply()

    def batch_delete_messages(self, body: Mapping[str, Any]) -> Reply:
        """Deletes messages: `deleteMessages` and `purgeMessages` of JavaScript 7.10 (beta) and .NET."""
        count = min(int(body["message-count"]), MAX_DELETE)
        deleted = self._queue.delete_batch(int(body["enqueued-time-utc"]), count, body.get("session-id"))
        if not deleted:
            return Reply(204, condition="com.microsoft:message-not-found", description="No messages to delete.")
        return Reply(body={"message-count": Int(deleted)})

    @property
    def _sessions(self) -> SessionQueue:
        queue = self._queue
        if not isinstance(queue, SessionQueue):
            raise InvalidRequest(f"'{queue.path}' does not require sessions.")
        return queue

    def renew_session_lock(self, body: Mapping[str, Any]) -> Reply:
        return Reply(body={"expiration": Timestamp(self._sessions.renew_session(body["session-id"]))})

    def get_session_state(self, body: Mapping[str, Any]) -> Reply:
        return Reply(body={"session-state": self._sessions.get_state(body["session-id"])})

    def set_session_state(self, body: Mapping[str, Any]) -> Reply:
        state = body.get("session-state")
        if state is not None and not isinstance(state, bytes):
            raise InvalidRequest("A session's state must be binary or null.")
        self._sessions.set_state(body["session-id"], state)
        return Reply()

    def get_message_sessions(self, body: Mapping[str, Any]) -> Reply:
        skip, top = int(body.get("skip", 0)), int(body.get("top", 100))
        since = body.get("last-updated-time")
        session_ids = self._sessions.list_sessions(None if since is None or since >= _FAR_FUTURE_MS else since)
        page = session_ids[skip : skip + top]
        if not page:
            return Reply(204, condition="com.microsoft:session-not-found", description="No sessions.")
        return Reply(body={"sessions-ids": Array(_STRING, tuple(page)), "skip": Int(skip + len(page))})

    # the JavaScript SDK manages rules over AMQP

    @property
    def _subscription(self) -> tuple[str, Subscription]:
        topic, _, name = self._address.lower().partition(SUBSCRIPTIONS)
        return topic, self._broker.subscription(topic, name)

    def add_rule(self, body: Mapping[str, Any]) -> Reply:
        topic, subscription = self._subscription
        rule = read_rule(str(body["rule-name"]), body["rule-description"])
        rules = subscription.description.rules
        if any(rule.name.lower() == old.name.lower() for old in rules):
            raise EntityExists(topic_part(topic, subscription.description.queue.name, rule.name))
        set_rules(self._broker, topic, subscription, [*rules, rule])
        return Reply()

    def remove_rule(self, body: Mapping[str, Any]) -> Reply:
        topic, subscription = self._subscription
        name = str(body["rule-name"])
        remaining = [rule for rule in subscription.description.rules if rule.name.lower() != name.lower()]
        if len(remaining) == len(subscription.description.rules):
            raise EntityNotFound(f"{self._address}/Rules/{name}")
        set_rules(self._broker, topic, subscription, remaining)
        return Reply()

    def enumerate_rules(self, body: Mapping[str, Any]) -> Reply:
        _, subscription = self._subscription
        skip, top = int(body.get("skip", 0)), int(body.get("top", 100))
        page = subscription.description.rules_by_name()[skip : skip + top]
        if not page:
            return Reply(204, condition="com.microsoft:no-content", description="No rules.")
        at = subscription.queue.created_at_ms
        return Reply(body={"rules": [{"rule-description": write_rule(rule, at)} for rule in page]})


_Handler = Callable[[ManagementNode, Mapping[str, Any]], Reply]
_OPERATIONS: dict[str, _Handler] = {
    "renew-lock": ManagementNode.renew_lock,
    "peek-message": ManagementNode.peek_message,
    "schedule-message": ManagementNode.schedule_message,
    "cancel-scheduled-message": ManagementNode.cancel_scheduled_message,
    "receive-by-sequence-number": ManagementNode.receive_by_sequence_number,
    "update-disposition": ManagementNode.update_disposition,
    "batch-delete-messages": ManagementNode.batch_delete_messages,
    "renew-session-lock": ManagementNode.renew_session_lock,
    "get-session-state": ManagementNode.get_session_state,
    "set-session-state": ManagementNode.set_session_state,
    "get-message-sessions": ManagementNode.get_message_sessions,
    "add-rule": ManagementNode.add_rule,
    "remove-rule": ManagementNode.remove_rule,
    "enumerate-rules": ManagementNode.enumerate_rules,
}


def _items(value: Any) -> list[Any]:
    """Returns the items of an array or list; the SDKs send either."""
    if isinstance(value, Array):
        return list(value.items)
    if isinstance(value, list):
        return value
    raise TypeError("an array expected")


def _received(message: Message) -> dict[str, Any]:
    entry: dict[str, Any] = {"message": render(message)}
    if message.lock_token is not None:
        entry["lock-token"] = message.lock_token
    return entry
