"""A client that exchanges frames with a gateway, without sockets."""

from __future__ import annotations

from typing import Any

from servicebus_emulator.amqp.connection import MAX_FRAME_BYTES, Connection
from servicebus_emulator.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameBuffer, encode_frame
from servicebus_emulator.amqp.performatives import (
    Attach,
    Begin,
    Body,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
    decode_body,
)
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.cbs import CbsTokens
from servicebus_emulator.gateway import Gateway

MESSAGE = b"\x00\x53\x75\xa0\x02hi"


class Peer:
    """A client that exchanges frames."""

    def __init__(self, broker: Broker, max_message_bytes: int = 1000, tokens: CbsTokens | None = None) -> None:
        tokens = tokens or CbsTokens(None, broker.clock)
        self.connection = Connection("test", tokens.authenticate)
        self.gateway = Gateway(broker, self.connection, tokens, max_message_bytes)
        self._buffer = FrameBuffer(MAX_FRAME_BYTES)

    def feed(self, data: bytes) -> None:
        self.connection.receive_data(data)
        self.gateway.handle_events()

    def exchange(self, *bodies: Body, channel: int = 0, payload: bytes = b"") -> list[Any]:
        """Sends frames, all with the same payload; returns the bodies of the received frames."""
        self.feed(b"".join(encode_frame(body, channel, payload) for body in bodies))
        return self.received()

    def received(self) -> list[Any]:
        self._buffer.feed(self.connection.take_output())
        bodies = []
        while (frame := self._buffer.next_frame()) is not None:
            body, _ = decode_body(frame.body)
            bodies.append(body)
        return bodies

    def shake_hands(self, max_frame_bytes: int | None = None) -> list[Any]:
        self.feed(SASL_HEADER + encode_frame(SaslInit("ANONYMOUS"), kind=SASL_FRAME) + AMQP_HEADER)
        self.connection.take_output()
        return self.exchange(Open("peer", max_frame_size=max_frame_bytes))

    def open(self) -> Peer:
        self.shake_hands()
        self.exchange(Begin(None, 0, 100, 100))
        return self

    def attach_sender(self, handle: int = 0, queue: str = "q") -> list[Any]:
        return self.exchange(
            Attach(f"s{handle}", handle, False, 2, 0, Source("x"), Target(queue), initial_delivery_count=0)
        )

    def attach_receiver(self, handle: int = 1, queue: str = "q", credit: int = 10) -> list[Any]:
        attach = Attach(f"r{handle}", handle, True, 0, 1, Source(queue), Target("x"))
        return self.exchange(attach, Flow(0, 100, 0, 100, handle, 0, credit))

    def send(self, number: int, payload: bytes = MESSAGE, handle: int = 0, **fields: Any) -> list[Any]:
        return self.exchange(Transfer(handle, number, bytes([number]), 0, **fields), payload=payload)
