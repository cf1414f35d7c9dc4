"""A queue: the implementation of queue entities, subscriptions and dead-letter queues.

A message is active, locked (active with a lock token), deferred or scheduled. Active messages are delivered in order of
sequence number. A message that is abandoned or whose lock expires returns to its old position.
"""

from __future__ import annotations

import contextlib
import heapq
import uuid
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.entity import Consumer, Counter, EntityMessages, Environment, first_of
from servicebus_emulator.broker.errors import BusError, MessageLockLost, MessageNotFound, QuotaExceeded
from servicebus_emulator.broker.message import SENDER, Content, Message, MessageState, Origin
from servicebus_emulator.broker.schedule import Schedule

TTL_EXPIRED = ("TTLExpiredException", "The message expired and was dead lettered.")
MAX_DELIVERY = "MaxDeliveryCountExceeded"
#: maximum number of forwards of a message in Azure
MAX_HOPS = 4
REASON, DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"


class MessageQueue(EntityMessages):
    """One entity's messages and receivers. `dead_letters` is None for a dead-letter queue itself. Methods with a
    `token`, except `holds`, raise MessageLockLost if the token is unknown.
    """

    def __init__(
        self,
        path: str,
        description: QueueDescription,
        environment: Environment,
        counter: Counter,
        dead_letters: MessageQueue | None,
    ) -> None:
        super().__init__(path, environment)
        self.description = description
        self.dead_letters = dead_letters
        self.counter = counter
        self._ready: list[int] = []
        self._locked: dict[uuid.UUID, Message] = {}
        self._consumers: deque[Consumer] = deque()
        self._pumping = False
        self.schedule = Schedule(path, environment, counter, self.enqueue)
        self.created_at_ms = self.updated_at_ms = self.accessed_at_ms = environment.clock.now_ms()
        #: a fault that tests can set: number of completed messages that are delivered once more
        self.repeats = 0
        #: `True` if the entity is deleted
        self.removed = False

    # Incoming messages

    def check(self, *contents: Content) -> None:
        """Raises QuotaExceeded if these messages exceed the free size. Scheduled messages and dead letters
        count too.
        """
        parts = (self, self.schedule, self.dead_letters)
        used = sum(part.size_bytes for part in parts if part is not None)
        if used + sum(content.size for content in contents) > self.description.max_size_bytes:
            raise QuotaExceeded(
                f"The maximum entity size of {self.description.max_size_bytes} bytes has been reached or exceeded "
                f"for '{self.path}'. Receive messages from the entity or delete some."
            )

    def accept(self, content: Content, origin: Origin = SENDER) -> None:
        """Checks and enqueues a message."""
        self.check(content)
        self.enqueue(content, origin)

    def enqueue(self, content: Content, origin: Origin = SENDER) -> None:
        """Adds a checked message, or forwards it if the queue forwards."""
        if self.description.forward_to is not None and self.dead_letters is not None:
            self._forward(content, origin)
        else:
            self._add(content, origin)

    def _add(self, content: Content, origin: Origin) -> None:
        """Adds a message, which shows the shortest of all times to live (Azure, "Message expiration")."""
        message = self._message(content, origin)
        own_ms, default_ms = content.time_to_live_ms, self.description.default_time_to_live_ms
        lives_ms = [ms for ms in (own_ms, origin.time_to_live_ms, default_ms) if ms is not None]
        if lives_ms and self.dead_letters is not None:
            life_ms = min(lives_ms)
            message.expires_at_ms = message.enqueued_at_ms + life_ms
            if life_ms != own_ms:
                message.content = content.with_time_to_live(life_ms, message.enqueued_at_ms)
        self._env.store.put(self.path, message)
        self._admit(message)
        self.pump()

    def _forward(self, content: Content, origin: Origin) -> None:
        """Forwards a message. Dead-letters a message above `MAX_HOPS` hops, or that the target refuses.

        Azure, "Dead-lettering in auto forward scenarios": the transfer dead-letter queue is for sends via an entity.
        """
        target = self.description.forward_to or ""
        if origin.hops >= MAX_HOPS:
            text = f"The maximum number of allowed hops ({MAX_HOPS}) is exceeded on the way to '{target}'."
            self.enqueue_dead_letter(content, origin, "MaxTransferHopCountExceeded", text)
            return
        try:
            self._env.forward(
                target, content, Origin(hops=origin.hops + 1, dead_letter_source=origin.dead_letter_source)
            )
        except BusError as error:
            self.enqueue_dead_letter(content, origin, "TransferFailed", f"Forwarding to '{target}' failed: {error}")

    def enqueue_dead_letter(self, content: Content, origin: Origin, reason: str, description: str) -> None:
        """Adds a new message to the dead-letter queue."""
        if self.dead_letters is not None:
            message = self._message(content, origin)
            self.dead_letters.accept_dead_letter(message, {REASON: reason, DESCRIPTION: description})

    def _message(self, content: Content, origin: Origin) -> Message:
        number = self.counter.next()
        message = Message(content, number, self._env.clock.now_ms(), origin.sequence_number or number)
        message.forwarded, message.dead_letter_source = origin.hops, origin.dead_letter_source
        return message

    def restore(self, message: Message) -> None:
        """Adds a stored message after a restart, unlocked. Its delivery count includes the delivery of a lost lock."""
        if message.state is MessageState.SCHEDULED:
            self.schedule.restore(message)
        elif self._is_exhausted(message):
            self._keep(message)
            self._dead_letter_exhausted(message)
        else:
            self._admit(message)

    def _admit(self, message: Message) -> None:
        self._keep(message)
        if message.expires_at_ms is not None:
            message.expiry_timer = self._env.timers.at(message.expires_at_ms, partial(self._expire, message))
        if message.state is MessageState.ACTIVE:
            self._offer(message)

    def _offer(self, message: Message) -> None:
        """Makes a message available to consumers."""
        heapq.heappush(self._ready, message.sequence_number)

    def change(self, description: QueueDescription) -> None:
        """Changes the properties. Messages in the queue keep their times."""
        self.description = description
        self.updated_at_ms = self._env.clock.now_ms()
        self.pump()

    def remove_all(self) -> None:
        """Deletes all messages, because the entity is deleted."""
        self.removed = True
        for message in list(self._messages.values()):
            if message.lock_token is not None:
                self._unlock(message)
            self._remove(message)
        self.schedule.clear()
        self._consumers.clear()
        self._env.store.drop(self.path)

    # Deliveries

    def request_messages(self, consumer: Consumer) -> None:
        """Delivers messages to a consumer with new credit, before consumers with older requests.

        Older credit may belong to a call that timed out in the client. A message for such a call waits in the client
        until the client returns the message.
        """
        self.remove_consumer(consumer)
        if consumer.credit > 0:
            self._consumers.appendleft(consumer)
            self.pump()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Removes a consumer. Its messages stay locked until they are settled or the lock expires, as in Azure."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def pump(self) -> None:
        """Delivers messages to the consumers in turn, while there are messages and credit."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._ready and self._consumers:
                consumer = self._consumers[0]
                if consumer.credit <= 0:
                    self._consumers.popleft()
                    continue
                message = self._pop_ready(self._ready)
                if message is not None:
                    self._deliver(message, consumer)
                    self._consumers.rotate(-1)
        finally:
            self._pumping = False

    def _pop_ready(self, numbers: list[int]) -> Message | None:
        """Returns the first available message of a heap of sequence numbers. Drops numbers of unavailable messages."""
        while numbers:
            message = self._messages.get(heapq.heappop(numbers))
            if message is not None and message.lock_token is None and message.state is MessageState.ACTIVE:
                return message
        return None

    def _deliver(self, message: Message, consumer: Consumer) -> None:
        self.accessed_at_ms = self._env.clock.now_ms()
        if consumer.settles_on_send:
            self._remove(message)
        else:
            self._lock(message)
        consumer.deliver(message)

    def _lock(self, message: Message) -> None:
        message.lock_token = uuid.uuid4()
        self._locked[message.lock_token] = message
        self._start_lock(message)
        self._env.store.put_delivery_count(self.path, message, message.delivery_count + 1)

    def _start_lock(self, message: Message) -> None:
        if message.lock_timer is not None:
            message.lock_timer.cancel()
        message.locked_until_ms = self._env.clock.now_ms() + self.description.lock_duration_ms
        message.lock_timer = self._env.timers.at(message.locked_until_ms, partial(self._lock_expired, message))

    def _lock_expired(self, message: Message) -> None:
        self._unlock(message)
        self._fail_delivery(message, None)

    # Settlement

    def holds(self, token: uuid.UUID) -> bool:
        return token in self._locked

    def complete(self, token: uuid.UUID) -> None:
        """Removes a locked message. While the fault `duplicate` is set, abandons the message instead."""
        message = self._take_lock(token)
        if self.repeats > 0:
            self.repeats -= 1
            self._fail_delivery(message, None)
        else:
            self._remove(message)

    def abandon(self, token: uuid.UUID, changes: Mapping[str, Any] | None = None) -> None:
        """Counts a failed delivery. Returns the message to the queue, or dead-letters the message at the maximum."""
        message = self._take_lock(token)
        self._fail_delivery(message, changes)

    def release(self, token: uuid.UUID) -> None:
        """Returns a locked message to the queue without counting a delivery."""
        message = self._take_lock(token)
        self._return_to_queue(message)

    def defer(self, token: uuid.UUID, changes: Mapping[str, Any] | None = None) -> None:
        """Keeps a locked message for receivers that request its sequence number, and counts a delivery.

        Dead-letters the message at the maximum of deliveries instead, as in Azure (Azure/azure-service-bus, issue 375).
        """
        message = self._take_lock(token)
        message.state = MessageState.DEFERRED
        self._fail_delivery(message, changes)

    def dead_letter(
        self, token: uuid.UUID, reason: str | None, description: str | None, changes: Mapping[str, Any] | None = None
    ) -> None:
        """Moves a locked message to the dead-letter queue."""
        message = self._take_lock(token)
        self._move_to_dead_letters(message, {**(changes or {}), REASON: reason, DESCRIPTION: description})

    def renew(self, token: uuid.UUID) -> int:
        """Renews a lock for its whole duration from now. Returns the time when the lock expires."""
        message = self._locked.get(token)
        if message is None:
            raise MessageLockLost
        self._start_lock(message)
        return message.locked_until_ms

    def _take_lock(self, token: uuid.UUID) -> Message:
        message = self._locked.get(token)
        if message is None:
            raise MessageLockLost
        self._unlock(message)
        return message

    def _unlock(self, message: Message) -> None:
        if message.lock_token is not None:
            del self._locked[message.lock_token]
        if message.lock_timer is not None:
            message.lock_timer.cancel()
        message.lock_token = message.lock_timer = None
        message.locked_until_ms = 0

    def _fail_delivery(self, message: Message, changes: Mapping[str, Any] | None) -> None:
        message.delivery_count += 1
        self._change(message, changes)
        if self._is_exhausted(message):
            self._dead_letter_exhausted(message)
            return
        self._env.store.update(self.path, message)
        self._return_to_queue(message)

    def _is_exhausted(self, message: Message) -> bool:
        return self.dead_letters is not None and message.delivery_count >= self.description.max_delivery_count

    def _dead_letter_exhausted(self, message: Message) -> None:
        text = f"Message could not be consumed after {self.description.max_delivery_count} delivery attempts."
        self._move_to_dead_letters(message, {REASON: MAX_DELIVERY, DESCRIPTION: text})

    def _return_to_queue(self, message: Message) -> None:
        self._env.store.put_delivery_count(self.path, message, message.delivery_count)
        if self._is_expired(message):
            self._expire(message)
        elif message.state is MessageState.ACTIVE:
            self._offer(message)
            self.pump()

    # Dead letters

    def _is_expired(self, message: Message) -> bool:
        return message.expires_at_ms is not None and message.expires_at_ms <= self._env.clock.now_ms()

    def _expire(self, message: Message) -> None:
        if message.lock_token is not None or message.removed:
            return  # checked again when the lock ends
        if self.description.dead_lettering_on_expiration:
            self._move_to_dead_letters(message, {REASON: TTL_EXPIRED[0], DESCRIPTION: TTL_EXPIRED[1]})
        else:
            self._remove(message)

    def _move_to_dead_letters(self, message: Message, properties: Mapping[str, Any]) -> None:
        """Moves a message to the dead-letter queue; in that queue itself, changes its properties only."""
        known = {name: value for name, value in properties.items() if value is not None}
        if self.dead_letters is None:
            self._change(message, known)
            self._return_to_queue(message)
            return
        self._remove(message)
        self.dead_letters.accept_dead_letter(message, known)

    def accept_dead_letter(self, message: Message, properties: Mapping[str, Any]) -> None:
        """Adds a dead letter under its old number to this dead-letter queue, or forwards it."""
        content = message.content.with_changes(properties) if properties else message.content
        target = self.description.forward_dead_letters_to
        if target is not None and message.forwarded < MAX_HOPS:
            source = self.path.rpartition("/")[0]
            with contextlib.suppress(BusError):
                self._env.forward(target, content, Origin(hops=message.forwarded + 1, dead_letter_source=source))
                return
        dead = Message(
            content,
            message.sequence_number,
            message.enqueued_at_ms,
            message.enqueued_sequence_number,
            delivery_count=message.delivery_count,
            dead_letter_source=message.dead_letter_source,
            forwarded=message.forwarded,
        )
        self._env.store.put(self.path, dead)
        self._admit(dead)
        self.pump()

    # Peek and deferred messages

    def peek(self, from_sequence_number: int, count: int, session_id: str | None = None) -> list[Message]:
        """Returns messages in any state by sequence number, without locking them. If `session_id` is given, returns
        messages of that session only.
        """
        everything = {**self._messages, **self.schedule.messages} if self.schedule.messages else self._messages
        return first_of(everything, from_sequence_number, count, session_id)

    def receive_deferred(self, sequence_numbers: list[int], *, delete: bool) -> list[Message]:
        """Receives deferred messages, all or none. Locks the messages, or removes them if `delete`."""
        messages = []
        for number in sequence_numbers:
            message = self._messages.get(number)
            if message is None or message.state is not MessageState.DEFERRED or message.lock_token is not None:
                raise MessageNotFound(f"No deferred message has the sequence number {number}.")
            messages.append(message)
        for message in messages:
            if delete:
                self._remove(message)
            else:
                self._lock(message)
        return messages

    def counts(self) -> dict[str, int]:
        """Returns counts by state. `active` includes locked messages. `enqueued` is the last sequence number."""
        deferred = sum(message.state is MessageState.DEFERRED for message in self._messages.values())
        return {
            "active": len(self._messages) - deferred,
            "locked": len(self._locked),
            "deferred": deferred,
            "scheduled": len(self.schedule.messages),
            "dead_letter": 0 if self.dead_letters is None else len(self.dead_letters._messages),
            "enqueued": self.counter.last,
        }
