"""Links on which a client receives. Each link is a consumer of a queue, or of one session of a session queue.

Message annotations follow Microsoft's "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide". The filter and the
properties of session links are those that the SDKs send and read.
"""

from __future__ import annotations

import uuid
from typing import Any, Protocol, cast

from servicebus_emulator.amqp.link import OutgoingLink
from servicebus_emulator.amqp.message import AmqpMessage
from servicebus_emulator.amqp.performatives import Source
from servicebus_emulator.amqp.values import Described, Int, Symbol, Timestamp
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.message import Message, MessageState
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.sessions import Session, SessionQueue, Waiter
from servicebus_emulator.broker.timers import Timer, Timers
from servicebus_emulator.clock import Clock

# Message annotations
_SEQUENCE_NUMBER = Symbol("x-opt-sequence-number")
_ENQUEUED_TIME = Symbol("x-opt-enqueued-time")
_ENQUEUED_SEQUENCE_NUMBER = Symbol("x-opt-enqueue-sequence-number")
_LOCKED_UNTIL = Symbol("x-opt-locked-until")
_STATE = Symbol("x-opt-message-state")
_DEAD_LETTER_SOURCE = Symbol("x-opt-deadletter-source")

# Filter and properties of a session receiver's link
_SESSION_FILTER = Symbol("com.microsoft:session-filter")
_SESSION_TIMEOUT = Symbol("com.microsoft:timeout")
_SESSION_LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
#: default wait of a receiver for any session
_DEFAULT_SESSION_TIMEOUT_MS = 60_000
#: .NET ticks (100 ns since the year 1) at the Unix epoch, and in a millisecond
_TICKS_AT_EPOCH, _TICKS_PER_MS = 621_355_968_000_000_000, 10_000


def render(message: Message, *, with_body: bool = True) -> bytes:
    """Returns the encoded message with the broker's annotations and its delivery count."""
    annotations: dict[Symbol, Any] = {
        _SEQUENCE_NUMBER: message.sequence_number,
        _ENQUEUED_TIME: Timestamp(message.enqueued_at_ms),
        _ENQUEUED_SEQUENCE_NUMBER: message.enqueued_sequence_number,
    }
    if message.lock_token is not None:
        annotations[_LOCKED_UNTIL] = Timestamp(message.locked_until_ms)
    if message.state is not MessageState.ACTIVE:
        annotations[_STATE] = Int(message.state)
    if message.dead_letter_source is not None:
        annotations[_DEAD_LETTER_SOURCE] = message.dead_letter_source
    content = cast(AmqpMessage, message.content)
    return content.render(message.delivery_count, annotations, with_body=with_body)


class Peer(Protocol):
    """The client at the other end of a link."""

    def is_behind(self) -> bool:
        """Returns True if the client must read some of its unsent output before it gets more messages.

        When the client has read this output, the gateway calls `LinkConsumer.request_messages`.
        """

    def serve(self, link: OutgoingLink) -> None:
        """Sends the waiting messages of a link that is now open."""


class LinkConsumer:
    """A receiving link as a `broker.entity.Consumer`. A delivery tag is the lock token in GUID byte order."""

    def __init__(self, link: OutgoingLink, queue: MessageQueue, peer: Peer) -> None:
        self.link = link
        self._peer = peer
        self.queue = queue
        self.settles_on_send = link.settles_on_send

    @property
    def credit(self) -> int:
        return 0 if self.link.closed or self._peer.is_behind() else self.link.usable_credit

    def request_messages(self) -> None:
        """Requests messages from the queue, because the link has new credit or is no longer paused."""
        self.queue.request_messages(self)

    def deliver(self, message: Message) -> None:
        tag = message.lock_token.bytes_le if message.lock_token is not None else uuid.uuid4().bytes_le
        self.link.transfer(tag, render(message), settled=self.settles_on_send)

    def closed(self) -> None:
        """Removes the consumer from its queue, because the link is detached."""
        self.queue.remove_consumer(self)


def has_session_filter(source: Any) -> bool:
    """Returns True if a link's source requests a session."""
    return isinstance(source, Source) and _SESSION_FILTER in (source.filter or {})


def session_filter(source: Any) -> str | None:
    """Returns the id of the session that a link's source requests, or None for any session.

    Raises InvalidRequest if the source requests no session.
    """
    if not has_session_filter(source):
        raise InvalidRequest(
            "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
        )
    value = source.filter[_SESSION_FILTER]
    if isinstance(value, Described):
        value = value.value
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("A session filter must be a session id or null.")
    return value


class SessionConsumer(LinkConsumer):
    """A link on a session queue, which waits for a session, consumes its messages, and ends with its lock."""

    def __init__(self, link: OutgoingLink, queue: SessionQueue, peer: Peer, timers: Timers, clock: Clock) -> None:
        super().__init__(link, queue, peer)
        self._queue = queue
        self._timers = timers
        self._clock = clock
        self._session: Session | None = None
        self._waiter: Waiter | None = None
        self._timer: Timer | None = None

    def open(self, session_id: str | None) -> None:
        """Attaches the link when it has the lock of a session.

        If `session_id` is None, the link waits for any session with messages, at most for the link's timeout. Otherwise
        locks the session immediately, or raises SessionCannotBeLocked if another receiver has the session.
        """
        if session_id is not None:
            self._granted(self._queue.lock(session_id, self))
            return
        wait_ms = self.link.properties.get(_SESSION_TIMEOUT)
        if not isinstance(wait_ms, int):
            wait_ms = _DEFAULT_SESSION_TIMEOUT_MS
        self._timer = self._timers.at(self._clock.now_ms() + wait_ms, self._timed_out)
        self._waiter = Waiter(self, self._granted)
        self._queue.lock_next(self._waiter)

    def _granted(self, session: Session) -> None:
        self._session = session
        self._stop_waiting()
        ticks = _TICKS_AT_EPOCH + session.locked_until_ms * _TICKS_PER_MS
        self.link.accept({_SESSION_FILTER: session.id}, {_SESSION_LOCKED_UNTIL: ticks})
        self._peer.serve(self.link)

    def _timed_out(self) -> None:
        self._timer = None
        self._stop_waiting()
        self.link.refuse("com.microsoft:timeout", "No session with messages was available before the timeout.")

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiter is not None:
            self._queue.stop_waiting(self._waiter)
            self._waiter = None

    def request_messages(self) -> None:
        if self._session is not None:
            self._queue.attach(self._session, self)

    def closed(self) -> None:
        self._stop_waiting()
        if self._session is not None:
            self._queue.close_session(self._session)
            self._session = None

    def session_lock_lost(self) -> None:
        self._session = None
        self.link.detach("com.microsoft:session-lock-lost", "The session lock has expired. Accept the session again.")
