"""Compares a queue on its SQLite store with a small model, in any order of operations and crashes."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.message import APPLICATION_PROPERTIES, VALUE, AmqpMessage
from servicebus_emulator.broker import journal
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.message import Message
from servicebus_emulator.broker.sqlite_store import SqliteStore
from tests.servicebus_emulator.fakes import Receiver, StillClock, advance

LOCK_MS, MAX_DELIVERIES = 1000, 3
QUEUE = QueueDescription("q", lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERIES)


def content(number: int) -> AmqpMessage:
    return AmqpMessage.parse(
        encode_described(APPLICATION_PROPERTIES, {"number": number}) + encode_described(VALUE, number)
    )


def number_of(message: Message) -> int:
    number = message.content.application_properties()["number"]
    assert isinstance(number, int)
    return number


class QueueMachine(RuleBasedStateMachine):
    """The model maps the number of a message to its state and failed deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.short_journal = patch.object(journal, "FOLD_AT_BYTES", 300)
        self.short_journal.start()
        self.clock = StillClock()
        self.sent = self.lives = 0
        self.model: dict[int, tuple[str, int]] = {}
        self.held: dict[int, uuid.UUID] = {}
        self.sequence_numbers: dict[int, int] = {}
        self.start()

    def start(self) -> None:
        self.store = SqliteStore(Path(self.folder.name) / "bus.sqlite3", self.clock.now_ms)
        self.broker = Broker(self.clock, self.store)
        # Names ignore case: the store must find its rows by either spelling.
        self.lives += 1
        self.queue = self.broker.add_queue(replace(QUEUE, name="Q" if self.lives % 2 else "q"))
        self.broker.restore(AmqpMessage.parse)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()
        self.short_journal.stop()

    def fail(self, number: int) -> None:
        state, failures = self.model[number]
        self.held.pop(number, None)
        state = "deferred" if state == "deferred-locked" else "active"
        self.model[number] = ("dead", failures + 1) if failures + 1 == MAX_DELIVERIES else (state, failures + 1)

    @rule()
    def send(self) -> None:
        self.sent += 1
        self.broker.destination("q").send(content(self.sent))
        self.model[self.sent] = ("active", 0)

    @rule(credit=st.integers(1, 3))
    def receive(self, credit: int) -> None:
        ready = sorted(number for number, (state, _) in self.model.items() if state == "active")
        receiver = Receiver(credit)
        self.queue.request_messages(receiver)
        self.queue.remove_consumer(receiver)
        assert [number_of(message) for message in receiver.messages] == ready[:credit]
        for message in receiver.messages:
            number = number_of(message)
            assert message.delivery_count == self.model[number][1]
            assert message.lock_token is not None
            self.held[number] = message.lock_token
            self.model[number] = ("locked", message.delivery_count)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["complete", "abandon", "defer", "dead-letter", "release", "renew"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        token = self.held[number]
        _, failures = self.model[number]
        if how == "complete":
            self.queue.complete(token)
            del self.model[number], self.held[number]
        elif how == "abandon":
            self.queue.abandon(token)
            self.fail(number)
        elif how == "defer":
            self.queue.defer(token)
            self.model[number] = ("deferred-locked", failures)
            self.fail(number)
        elif how == "dead-letter":
            self.queue.dead_letter(token, "why", None)
            self.model[number] = ("dead", failures)
            del self.held[number]
        elif how == "release":
            self.queue.release(token)
            deferred = self.model[number][0] == "deferred-locked"
            self.model[number] = ("deferred" if deferred else "active", failures)
            del self.held[number]
        else:
            assert self.queue.renew(token) == self.clock.now_ms() + LOCK_MS

    @rule()
    def fetch_deferred(self) -> None:
        deferred = [m for m in self.queue.peek(0, 1000) if self.model[number_of(m)][0] == "deferred"]
        for message in self.queue.receive_deferred([m.sequence_number for m in deferred], delete=False):
            assert message.lock_token is not None
            self.held[number_of(message)] = message.lock_token
            self.model[number_of(message)] = ("deferred-locked", message.delivery_count)

    @rule()
    def locks_run_out(self) -> None:
        advance(self.broker, self.clock, LOCK_MS)
        for number in list(self.held):
            self.fail(number)

    @rule()
    def commit(self) -> None:
        self.store.commit()

    @rule()
    def crash(self) -> None:
        """Committed messages are there again, unlocked; a delivery that was under way counts."""
        self.store.commit()
        self.store.close()
        for number in list(self.held):
            self.fail(number)
        self.start()

    @invariant()
    def the_queue_agrees_with_the_model(self) -> None:
        alive = {number for number, (state, _) in self.model.items() if state != "dead"}
        dead = self.queue.dead_letters
        assert dead is not None
        assert {number_of(message) for message in self.queue.peek(0, 1000)} == alive
        assert {number_of(message) for message in dead.peek(0, 1000)} == set(self.model) - alive
        counts = self.queue.counts()
        assert counts["locked"] == len(self.held)
        assert counts["deferred"] == sum(state.startswith("deferred") for state, _ in self.model.values())
        for message in [*self.queue.peek(0, 1000), *dead.peek(0, 1000)]:
            known = self.sequence_numbers.setdefault(number_of(message), message.sequence_number)
            assert message.sequence_number == known
        ordered = sorted(self.sequence_numbers.items())
        assert [sequence for _, sequence in ordered] == sorted(self.sequence_numbers.values())


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
