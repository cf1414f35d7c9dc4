"""All entities of a namespace by address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.broker.destination import Destination, DuplicateHistory
from servicebus_emulator.broker.entity import Counter, Environment
from servicebus_emulator.broker.errors import EntityDisabled, EntityExists, EntityNotFound, InvalidRequest, topic_part
from servicebus_emulator.broker.fault_desk import FaultDesk
from servicebus_emulator.broker.message import Content, Message, MessageState, Origin
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.sessions import SessionQueue
from servicebus_emulator.broker.store import Memory, Store, StoredMessage
from servicebus_emulator.broker.timers import Timers
from servicebus_emulator.broker.topic import Subscription, Topic
from servicebus_emulator.clock import Clock

SUBSCRIPTIONS = "/subscriptions/"


class Broker:
    """A namespace. Addresses ignore case, as in Azure."""

    def __init__(self, clock: Clock, store: Store | None = None) -> None:
        self.clock = clock
        self.timers = Timers()
        self.store = store or Memory()
        self._env = Environment(clock, self.timers, self.store, self._forward)
        self._last_numbers = self.store.counters()
        self.destinations: dict[str, Destination] = {}
        self._queues: dict[str, MessageQueue] = {}

    @property
    def desk(self) -> FaultDesk:
        """Returns the faults of messages that clients send."""
        return self._env.desk

    # Entities

    def add_queue(self, description: QueueDescription) -> MessageQueue:
        path = self._new_path(description.name)
        queue = self._make_queue(path, description)
        history = self._history(description.requires_duplicate_detection, description.duplicate_window_ms)
        self.destinations[path.lower()] = Destination(queue, self._env, history)
        return queue

    def add_topic(self, description: TopicDescription) -> Topic:
        path = self._new_path(description.name)
        topic = Topic(path, description, self._env, self._counter(path))
        history = self._history(description.requires_duplicate_detection, description.duplicate_window_ms)
        self.destinations[path.lower()] = Destination(topic, self._env, history)
        return topic

    def add_subscription(self, topic_name: str, description: SubscriptionDescription) -> Subscription:
        topic = self.topic(topic_name)
        name = description.queue.name
        if name.lower() in topic.subscriptions:
            raise EntityExists(topic_part(topic.path, name))
        queue = self._make_queue(f"{topic.path}/Subscriptions/{name}", description.queue)
        subscription = Subscription(description, queue)
        topic.subscriptions[name.lower()] = subscription
        return subscription

    def topic(self, name: str) -> Topic:
        destination = self.destinations.get(name.lower())
        if destination is None or not isinstance(destination.entity, Topic):
            raise EntityNotFound(name)
        return destination.entity

    def _new_path(self, name: str) -> str:
        if not name or name.lower() in self.destinations:
            raise EntityExists(name)
        return name

    def _make_queue(self, path: str, description: QueueDescription) -> MessageQueue:
        counter = self._counter(path)
        dead_path = f"{path}/$DeadLetterQueue"
        dead = MessageQueue(dead_path, replace(description, requires_session=False), self._env, counter, None)
        kind = SessionQueue if description.requires_session else MessageQueue
        queue = kind(path, description, self._env, counter, dead)
        self._queues[path.lower()] = queue
        self._queues[dead_path.lower()] = dead
        return queue

    def _forward(self, name: str, content: Content, origin: Origin) -> None:
        self.destination(name).send(content, origin)

    def _counter(self, path: str) -> Counter:
        return Counter(path, self.store, self._last_numbers.get(path.lower(), 0))

    def _history(self, required: bool, window_ms: int) -> DuplicateHistory | None:
        return DuplicateHistory(window_ms) if required else None

    # Addresses

    def queue(self, address: str) -> MessageQueue:
        """Returns the queue, subscription or dead-letter queue that a receiver reads. Raises BusError if a receiver
        cannot read the address.
        """
        queue = self._queues.get(address.lower())
        if queue is None:
            if address.lower() in self.destinations:
                raise InvalidRequest(f"'{address}' is a topic: receive from one of its subscriptions.")
            raise EntityNotFound(address)
        if queue.description.forward_to is not None and queue.dead_letters is not None:
            raise InvalidRequest(
                f"'{queue.path}' forwards its messages: receive from '{queue.description.forward_to}'."
            )
        if queue.description.status in ("Disabled", "ReceiveDisabled"):
            raise EntityDisabled(f"'{queue.path}' is disabled for receiving.")
        return queue

    def destination(self, address: str) -> Destination:
        """Returns the queue or topic that a sender writes to. Raises BusError for any other address."""
        destination = self.destinations.get(address.lower())
        if destination is None:
            if address.lower() in self._queues:
                raise InvalidRequest(f"'{address}' cannot receive sent messages; send to its topic or queue.")
            raise EntityNotFound(address)
        return destination

    def queues(self) -> list[MessageQueue]:
        """Returns all queues, subscriptions and dead-letter queues."""
        return list(self._queues.values())

    def knows(self, address: str) -> bool:
        """Returns True if a queue, topic, subscription or dead-letter queue has the address."""
        key = address.lower()
        return key in self._queues or key in self.destinations

    # Changes by the administrator

    def change_queue(self, description: QueueDescription) -> None:
        """Changes the properties of a queue. The caller checks properties that cannot be changed."""
        destination = self.destination(description.name)
        assert isinstance(destination.entity, MessageQueue)
        self._change(destination.entity, description)
        if destination.history is not None:
            destination.history.window_ms = description.duplicate_window_ms

    def change_topic(self, description: TopicDescription) -> None:
        destination = self.destination(description.name)
        assert isinstance(destination.entity, Topic)
        destination.entity.description = description
        destination.entity.updated_at_ms = self.clock.now_ms()
        if destination.history is not None:
            destination.history.window_ms = description.duplicate_window_ms

    def change_subscription(self, topic_name: str, description: SubscriptionDescription) -> None:
        subscription = self.subscription(topic_name, description.queue.name)
        subscription.description = description
        self._change(subscription.queue, description.queue)

    def _change(self, queue: MessageQueue, description: QueueDescription) -> None:
        queue.change(description)
        if queue.dead_letters is not None:
            queue.dead_letters.change(replace(description, requires_session=False))

    def subscription(self, topic_name: str, name: str) -> Subscription:
        subscription = self.topic(topic_name).subscriptions.get(name.lower())
        if subscription is None:
            raise EntityNotFound(f"{topic_name}/Subscriptions/{name}")
        return subscription

    def remove(self, name: str) -> None:
        """Deletes a queue, or a topic with its subscriptions."""
        destination = self.destination(name)
        destination.removed = True
        entity = destination.entity
        if isinstance(entity, Topic):
            for subscription in list(entity.subscriptions):
                self.remove_subscription(name, subscription)
            entity.schedule.clear()
            self.store.drop(entity.path)
        else:
            self._remove_queue(entity)
        del self.destinations[name.lower()]
        self._last_numbers.pop(entity.path.lower(), None)

    def remove_subscription(self, topic_name: str, name: str) -> None:
        subscription = self.subscription(topic_name, name)
        self._remove_queue(subscription.queue)
        del self.topic(topic_name).subscriptions[name.lower()]

    def _remove_queue(self, queue: MessageQueue) -> None:
        for item in (queue, queue.dead_letters):
            if item is not None:
                item.remove_all()
                self._queues.pop(item.path.lower(), None)
                self._last_numbers.pop(item.path.lower(), None)

    # Restart

    def restore(self, decode: Callable[[bytes], Content]) -> int:
        """Loads the stored data of the existing entities. Returns the number of messages."""
        count = 0
        for row in self.store.messages():
            message = _message(row, decode)
            queue = self._queues.get(row.entity.lower())
            if queue is not None:
                queue.restore(message)
            elif (destination := self.destinations.get(row.entity.lower())) is not None:
                destination.entity.schedule.restore(message)
            else:
                continue  # the entity is not configured any more: the message stays in the store
            count += 1
        for entity, session_id, state in self.store.session_states():
            queue = self._queues.get(entity.lower())
            if isinstance(queue, SessionQueue):
                queue.restore_state(session_id, state)
        for entity, message_id, until_ms in self.store.history(self.clock.now_ms()):
            owner = self.destinations.get(entity.lower())
            if owner is not None and owner.history is not None:
                owner.history.restore(message_id, until_ms)
        return count


def _message(row: StoredMessage, decode: Callable[[bytes], Content]) -> Message:
    return Message(
        decode(row.encoded),
        row.sequence_number,
        row.enqueued_at_ms,
        row.enqueued_sequence_number,
        row.expires_at_ms,
        MessageState(row.state),
        row.delivery_count,
        row.scheduled_at_ms,
        row.dead_letter_source,
        row.forwarded,
    )
