"""A message in an entity: the content of its sender, and the state that the broker gives it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from servicebus_emulator.broker.timers import Timer


class Content(Protocol):
    """The content that a sender wrote. The content is immutable, and all copies share it. The broker reads these
    properties only.
    """

    @property
    def message_id(self) -> Any: ...

    @property
    def session_id(self) -> str | None: ...

    @property
    def time_to_live_ms(self) -> int | None: ...

    @property
    def scheduled_at_ms(self) -> int | None: ...

    @property
    def size(self) -> int:
        """Returns the bytes of body, properties and annotations, by which the broker limits the size of an entity."""

    def system_properties(self) -> Mapping[str, Any]:
        """Returns `MessageId, CorrelationId, To, ReplyTo, Label, ContentType, SessionId, ReplyToSessionId,
        PartitionKey`, and `TimeToLive` and `ScheduledEnqueueTimeUtc` in milliseconds."""

    def application_properties(self) -> Mapping[str, Any]: ...

    def with_changes(self, application: Mapping[str, Any], system: Mapping[str, Any] | None = None) -> Content:
        """Returns a copy with these properties set. A value of None removes a property."""

    def with_time_to_live(self, ms: int, from_ms: int) -> Content:
        """Returns a copy that expires `ms` after the time `from_ms`."""

    def truncated(self) -> Content:
        """Returns a copy without the second half of its body's data. Any other content of the body is lost too."""

    def encode(self) -> bytes:
        """Returns the whole message as bytes, for the store."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a message that comes from an entity. A message from a client has the origin `SENDER`."""

    #: sequence number in the topic
    sequence_number: int | None = None
    #: default time to live of the topic; None without one
    time_to_live_ms: int | None = None
    #: number of times it was forwarded
    hops: int = 0
    #: entity in which it was dead-lettered, if it was forwarded from there
    dead_letter_source: str | None = None


SENDER = Origin()


class MessageState(IntEnum):
    """The state of a message. The values are those of the annotation `x-opt-message-state`."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


@dataclass(eq=False, slots=True)
class Message:
    """One message in one entity."""

    content: Content
    sequence_number: int
    enqueued_at_ms: int
    #: number in the entity that accepted it: for a subscription's message, that of the topic
    enqueued_sequence_number: int
    #: time when it expires; None if never. A locked message expires when its lock ends
    expires_at_ms: int | None = None
    state: MessageState = MessageState.ACTIVE
    #: failed deliveries: abandoned or deferred, or the lock expired
    delivery_count: int = 0
    scheduled_at_ms: int | None = None
    #: entity in which it was dead-lettered, if it was forwarded from there
    dead_letter_source: str | None = None
    #: number of times it was forwarded
    forwarded: int = 0
    lock_token: uuid.UUID | None = None
    locked_until_ms: int = 0
    #: ends the lock; enqueues a scheduled message
    lock_timer: Timer | None = None
    expiry_timer: Timer | None = None
    removed: bool = False
