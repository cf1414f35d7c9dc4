"""A topic: copies each message to the subscriptions whose rules select it, and keeps none itself."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.bus.broker.descriptions import SubscriptionDescription, TopicDescription
from emulator.bus.broker.duplicates import DuplicateHistory
from emulator.bus.broker.message import Content
from emulator.bus.broker.queue import MessageQueue
from emulator.bus.broker.schedule import Counter, Environment, Schedule


@dataclass(slots=True)
class Subscription:
    description: SubscriptionDescription
    queue: MessageQueue


class Topic:
    """A topic and its subscriptions, by lower-case name."""

    def __init__(self, path: str, description: TopicDescription, environment: Environment, counter: Counter) -> None:
        self.path = path
        self.description = description
        self.subscriptions: dict[str, Subscription] = {}
        self.schedule = Schedule(path, environment, counter, self.enqueue)
        self._counter = counter

    def enqueue(self, content: Content) -> int:
        """Copies the message to every subscription that selects it, once however many of its rules match."""
        number = self._counter.next()
        for queue in self._chosen(content):
            queue.enqueue(content, number)
        return number

    def accept(self, content: Content) -> None:
        """`check` and `enqueue`, the rules looked at once."""
        chosen = self._chosen(content)
        for queue in chosen:
            queue.check(content)
        number = self._counter.next()
        for queue in chosen:
            queue.enqueue(content, number)

    def check(self, content: Content) -> None:
        """Refuses what a subscription that selects it would."""
        for queue in self._chosen(content):
            queue.check(content)

    def _chosen(self, content: Content) -> list[MessageQueue]:
        return [item.queue for item in self.subscriptions.values() if self._selects(item, content)]

    def _selects(self, subscription: Subscription, content: Content) -> bool:
        return any(rule.filter.matches(content) for rule in subscription.description.rules)


@dataclass(slots=True)
class Destination:
    """What a sender sends to: a queue or topic, guarded against duplicates if it wants that."""

    entity: MessageQueue | Topic
    environment: Environment
    history: DuplicateHistory | None

    @property
    def path(self) -> str:
        return self.entity.path

    def send(self, content: Content) -> None:
        """Takes a message in: at once, or at its scheduled time. A duplicate is accepted and dropped."""
        if self._is_duplicate(content):
            return
        due_ms = content.scheduled_at_ms
        if due_ms is not None and due_ms > self.environment.clock.now_ms():
            self.entity.check(content)
            self.entity.schedule.add(content, due_ms)
        else:
            self.entity.accept(content)
        self._remember(content)

    def schedule(self, content: Content, due_ms: int) -> int:
        """Takes a message in for later; its sequence number. One that is due already goes at once."""
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
