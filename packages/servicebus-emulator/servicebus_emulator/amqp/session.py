"""A session: links by handle, transfer windows and unsettled deliveries (AMQP 1.0 part 2, 2.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from servicebus_emulator.amqp.errors import (
    HandleInUse,
    InvalidFieldError,
    NotAllowedError,
    SessionError,
    WindowViolation,
)
from servicebus_emulator.amqp.events import (
    CreditGranted,
    DeliverySettling,
    Event,
    LinkAttaching,
    LinkDetached,
    MessageReceived,
    WindowOpened,
)
from servicebus_emulator.amqp.link import INCOMING_CREDIT, Delivery, IncomingLink, OutgoingLink, PartialDelivery
from servicebus_emulator.amqp.performatives import Attach, Begin, Body, Detach, Disposition, Flow, Source, Transfer

#: transfers that the peer may send until the next flow, which is sent when half of them are used
INCOMING_WINDOW = 5000
MAX_LINKS = 1024
_SEQUENCE = 1 << 32
#: bytes of a frame header and the largest transfer performative, reserved when a payload is split
_TRANSFER_OVERHEAD = 64


class SessionConnection(Protocol):
    """A connection as its sessions use it. A protocol, because the module of connections imports this one."""

    unsent_bytes: int
    remote_max_frame_bytes: int

    def send(self, body: Body, channel: int, payload: bytes) -> None: ...

    def emit(self, event: Event) -> None: ...


class Session:
    """One session. Both directions use the peer's channel number."""

    def __init__(self, connection: SessionConnection, channel: int, begin: Begin) -> None:
        self._connection = connection
        self.channel = channel
        self.links: dict[int, IncomingLink | OutgoingLink] = {}
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_window = INCOMING_WINDOW
        self._next_outgoing_id = 0
        self._remote_window = begin.incoming_window
        self._waiting: deque[tuple[OutgoingLink, Transfer, bytes]] = deque()
        self._next_delivery_id = 0
        self._unsettled: dict[int, Delivery] = {}
        self._detaching: set[int] = set()

    def begin(self) -> None:
        self.send(Begin(self.channel, self._next_outgoing_id, INCOMING_WINDOW, INCOMING_WINDOW, MAX_LINKS - 1))

    def send(self, body: Body, payload: bytes = b"") -> None:
        self._connection.send(body, self.channel, payload)

    def send_flow(
        self,
        handle: int | None = None,
        delivery_count: int | None = None,
        credit: int | None = None,
        *,
        drain: bool | None = None,
    ) -> None:
        """Sends the windows of the session and, with a handle, the credit of a link."""
        self.send(
            Flow(
                *(self._next_incoming_id, self._incoming_window, self._next_outgoing_id, INCOMING_WINDOW),
                *(handle, delivery_count, credit, None, drain),
            )
        )

    @property
    def window_is_open(self) -> bool:
        """Returns True if the peer accepts a transfer now. If not, no delivery may begin.

        The link counts a delivery that begins, and the broker locks its message. The delivery must reach the peer
        before the response to a drain (part 2, 2.6.7).
        """
        return self._remote_window > 0

    def is_sending(self, link: OutgoingLink) -> bool:
        """Returns True if the last frames of a delivery on the link wait for the peer's window."""
        return any(entry[0] is link for entry in self._waiting)

    def forget(self, link: IncomingLink | OutgoingLink) -> None:
        """Removes a link that the broker detached. The link can no longer settle its deliveries."""
        if self.links.get(link.handle) is link:
            self._detaching.add(link.handle)
            self._drop(link)
            self._connection.emit(LinkDetached(link))

    def _drop(self, link: IncomingLink | OutgoingLink) -> None:
        link.closed = True
        self.links.pop(link.handle, None)
        for delivery_id in [key for key, item in self._unsettled.items() if item.link is link]:
            del self._unsettled[delivery_id]
        remaining = [entry for entry in self._waiting if entry[0] is not link]
        if len(remaining) != len(self._waiting):
            self._connection.unsent_bytes -= sum(len(entry[2]) for entry in self._waiting if entry[0] is link)
            self._waiting = deque(remaining)

    def receive(self, body: Body, payload: bytes) -> Iterator[Event]:
        """Handles a frame on this channel and yields its events. Raises AmqpError if the frame breaks the protocol."""
        match body:
            case Transfer():
                yield from self._receive_transfer(body, payload)
            case Disposition():
                yield from self._receive_disposition(body)
            case Flow():
                yield from self._receive_flow(body)
            case Attach():
                yield self._receive_attach(body)
            case Detach():
                yield from self._receive_detach(body)
            case _:
                raise NotAllowedError(f"{type(body).__name__} is not allowed on a session")

    def _receive_attach(self, attach: Attach) -> Event:
        if attach.handle in self.links:
            raise HandleInUse(f"handle {attach.handle} is in use")
        if attach.handle >= MAX_LINKS:
            raise SessionError(f"handle {attach.handle} is above handle-max {MAX_LINKS - 1}")
        if attach.role and not isinstance(attach.source, Source | None):
            raise InvalidFieldError(f"the source of the link '{attach.name}' is invalid")
        self._detaching.discard(attach.handle)
        link = OutgoingLink(self, attach) if attach.role else IncomingLink(self, attach)
        self.links[attach.handle] = link
        return LinkAttaching(link, attach)

    def _receive_detach(self, detach: Detach) -> Iterator[Event]:
        link = self.links.get(detach.handle)
        if link is None:
            # The reply to the broker's detach, or a late detach of a management link: nothing to do.
            self._detaching.discard(detach.handle)
            return
        self._drop(link)
        self.send(Detach(detach.handle, True if detach.closed is None else detach.closed))
        yield LinkDetached(link)

    def _receive_flow(self, flow: Flow) -> Iterator[Event]:
        was_open = self.window_is_open
        peer_next_id = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        in_flight = (self._next_outgoing_id - peer_next_id) % _SEQUENCE
        self._remote_window = max(0, flow.incoming_window - in_flight)
        if self.window_is_open and not was_open:
            self._flush_waiting()
            yield WindowOpened(self)
        if flow.handle is not None and flow.handle not in self._detaching:
            link = self.links.get(flow.handle)
            if link is None:
                raise SessionError(f"flow for handle {flow.handle}, which is not attached")
            if isinstance(link, OutgoingLink) and flow.link_credit is not None:
                link.grant(flow.delivery_count, flow.link_credit, bool(flow.drain))
                yield CreditGranted(link)
        if flow.echo:
            self.send_flow()

    def _receive_transfer(self, transfer: Transfer, payload: bytes) -> Iterator[Event]:
        if self._incoming_window <= 0:
            raise WindowViolation("more transfers than the session window allows")
        self._incoming_window -= 1
        self._next_incoming_id = (self._next_incoming_id + 1) % _SEQUENCE
        if self._incoming_window < INCOMING_WINDOW // 2:
            self._incoming_window = INCOMING_WINDOW
            self.send_flow()
        link = self.links.get(transfer.handle)
        if link is None and transfer.handle in self._detaching:
            return  # sent before the broker's detach arrived
        if not isinstance(link, IncomingLink):
            raise SessionError(f"transfer on handle {transfer.handle}, which cannot receive transfers")
        if not link.accepted:
            return
        yield from self._collect(link, transfer, payload)

    def _collect(self, link: IncomingLink, transfer: Transfer, payload: bytes) -> Iterator[Event]:
        partial = link.partial
        if partial is None:
            if transfer.delivery_id is None:
                raise SessionError("the first frame of a delivery lacks its delivery-id")
            partial = PartialDelivery(transfer.delivery_id, transfer.message_format or 0, False, transfer.state)
            link.partial = partial
        elif transfer.delivery_id not in (None, partial.delivery_id):
            # Part 2, 2.7.5
            raise NotAllowedError(f"delivery {transfer.delivery_id} begins before {partial.delivery_id} is complete")
        partial.settled = partial.settled or bool(transfer.settled) or link.attach.snd_settle_mode == 1
        if transfer.aborted:
            link.partial = None
            self._use_credit(link)
            return
        partial.size += len(payload)
        if partial.size > link.max_message_bytes:
            partial.oversized = True
            partial.parts.clear()
        else:
            partial.parts.append(payload)
        if transfer.more:
            return
        link.partial = None
        self._use_credit(link)
        body = partial.parts[0] if len(partial.parts) == 1 else b"".join(partial.parts)
        yield MessageReceived(
            *(link, partial.delivery_id, partial.message_format, body),
            *(partial.settled, transfer.state or partial.state, partial.oversized),
        )

    def _use_credit(self, link: IncomingLink) -> None:
        link.delivery_count = (link.delivery_count + 1) % _SEQUENCE
        link.credit -= 1
        if link.credit < INCOMING_CREDIT // 2:
            link.replenish()

    def _receive_disposition(self, disposition: Disposition) -> Iterator[Event]:
        if not disposition.role:
            return  # the peer settles its own deliveries: nothing to do
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        if last - first < len(self._unsettled):
            ids = list(range(first, last + 1))
        else:  # a range wider than the unsettled deliveries: filter those instead
            ids = [key for key in self._unsettled if first <= key <= last]
        for delivery_id in ids:
            delivery = self._unsettled.get(delivery_id)
            if delivery is None:
                continue
            if disposition.state is None and not disposition.settled:
                continue
            del self._unsettled[delivery_id]
            yield DeliverySettling(delivery, disposition.state, bool(disposition.settled))

    def transfer(
        self, link: OutgoingLink, tag: bytes, payload: bytes, *, settled: bool, message_format: int
    ) -> Delivery | None:
        """Splits a message into frames. Sends the frames that the peer's window allows, and queues the other frames.

        The caller begins a delivery only while the window is open. So the frames of at most one delivery wait.
        """
        delivery_id = self._next_delivery_id
        self._next_delivery_id = (delivery_id + 1) % _SEQUENCE
        room = self._connection.remote_max_frame_bytes - _TRANSFER_OVERHEAD
        if len(payload) <= room:
            first = Transfer(link.handle, delivery_id, tag, message_format, settled)
            self._enqueue(link, first, payload)
        else:
            for start in range(0, len(payload), room):
                more = start + room < len(payload)
                if start == 0:
                    frame = Transfer(link.handle, delivery_id, tag, message_format, settled, more)
                else:
                    frame = Transfer(link.handle, more=more)
                self._enqueue(link, frame, payload[start : start + room])
        if settled:
            return None
        delivery = Delivery(link, delivery_id, tag)
        self._unsettled[delivery_id] = delivery
        return delivery

    def _enqueue(self, link: OutgoingLink, transfer: Transfer, payload: bytes) -> None:
        if self._waiting or self._remote_window <= 0:
            self._waiting.append((link, transfer, payload))
            self._connection.unsent_bytes += len(payload)
        else:
            self._send_transfer(transfer, payload)

    def _flush_waiting(self) -> None:
        while self._waiting and self._remote_window > 0:
            _, transfer, payload = self._waiting.popleft()
            self._connection.unsent_bytes -= len(payload)
            self._send_transfer(transfer, payload)

    def _send_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._remote_window -= 1
        self._next_outgoing_id = (self._next_outgoing_id + 1) % _SEQUENCE
        self.send(transfer, payload)
