"""Session windows smaller than the credit: a delayed message is not locked, not counted, and available to others.

Rules: AMQP 1.0 part 2, 2.5.6 (session flow control) and 2.6.7 (link flow control).
"""

from __future__ import annotations

from typing import Any

import pytest

from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.message import DATA, PROPERTIES, AmqpMessage
from servicebus_emulator.amqp.performatives import Accepted, Attach, Begin, Disposition, Flow, Source, Target, Transfer
from servicebus_emulator.amqp.values import Symbol
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from tests.servicebus_emulator.amqp.peer import Peer
from tests.servicebus_emulator.fakes import StillClock

CREDIT = 30


class Reader(Peer):
    """A client that opens its session window on request, and counts its messages."""

    def __init__(self, broker: Broker, window: int, max_frame_bytes: int | None = None) -> None:
        super().__init__(broker)
        self.room = window
        self.transfers = self.messages = 0
        self.shake_hands(max_frame_bytes)
        self.exchange(Begin(None, 0, window, 100))

    def received(self) -> list[Any]:
        bodies = super().received()
        for body in bodies:
            if isinstance(body, Transfer):
                self.room -= 1
                self.transfers += 1
                self.messages += not body.more
        assert self.room >= 0, "more transfers than the window takes"
        return bodies

    def attach(self, handle: int = 1, queue: str = "q", *, settled: bool = False, session: bool = False) -> None:
        filters = {Symbol("com.microsoft:session-filter"): None} if session else None
        modes = (1, 0) if settled else (0, 1)
        self.exchange(Attach(f"r{handle}", handle, True, *modes, Source(queue, filter=filters), Target("x")))

    def flow(
        self, window: int, handle: int | None = None, credit: int | None = None, *, count: int = 0, drain: bool = False
    ) -> list[Any]:
        """Opens the window to `window` transfers; with a handle, grants credit from the delivery count `count` on."""
        self.room = window
        if handle is None:
            return self.exchange(Flow(self.transfers, window, 0, 100))
        return self.exchange(Flow(self.transfers, window, 0, 100, handle, count, credit, None, drain))


@pytest.fixture
def broker() -> Broker:
    broker = Broker(StillClock())
    for name in ("q", "other"):
        broker.add_queue(QueueDescription(name))
    broker.add_queue(QueueDescription("sessions", requires_session=True))
    return broker


def fill(broker: Broker, count: int, queue: str = "q", size: int = 10, session_id: str | None = None) -> None:
    properties = encode_described(PROPERTIES, [None] * 10 + [session_id])
    content = AmqpMessage.parse(properties + encode_described(DATA, bytes(size)))
    for _ in range(count):
        broker.destination(queue).send(content)


def locked(broker: Broker, queue: str = "q") -> int:
    return broker.queue(queue).counts()["locked"]


@pytest.mark.parametrize("window", [1, 4])
def test_credit_beyond_the_window_locks_nothing(broker: Broker, window: int) -> None:
    """Only the messages within the window are locked; each new window locks more, until the credit is used."""
    fill(broker, CREDIT + 5)
    reader = Reader(broker, window)
    reader.attach()
    reader.flow(window, 1, CREDIT)
    for taken in range(window, CREDIT + window, window):
        assert (reader.messages, locked(broker)) == (min(taken, CREDIT), min(taken, CREDIT))
        reader.flow(window)
    assert reader.messages == CREDIT


@pytest.mark.parametrize("window", [1, 4])
def test_nothing_comes_after_a_drain_without_new_credit(broker: Broker, window: int) -> None:
    """A drain gives back the credit that the window did not take, at once; the messages stay in the queue.

    Azure's own AMQP library answers a drain at once too (Azure/azure-amqp, `AmqpLink.cs`, `ProcessFlow`).
    """
    fill(broker, CREDIT)
    reader = Reader(broker, window)
    reader.attach()
    reader.flow(window, 1, CREDIT)
    [answer] = reader.flow(0, 1, CREDIT, drain=True)
    assert (answer.delivery_count, answer.link_credit, answer.drain) == (CREDIT, 0, True)
    assert reader.flow(100) == []
    assert (reader.messages, locked(broker)) == (window, window)
    reader.flow(100, 1, CREDIT, count=CREDIT)
    assert (reader.messages, locked(broker)) == (CREDIT, CREDIT)


def test_another_client_gets_what_is_held_back(broker: Broker) -> None:
    """Another client gets the messages beyond one client's window, though the first one has credit for them."""
    fill(broker, CREDIT)
    held, other = Reader(broker, 4), Reader(broker, 100)
    for reader in (held, other):
        reader.attach()
        reader.flow(reader.room, 1, CREDIT)
    assert (held.messages, other.messages) == (4, CREDIT - 4)


def test_a_drain_through_a_window_of_zero_is_answered(broker: Broker) -> None:
    """A flow needs no window; without credit the delivery count stays."""
    reader = Reader(broker, 0)
    reader.attach()
    [answer] = reader.flow(0, 1, 7, drain=True)
    assert (answer.delivery_count, answer.link_credit, answer.drain) == (7, 0, True)
    fill(broker, 1)
    [answer] = reader.flow(0, 1, 0, count=7, drain=True)
    assert (answer.delivery_count, answer.link_credit, locked(broker)) == (7, 0, 0)


def test_a_slow_readers_drain_can_be_taken_back(broker: Broker) -> None:
    """A later flow without drain leaves the credit in force."""
    fill(broker, 3)
    reader = Reader(broker, 100)
    reader.attach()
    reader.gateway.pause()
    assert reader.flow(100, 1, 5, drain=True) == []
    assert reader.flow(100, 1, 5, drain=False) == []
    reader.gateway.resume()
    assert {type(body) for body in reader.received()} == {Transfer}
    fill(broker, 1)
    assert [type(body) for body in reader.received()] == [Transfer]


def test_a_message_of_more_frames_than_the_window_is_sent_in_parts(broker: Broker) -> None:
    """No second message begins before the first one's last frame, which the answer to a drain follows."""
    fill(broker, 3, size=900)  # three frames each
    reader = Reader(broker, 2, max_frame_bytes=512)
    reader.attach()
    reader.flow(2, 1, 3)
    assert (reader.transfers, reader.messages, locked(broker)) == (2, 0, 1)
    assert [type(body) for body in reader.flow(2)] == [Transfer, Transfer]
    assert (reader.messages, locked(broker)) == (1, 2)
    assert reader.flow(0, 1, 3, drain=True) == []
    assert [type(body) for body in reader.flow(1)] == [Transfer]
    bodies = reader.flow(9)
    assert [type(body) for body in bodies] == [Transfer] * 4 + [Flow]
    assert (bodies[-1].delivery_count, reader.messages, locked(broker)) == (3, 3, 3)


def test_receive_and_delete_removes_only_what_is_sent(broker: Broker) -> None:
    """A message that the window does not take stays in the queue when the client leaves."""
    fill(broker, 10)
    reader = Reader(broker, 4)
    reader.attach(settled=True)
    reader.flow(4, 1, 10)
    reader.connection.lost()
    reader.gateway.handle_events()
    assert (reader.messages, broker.queue("q").counts()["active"]) == (4, 6)


def test_links_share_a_window_fairly(broker: Broker) -> None:
    """With room for one transfer at a time, two links with messages are served in turn."""
    fill(broker, 10)
    fill(broker, 10, "other")
    reader = Reader(broker, 0)
    for handle, queue in ((1, "q"), (2, "other")):
        reader.attach(handle, queue)
        reader.flow(0, handle, 10)
    served = [transfer.handle for _ in range(8) for transfer in reader.flow(1, 1, 10)]
    assert sorted(served) == [1] * 4 + [2] * 4


def test_a_slow_readers_drain_waits_for_its_messages(broker: Broker) -> None:
    """While the client reads nothing, its drain is not answered; then messages and answer come in this order."""
    fill(broker, 3)
    reader = Reader(broker, 100)
    reader.attach()
    reader.gateway.pause()
    assert reader.flow(100, 1, 5, drain=True) == []
    assert locked(broker) == 0
    reader.gateway.resume()
    assert [type(body) for body in reader.received()] == [Transfer] * 3 + [Flow]


def test_replies_wait_for_the_window(broker: Broker) -> None:
    """Replies of `$cbs` beyond the window use no credit until they are sent."""
    reader = Reader(broker, 0)
    reader.attach(1, "$cbs")
    reader.flow(0, 1, 5)
    reader.exchange(Attach("s", 2, False, 2, 0, Source("x"), Target("$cbs"), initial_delivery_count=0))
    request = encode_described(PROPERTIES, ["id"])
    for number in range(3):
        [disposition] = reader.exchange(Transfer(2, number, bytes([number]), 0), payload=request)
        assert disposition.state == Accepted()
    assert [type(body) for body in reader.flow(2)] == [Transfer] * 2
    [answer] = reader.flow(0, 1, 5, drain=True)
    assert answer.delivery_count == 5
    assert reader.flow(9) == []
    reader.flow(9, 1, 1, count=5)
    assert reader.messages == 3


def test_a_session_receivers_window(broker: Broker) -> None:
    """The messages of a session follow the same rules."""
    fill(broker, 6, "sessions", session_id="a")
    reader = Reader(broker, 4)
    reader.attach(1, "sessions", session=True)
    reader.flow(4, 1, 10)
    assert (reader.messages, locked(broker, "sessions")) == (4, 4)
    reader.flow(4)
    assert (reader.messages, locked(broker, "sessions")) == (6, 6)


def test_credit_that_precedes_the_session_is_used(broker: Broker) -> None:
    """A receiver that grants credit, or drains it, while it waits for any session is served once it has one."""
    for drain, sent in ((False, [Attach, Transfer]), (True, [Attach, Transfer, Flow])):
        reader = Reader(broker, 100)
        reader.attach(1, "sessions", session=True)
        assert reader.flow(100, 1, 10, drain=drain) == []
        fill(broker, 1, "sessions", session_id=f"drain {drain}")
        assert [type(body) for body in reader.received()] == sent


def test_everything_comes_once_through_a_window_of_four(broker: Broker) -> None:
    """Two clients with much credit and small windows settle 10,000 messages: none stranded, lost or doubled."""
    count = 10_000
    fill(broker, count)
    readers = [Reader(broker, 4), Reader(broker, 4)]
    settled = [0, 0]
    for reader in readers:
        reader.attach()
        reader.flow(4, 1, count)
    while any(settled[index] < reader.messages for index, reader in enumerate(readers)):
        for index, reader in enumerate(readers):
            if settled[index] < reader.messages:
                first, settled[index] = settled[index], reader.messages
                reader.exchange(Disposition(True, first, reader.messages - 1, True, Accepted()))
            reader.flow(4)
    assert [reader.messages for reader in readers] == [count // 2, count // 2]
    counts = broker.queue("q").counts()
    assert (counts["active"], counts["locked"], counts["dead_letter"]) == (0, 0, 0)
