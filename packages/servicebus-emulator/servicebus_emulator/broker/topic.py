"""A topic, which copies each message to the subscriptions whose rules select it, and stores scheduled messages only."""

from __future__ import annotations

from dataclasses import dataclass, field

from servicebus_emulator.broker.descriptions import SubscriptionDescription, TopicDescription
from servicebus_emulator.broker.entity import Counter, Environment
from servicebus_emulator.broker.errors import QuotaExceeded
from servicebus_emulator.broker.message import SENDER, Content, Origin
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.schedule import Schedule
from servicebus_emulator.broker.sql_values import FilterError

FILTER_FAILED = "FilterEvaluationException"


@dataclass(slots=True)
class Selection:
    """The copies of a message that the rules of a subscription select."""

    copies: list[Content] = field(default_factory=list)
    #: reason why a rule could not be evaluated
    failure: str | None = None


@dataclass(slots=True)
class Subscription:
    """A subscription's queue, and the rules that fill it."""

    description: SubscriptionDescription
    queue: MessageQueue

    def select(self, content: Content) -> Selection:
        """Returns a copy for each rule with an action that selects the message. Returns one more copy if a rule without
        an action selects the message.
        """
        selection = Selection()
        as_is = False
        for rule in self.description.rules:
            if rule.action is None and as_is:
                continue
            try:
                if not rule.filter.matches(content):
                    continue
                as_is = as_is or rule.action is None
                selection.copies.append(content if rule.action is None else rule.action.apply(content))
            except FilterError as error:
                selection.failure = f"The rule '{rule.name}' failed: {error}"
        return selection

    def take(self, content: Content, selection: Selection, origin: Origin) -> None:
        """Enqueues the selected copies. Dead-letters the message if a rule failed, unless the subscription disables
        this.
        """
        for copy in selection.copies:
            self.queue.enqueue(copy, origin)
        if selection.failure is not None and self.queue.description.dead_lettering_on_filter_error:
            self.queue.enqueue_dead_letter(content, origin, FILTER_FAILED, selection.failure)


class Topic:
    """A topic and its subscriptions, by lower-case name."""

    def __init__(self, path: str, description: TopicDescription, environment: Environment, counter: Counter) -> None:
        self.path = path
        self.description = description
        self.subscriptions: dict[str, Subscription] = {}
        self.schedule = Schedule(path, environment, counter, self.enqueue)
        self._counter = counter
        self.created_at_ms = self.updated_at_ms = environment.clock.now_ms()

    @property
    def last_sequence_number(self) -> int:
        return self._counter.last

    def enqueue(self, content: Content, origin: Origin = SENDER) -> None:
        """Enqueues a message in the subscriptions whose rules select it."""
        self._distribute(content, self._select(content), origin)

    def accept(self, content: Content, origin: Origin = SENDER) -> None:
        """Checks and enqueues a message. The topic evaluates the rules of its subscriptions once."""
        selections = self._select(content)
        for subscription, selection in selections:
            subscription.queue.check(*selection.copies)
        self._distribute(content, selections, origin)

    def check(self, *contents: Content) -> None:
        """Raises the error of a subscription that refuses a message, or QuotaExceeded if the messages exceed the free
        size.
        """
        used = self.schedule.size_bytes + sum(content.size for content in contents)
        if used > self.description.max_size_bytes:
            raise QuotaExceeded(f"The topic '{self.path}' has reached its maximum size.")
        for subscription in self.subscriptions.values():
            subscription.queue.check(*(copy for content in contents for copy in subscription.select(content).copies))

    def _select(self, content: Content) -> list[tuple[Subscription, Selection]]:
        return [(item, item.select(content)) for item in self.subscriptions.values()]

    def _distribute(self, content: Content, selections: list[tuple[Subscription, Selection]], origin: Origin) -> None:
        ttl_ms = self.description.default_time_to_live_ms
        copied = Origin(self._counter.next(), ttl_ms, origin.hops, origin.dead_letter_source)
        for subscription, selection in selections:
            subscription.take(content, selection, copied)
