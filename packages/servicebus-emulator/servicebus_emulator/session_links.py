"""Receivers of sessions: a link that asks for one by its source filter, and is attached when it has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from servicebus_emulator.amqp.link import OutgoingLink
from servicebus_emulator.amqp.performatives import Source
from servicebus_emulator.amqp.values import Described, Symbol
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.sessions import Session, SessionQueue, Waiter
from servicebus_emulator.broker.timers import Timer, Timers
from servicebus_emulator.clock import Clock
from servicebus_emulator.receiver_links import LinkConsumer, Peer

_FILTER = Symbol("com.microsoft:session-filter")
_TIMEOUT = Symbol("com.microsoft:timeout")
_LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
#: How long a receiver waits for any session if it does not say.
_DEFAULT_WAIT_MS = 60_000
_TICKS_AT_EPOCH, _TICKS_A_MS = 621_355_968_000_000_000, 10_000


def has_session_filter(source: Any) -> bool:
    return isinstance(source, Source) and _FILTER in (source.filter or {})


def session_filter(source: Any) -> str | None:
    """The id of the session asked for; None for any. InvalidRequest when none is asked for."""
    if not has_session_filter(source):
        raise InvalidRequest(
            "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
        )
    value = source.filter[_FILTER]
    if isinstance(value, Described):
        value = value.value
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("A session filter is a session id or null.")
    return value


class SessionConsumer(LinkConsumer):
    """A link on a session queue, from asking for a session to losing it."""

    def __init__(self, link: OutgoingLink, queue: SessionQueue, peer: Peer, timers: Timers, clock: Clock) -> None:
        super().__init__(link, queue, peer)
        self._queue = queue
        self._timers = timers
        self._clock = clock
        self._session: Session | None = None
        self._waiter: Waiter | None = None
        self._timer: Timer | None = None

    def open(self, session_id: str | None) -> None:
        """Attaches the link once the session is ours; a named one at once or never."""
        if session_id is not None:
            self._granted(self._queue.lock(session_id, self))
            return
        wait_ms = self.link.properties.get(_TIMEOUT)
        if not isinstance(wait_ms, int):
            wait_ms = _DEFAULT_WAIT_MS
        self._timer = self._timers.at(self._clock.now_ms() + wait_ms, self._timed_out)
        self._waiter = Waiter(self, self._granted)
        self._queue.lock_next(self._waiter)

    def _granted(self, session: Session) -> None:
        self._session = session
        self._stop_waiting()
        source = replace(self.link.attach.source, filter={_FILTER: session.id})
        ticks = _TICKS_AT_EPOCH + session.locked_until_ms * _TICKS_A_MS
        self.link.accept(source, {_LOCKED_UNTIL: ticks})

    def _timed_out(self) -> None:
        self._timer = None
        self._stop_waiting()
        self.link.refuse("com.microsoft:timeout", "No session with messages was available in time.")

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
