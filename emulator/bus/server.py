"""The one file that owns sockets: TCP connections in asyncio, each a `Gateway` on a `Connection`.

What is written waits for the store: everything read in one turn of the loop is worked on, committed together, and only
then are the answers sent. So "accepted" always means stored, and a burst costs one commit.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

from emulator.bus.amqp.connection import IDLE_TIMEOUT_MS, Connection, State
from emulator.bus.broker.broker import Broker
from emulator.bus.gateway import MAX_MESSAGE_BYTES, Gateway

log = logging.getLogger(__name__)

CONTAINER_ID = "lucius-service-bus-emulator"
#: A peer is given up after twice the advertised time of silence: the Python SDK is late with its heartbeats.
_SILENCE_LIMIT_S = 2 * IDLE_TIMEOUT_MS / 1000
#: How long a new connection may take until it is open.
_HANDSHAKE_LIMIT_S = 60.0
#: The longest pause between two looks at a connection's silence.
_WATCH_EVERY_S = 30.0
#: Unsent bytes at which a slow receiver gets no more messages until it has read some.
_WRITE_LIMIT_BYTES = 4 * 1024 * 1024


class BusServer:
    """Listens, flushes in order (commit, then write) and wakes the broker's timers."""

    def __init__(self, broker: Broker, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.broker = broker
        self.max_message_bytes = max_message_bytes
        self.clients: set[Client] = set()
        self._writable: set[Client] = set()
        self._servers: list[asyncio.Server] = []
        self._flush_scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due_ms: int | None = None

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Starts to serve; the port, which is a free one if `port` is 0."""
        server = await asyncio.get_running_loop().create_server(lambda: Client(self), host, port, ssl=tls)
        self._servers.append(server)
        self.wake()
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Closes the listeners, tells every client and lets the last bytes go out."""
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.connection.close("amqp:connection:forced", "The broker is shutting down.")
            self.will_write(client)
        self._flush()
        deadline = asyncio.get_running_loop().time() + 1.0
        while self.clients and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - bounded and once
            await asyncio.sleep(0.01)
        for client in list(self.clients):
            client.abort()
        if self._alarm is not None:
            self._alarm.cancel()

    def will_write(self, client: Client) -> None:
        """The client has output: it goes with the next flush."""
        self._writable.add(client)
        self.wake()

    def wake(self) -> None:
        """Something may have changed: flush, and look at the timers, when this turn of the loop is over."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self.broker.store.is_dirty:
            self.broker.store.commit()
        writable, self._writable = self._writable, set()
        for client in writable:
            client.write()
        self._set_alarm()

    def _set_alarm(self) -> None:
        due_ms = self.broker.timers.next_due_ms()
        if due_ms == self._alarm_due_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_due_ms = due_ms
        if due_ms is not None:
            delay_s = max(0.0, (due_ms - self.broker.clock.now_ms()) / 1000)
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_due_ms = None
        self.run_timers()

    def run_timers(self) -> None:
        """Does what is due by the clock: locks, lives, schedules."""
        self.broker.timers.run_due(self.broker.clock.now_ms())
        self.wake()


class Client(asyncio.Protocol):
    """One TCP connection."""

    def __init__(self, server: BusServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._opened_at = self._heard_at = 0.0
        self.connection = Connection(CONTAINER_ID, lambda mechanism, response: True)
        self.connection.on_output = self._on_output
        self.gateway = Gateway(server.broker, self.connection, server.max_message_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_LIMIT_BYTES)
        self._server.clients.add(self)
        self._opened_at = self._heard_at = asyncio.get_running_loop().time()
        self._look()

    def data_received(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._guarded(lambda: self.connection.receive_data(data))
        self._server.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._server.clients.discard(self)
        self._guarded(self.connection.lost)

    def pause_writing(self) -> None:
        self.gateway.pause()

    def resume_writing(self) -> None:
        self._guarded(self.gateway.resume)
        self._server.wake()

    def _on_output(self) -> None:
        self._server.will_write(self)

    def _guarded(self, step: Callable[[], None]) -> None:
        """A fault of ours while serving this client ends this client's connection and nothing else."""
        try:
            step()
            self.gateway.handle_events()
        except Exception:
            log.exception("internal error; closing the connection")
            self.connection.close("amqp:internal-error", "The emulator failed; its log says how.")
            self.gateway.handle_events()

    def write(self) -> None:
        """Sends what waits; closes the transport when the connection is over."""
        if self._transport is None or self._transport.is_closing():
            return
        data = self.connection.take_output()
        if data:
            self._transport.write(data)
        if self.connection.state is State.CLOSED:
            self._transport.close()

    def abort(self) -> None:
        """Cuts the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        """Sends a heartbeat if the peer wants one, gives it up if it has been silent too long, and comes back."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        opening = self.connection.state is not State.OPEN
        if now - self._heard_at > _SILENCE_LIMIT_S or (opening and now - self._opened_at > _HANDSHAKE_LIMIT_S):
            log.warning("connection of %s is silent: closed", self.connection.remote_container_id or "?")
            self.abort()
            return
        self.connection.heartbeat()
        every_s = self.connection.heartbeat_every_ms / 1000 or _WATCH_EVERY_S
        self._watch = loop.call_later(min(every_s, _WATCH_EVERY_S), self._look)
