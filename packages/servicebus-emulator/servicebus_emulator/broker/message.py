"""A message in an entity: what its sender wrote, and what the broker knows about it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from servicebus_emulator.broker.timers import Timer


class Content(Protocol):
    """What the sender wrote; never changed, shared by all copies. The broker looks at the following only."""

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
        """Bytes of the encoded message."""

    def system_properties(self) -> Mapping[str, Any]:
        """`MessageId, CorrelationId, To, ReplyTo, Label, ContentType, SessionId, ReplyToSessionId, PartitionKey`, and
        `TimeToLive` and `ScheduledEnqueueTimeUtc` in milliseconds."""

    def application_properties(self) -> Mapping[str, Any]: ...

    def with_changes(self, application: Mapping[str, Any], system: Mapping[str, Any] | None = None) -> Content:
        """A copy with these properties set; a value of None removes one."""

    def encode(self) -> bytes:
        """The whole message, to be stored."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message comes from, if not from a sender."""

    #: Its number in the topic.
    sequence_number: int | None = None
    #: The topic's default; None: it has none.
    time_to_live_ms: int | None = None
    #: How many times it was forwarded; Azure gives up after the fourth.
    hops: int = 0
    #: The entity it was dead-lettered in, once forwarded from its dead-letter queue.
    dead_letter_source: str | None = None


SENDER = Origin()


class MessageState(IntEnum):
    """Values are those of the annotation `x-opt-message-state`."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


@dataclass(eq=False, slots=True)
class Message:
    """One message in one entity."""

    content: Content
    sequence_number: int
    enqueued_at_ms: int
    #: Its number where it first came in: the topic's, for a subscription's message.
    enqueued_sequence_number: int
    #: When its life ends; None: never. A locked message outlives it.
    expires_at_ms: int | None = None
    state: MessageState = MessageState.ACTIVE
    #: Deliveries that failed: abandoned, or the lock ran out.
    delivery_count: int = 0
    scheduled_at_ms: int | None = None
    #: The entity it was dead-lettered in, once forwarded from its dead-letter queue.
    dead_letter_source: str | None = None
    #: How many times it was forwarded on its way here; Azure dead-letters it after the fourth.
    forwarded: int = 0
    lock_token: uuid.UUID | None = None
    locked_until_ms: int = 0
    #: Ends the lock; of a scheduled message: brings it in.
    lock_timer: Timer | None = None
    expiry_timer: Timer | None = None
    removed: bool = False
