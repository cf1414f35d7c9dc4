"""A queue that requires sessions. The messages of a session go, in order, to the receiver that has the session's lock.

Messages are locked as long as their session is locked. When the session's lock expires, each message counts a failed
delivery. When the receiver closes, no message counts a delivery (Azure, "Message sessions").
"""

from __future__ import annotations

import heapq
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.entity import Consumer, Counter, Environment
from servicebus_emulator.broker.errors import InvalidRequest, SessionCannotBeLocked, SessionLockLost
from servicebus_emulator.broker.message import Content, Message
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.timers import Timer


class Holder(Protocol):
    """The holder of a session's lock."""

    def session_lock_lost(self) -> None:
        """Notifies the holder that the lock has expired."""


@dataclass(eq=False, slots=True)
class Session:
    """A session: its messages, lock, consumer and state."""

    id: str
    ready: list[int] = field(default_factory=list)
    holder: Holder | None = None
    locked_until_ms: int = 0
    timer: Timer | None = None
    consumer: Consumer | None = None
    state: bytes | None = None
    #: time when the state was last set, in Unix milliseconds; 0: never
    changed_at_ms: int = 0


@dataclass(eq=False, slots=True)
class Waiter:
    """A receiver that waits for any session. The queue calls `granted` with the locked session."""

    holder: Holder
    granted: Callable[[Session], None]


class SessionQueue(MessageQueue):
    """A queue with sessions. A consumer calls `attach` with its session, not `request_messages`. Methods with a `token`
    raise SessionLockLost if the token is unknown, except `holds` and `renew`.
    """

    def __init__(
        self,
        path: str,
        description: QueueDescription,
        environment: Environment,
        counter: Counter,
        dead_letters: MessageQueue | None,
    ) -> None:
        super().__init__(path, description, environment, counter, dead_letters)
        self._sessions: dict[str, Session] = {}
        #: ids of sessions with messages and without holder, in the order in which they became available
        self._available: dict[str, None] = {}
        self._waiters: deque[Waiter] = deque()

    # Locks of sessions

    def lock(self, session_id: str, holder: Holder) -> Session:
        """Locks a session, with or without messages. Raises SessionCannotBeLocked if the session has a holder."""
        session = self._session(session_id)
        if session.holder is not None:
            raise SessionCannotBeLocked(f"The requested session '{session_id}' cannot be accepted: it is locked.")
        session.holder = holder
        self._available.pop(session_id, None)
        self._start_session_lock(session)
        return session

    def lock_next(self, waiter: Waiter) -> None:
        """Locks the next free session with messages, immediately or when such a session exists."""
        self._waiters.append(waiter)
        self._grant()

    def stop_waiting(self, waiter: Waiter) -> bool:
        """Removes a waiter. Returns False if the waiter was not waiting."""
        if waiter not in self._waiters:
            return False
        self._waiters.remove(waiter)
        return True

    def close_session(self, session: Session) -> None:
        """Ends the lock. Unsettled messages return without counting a delivery."""
        if session.holder is None:
            return
        self._unlock_session(session)
        for message in self._locked_in(session):
            self.release(self._token(message))
        self._offer_session(session)

    def renew_session(self, session_id: str) -> int:
        """Renews the lock. Returns the time when the lock expires."""
        session = self._held(session_id)
        self._start_session_lock(session)
        for message in self._locked_in(session):
            message.locked_until_ms = session.locked_until_ms
        return session.locked_until_ms

    def _start_session_lock(self, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.locked_until_ms = self._env.clock.now_ms() + self.description.lock_duration_ms
        session.timer = self._env.timers.at(session.locked_until_ms, partial(self._session_lock_expired, session))

    def _session_lock_expired(self, session: Session) -> None:
        holder = session.holder
        self._unlock_session(session)
        for message in self._locked_in(session):
            self._unlock(message)
            self._fail_delivery(message, None)
        if holder is not None:
            holder.session_lock_lost()
        self._offer_session(session)

    def _unlock_session(self, session: Session) -> None:
        session.holder = session.consumer = None
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None

    def _offer_session(self, session: Session) -> None:
        """Offers a session without holder to the waiters. Deletes a session without messages and state."""
        if session.holder is not None:
            return
        while session.ready and not self._is_ready(session.ready[0]):
            heapq.heappop(session.ready)
        if session.ready:
            self._available[session.id] = None
            self._grant()
        else:
            self._available.pop(session.id, None)
            if session.state is None:
                self._sessions.pop(session.id, None)

    def _grant(self) -> None:
        while self._waiters and self._available:
            session = self._sessions[next(iter(self._available))]
            while session.ready and not self._is_ready(session.ready[0]):
                heapq.heappop(session.ready)
            if not session.ready:  # its messages expired meanwhile
                self._offer_session(session)
                continue
            waiter = self._waiters.popleft()
            waiter.granted(self.lock(session.id, waiter.holder))

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = Session(session_id)
        return session

    def _held(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None or session.holder is None:
            raise SessionLockLost
        return session

    def _locked_in(self, session: Session) -> list[Message]:
        return sorted(
            (message for message in self._locked.values() if message.content.session_id == session.id),
            key=lambda message: message.sequence_number,
        )

    def _is_ready(self, number: int) -> bool:
        message = self._messages.get(number)
        return message is not None and message.lock_token is None

    # State

    def get_state(self, session_id: str) -> bytes | None:
        return self._held(session_id).state

    def set_state(self, session_id: str, state: bytes | None) -> None:
        session = self._held(session_id)
        session.state = state
        session.changed_at_ms = self._env.clock.now_ms()
        self._env.store.put_session_state(self.path, session_id, state)

    def restore_state(self, session_id: str, state: bytes) -> None:
        session = self._session(session_id)
        session.state, session.changed_at_ms = state, self._env.clock.now_ms()

    def list_sessions(self, changed_since_ms: int | None) -> list[str]:
        """Returns ids of sessions with messages or state. If a time is given, returns ids of sessions whose state was
        set after that time.
        """
        if changed_since_ms is not None:
            return sorted(item.id for item in self._sessions.values() if item.changed_at_ms > changed_since_ms)
        ids = {message.content.session_id or "" for message in self._messages.values()}
        return sorted(ids | {item.id for item in self._sessions.values() if item.state is not None})

    # Messages: differences from a plain queue

    def check(self, *contents: Content) -> None:
        if any(content.session_id is None for content in contents):
            raise InvalidRequest(
                "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have "
                "session support enabled can only receive messages that have the SessionId set to a valid value."
            )
        super().check(*contents)

    def attach(self, session: Session, consumer: Consumer) -> None:
        """Delivers messages of the session to its consumer, which has new credit."""
        session.consumer = consumer
        self._pump_session(session)

    def receive_deferred(self, sequence_numbers: list[int], *, delete: bool) -> list[Message]:
        for number in sequence_numbers:
            if number in self._messages:
                self._held(self._messages[number].content.session_id or "")
        return super().receive_deferred(sequence_numbers, delete=delete)

    def delete_batch(self, before_ms: int, count: int, session_id: str | None = None) -> int:
        if session_id is None:
            raise InvalidRequest("A batch delete of an entity that requires sessions must name a session.")
        self._held(session_id)
        return super().delete_batch(before_ms, count, session_id)

    def _offer(self, message: Message) -> None:
        session = self._session(message.content.session_id or "")
        heapq.heappush(session.ready, message.sequence_number)
        if session.holder is None:
            self._offer_session(session)
        else:
            self._pump_session(session)

    def pump(self) -> None:
        """Does nothing, since `_offer` and `attach` deliver the messages of a session."""

    def _pump_session(self, session: Session) -> None:
        while session.consumer is not None and session.consumer.credit > 0:
            message = self._pop_ready(session.ready)
            if message is None:
                return
            self._deliver(message, session.consumer)

    def _start_lock(self, message: Message) -> None:
        session = self._sessions.get(message.content.session_id or "")
        if session is None or session.holder is None:
            raise SessionLockLost
        message.locked_until_ms = session.locked_until_ms

    def _take_lock(self, token: uuid.UUID) -> Message:
        if token not in self._locked:
            raise SessionLockLost
        return super()._take_lock(token)

    def renew(self, token: uuid.UUID) -> int:
        raise InvalidRequest("A message of a session has no lock of its own: renew the session's lock.")

    @staticmethod
    def _token(message: Message) -> uuid.UUID:
        assert message.lock_token is not None
        return message.lock_token
