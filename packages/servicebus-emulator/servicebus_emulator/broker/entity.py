"""The messages that an entity holds, in memory and in the store, whatever their state."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from servicebus_emulator.broker.message import Message, MessageState
from servicebus_emulator.broker.schedule import Environment


class EntityMessages:
    """Messages by sequence number, and their size; what leaves memory leaves the store."""

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
        """Sets application properties of a message that is here."""
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
        """Removes the oldest active messages that nobody holds, enqueued before a time, of one session if given; how
        many they were."""
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
    """The first messages from a number on, of one session if given."""
    numbers = (
        number
        for number, message in messages.items()
        if number >= from_sequence_number and session_id in (None, message.content.session_id)
    )
    return [messages[number] for number in heapq.nsmallest(count, numbers)]
