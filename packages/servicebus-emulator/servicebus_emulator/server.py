"""Serves AMQP clients with asyncio: each connection is a `Gateway` on a `Connection`.

Output waits for the store. The server handles all bytes that arrive in one turn of the event loop, commits once, and
then sends the output. Therefore `accepted` means stored, and a burst of messages costs one commit.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from servicebus_emulator.amqp.connection import IDLE_TIMEOUT_MS, Connection, State
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.store import StoreError
from servicebus_emulator.cbs import CbsTokens
from servicebus_emulator.clock import SystemClock
from servicebus_emulator.gateway import MAX_MESSAGE_BYTES, Gateway
from servicebus_emulator.listener import Listener
from servicebus_emulator.sas import SasKey

log = logging.getLogger(__name__)

CONTAINER_ID = "lucius-service-bus-emulator"
#: bytes in a transport's buffer above which its client gets no more messages
WRITE_LIMIT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits for silent clients, in seconds."""

    #: time from the start of the connection until the AMQP open frame
    handshake_timeout_s: float = 60.0
    #: time without a received byte: twice the advertised timeout, because the Python SDK sends its heartbeats late
    idle_timeout_s: float = 2 * IDLE_TIMEOUT_MS / 1000
    #: maximum seconds between two checks
    check_every_s: float = 30.0


class Liveness:
    """The times that decide when a silent connection is closed. Callers pass seconds of a monotonic clock."""

    def __init__(self, timeouts: Timeouts, now_s: float) -> None:
        self._timeouts = timeouts
        self._connected_at_s = self._received_at_s = now_s
        self.is_open = False

    def record_received(self, now_s: float) -> None:
        """Records the time of received bytes."""
        self._received_at_s = now_s

    def timeout_reason(self, now_s: float) -> str | None:
        """Returns the reason to close the connection now, or None if the connection may stay open."""
        timeouts = self._timeouts
        if not self.is_open and now_s - self._connected_at_s >= timeouts.handshake_timeout_s:
            return f"not open after {timeouts.handshake_timeout_s:g} s"
        if now_s - self._received_at_s >= timeouts.idle_timeout_s:
            return f"silent for {timeouts.idle_timeout_s:g} s"
        return None

    def next_check_s(self, now_s: float, heartbeat_every_ms: int) -> float:
        """Returns seconds until the next check, in time for the next heartbeat and for the timeouts.

        `heartbeat_every_ms` is 0 if the peer expects no heartbeats.
        """
        timeouts = self._timeouts
        until = [timeouts.check_every_s, self._received_at_s + timeouts.idle_timeout_s - now_s]
        if not self.is_open:
            until.append(self._connected_at_s + timeouts.handshake_timeout_s - now_s)
        if heartbeat_every_ms:
            until.append(heartbeat_every_ms / 1000)
        return max(0.0, min(until))


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of all connections."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    #: key that signs tokens; None accepts any token
    sas_key: SasKey | None = None
    #: if set, a port speaks TLS to clients that start with TLS, and plain TCP to the others
    tls: ssl.SSLContext | None = None
    timeouts: Timeouts = Timeouts()


class BusServer:
    """A server that listens, flushes in order (commit, then write) and runs the broker's timers."""

    def __init__(self, broker: Broker, options: Options | None = None) -> None:
        self.broker = broker
        self.options = options or Options()
        self.clients: set[Client] = set()
        #: a fault that tests can set: delay of all output in seconds
        self.delay_s = 0.0
        #: `True` if the store failed
        self.failed = False
        #: set to end the program
        self.stopping = asyncio.Event()
        self._writable: set[Client] = set()
        self._listener = Listener(lambda: Client(self), self.options.tls, self.options.timeouts.handshake_timeout_s)
        self._flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    async def listen(self, host: str, port: int) -> int:
        """Starts to serve and returns the port. Raises ListenError if the address cannot be used."""
        self.wake()
        return await self._listener.open(host, port)

    async def close(self) -> None:
        """Closes the listener and all connections. Waits up to a second until the last bytes are sent."""
        await self._listener.close()
        for client in list(self.clients):
            client.connection.close("amqp:connection:forced", "The broker is shutting down.")
            self.will_write(client)
        self._flush()
        deadline = asyncio.get_running_loop().time() + 1.0
        while self.clients and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - bounded and once
            await asyncio.sleep(0.01)
        for client in list(self.clients):
            client.abort()
        if self._timer is not None:
            self._timer.cancel()

    def will_write(self, client: Client) -> None:
        """Adds a client that has output to the next flush."""
        self._writable.add(client)
        self.wake()

    def wake(self) -> None:
        """Schedules a flush and a check of the timers for the end of this turn of the event loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self.commit():
            return
        writable, self._writable = self._writable, set()
        for client in writable:
            client.write()
        self._set_timer()

    def commit(self) -> bool:
        """Stores all changes. Returns `False` if the store cannot be written.

        The program then ends and sends no pending output, because memory and disk differ.
        """
        if self.failed:
            return False
        if self.broker.store.is_dirty:
            try:
                self.broker.store.commit()
            except StoreError as error:
                log.critical("could not store changes, the bus stops reason=%s", error)
                self.failed = True
                self.stopping.set()
                return False
        return True

    def _set_timer(self) -> None:
        due_ms = self.broker.timers.next_due_ms()
        if due_ms == self._timer_due_ms:
            return
        if due_ms is None or (self._timer_due_ms is not None and due_ms > self._timer_due_ms):
            return  # a timer that runs too early does no harm; setting it again for every lock costs time
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due_ms = due_ms
        delay_s = max(0.0, (due_ms - self.broker.clock.now_ms()) / 1000)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._run_timers)

    def _run_timers(self) -> None:
        self._timer = self._timer_due_ms = None
        try:
            self.broker.timers.run_due(self.broker.clock.now_ms())
        finally:
            self.wake()

    def advance(self, clock: SystemClock, ms: int) -> None:
        """Moves the clock forward by `ms`. Each due timer runs at its own time."""
        end_ms = clock.now_ms() + ms
        timers = self.broker.timers
        while (due_ms := timers.next_due_ms()) is not None and due_ms <= end_ms:
            clock.advance(max(0, due_ms - clock.now_ms()))
            timers.run_due(clock.now_ms())
        clock.advance(max(0, end_ms - clock.now_ms()))
        self._timer_due_ms = None
        self.wake()


class ByteTransport(Protocol):
    """The transport of one client: TCP, TLS or a WebSocket."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...


class Client(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, server: BusServer) -> None:
        self._server = server
        self._transport: ByteTransport | None = None
        self._liveness_timer: asyncio.TimerHandle | None = None
        self._liveness = Liveness(server.options.timeouts, asyncio.get_running_loop().time())
        tokens = CbsTokens(server.options.sas_key, server.broker.clock)
        self.connection = Connection(CONTAINER_ID, tokens.authenticate)
        self.connection.on_output = self._on_output
        self.gateway = Gateway(server.broker, self.connection, tokens, server.options.max_message_bytes)
        self.gateway.on_disconnect = self.abort

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_LIMIT_BYTES)
        self.attach(transport)

    def attach(self, transport: ByteTransport) -> None:
        """Starts the connection on its transport."""
        self._transport = transport
        self._server.clients.add(self)
        self._check_liveness()

    def data_received(self, data: bytes) -> None:
        self._liveness.record_received(asyncio.get_running_loop().time())
        self._guarded(lambda: self.connection.receive_data(data))
        if not self._liveness.is_open and self.connection.state is State.OPEN:
            self._liveness.is_open = True
            self._check_liveness()  # the open frame has the peer's idle timeout
        self._server.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._liveness_timer is not None:
            self._liveness_timer.cancel()
        self._server.clients.discard(self)
        self._guarded(self.connection.lost)
        self._server.wake()

    def pause_writing(self) -> None:
        self.gateway.pause()

    def resume_writing(self) -> None:
        self._guarded(self.gateway.resume)
        self._server.wake()

    def _on_output(self) -> None:
        self._server.will_write(self)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Runs `step`; an unexpected exception closes this client's connection and no other."""
        try:
            step()
            self.gateway.handle_events()
        except Exception:
            log.exception("internal error, connection closed peer=%s", self.connection.remote_container_id or "?")
            self.connection.close("amqp:internal-error", "The emulator failed; see its log.")
            self.gateway.handle_events()

    def write(self) -> None:
        """Sends the pending output. Closes the transport when the connection is closed."""
        data = self.connection.take_output()
        ends = self.connection.state is State.CLOSED
        if self._server.delay_s > 0:
            asyncio.get_running_loop().call_later(self._server.delay_s, self._send, data, ends)
        else:
            self._send(data, ends)

    def _send(self, data: bytes, ends: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if data:
            self._transport.write(data)
            self.gateway.catch_up()
        if ends:
            self._transport.close()

    def abort(self) -> None:
        """Drops the connection without closing it in AMQP."""
        if self._transport is not None:
            self._transport.abort()

    def _check_liveness(self) -> None:
        """Drops the connection after a timeout. Otherwise sends a due heartbeat and schedules the next check."""
        if self._liveness_timer is not None:
            self._liveness_timer.cancel()
        loop = asyncio.get_running_loop()
        reason = self._liveness.timeout_reason(loop.time())
        if reason is not None:
            log.warning("connection aborted peer=%s reason=%s", self.connection.remote_container_id or "?", reason)
            self.abort()
            return
        self.connection.heartbeat()
        wait_s = self._liveness.next_check_s(loop.time(), self.connection.heartbeat_every_ms)
        self._liveness_timer = loop.call_later(wait_s, self._check_liveness)
