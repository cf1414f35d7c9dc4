"""The server with peers that are slow or silent, and its timeouts."""

from __future__ import annotations

import asyncio

import pytest

from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.frames import AMQP_HEADER, EMPTY_FRAME, SASL_FRAME, SASL_HEADER, encode_frame
from servicebus_emulator.amqp.message import DATA, AmqpMessage
from servicebus_emulator.amqp.performatives import Attach, Begin, Flow, Open, SaslInit, Source, Target
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.clock import SystemClock
from servicebus_emulator.server import BusServer, Liveness, Options, Timeouts

COUNT, BODY_BYTES = 300, 200_000
WAIT_S = 60


async def test_a_receiver_that_does_not_read_gets_no_more_until_it_does() -> None:
    """With any credit it gets a few megabytes; the other messages stay available to other receivers."""
    broker = Broker(SystemClock())
    queue = broker.add_queue(QueueDescription("q"))
    message = AmqpMessage.parse(encode_described(DATA, bytes(BODY_BYTES)))
    for _ in range(COUNT):
        broker.destination("q").send(message)
    server = BusServer(broker)
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    try:
        writer.write(SASL_HEADER + encode_frame(SaslInit("ANONYMOUS"), kind=SASL_FRAME) + AMQP_HEADER)
        attach = Attach("r", 0, True, 0, 1, Source("q"), Target("x"))
        for body in (
            Open("peer"),
            Begin(None, 0, 1_000_000, 1000),
            attach,
            Flow(0, 1_000_000, 0, 100, 0, 0, 1_000_000),
        ):
            writer.write(encode_frame(body))
        async with asyncio.timeout(WAIT_S):
            while queue.counts()["locked"] == 0:  # noqa: ASYNC110 - the broker has no event for tests
                await asyncio.sleep(0.01)
            # The buffers of kernel and server fill up; then the number stays the same.
            before = -1
            while (locked := queue.counts()["locked"]) != before:
                before = locked
                await asyncio.sleep(0.2)
            assert 0 < locked < COUNT / 2
            while queue.counts()["locked"] < COUNT:
                assert await reader.read(1_000_000)
    finally:
        writer.close()
        await server.close()


async def test_heartbeats_come_as_often_as_the_peer_expects() -> None:
    """The server sends an empty frame within half of the peer's idle time-out."""
    server = BusServer(Broker(SystemClock()))
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(SASL_HEADER + encode_frame(SaslInit("ANONYMOUS"), kind=SASL_FRAME) + AMQP_HEADER)
        writer.write(encode_frame(Open("peer", idle_time_out=200)))
        received = b""
        async with asyncio.timeout(WAIT_S):
            while received.count(EMPTY_FRAME) < 3:
                received += await reader.read(1000)
    finally:
        writer.close()
        await server.close()


async def test_half_open_connections_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """A peer that sends no open frame and one that stops sending are disconnected, and get no more messages."""
    broker = Broker(SystemClock())
    queue = broker.add_queue(QueueDescription("q"))
    # the silent one has all the time it needs to open
    impatient = BusServer(broker, Options(timeouts=Timeouts(handshake_timeout_s=0.3)))
    server = BusServer(broker, Options(timeouts=Timeouts(idle_timeout_s=0.6)))
    mute, mute_writer = await asyncio.open_connection("127.0.0.1", await impatient.listen("127.0.0.1", 0))
    silent, writer = await asyncio.open_connection("127.0.0.1", await server.listen("127.0.0.1", 0))
    try:
        writer.write(SASL_HEADER + encode_frame(SaslInit("ANONYMOUS"), kind=SASL_FRAME) + AMQP_HEADER)
        attach = Attach("r", 0, True, 0, 1, Source("q"), Target("x"))
        for body in (Open("peer"), Begin(None, 0, 1000, 1000), attach, Flow(0, 1000, 0, 100, 0, 0, 100)):
            writer.write(encode_frame(body))
        async with asyncio.timeout(WAIT_S):
            await mute.read(-1)
            await silent.read(-1)
            while impatient.clients or server.clients:  # noqa: ASYNC110 - the server has no event for tests
                await asyncio.sleep(0.01)
        broker.destination("q").send(AmqpMessage.parse(encode_described(DATA, b"x")))
        assert queue.counts()["locked"] == 0
        aborted = [record.message.partition("reason=")[2] for record in caplog.records if " aborted " in record.message]
        assert sorted(aborted) == ["not open after 0.3 s", "silent for 0.6 s"]
    finally:
        mute_writer.close()
        writer.close()
        await impatient.close()
        await server.close()


def test_a_connection_that_never_opens_is_given_up_after_a_minute() -> None:
    """Received bytes do not prolong the handshake."""
    liveness = Liveness(Timeouts(), 1000.0)
    for second in range(1000, 1060):
        liveness.record_received(float(second))
        assert liveness.timeout_reason(float(second)) is None
    assert liveness.timeout_reason(1060.0) == "not open after 60 s"


def test_an_open_connection_may_be_silent_for_four_minutes() -> None:
    """The limit is twice the advertised time-out, counted from the last byte."""
    liveness = Liveness(Timeouts(), 0.0)
    liveness.is_open = True
    liveness.record_received(100.0)
    assert liveness.timeout_reason(339.9) is None
    assert liveness.timeout_reason(340.0) == "silent for 240 s"
    liveness.record_received(340.0)
    assert liveness.timeout_reason(579.0) is None


def test_the_next_check_is_in_time_for_what_is_due_first() -> None:
    """It is due at the next heartbeat, the end of the handshake or of the idle time-out, at latest after 30 seconds."""
    liveness = Liveness(Timeouts(), 0.0)
    assert liveness.next_check_s(0.0, 0) == 30
    assert liveness.next_check_s(45.0, 0) == 15
    liveness.is_open = True
    assert liveness.next_check_s(45.0, 0) == 30
    assert liveness.next_check_s(45.0, 20_000) == 20
    assert liveness.next_check_s(235.0, 20_000) == 5
    assert liveness.next_check_s(241.0, 0) == 0
