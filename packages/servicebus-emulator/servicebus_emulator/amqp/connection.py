"""The server's end of an AMQP connection, without its socket. Received bytes result in events and bytes to send.

    HEADER -> SASL -> AMQP_HEADER -> OPENING -> OPEN -> CLOSED
       `---------------------------^

The order of the states is that of AMQP 1.0 part 5, 5.3.1 and part 2, 2.4.6. A client may omit SASL. A frame out of
order closes the connection with an error. The connection reads one frame at a time, so that output for an event
precedes output for later frames.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum

from servicebus_emulator.amqp.errors import AmqpError, FramingError, InvalidFieldError, NotAllowedError, SessionError
from servicebus_emulator.amqp.events import ConnectionClosed, Event, LinkDetached, Opened
from servicebus_emulator.amqp.frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_FRAME,
    SASL_HEADER,
    Frame,
    FrameBuffer,
    encode_frame,
)
from servicebus_emulator.amqp.performatives import (
    Begin,
    Body,
    Close,
    End,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_body,
)
from servicebus_emulator.amqp.session import Session

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 65_536
MAX_SESSIONS = 5000
#: advertised idle timeout; a silent connection is closed after twice as long, because SDKs send heartbeats late
IDLE_TIMEOUT_MS = 120_000
_MIN_FRAME_BYTES = 512
#: Part 5, 5.3. Both SDKs use ANONYMOUS and authorise afterwards, by tokens on `$cbs`.
SASL_MECHANISMS = ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")
_SASL_OK, _SASL_AUTH_FAILED = 0, 1

#: gets the mechanism and the initial response; returns `True` if the peer may continue
Authenticate = Callable[[str, bytes], bool]


class State(Enum):
    HEADER = "waits for the SASL header"
    SASL = "waits for sasl-init"
    AMQP_HEADER = "waits for the AMQP header"
    OPENING = "waits for open"
    OPEN = "is open"
    CLOSED = "is closed"


class Connection:
    """The server's end of one AMQP connection."""

    def __init__(self, container_id: str, authenticate: Authenticate, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._container_id = container_id
        self._authenticate = authenticate
        self._max_frame_bytes = max_frame_bytes
        self._buffer = FrameBuffer(max_frame_bytes)
        self._output: list[bytes] = []
        self._events: deque[Event] = deque()
        self.state = State.HEADER
        self.sessions: dict[int, Session] = {}
        self.remote_max_frame_bytes = _MIN_FRAME_BYTES
        self.remote_container_id = ""
        #: interval of heartbeats, half of the peer's idle timeout; 0: the peer expects none
        self.heartbeat_every_ms = 0
        #: bytes of output that are not taken yet, and of transfers that wait for the peer's session window
        self.unsent_bytes = 0
        #: callback for output after there was none, and for the end of the connection
        self.on_output: Callable[[], None] = lambda: None

    def receive_data(self, data: bytes) -> None:
        """Adds received bytes, which `next_event` reads."""
        if self.state is not State.CLOSED:
            self._buffer.feed(data)

    def next_event(self) -> Event | None:
        """Returns the next event, or None until more bytes are received or after the last event of a closed
        connection.
        """
        while not self._events:
            if self.state is State.CLOSED:
                return None
            try:
                if not self._advance():
                    return None
            except AmqpError as error:
                self.close(error.condition, str(error))
        return self._events.popleft()

    def take_output(self) -> bytes:
        """Returns bytes to write, in order."""
        if not self._output:
            return b""
        data = b"".join(self._output)
        self._output.clear()
        self.unsent_bytes -= len(data)
        return data

    def send(self, body: Body, channel: int = 0, payload: bytes = b"") -> None:
        if self.state is not State.CLOSED:
            self._write(encode_frame(body, channel, payload))

    def emit(self, event: Event) -> None:
        """Adds an event that the broker caused, in order with those of received frames."""
        self._events.append(event)

    def heartbeat(self) -> None:
        """Sends an empty frame if the peer expects heartbeats (part 2, 2.4.5)."""
        if self.state is State.OPEN and self.heartbeat_every_ms:
            self._write(EMPTY_FRAME)

    def _write(self, data: bytes) -> None:
        if not self._output:
            self.on_output()
        self._output.append(data)
        self.unsent_bytes += len(data)

    def close(self, condition: str | None = None, description: str = "") -> None:
        """Closes the connection from the broker's side, with an error if `condition` is set."""
        if self.state is State.CLOSED:
            return
        if self.state in (State.OPENING, State.OPEN):
            if self.state is State.OPENING:
                self.send(Open(self._container_id))
            self.send(Close(None if condition is None else Error(condition, description)))
        self._finish(condition and f"{condition}: {description}")

    def lost(self) -> None:
        """Ends the connection after its transport was lost."""
        if self.state is not State.CLOSED:
            self._finish(None)

    def _finish(self, error: str | None) -> None:
        self.state = State.CLOSED
        self.on_output()
        for session in self.sessions.values():
            self._detach_all(session)
        self.sessions.clear()
        self._events.append(ConnectionClosed(error))

    def _detach_all(self, session: Session) -> None:
        for link in session.links.values():
            link.closed = True
            self._events.append(LinkDetached(link))
        session.links.clear()

    def _advance(self) -> bool:
        """Reads one header or frame. Returns False if the header or frame is incomplete."""
        if self.state in (State.HEADER, State.AMQP_HEADER):
            header = self._buffer.next_header()
            if header is None:
                return False
            self._receive_header(header)
            return True
        frame = self._buffer.next_frame()
        if frame is None:
            return False
        if self.state is State.SASL:
            self._receive_sasl(frame)
        elif frame.kind == SASL_FRAME:
            raise FramingError("a SASL frame after the SASL layer")
        elif frame.body:
            self._receive_frame(frame)
        return True

    def _receive_header(self, header: bytes) -> None:
        if header == AMQP_HEADER:
            # As Azure does, accept a connection without SASL. SDKs with a `SharedAccessSignature` put it on `$cbs`.
            self._write(AMQP_HEADER)
            self.state = State.OPENING
        elif self.state is State.HEADER and header == SASL_HEADER:
            self._write(SASL_HEADER + encode_frame(SaslMechanisms(SASL_MECHANISMS), kind=SASL_FRAME))
            self.state = State.SASL
        else:
            # Part 2, 2.2: send the supported header, then close.
            self._write(SASL_HEADER if self.state is State.HEADER else AMQP_HEADER)
            self._finish(f"unsupported protocol header {header!r}")

    def _receive_sasl(self, frame: Frame) -> None:
        if frame.kind != SASL_FRAME:
            raise FramingError("an AMQP frame before the SASL layer is done")
        init, _ = decode_body(frame.body)
        if not isinstance(init, SaslInit):
            raise NotAllowedError("sasl-init expected")
        known = init.mechanism in SASL_MECHANISMS
        accepted = known and self._authenticate(init.mechanism, init.initial_response or b"")
        self._write(encode_frame(SaslOutcome(_SASL_OK if accepted else _SASL_AUTH_FAILED), kind=SASL_FRAME))
        if accepted:
            self.state = State.AMQP_HEADER
        else:
            self._finish(f"SASL {init.mechanism} refused")

    def _receive_frame(self, frame: Frame) -> None:
        body, end = decode_body(frame.body)
        if self.state is State.OPENING:
            if not isinstance(body, Open):
                raise NotAllowedError("open expected")
            self._receive_open(body)
            return
        match body:
            case Open():
                raise NotAllowedError("the connection is open already")
            case Begin():
                self._receive_begin(frame.channel, body)
            case Close():
                self.send(Close())
                self._finish(None)
            case _:
                self._receive_on_session(frame.channel, body, frame.body[end:])

    def _receive_open(self, body: Open) -> None:
        remote = body.max_frame_size
        if remote is not None and remote < _MIN_FRAME_BYTES:
            raise InvalidFieldError(f"max-frame-size must be at least {_MIN_FRAME_BYTES}")
        self.remote_max_frame_bytes = min(self._max_frame_bytes, remote or self._max_frame_bytes)
        self.remote_container_id = body.container_id
        self.heartbeat_every_ms = (body.idle_time_out or 0) // 2
        self.state = State.OPEN
        self.send(
            Open(
                self._container_id,
                max_frame_size=self._max_frame_bytes,
                channel_max=MAX_SESSIONS - 1,
                idle_time_out=IDLE_TIMEOUT_MS,
            )
        )
        self._events.append(Opened(body.container_id))

    def _receive_begin(self, channel: int, body: Begin) -> None:
        if channel in self.sessions or channel >= MAX_SESSIONS:
            raise NotAllowedError(f"channel {channel} cannot begin a session")
        session = Session(self, channel, body)
        self.sessions[channel] = session
        session.begin()

    def _receive_on_session(self, channel: int, body: Body, payload: bytes) -> None:
        session = self.sessions.get(channel)
        if isinstance(body, End):
            if session is not None:
                del self.sessions[channel]
                self._detach_all(session)
                self.send(End(), channel)
            return
        if session is None:
            # The Python SDK detaches its management links after END: ignore it.
            return
        try:
            self._events.extend(session.receive(body, payload))
        except SessionError as error:
            log.warning("session ended: %s", error)
            del self.sessions[channel]
            self._detach_all(session)
            self.send(End(Error(error.condition, str(error))), channel)
