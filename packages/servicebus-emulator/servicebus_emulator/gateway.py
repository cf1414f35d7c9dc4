"""Connects the AMQP connection of one client to the broker: its links, messages, requests and outcomes.

A link can go to `$cbs`, to `<entity>/$management`, or to a queue, topic, subscription or dead-letter queue.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote, urlsplit

from servicebus_emulator import cbs
from servicebus_emulator.amqp.connection import Connection
from servicebus_emulator.amqp.errors import AmqpError
from servicebus_emulator.amqp.events import (
    ConnectionClosed,
    CreditGranted,
    DeliverySettling,
    LinkAttaching,
    LinkDetached,
    MessageReceived,
    Opened,
    WindowOpened,
)
from servicebus_emulator.amqp.link import IncomingLink, LinkSession, OutgoingLink, address_of
from servicebus_emulator.amqp.message import BATCH_FORMAT, AmqpMessage, Request, split_batch
from servicebus_emulator.amqp.performatives import Accepted, Body, Coordinator, Error, Rejected, TransactionalState
from servicebus_emulator.amqp.values import Symbol, Ulong
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.destination import Destination
from servicebus_emulator.broker.errors import (
    BusError,
    EntityNotFound,
    InvalidRequest,
    MessageTooLarge,
    NotImplementedHere,
    Unauthorized,
)
from servicebus_emulator.broker.fault_desk import Verdict
from servicebus_emulator.broker.sessions import SessionQueue
from servicebus_emulator.broker.timers import Timer
from servicebus_emulator.management_node import ManagementNode
from servicebus_emulator.receiver_links import LinkConsumer, SessionConsumer, has_session_filter, session_filter
from servicebus_emulator.settlement import NO_TRANSACTIONS, settle

log = logging.getLogger(__name__)

MANAGEMENT_SUFFIX = "/$management"
#: limit of Service Bus Standard
MAX_MESSAGE_BYTES = 256 * 1024
#: maximum replies that wait for credit of their link; further ones are dropped
_MAX_WAITING_REPLIES = 1000
#: maximum unsent bytes of a client that gets messages
_MAX_UNSENT_BYTES = 1024 * 1024


def entity_path(address: str) -> str:
    """Returns the entity's path in the address of a link. The Python SDK sends a whole URL."""
    if "://" in address:
        address = urlsplit(address).path
    return unquote(address).strip("/")


def _settle_late(event: MessageReceived, outcome: Body) -> None:
    if not event.link.closed:
        event.link.settle(event.delivery_id, outcome)


@dataclass(eq=False, slots=True)
class ReplyLink:
    """The link of a request-response pair on which the broker sends replies."""

    link: OutgoingLink
    node: str
    waiting: deque[bytes] = field(default_factory=deque)

    def send(self, message: bytes) -> None:
        if len(self.waiting) < _MAX_WAITING_REPLIES:
            self.waiting.append(message)
        self.flush()

    def flush(self) -> None:
        while self.waiting and self.link.usable_credit > 0:
            self.link.transfer(uuid.uuid4().bytes, self.waiting.popleft(), settled=True)


@dataclass(eq=False, slots=True)
class RequestLink:
    """The link of a request-response pair on which requests arrive."""

    node: str
    handle: Callable[[Request], bytes]


class Gateway:
    """The gateway of one connection."""

    def __init__(
        self, broker: Broker, connection: Connection, tokens: cbs.CbsTokens, max_message_bytes: int = MAX_MESSAGE_BYTES
    ) -> None:
        self._broker = broker
        self.connection = connection
        self._max_message_bytes = max_message_bytes
        self._paused = self._was_behind = False
        #: drops the connection, as a fault
        self.on_disconnect: Callable[[], None] = connection.lost
        self._tokens = tokens
        self._expiry: Timer | None = None
        self._senders: dict[IncomingLink, Destination] = {}
        self._requests: dict[IncomingLink, RequestLink] = {}
        self._consumers: dict[OutgoingLink, LinkConsumer] = {}
        self._replies: dict[OutgoingLink, ReplyLink] = {}

    def handle_events(self) -> None:
        """Handles all events of the bytes received so far."""
        while (event := self.connection.next_event()) is not None:
            match event:
                case MessageReceived():
                    self._receive(event)
                case DeliverySettling():
                    self._settle(event)
                case CreditGranted(link):
                    self.serve(link)
                case WindowOpened(session):
                    self._resume(session)
                case LinkAttaching(link):
                    self._attach(link)
                case LinkDetached(link):
                    self._forget(link)
                case Opened(container_id):
                    log.debug("connection opened by %s", container_id)
                case ConnectionClosed(error):
                    if self._expiry is not None:
                        self._expiry.cancel()
                    if error:
                        peer = self.connection.remote_container_id or "?"
                        log.warning("connection closed peer=%s reason=%s", peer, error)
        self.catch_up()

    # Links that the broker detaches

    def detach(self, path: str | None = None) -> int:
        """Detaches the links to an entity (None means all), as Azure does when it moves an entity. Returns the number
        of links.
        """
        links = [(link, entity) for link, entity in self._entity_links() if link.accepted]
        matching = [link for link, entity in links if path is None or entity.lower() == path.lower()]
        for link in matching:
            link.detach("amqp:link:detach-forced", "The link was detached by the broker.")
        self.handle_events()
        return len(matching)

    def uses(self, path: str) -> bool:
        """Returns True if the client has a link to the entity."""
        return any(entity.lower() == path.lower() for _, entity in self._entity_links())

    def drop_removed(self) -> None:
        """Detaches the links to deleted entities.

        The text is that of an attach. By this text, `translate` of `@azure/core-amqp` (errors.ts) maps `amqp:not-found`
        to MessagingEntityNotFound. With another text, `translate` returns ServiceCommunicationProblem.
        """
        receivers = [(link, each.queue.path) for link, each in self._consumers.items() if each.queue.removed]
        senders = [(link, each.path) for link, each in self._senders.items() if each.removed]
        for link, path in (*receivers, *senders):
            error = EntityNotFound(path)
            link.detach(error.condition, error.description)
        self.handle_events()

    def _entity_links(self) -> list[tuple[IncomingLink | OutgoingLink, str]]:
        receivers = [(link, consumer.queue.path) for link, consumer in self._consumers.items()]
        return [*receivers, *((link, destination.path) for link, destination in self._senders.items())]

    def _watch_expiry(self) -> None:
        """Sets the timer that detaches links when their token expires."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        until_ms = self._tokens.next_expiry_ms()
        if until_ms is not None:
            self._expiry = self._broker.timers.at(until_ms, self._detach_expired)

    def _detach_expired(self) -> None:
        for link, path in self._entity_links():
            if not self._tokens.allows(path):
                link.detach("amqp:unauthorized-access", "ExpiredToken: the token is expired.")
        self._watch_expiry()
        self.handle_events()

    # Flow of bytes

    def pause(self) -> None:
        """Stops messages, because the buffer of the transport is full."""
        self._paused = True

    def resume(self) -> None:
        """Sends messages again, because the buffer of the transport has room."""
        self._paused = False
        self.catch_up()

    def is_behind(self) -> bool:
        """Returns True if the client gets no messages until it has read some of its unsent output."""
        is_behind = self._paused or self.connection.unsent_bytes > _MAX_UNSENT_BYTES
        self._was_behind = self._was_behind or is_behind
        return is_behind

    def catch_up(self) -> None:
        """Resumes the paused receivers if the client is no longer behind."""
        if self._was_behind and not self.is_behind():
            self._was_behind = False
            self._resume()

    def _resume(self, session: LinkSession | None = None) -> None:
        """Serves the paused links: of a session whose window has opened, or all."""
        for link in [*self._replies, *self._consumers]:
            if session is None or link.session is session:
                self.serve(link)

    def serve(self, link: OutgoingLink) -> None:
        """Sends the waiting output of a link within its credit, the session's window and the client's reading.

        Links share a window, so a served link comes last when the window opens again. The reply to a drain follows the
        last frame of a begun delivery (AMQP 1.0 part 2, 2.6.7).

        A closed window does not delay this reply. The drain consumes the credit, and the messages stay in the queue.
        The JavaScript SDK closes a link whose drain takes longer than 200 ms, and the window may be closed because that
        client has not settled.
        """
        consumer = self._consumers.get(link)
        if consumer is not None:
            count = link.delivery_count
            consumer.request_messages()
            if link.delivery_count != count:
                self._consumers[link] = self._consumers.pop(link)
        elif (replies := self._replies.get(link)) is not None:
            replies.flush()
        if link.drain and link.accepted and not link.is_sending and not self.is_behind():
            link.drained()

    # Links

    def _attach(self, link: IncomingLink | OutgoingLink) -> None:
        try:
            if isinstance(link, OutgoingLink):
                self._attach_receiver(link)
            else:
                self._attach_sender(link)
        except BusError as error:
            log.warning("link refused link=%s condition=%s reason=%s", link.name, error.condition, error)
            link.refuse(error.condition, error.description)

    def _attach_sender(self, link: IncomingLink) -> None:
        if isinstance(link.attach.target, Coordinator):
            raise NotImplementedHere(NO_TRANSACTIONS)
        path = entity_path(address_of(link.attach.target))
        self._check_rights(path)
        if path == cbs.ADDRESS:
            self._requests[link] = RequestLink(path, self._put_token)
        elif path.lower().endswith(MANAGEMENT_SUFFIX):
            self._requests[link] = RequestLink(path.lower(), self._management(path))
        else:
            destination = self._broker.destination(path)
            destination.check_open()
            self._senders[link] = destination
        link.accept(
            self._max_message_bytes,
            {Symbol("com.microsoft:max-message-batch-size"): Ulong(self._max_message_bytes)},
        )

    def _put_token(self, request: Request) -> bytes:
        reply = self._tokens.handle(request)
        self._watch_expiry()
        return reply

    def _check_rights(self, path: str) -> None:
        if path != cbs.ADDRESS and not self._tokens.allows(path):
            raise Unauthorized(f"Unauthorized access. 'Send' or 'Listen' claim required for '{path}'.")

    def _management(self, path: str) -> Callable[[Request], bytes]:
        address = path[: -len(MANAGEMENT_SUFFIX)]
        if not self._broker.knows(address):
            raise EntityNotFound(address)
        management = ManagementNode(self._broker, address, self._max_message_bytes)
        return lambda request: management.handle(request).encode(request)

    def _attach_receiver(self, link: OutgoingLink) -> None:
        path = entity_path(address_of(link.attach.source))
        self._check_rights(path)
        if path == cbs.ADDRESS or path.lower().endswith(MANAGEMENT_SUFFIX):
            self._replies[link] = ReplyLink(link, path.lower())
        elif isinstance(queue := self._broker.queue(path), SessionQueue):
            session_id = session_filter(link.attach.source)
            consumer = SessionConsumer(link, queue, self, self._broker.timers, self._broker.clock)
            self._consumers[link] = consumer
            consumer.open(session_id)
            return
        else:
            if has_session_filter(link.attach.source):
                raise InvalidRequest(f"'{queue.path}' does not require sessions: receive without one.")
            self._consumers[link] = LinkConsumer(link, queue, self)
        link.accept()

    def _forget(self, link: IncomingLink | OutgoingLink) -> None:
        if isinstance(link, IncomingLink):
            self._senders.pop(link, None)
            self._requests.pop(link, None)
            return
        self._replies.pop(link, None)
        consumer = self._consumers.pop(link, None)
        if consumer is not None:
            consumer.closed()

    # Incoming messages

    def _receive(self, event: MessageReceived) -> None:
        slow_ms, disconnects = 0, False
        try:
            if event.oversized:
                raise MessageTooLarge(
                    f"The message exceeds the maximum size of {event.link.max_message_bytes} bytes on this link."
                )
            if isinstance(event.state, TransactionalState):
                raise NotImplementedHere(NO_TRANSACTIONS)
            request_link = self._requests.get(event.link)
            if request_link is not None:
                self._request(event.link, request_link, event.payload)
            elif (destination := self._senders.get(event.link)) is not None:
                for verdict in self._enqueue(destination, event):
                    slow_ms = max(slow_ms, verdict.faults.get("slow", 0))
                    disconnects = disconnects or "disconnect" in verdict
            outcome: Body = Accepted()
        except (BusError, AmqpError) as error:
            log.warning("message refused link=%s condition=%s reason=%s", event.link.name, error.condition, error)
            outcome = Rejected(Error(error.condition, str(error)))
        if disconnects:
            self.on_disconnect()
        elif not event.settled and slow_ms:
            due_ms = self._broker.clock.now_ms() + slow_ms
            self._broker.timers.at(due_ms, partial(_settle_late, event, outcome))
        elif not event.settled:
            event.link.settle(event.delivery_id, outcome)

    def _enqueue(self, destination: Destination, event: MessageReceived) -> list[Verdict]:
        """Enqueues messages. Returns their faults."""
        if event.message_format == BATCH_FORMAT:
            # All messages are checked before the first is enqueued, so only the fault `throttle` splits a batch.
            contents = [AmqpMessage.parse(data) for data in split_batch(event.payload)]
            destination.entity.check(*contents)
        else:
            contents = [AmqpMessage.parse(event.payload)]
        return [destination.send(content) for content in contents]

    def _request(self, link: IncomingLink, request_link: RequestLink, payload: bytes) -> None:
        request = Request.parse(payload)
        reply_link = self._reply_link(link, request_link.node, request.reply_to)
        if reply_link is None:
            raise InvalidRequest(f"The session has no link that receives the replies of '{request_link.node}'.")
        reply_link.send(request_link.handle(request))

    def _reply_link(self, link: IncomingLink, node: str, reply_to: str | None) -> ReplyLink | None:
        """Returns the reply link of the session on the node: the one that reply-to names, else the one attached
        last."""
        candidates = [
            item for item in self._replies.values() if item.link.session is link.session and item.node == node
        ]
        for item in reversed(candidates):
            if reply_to is not None and reply_to in (address_of(item.link.attach.target), item.link.name):
                return item
        return candidates[-1] if candidates else None

    # Outcomes

    def _settle(self, event: DeliverySettling) -> None:
        consumer = self._consumers.get(event.delivery.link)
        if consumer is None:
            return
        outcome = settle(consumer.queue, uuid.UUID(bytes_le=event.delivery.tag), event.state)
        if not event.settled:
            event.delivery.settle(outcome)
