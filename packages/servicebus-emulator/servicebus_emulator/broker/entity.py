"""Basics of entities: their environment, sequence numbers and consumers, and the messages that they contain."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from servicebus_emulator.broker.fault_desk import FaultDesk
from servicebus_emulator.broker.message import Content, Message, MessageState, Origin
from servicebus_emulator.broker.store import Store
from servicebus_emulator.broker.timers import Timers
from servicebus_emulator.clock import Clock


@dataclass(frozen=True, slots=True)
class Environment:
    """The parts that all entities of a broker share."""

    clock: Clock
    timers: Timers
    store: Store
    #: forwards a message to the entity of this name; BusError if that entity refuses it
    forward: Callable[[str, Content, Origin], None]
    #: decides the faults of messages that clients send
    desk: FaultDesk = field(default_factory=FaultDesk)


@dataclass(slots=True)
class Counter:
    """The sequence numbers of an entity, shared with its dead-letter queue."""

    entity: str
    store: Store
    #: the last assigned number
    last: int = 0

    def next(self) -> int:
        """Assigns and stores the next number."""
        self.last += 1
        self.store.put_counter(self.entity, self.last)
        return self.last


class Consumer(Protocol):
    """A receiver as a queue sees it."""

    @property
    def credit(self) -> int:
        """Returns the number of messages that the consumer accepts now."""

    @property
    def settles_on_send(self) -> bool:
        """Returns True if a delivery removes the message from the queue (receive-and-delete)."""

    def deliver(self, message: Message) -> None:
        """Accepts a message, which is locked with `message.lock_token` unless the consumer settles on send."""


class EntityMessages:
    """The messages of one entity by sequence number, and their size. Removal deletes a message from the store too."""

    def __init__(self, path: str, environment: Environment) -> None:
        self.path = path
        self._env = environment
        self._messages: dict[int, Message] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def _keep(self, message: Message) -> None:
        self._messages[message.sequence_number] = message
        self.size_bytes += message.content.size

    def _change(self, message: Message, changes: Mapping[str, Any] | None) -> None:
        """Sets application properties of a held message."""
        if changes:
            before = message.content.size
            message.content = message.content.with_changes(changes)
            self.size_bytes += message.content.size - before
            self._env.store.put(self.path, message)

    def _remove(self, message: Message) -> None:
        message.removed = True
        del self._messages[message.sequence_number]
        self.size_bytes -= message.content.size
        if message.expiry_timer is not None:
            message.expiry_timer.cancel()
            message.expiry_timer = None
        self._env.store.delete(self.path, message.sequence_number)

    def delete_batch(self, before_ms: int, count: int, session_id: str | None = None) -> int:
        """Removes the oldest active, unlocked messages that were enqueued before a time, at most `count`. If
        `session_id` is given, removes messages of that session only.

        Returns the number of removed messages.
        """
        numbers = [
            number
            for number, message in self._messages.items()
            if message.state is MessageState.ACTIVE
            and message.lock_token is None
            and message.enqueued_at_ms < before_ms
            and session_id in (None, message.content.session_id)
        ]
        oldest = heapq.nsmallest(count, numbers)
        for number in oldest:
            self._remove(self._messages[number])
        return len(oldest)


def first_of(
    messages: Mapping[int, Message], from_sequence_number: int, count: int, session_id: str | None
) -> list[Message]:
    """Returns the first messages from a sequence number on, at most `count`. If `session_id` is given, returns messages
    of that session only.
    """
    numbers = (
        number
        for number, message in messages.items()
        if number >= from_sequence_number and session_id in (None, message.content.session_id)
    )
    return [messages[number] for number in heapq.nsmallest(count, numbers)]
