"""What a sender sends to: a queue or a topic, with duplicate detection and the faults that tests set."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from servicebus_emulator.broker.entity import Environment
from servicebus_emulator.broker.errors import EntityDisabled, ServerBusy
from servicebus_emulator.broker.message import SENDER, Content, Origin
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.topic import Topic


class DuplicateHistory:
    """Remembers each id for `window_ms` from its first sight; a repeat does not prolong it."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._until: dict[str, int] = {}
        self._order: deque[tuple[int, str]] = deque()

    def knows(self, message_id: str, now_ms: int) -> bool:
        """The id was seen within the window."""
        self.forget(now_ms)
        return message_id in self._until

    def remember(self, message_id: str, now_ms: int) -> int:
        """Takes in an id not known; when it will be forgotten."""
        until = now_ms + self.window_ms
        self.restore(message_id, until)
        return until

    def restore(self, message_id: str, until_ms: int) -> None:
        self._until[message_id] = until_ms
        self._order.append((until_ms, message_id))

    def forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] <= now_ms:
            _, message_id = self._order.popleft()
            del self._until[message_id]

    def __len__(self) -> int:
        return len(self._order)


@dataclass(slots=True)
class Destination:
    """What a sender sends to: a queue or topic, guarded against duplicates if it wants that."""

    entity: MessageQueue | Topic
    environment: Environment
    history: DuplicateHistory | None
    #: The entity is deleted.
    removed: bool = False
    #: A fault that tests can set: until then every send is refused as by a busy server.
    refuse_until_ms: int = 0

    @property
    def path(self) -> str:
        return self.entity.path

    def check_open(self) -> None:
        """EntityDisabled when nothing may be sent now."""
        if self.entity.description.status in ("Disabled", "SendDisabled"):
            raise EntityDisabled(f"'{self.path}' is disabled for sending.")
        if self.refuse_until_ms > self.environment.clock.now_ms():
            raise ServerBusy

    def send(self, content: Content, origin: Origin = SENDER) -> None:
        """Takes a message in: at once, or at its scheduled time. A duplicate is accepted and dropped."""
        self.check_open()
        if self._is_duplicate(content):
            return
        due_ms = content.scheduled_at_ms
        if due_ms is not None and due_ms > self.environment.clock.now_ms():
            self.entity.check(content)
            self.entity.schedule.add(content, due_ms)
        else:
            self.entity.accept(content, origin)
        self._remember(content)

    def schedule(self, content: Content, due_ms: int) -> int:
        """Takes a message in for later; its sequence number. One that is due already goes at once."""
        self.check_open()
        self.entity.check(content)
        number = self.entity.schedule.add(content, due_ms)
        self._remember(content)
        return number

    def _is_duplicate(self, content: Content) -> bool:
        if self.history is None:
            return False
        return self.history.knows(str(content.message_id), self.environment.clock.now_ms())

    def _remember(self, content: Content) -> None:
        """Only what was taken in: a message refused may come again."""
        if self.history is None:
            return
        message_id, now = str(content.message_id), self.environment.clock.now_ms()
        if not self.history.knows(message_id, now):
            until_ms = self.history.remember(message_id, now)
            self.environment.store.put_history(self.path, message_id, until_ms)
