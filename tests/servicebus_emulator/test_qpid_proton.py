"""Qpid Proton, an AMQP client in C that has its own session windows, against the bus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servicebus_emulator.process import Bus

pytestmark = pytest.mark.needs("proton")
#: Bytes: frames are as small as the protocol allows, so that the window is small too.
FRAME_BYTES = 512


@pytest.fixture
def connection(bus: Bus) -> Iterator[Any]:
    from proton.utils import BlockingConnection

    connection = BlockingConnection(
        f"amqp://127.0.0.1:{bus.port}", timeout=60, allowed_mechs="ANONYMOUS", max_frame_size=FRAME_BYTES
    )
    yield connection
    connection.close()


def test_a_drain_through_a_small_window(bus: Bus, connection: Any, queue: str) -> None:
    """With credit for 30 messages and a window of four frames: no message follows the drain, and none stays locked."""
    from proton import Endpoint, Message
    from proton.handlers import MessagingHandler

    def count(kind: str) -> int:
        return int(bus.get("/entities")[queue][kind])

    session = connection.conn.session()
    session.incoming_capacity = 4 * FRAME_BYTES
    session.open()
    sender = connection.create_sender(queue)
    for number in range(30):
        sender.send(Message(body=number))
    handler = MessagingHandler(prefetch=0, auto_accept=False)
    handler.handlers = []  # `read` reads on request
    receiver = connection.container.create_receiver(session, queue, handler=handler)
    connection.wait(lambda: receiver.state & Endpoint.REMOTE_ACTIVE)
    received: list[int] = []

    def read() -> bool:
        """Reads and settles the messages at the client; whether the drain is answered and all are read."""
        while (delivery := receiver.current) is not None and not delivery.partial:
            message = Message()
            message.decode(receiver.recv(delivery.pending))
            receiver.advance()
            delivery.update(delivery.ACCEPTED)
            delivery.settle()
            received.append(message.body)
        return receiver.credit == 0

    receiver.flow(30)
    connection.wait(lambda: receiver.queued >= 3)
    assert count("locked") <= 4
    receiver.drain(0)
    connection.wait(read)
    assert 3 <= len(received) < 30
    receiver.flow(30 - len(received))
    connection.wait(lambda: read() and len(received) == 30)
    assert sorted(received) == list(range(30))
    connection.wait(lambda: count("active") == 0)
