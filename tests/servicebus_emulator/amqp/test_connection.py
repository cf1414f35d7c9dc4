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


def test_a_deleted_entity_detaches_its_links_as_not_found(broker: Broker) -> None:
    """`translate` in errors.ts of `@azure/core-amqp` reads MessagingEntityNotFound from this text."""
    peer = Peer(broker).open()
    peer.attach_sender()
    peer.attach_receiver()
    broker.remove("q")
    peer.gateway.drop_removed()
    for detached in peer.received():
        error = detached.error
        assert (error.condition, error.description) == (
            "amqp:not-found",
            "The messaging entity 'q' could not be found.",
        )


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


@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (Transfer(9, 0, b"t"), "amqp:session:unattached-handle"),
        (Transfer(9, 0, b"t", settled=True), "amqp:session:unattached-handle"),
        (Flow(0, 100, 0, 100, 9, 0, 1), "amqp:session:unattached-handle"),
        (Attach("again", 0, True, source=Source("q"), target=Target("x")), "amqp:session:handle-in-use"),
    ],
)
def test_a_bad_handle_ends_the_session_only(broker: Broker, frame: Body, condition: str) -> None:
    """The connection stays open, and a new session can begin; other clients are not affected."""
    peer, other = Peer(broker).open(), Peer(broker).open()
    other.attach_sender()
    peer.attach_sender()
    [end] = peer.exchange(frame, payload=MESSAGE if isinstance(frame, Transfer) else b"")
    assert isinstance(end, End)
    assert end.error.condition == condition
    [begun] = peer.exchange(Begin(None, 0, 100, 100), channel=1)
    assert isinstance(begun, Begin)
    assert other.send(0)[0].state == Accepted()


def test_a_delivery_that_begins_within_another_closes_the_connection(broker: Broker) -> None:
    """A continuation has the delivery id of the first frame, or none (AMQP 1.0 part 2, 2.7.5)."""
    peer, other = Peer(broker).open(), Peer(broker).open()
    other.attach_sender()
    peer.attach_sender()
    assert peer.send(0, more=True) == []
    [close] = peer.send(1, settled=True)
    assert (type(close), close.error.condition) == (Close, "amqp:not-allowed")
    assert other.send(0)[0].state == Accepted()


@pytest.mark.parametrize("frame_bytes", [0, 1, 511])
def test_frames_that_are_too_small_are_refused(broker: Broker, frame_bytes: int) -> None:
    """A maximum under 512 bytes closes the connection with the reason; other clients notice nothing."""
    peer, other = Peer(broker), Peer(broker).open()
    other.attach_sender()
    opened, close = peer.shake_hands(frame_bytes)
    assert (type(opened), close.error.condition) == (Open, "amqp:invalid-field")
    assert peer.connection.state is State.CLOSED
    assert other.send(0)[0].state == Accepted()


def test_an_outcome_for_unknown_deliveries_is_ignored(broker: Broker) -> None:
    """Those in its range that are known are settled; the rest is no error, since it may be settled already."""
    peer = Peer(broker).open()
    peer.attach_sender()
    peer.send(0)
    peer.attach_receiver()
    assert peer.exchange(Disposition(True, 7, 9, True, Accepted()), Disposition(True, 5, 3, True, Accepted())) == []
    [settled] = peer.exchange(Disposition(True, 0, 0xFFFFFFFF, False, Accepted()))
    assert (settled.first, settled.settled) == (0, True)
    assert broker.queue("q").counts()["active"] == 0


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


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01"])
def test_other_protocols_are_refused(broker: Broker, data: bytes) -> None:
    """A connection that does not begin with a header of AMQP 1.0 is closed at once."""
    peer = Peer(broker)
    peer.feed(data)
    assert peer.connection.state is State.CLOSED


@pytest.mark.parametrize("key", [None, SasKey("Owner", "key")])
def test_a_client_may_leave_sasl_out(broker: Broker, key: SasKey | None) -> None:
    """Its rights come from tokens on `$cbs`, as with SASL ANONYMOUS; without a key it needs none."""
    peer = Peer(broker, tokens=CbsTokens(key, broker.clock))
    peer.feed(AMQP_HEADER + encode_frame(Open("peer")) + encode_frame(Begin(None, 0, 100, 100)))
    assert peer.connection.state is State.OPEN
    output = peer.connection.take_output()
    assert output.startswith(AMQP_HEADER)
    assert SASL_HEADER not in output
    refused = [body.error.condition for body in peer.attach_sender() if isinstance(body, Detach)]
    assert refused == ([] if key is None else ["amqp:unauthorized-access"])


@pytest.mark.parametrize("asked", [None, "move", "copy"])
def test_an_attach_is_answered_with_what_is_in_force(broker: Broker, asked: str | None) -> None:
    """A selector is not in force and not in the answer; the mode is "move" for each requested one."""
    peer = Peer(broker).open()
    filters = {Symbol("apache.org:selector-filter:string"): Described(Ulong(0x0000468C00000004), "a = 1")}
    source = Source("q", distribution_mode=asked, filter=filters)
    [attached] = peer.exchange(Attach("r", 1, True, 0, 1, source, Target("x")))
    assert (attached.source.address, attached.source.filter) == ("q", None)
    assert attached.source.distribution_mode == (None if asked is None else "move")


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
