"""Destinations of senders: a queue or topic with its duplicate detection."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field

from servicebus_emulator.broker.entity import Environment
from servicebus_emulator.broker.errors import BusError, EntityDisabled, ServerBusy
from servicebus_emulator.broker.fault_desk import Verdict
from servicebus_emulator.broker.message import SENDER, Content, Origin
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.timers import Timer
from servicebus_emulator.broker.topic import Topic

NO_FAULTS = Verdict()


class DuplicateHistory:
    """Message ids, each for `window_ms` after its first message. A repeat does not prolong this time."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._until: dict[str, int] = {}
        self._order: deque[tuple[int, str]] = deque()

    def knows(self, message_id: str, now_ms: int) -> bool:
        """Returns True if the id was recorded within the window."""
        self.forget(now_ms)
        return message_id in self._until

    def remember(self, message_id: str, now_ms: int) -> int:
        """Adds a new id. Returns the time when the id expires."""
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
    """A queue or topic as a sender sees it."""

    entity: MessageQueue | Topic
    environment: Environment
    #: duplicate detection; None without it
    history: DuplicateHistory | None
    #: `True` if the entity is deleted
    removed: bool = False
    #: a fault that tests can set: sends fail with ServerBusy until this time
    refuse_until_ms: int = 0
    #: timers of messages that wait until the next one is accepted
    held: list[Timer] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.entity.path

    def check_open(self) -> None:
        """Raises EntityDisabled or ServerBusy if the entity accepts no message now."""
        if self.entity.description.status in ("Disabled", "SendDisabled"):
            raise EntityDisabled(f"'{self.path}' is disabled for sending.")
        if self.refuse_until_ms > self.environment.clock.now_ms():
            raise ServerBusy

    def send(self, content: Content, origin: Origin = SENDER) -> Verdict:
        """Accepts a message, now or at its scheduled time. A duplicate is accepted and dropped.

        Returns the faults of the message. The caller applies the faults of the sender's connection. Raises BusError if
        the entity refuses the message.
        """
        self.check_open()
        verdict = NO_FAULTS
        if origin is SENDER and self.environment.desk.rules:
            verdict = self.environment.desk.judge(self.path, content)
        if "throttle" in verdict:
            raise ServerBusy
        if "drop" in verdict or ("forget" not in verdict and self._is_duplicate(content)):
            return verdict
        if "truncate" in verdict:
            content = content.truncated()
        due_ms = content.scheduled_at_ms
        if due_ms is not None and due_ms > self.environment.clock.now_ms():
            self.entity.check(content)
            self.entity.schedule.add(content, due_ms)
        elif verdict is NO_FAULTS and not self.held:
            self.entity.accept(content, origin)
        else:
            self.entity.check(content)
            for _ in range(2 if "duplicate" in verdict else 1):
                self._deliver(content, origin, verdict)
        self._remember(content)
        return verdict

    def _deliver(self, content: Content, origin: Origin, verdict: Verdict) -> None:
        """Accepts a message with its faults, and then the messages that waited for the next message."""
        now_ms, timers = self.environment.clock.now_ms(), self.environment.timers

        def accept() -> None:
            # the sender's message was accepted: the entity may be full or deleted by now
            with contextlib.suppress(BusError):
                self.entity.accept(content, origin)

        if "reorder" in verdict:
            self.held.append(timers.at(now_ms + verdict.faults["reorder"], accept))
        elif "delay" in verdict:
            timers.at(now_ms + verdict.faults["delay"], accept)
        else:
            accept()
            held, self.held[:] = list(self.held), []
            for timer in held:
                if timer.call is not None:
                    call = timer.call
                    timer.cancel()
                    call()

    def schedule(self, content: Content, due_ms: int) -> int:
        """Accepts a message for later and returns its sequence number. A due message is enqueued immediately. Raises
        BusError if the entity refuses the message.
        """
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
        """Adds the id of an accepted message. A sender may send a refused message again."""
        if self.history is None:
            return
        message_id, now = str(content.message_id), self.environment.clock.now_ms()
        if not self.history.knows(message_id, now):
            until_ms = self.history.remember(message_id, now)
            self.environment.store.put_history(self.path, message_id, until_ms)
