"""Scheduled messages, which wait until their time and are then enqueued like new messages."""

from __future__ import annotations

from collections.abc import Callable

from servicebus_emulator.broker.entity import Counter, Environment
from servicebus_emulator.broker.errors import MessageNotFound
from servicebus_emulator.broker.message import Content, Message, MessageState


class Schedule:
    """The scheduled messages of a queue or topic. When a message is due, the schedule calls `deliver` with the
    message's content.
    """

    def __init__(
        self, path: str, environment: Environment, counter: Counter, deliver: Callable[[Content], object]
    ) -> None:
        self._path = path
        self._env = environment
        self._counter = counter
        self._deliver = deliver
        self.messages: dict[int, Message] = {}
        self.size_bytes = 0

    def add(self, content: Content, due_ms: int) -> int:
        """Adds a message. Returns its sequence number, which `cancel` accepts until the message is due."""
        number = self._counter.next()
        now = self._env.clock.now_ms()
        message = Message(content, number, now, number, state=MessageState.SCHEDULED, scheduled_at_ms=due_ms)
        self._env.store.put(self._path, message)
        self.restore(message)
        return number

    def restore(self, message: Message) -> None:
        """Adds a stored message after a restart."""
        number = message.sequence_number
        self.messages[number] = message
        self.size_bytes += message.content.size
        message.lock_timer = self._env.timers.at(message.scheduled_at_ms or 0, lambda: self._activate(number))

    def cancel(self, *sequence_numbers: int) -> None:
        """Removes messages before their time, all or none. Raises MessageNotFound for an unknown number."""
        for number in sequence_numbers:
            if number not in self.messages:
                raise MessageNotFound(f"No scheduled message has the sequence number {number}.")
        for number in set(sequence_numbers):
            message = self._take(number)
            if message.lock_timer is not None:
                message.lock_timer.cancel()
            self._env.store.delete(self._path, number)

    def clear(self) -> None:
        self.cancel(*self.messages)

    def _activate(self, sequence_number: int) -> None:
        message = self._take(sequence_number)
        self._env.store.delete(self._path, sequence_number)
        self._deliver(message.content)

    def _take(self, sequence_number: int) -> Message:
        message = self.messages.pop(sequence_number)
        self.size_bytes -= message.content.size
        return message
