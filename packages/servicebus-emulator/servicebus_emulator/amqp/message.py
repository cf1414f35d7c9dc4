"""A message as its sender encoded it (AMQP 1.0 part 3, 3.2), split into sections.

Properties and application properties stay bytes and are decoded on demand, since most messages are forwarded unchanged.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from servicebus_emulator.amqp.decoder import decode, skip
from servicebus_emulator.amqp.encoder import encode, encode_described, encode_fields
from servicebus_emulator.amqp.errors import DecodeError
from servicebus_emulator.amqp.values import Symbol, Timestamp, Uint

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = 0x70, 0x71, 0x72, 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78
BATCH_FORMAT = 0x80013700

#: names of the fields of the properties section in filters, by index
_SYSTEM = {
    0: "MessageId",
    2: "To",
    3: "Label",
    4: "ReplyTo",
    5: "CorrelationId",
    6: "ContentType",
    10: "SessionId",
    12: "ReplyToSessionId",
}
_MESSAGE_ID, _EXPIRY_TIME, _CREATION_TIME, _GROUP_ID = 0, 8, 9, 10
#: index of the time to live in the header, and its maximum, 49.7 days
_TTL, _LONGEST_TTL_MS = 2, (1 << 32) - 1
_SYMBOLIC = {
    f"amqp:{name}:{kind}": code
    for code, name, kind in (
        (HEADER, "header", "list"),
        (DELIVERY_ANNOTATIONS, "delivery-annotations", "map"),
        (MESSAGE_ANNOTATIONS, "message-annotations", "map"),
        (PROPERTIES, "properties", "list"),
        (APPLICATION_PROPERTIES, "application-properties", "map"),
        (DATA, "data", "binary"),
        (SEQUENCE, "amqp-sequence", "list"),
        (VALUE, "amqp-value", "*"),
        (FOOTER, "footer", "map"),
    )
}
SCHEDULED_TIME = Symbol("x-opt-scheduled-enqueue-time")
_PARTITION_KEY = Symbol("x-opt-partition-key")
#: annotations that the broker writes; a sender's values are dropped
_BROKER_ANNOTATIONS = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-enqueue-sequence-number",
        "x-opt-message-state",
        "x-opt-deadletter-source",
    }
)


def sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """Returns the sections of an encoded message in their order: (code, start, start of the value, end).

    Accepts any order, since pyamqp writes delivery annotations after the body. Raises DecodeError for other bytes.
    """
    result = []
    pos, end = 0, len(data)
    while pos < end:
        if data[pos] != 0:
            raise DecodeError("a message section expected")
        start = pos
        if data[pos + 1 : pos + 2] == b"\x53" and pos + 2 < end:
            code, pos = data[pos + 2], pos + 3
        else:
            descriptor, pos = decode(data, pos + 1)
            code = _SYMBOLIC.get(descriptor, -1) if isinstance(descriptor, str) else descriptor
        if not isinstance(code, int) or not HEADER <= code <= FOOTER:
            raise DecodeError(f"{code!r} is not a message section")
        value = pos
        pos = skip(data, pos)
        result.append((code, start, value, pos))
    return result


def split_batch(data: bytes) -> list[bytes]:
    """Returns the messages in a batch (format 0x80013700), each of which is a whole message in a data section. Ignores
    the envelope of the batch.
    """
    messages = []
    for code, _, value, _ in sections(data):
        if code == DATA:
            message, _ = decode(data, value)
            if not isinstance(message, bytes):
                raise DecodeError("a data section of a batch must be binary")
            messages.append(message)
    return messages


@dataclass(frozen=True, slots=True)
class AmqpMessage:
    """A `broker.message.Content`. Header and message annotations are decoded. The other sections stay bytes. Delivery
    annotations are dropped.
    """

    header: list[Any]
    annotations: dict[Any, Any]
    #: encoded value of the properties section; b"" without one
    properties_raw: bytes
    #: encoded value of the application-properties section; b"" without one
    application_raw: bytes
    #: body sections and footer, including descriptors
    body: bytes
    message_id: Any
    session_id: str | None

    @classmethod
    def parse(cls, data: bytes) -> AmqpMessage:
        """Reads an encoded message. Adds a message id to a message without one, and drops the annotations of the
        broker. Raises DecodeError if the bytes are not a message.
        """
        header: list[Any] = []
        annotations: dict[Any, Any] = {}
        properties_raw = application_raw = b""
        body: list[bytes] = []
        for code, start, value, end in sections(data):
            if code == HEADER:
                header = _typed(decode(data, value)[0], list, "header")
            elif code == MESSAGE_ANNOTATIONS:
                annotations = _typed(decode(data, value)[0], dict, "message-annotations")
            elif code == PROPERTIES:
                properties_raw = data[value:end]
            elif code == APPLICATION_PROPERTIES:
                # Checked now, so that a filter or the dead-letter queue can read it later.
                _typed(decode(data, value)[0], dict, "application-properties")
                application_raw = data[value:end]
            elif code >= DATA:
                body.append(data[start:end])
        for name in [name for name in annotations if name in _BROKER_ANNOTATIONS]:
            del annotations[name]
        properties = _properties(properties_raw)
        if _at(properties, _MESSAGE_ID) is None:
            # The JavaScript SDK sends no message id, and fails when it receives a message without one.
            properties[:1] = [uuid.uuid4().hex]
            properties_raw = encode(properties)
        return cls(
            *(header, annotations, properties_raw, application_raw, b"".join(body)),
            *(properties[0], _session_id(properties)),
        )

    @property
    def time_to_live_ms(self) -> int | None:
        ttl = _at(self.header, _TTL)
        return ttl if isinstance(ttl, Uint) else None

    @property
    def scheduled_at_ms(self) -> int | None:
        due = self.annotations.get(SCHEDULED_TIME)
        return due if isinstance(due, Timestamp) else None

    @property
    def size(self) -> int:
        annotations = len(encode(self.annotations)) if self.annotations else 0
        return len(self.body) + len(self.application_raw) + len(self.properties_raw) + annotations

    def system_properties(self) -> Mapping[str, Any]:
        properties = _properties(self.properties_raw)
        return {
            **{name: _at(properties, index) for index, name in _SYSTEM.items()},
            "PartitionKey": self.annotations.get(_PARTITION_KEY),
            "TimeToLive": self.time_to_live_ms,
            "ScheduledEnqueueTimeUtc": self.scheduled_at_ms,
        }

    def application_properties(self) -> Mapping[str, Any]:
        if not self.application_raw:
            return {}
        properties: dict[str, Any] = _typed(decode(self.application_raw)[0], dict, "application-properties")
        return properties

    def with_changes(self, application: Mapping[str, Any], system: Mapping[str, Any] | None = None) -> AmqpMessage:
        changed = _merge(dict(self.application_properties()), application)
        message = replace(self, application_raw=encode(changed))
        if not system:
            return message
        properties = _properties(self.properties_raw)
        indexes = {name: index for index, name in _SYSTEM.items()}
        for name, value in system.items():
            index = indexes[name]
            properties += [None] * (index + 1 - len(properties))
            properties[index] = Symbol(value) if name == "ContentType" and value is not None else value
        return replace(
            message,
            properties_raw=encode(properties),
            message_id=_at(properties, _MESSAGE_ID),
            session_id=_session_id(properties),
        )

    def with_time_to_live(self, ms: int, from_ms: int) -> AmqpMessage:
        """Returns a copy with the header's ttl, and with expiry and creation times, of which the .NET SDK takes the
        difference.
        """
        header, properties = list(self.header), _properties(self.properties_raw)
        header += [None] * (_TTL + 1 - len(header))
        header[_TTL] = Uint(min(ms, _LONGEST_TTL_MS))
        properties += [None] * (_CREATION_TIME + 1 - len(properties))
        properties[_EXPIRY_TIME], properties[_CREATION_TIME] = Timestamp(from_ms + ms), Timestamp(from_ms)
        return replace(self, header=header, properties_raw=encode(properties))

    def truncated(self) -> AmqpMessage:
        data = b"".join(split_batch(self.body))
        return replace(self, body=encode_described(DATA, data[: len(data) // 2]))

    def encode(self) -> bytes:
        header = encode_described(HEADER, self.header) if self.header else b""
        return header + self._annotated(self.annotations)

    def render(self, delivery_count: int, annotations: Mapping[Symbol, Any], *, with_body: bool = True) -> bytes:
        """Returns the bytes for a receiver, with the broker's annotations and the delivery count (part 3, 3.2.1)."""
        header = self.header
        fields = [encode(_at(header, index)) for index in (0, 1, 2)]
        head = encode_fields(HEADER, [*fields, b"\x40", encode(Uint(delivery_count))])
        return head + self._annotated({**self.annotations, **annotations}, with_body=with_body)

    def _annotated(self, annotations: Mapping[Any, Any], *, with_body: bool = True) -> bytes:
        parts = []
        if annotations:
            parts.append(encode_described(MESSAGE_ANNOTATIONS, dict(annotations)))
        if self.properties_raw:
            parts += (b"\x00\x53\x73", self.properties_raw)
        if self.application_raw:
            parts += (b"\x00\x53\x74", self.application_raw)
        if with_body:
            parts.append(self.body)
        return b"".join(parts)


def _at(fields: list[Any], index: int) -> Any:
    return fields[index] if index < len(fields) else None


def _session_id(properties: list[Any]) -> str | None:
    group_id = _at(properties, _GROUP_ID)
    return group_id if isinstance(group_id, str) else None


def _properties(raw: bytes) -> list[Any]:
    return _typed(decode(raw)[0], list, "properties") if raw else []


def _typed(value: Any, kind: type[Any], name: str) -> Any:
    if not isinstance(value, kind):
        raise DecodeError(f"the section {name} must be a {kind.__name__}, not a {type(value).__name__}")
    return value


def _merge(into: dict[Any, Any], changes: Mapping[str, Any]) -> dict[Any, Any]:
    for name, value in changes.items():
        if value is None:
            into.pop(str(name), None)
        else:
            into[str(name)] = value
    return into


def simple_message(
    body: Any,
    *,
    application_properties: Mapping[str, Any],
    correlation_id: Any = None,
) -> bytes:
    """Returns an encoded message with an amqp-value body, such as a reply of `$cbs` or `$management`."""
    properties = [b"\x40"] * 5 + [encode(correlation_id)]
    return (
        encode_fields(PROPERTIES, properties)
        + encode_described(APPLICATION_PROPERTIES, dict(application_properties))
        + encode_described(VALUE, body)
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A decoded request to `$cbs` or `$management`."""

    message_id: Any
    reply_to: str | None
    application: Mapping[Any, Any]
    body: Any

    @classmethod
    def parse(cls, data: bytes) -> Request:
        properties: list[Any] = []
        application: Mapping[Any, Any] = {}
        body: Any = None
        for code, _, value, _ in sections(data):
            if code == PROPERTIES:
                properties = _typed(decode(data, value)[0], list, "properties")
            elif code == APPLICATION_PROPERTIES:
                application = _typed(decode(data, value)[0], dict, "application-properties")
            elif code == VALUE:
                body = decode(data, value)[0]
        reply_to = _at(properties, 4)
        return cls(_at(properties, 0), reply_to if isinstance(reply_to, str) else None, application, body)
