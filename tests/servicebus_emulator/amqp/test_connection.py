"""The state machine of a connection with its gateway and broker, without sockets: valid, invalid and random frames."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servicebus_emulator.amqp.connection import MAX_FRAME_BYTES, State
from servicebus_emulator.amqp.encoder import encode
from servicebus_emulator.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from servicebus_emulator.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Body,
    Close,
    Coordinator,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from servicebus_emulator.amqp.values import Described, Symbol, Ulong
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.cbs import CbsTokens
from servicebus_emulator.sas import SasKey
from tests.servicebus_emulator.amqp.peer import MESSAGE, Peer
from tests.servicebus_emulator.fakes import StillClock


@pytest.fixture
def broker() -> Broker:
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    return broker


def test_send_receive_settle(broker: Broker) -> None:
    """A message is accepted, delivered with a tag, and settled with an echo."""
    peer = Peer(broker).open()
    attached, flow = peer.attach_sender()
    assert (attached.role, attached.max_message_size, flow.link_credit) == (True, 1000, 1000)
    [accepted] = peer.send(0)
    assert (accepted.role, accepted.settled, accepted.state) == (True, True, Accepted())
    attached, transfer = peer.attach_receiver()
    assert (attached.initial_delivery_count, transfer.delivery_id, len(transfer.delivery_tag)) == (0, 0, 16)
    [echo] = peer.exchange(Disposition(True, 0, 0, False, Accepted()))
    assert (echo.role, echo.settled, echo.state) == (False, True, Accepted())
    assert broker.queue("q").counts()["active"] == 0


def test_an_outcome_that_came_too_late_is_rejected_with_the_reason(broker: Broker) -> None:
    """A message whose lock expired cannot be settled."""
    peer = Peer(broker).open()
    peer.attach_sender()
    peer.send(0)
    peer.attach_receiver(credit=1)
    clock = broker.clock
    assert isinstance(clock, StillClock)
    clock.advance(60_000)
    broker.timers.run_due(clock.now_ms())
    [echo] = peer.exchange(Disposition(True, 0, 0, False, Modified(True, False)))
    assert isinstance(echo.state, Rejected)
    assert echo.state.error.condition == "com.microsoft:message-lock-lost"


def test_messages_of_many_frames_both_ways_and_the_limit(broker: Broker) -> None:
    """Frames are joined; a message above the limit is rejected after its last frame."""
    peer = Peer(broker).open()
    peer.attach_sender()
    for number, size in ((0, 900), (1, 1100)):
        body = encode(Described(Ulong(0x75), bytes(size)))
        parts = [body[start : start + 300] for start in range(0, len(body), 300)]
        answers: list[Any] = []
        for index, part in enumerate(parts):
            more = index < len(parts) - 1
            first = {"delivery_id": number, "delivery_tag": b"t"} if index == 0 else {}
            answers += peer.exchange(Transfer(0, more=more, **first), payload=part)
        [disposition] = answers
        expected = "amqp:link:message-size-exceeded"
        assert disposition.state == Accepted() if size == 900 else disposition.state.error.condition == expected
    aborted = Transfer(0, 2, b"t", more=True)
    assert peer.exchange(aborted, payload=MESSAGE) == []
    assert peer.exchange(Transfer(0, aborted=True)) == []
    assert broker.queue("q").counts()["active"] == 1


def test_the_session_window_holds_transfers_back(broker: Broker) -> None:
    """No more transfers than the peer's window; the rest follows its next flow."""
    peer = Peer(broker).open()
    peer.attach_sender()
    for number in range(5):
        peer.send(number)
    peer.exchange(Flow(0, 2, 0, 100))
    _, *transfers = peer.attach_receiver(credit=10)  # its flow opens the window to 100 again
    assert len(transfers) == 5
    peer.exchange(Flow(5, 0, 0, 100))
    peer.send(5)
    assert [type(body) for body in peer.exchange(Flow(5, 1, 0, 100))] == [Transfer]


def test_a_drain_is_answered(broker: Broker) -> None:
    """Unused credit is given back with the delivery count advanced."""
    peer = Peer(broker).open()
    _, *_ = peer.attach_receiver(credit=0)
    [flow] = peer.exchange(Flow(0, 100, 0, 100, 1, 0, 7, None, True))
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (7, 0, True)


def test_a_closed_links_deliveries_cannot_be_settled_through_it(broker: Broker) -> None:
    """Outcomes for a detached link are ignored; the lock stays."""
    peer = Peer(broker).open()
    peer.attach_sender()
    peer.send(0)
    peer.attach_receiver()
    [detached] = peer.exchange(Detach(1, True))
    assert detached.closed
    assert peer.exchange(Disposition(True, 0, 0, False, Accepted())) == []
    assert broker.queue("q").counts()["locked"] == 1


def test_refusals_name_the_reason(broker: Broker) -> None:
    """An unknown entity is refused with null termini and an error that detaches."""
    peer = Peer(broker).open()
    attached, detached = peer.attach_sender(queue="nowhere")
    assert (attached.source, attached.target, detached.error.condition) == (None, None, "amqp:not-found")


def test_transactions_are_refused_everywhere(broker: Broker) -> None:
    """A coordinator link, a message and an outcome in a transaction are refused, without effect."""
    peer = Peer(broker).open()
    coordinator = Attach("t", 3, False, target=Coordinator(), source=Source("x"), initial_delivery_count=0)
    attached, detached = peer.exchange(coordinator)
    assert attached.target is None
    peer.attach_sender()
    peer.send(0)
    peer.attach_receiver()
    transactional = TransactionalState(b"tx1")
    [sent] = peer.send(1, state=transactional)
    [settled] = peer.exchange(Disposition(True, 0, 0, False, transactional))
    assert {"amqp:not-implemented"} == {
        error.condition for error in (detached.error, sent.state.error, settled.state.error)
    }
    assert "Transactions are not supported" in sent.state.error.description
    counts = broker.queue("q").counts()
    assert (counts["active"], counts["locked"]) == (1, 1)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "framing-error"),
        (struct.pack(">IBBH", MAX_FRAME_BYTES + 1, 2, 0, 0), "framing-error"),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\xff\xff\xff\xff", "decode-error"),
        (encode_frame(Open("again")), "not-allowed"),
        (encode_frame(Begin(None, 0, 1, 1)), "not-allowed"),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x14\x45", "decode-error"),  # a transfer without a handle
    ],
)
def test_malformed_frames_close_the_connection_with_the_reason(broker: Broker, data: bytes, condition: str) -> None:
    """A frame that breaks the protocol closes the connection with an error."""
    peer = Peer(broker).open()
    peer.feed(data)
    close = peer.received()[-1]
    assert isinstance(close, Close)
    assert isinstance(close.error, Error)
    assert condition in close.error.condition
    assert peer.connection.state is State.CLOSED


def test_a_bad_handle_ends_the_session_only(broker: Broker) -> None:
    """The connection goes on, and a new session can begin."""
    peer = Peer(broker).open()
    [end] = peer.exchange(Transfer(9, 0, b"t"), payload=MESSAGE)
    assert isinstance(end, End)
    assert end.error.condition == "amqp:session:unattached-handle"
    [begun] = peer.exchange(Begin(None, 0, 100, 100), channel=1)
    assert isinstance(begun, Begin)


@pytest.mark.parametrize(
    ("mechanism", "response", "lets_in"),
    [
        ("ANONYMOUS", b"", True),
        ("EXTERNAL", b"", True),
        ("MSSBCBS", b"", True),
        ("PLAIN", b"\0Owner\0key", True),
        ("PLAIN", b"\0Owner\0wrong", False),
        ("PLAIN", b"nonsense", False),
        ("SCRAM-SHA-256", b"", False),
    ],
)
def test_sasl(broker: Broker, mechanism: str, response: bytes, lets_in: bool) -> None:
    """All mechanisms of Azure are accepted; PLAIN must carry the right key if one is set, and then needs no token."""
    tokens = CbsTokens(SasKey("Owner", "key"), broker.clock)
    peer = Peer(broker, tokens=tokens)
    peer.feed(SASL_HEADER + encode_frame(SaslInit(mechanism, response), kind=SASL_FRAME))
    assert peer.connection.take_output()[-2:] == (b"\x50\x00" if lets_in else b"\x50\x01")
    assert (peer.connection.state is State.AMQP_HEADER) == lets_in
    if lets_in:
        peer.feed(AMQP_HEADER)
        peer.connection.take_output()
        peer.exchange(Open("peer"), Begin(None, 0, 100, 100))
        answers = peer.attach_sender()
        refused = [body for body in answers if isinstance(body, Detach)]
        assert bool(refused) == (mechanism != "PLAIN")
        assert all(body.error.condition == "amqp:unauthorized-access" for body in refused)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01", AMQP_HEADER])
def test_other_protocols_are_refused(broker: Broker, data: bytes) -> None:
    """A connection that does not begin with SASL is closed at once."""
    peer = Peer(broker)
    peer.feed(data)
    assert peer.connection.state is State.CLOSED


FIELDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 300),
    st.sampled_from([0xFFFFFFFF, 0xFFFF]),
    st.binary(max_size=8),
    st.sampled_from(["q", "q/$management", "$cbs", "Q/$DeadLetterQueue", "nowhere"]),
)
TERMINI = st.one_of(
    st.none(),
    st.builds(Source, st.sampled_from(["q", "$cbs", "q/$management", None, 7, b"x"])),
    st.builds(Target, st.sampled_from(["q", "$cbs", "q/$management", None])),
    st.just(Coordinator()),
)
SMALL = st.integers(0, 3)
SETTLED = st.sampled_from([None, Accepted(), Modified(), Rejected()])
BODIES = st.one_of(
    st.builds(
        *(Attach, st.sampled_from(["a", "b"]), SMALL, st.booleans(), st.sampled_from([None, 0, 1, 2]), st.none()),
        *(TERMINI, TERMINI),
    ),
    st.builds(
        *(Flow, SMALL, SMALL, SMALL, SMALL, st.one_of(st.none(), SMALL), SMALL, st.integers(0, 5), st.none()),
        *(st.booleans(), st.booleans()),
    ),
    st.builds(
        *(Transfer, SMALL, st.one_of(st.none(), SMALL), st.binary(max_size=4), st.sampled_from([0, 0x80013700])),
        *(st.booleans(), st.booleans()),
        aborted=st.sampled_from([None, True]),
    ),
    st.builds(Disposition, st.booleans(), SMALL, st.one_of(SMALL, st.just(0xFFFFFFFF)), st.booleans(), SETTLED),
    st.builds(Detach, SMALL, st.booleans()),
    st.builds(End),
    st.builds(Begin, st.none(), SMALL, SMALL, SMALL),
)
PAYLOADS = st.one_of(st.just(MESSAGE), st.binary(max_size=60), FIELDS.map(lambda value: encode(Symbol("x")) + b"\x40"))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(BODIES, SMALL, PAYLOADS), max_size=25))
def test_any_order_of_frames_is_answered_or_refused(frames: list[tuple[Body, int, bytes]]) -> None:
    """For any mix of frames the gateway raises nothing, and another client is served."""
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    wild, tame = Peer(broker).open(), Peer(broker).open()
    for body, channel, payload in frames:
        wild.feed(encode_frame(body, channel, payload if isinstance(body, Transfer) else b""))
    wild.connection.lost()
    wild.gateway.handle_events()
    tame.attach_sender()
    [accepted] = tame.send(0)
    assert accepted.state == Accepted()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_survived(data: bytes, cut: int) -> None:
    """Random bytes after the handshake, in pieces of any size, end in a closed connection or wait for more."""
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    peer = Peer(broker).open()
    for start in range(0, len(data), cut):
        peer.feed(data[start : start + cut])
    peer.connection.take_output()
