"""Measures the CPU time of protocol, broker and store, without sockets and event loop.

The benchmark feeds the bytes that an SDK sends: a message, the credit for one, its completion, and a commit after each.
Times are CPU time of this process. The minimum of 6 rounds counts, so that load of the machine has little influence.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from servicebus_emulator.amqp.connection import Connection
from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, encode_frame
from servicebus_emulator.amqp.message import APPLICATION_PROPERTIES, DATA
from servicebus_emulator.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
)
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.sqlite_store import SqliteStore
from servicebus_emulator.broker.store import Memory
from servicebus_emulator.cbs import CbsTokens
from servicebus_emulator.clock import SystemClock
from servicebus_emulator.gateway import Gateway

STEPS = ("send", "receive", "complete")
QUEUES, ROUNDS = 16, 6
_WINDOW = 1_000_000
_PAYLOAD = encode_described(APPLICATION_PROPERTIES, {"a": "b"}) + encode_described(DATA, b"x" * 200)
_HANDSHAKE = (
    SASL_HEADER
    + encode_frame(SaslInit("ANONYMOUS"), kind=SASL_FRAME)
    + AMQP_HEADER
    + encode_frame(Open("peer"))
    + encode_frame(Begin(None, 0, _WINDOW, _WINDOW))
)


class Peer:
    """A client whose bytes are fed to a gateway."""

    def __init__(self, broker: Broker, attach: Attach) -> None:
        tokens = CbsTokens(None, broker.clock)
        self._connection = Connection("benchmark", tokens.authenticate)
        self._gateway = Gateway(broker, self._connection, tokens)
        self.feed(_HANDSHAKE + encode_frame(attach))

    def feed(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._gateway.handle_events()
        self._connection.take_output()


def _round(count: int, folder: Path | None) -> dict[str, float]:
    """Returns microseconds per message of each step, and of the commit after it."""
    clock = SystemClock()
    store = Memory() if folder is None else SqliteStore(folder / "bus.sqlite3", clock.now_ms)
    broker = Broker(clock, store)
    peers = []
    for number in range(QUEUES):
        name = f"q{number}"
        broker.add_queue(QueueDescription(name))
        sender = Attach("s", 0, False, 0, 0, Source("x"), Target(name), initial_delivery_count=0)
        peers.append((Peer(broker, sender), Peer(broker, Attach("r", 0, True, 0, 1, Source(name), Target("x")))))
    used = dict.fromkeys([*STEPS, *(f"{step} stored" for step in STEPS)], 0.0)

    def timed(name: str, work: Callable[[], None]) -> None:
        began = time.process_time()
        work()
        used[name] += time.process_time() - began

    def commit() -> None:
        if store.is_dirty:
            store.commit()

    for index in range(count):
        sender, receiver = peers[index % QUEUES]
        number = index // QUEUES
        message = encode_frame(Transfer(0, number, number.to_bytes(4, "big"), 0, False), payload=_PAYLOAD)
        credit = encode_frame(Flow(0, _WINDOW, 0, _WINDOW, 0, number, 1))
        done = encode_frame(Disposition(True, number, number, False, Accepted()))
        for step, peer, data in zip(STEPS, (sender, receiver, receiver), (message, credit, done), strict=True):
            timed(step, lambda peer=peer, data=data: peer.feed(data))
            timed(f"{step} stored", commit)
    store.close()
    return {name: seconds / count * 1e6 for name, seconds in used.items()}


def measure(count: int) -> None:
    """Prints a row for each kind of store."""
    for label, durable in (("memory", False), ("--data", True)):
        rounds = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(_round(count, Path(folder) if durable else None))
        least = {name: min(result[name] for result in rounds) for name in rounds[0]}
        parts = ", ".join(f"{step} {least[step]:.0f} + {least[f'{step} stored']:.0f}" for step in STEPS)
        print(
            f"{f'{label}: without sockets, us (work + commit)':<52} {parts}; {sum(least.values()):.0f} in all",
            flush=True,
        )
