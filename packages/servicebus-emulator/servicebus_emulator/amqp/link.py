"""Links as the broker sees them: incoming from senders, outgoing to receivers (AMQP 1.0 part 2, 2.6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from servicebus_emulator.amqp.performatives import Attach, Body, Detach, Disposition, Error, Source, Target

#: credit of a sending peer, renewed when half of it is used
INCOMING_CREDIT = 1000
_SEQUENCE = 1 << 32


class LinkSession(Protocol):
    """A session as its links use it. A protocol, because the module of sessions imports this one."""

    @property
    def window_is_open(self) -> bool: ...

    def is_sending(self, link: OutgoingLink) -> bool: ...

    def send(self, body: Body) -> None: ...

    def send_flow(self, handle: int, delivery_count: int, credit: int, *, drain: bool | None = None) -> None: ...

    def transfer(
        self, link: OutgoingLink, tag: bytes, payload: bytes, *, settled: bool, message_format: int
    ) -> Delivery | None: ...

    def forget(self, link: IncomingLink | OutgoingLink) -> None: ...


class _Link:
    """Name, handle and detach of a link. Both directions use the peer's handle."""

    def __init__(self, session: LinkSession, attach: Attach) -> None:
        self.session = session
        self.attach = attach
        self.name = attach.name
        self.handle = attach.handle
        self.accepted = False
        self.closed = False

    @property
    def properties(self) -> dict[Any, Any]:
        """Returns the link properties that the peer sent."""
        return self.attach.properties or {}

    def refuse(self, condition: str, description: str) -> None:
        """Refuses the link. Attaches the link with null termini, then detaches it with the error (part 2, 2.6.3)."""
        null_source, null_target = None, None
        self.session.send(
            Attach(
                *(self.name, self.handle, not self.attach.role, self.attach.snd_settle_mode),
                *(self.attach.rcv_settle_mode, null_source, null_target),
                initial_delivery_count=None if not self.attach.role else 0,
            )
        )
        self.detach(condition, description)

    def detach(self, condition: str | None = None, description: str = "") -> None:
        """Closes the link from the broker's side, with an error if `condition` is set."""
        if self.closed:
            return
        error = None if condition is None else Error(condition, description)
        self.session.send(Detach(self.handle, True, error))
        assert isinstance(self, IncomingLink | OutgoingLink)
        self.session.forget(self)


class IncomingLink(_Link):
    """A link on which the peer sends and the broker receives."""

    def __init__(self, session: LinkSession, attach: Attach) -> None:
        super().__init__(session, attach)
        self.max_message_bytes = 0
        self.delivery_count = attach.initial_delivery_count or 0
        self.credit = 0
        self.partial: PartialDelivery | None = None

    def accept(self, max_message_bytes: int, properties: dict[Any, Any] | None = None) -> None:
        """Opens the link and grants credit."""
        self.max_message_bytes = max_message_bytes
        self.accepted = True
        attach = self.attach
        self.session.send(
            Attach(
                *(self.name, self.handle, True, attach.snd_settle_mode, attach.rcv_settle_mode),
                *(attach.source, attach.target),
                max_message_size=max_message_bytes,
                properties=properties,
            )
        )
        self.replenish()

    def replenish(self) -> None:
        """Grants credit up to the full amount."""
        self.credit = INCOMING_CREDIT
        self.session.send_flow(self.handle, self.delivery_count, self.credit)

    def settle(self, delivery_id: int, outcome: Body) -> None:
        """Settles a received message with its outcome."""
        self.session.send(Disposition(True, delivery_id, None, True, outcome))


@dataclass(slots=True)
class PartialDelivery:
    """A delivery whose last frame was not received yet."""

    delivery_id: int
    message_format: int
    settled: bool
    state: Any
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    oversized: bool = False


@dataclass(eq=False, slots=True)
class Delivery:
    """A message that was sent and is not settled yet."""

    link: OutgoingLink
    delivery_id: int
    tag: bytes

    def settle(self, outcome: Body) -> None:
        """Settles the delivery from the broker's side with its final outcome."""
        self.link.session.send(Disposition(False, self.delivery_id, None, True, outcome))


class OutgoingLink(_Link):
    """A link on which the broker sends and the peer receives."""

    def __init__(self, session: LinkSession, attach: Attach) -> None:
        super().__init__(session, attach)
        self.delivery_count = 0
        self.credit = 0
        self.drain = False

    @property
    def settles_on_send(self) -> bool:
        """Returns True if the peer requested settled messages (receive-and-delete)."""
        return self.attach.snd_settle_mode == 1

    @property
    def usable_credit(self) -> int:
        """Returns the credit that can be used now, which is zero while the peer's session window is closed."""
        return self.credit if self.session.window_is_open else 0

    @property
    def is_sending(self) -> bool:
        """Returns True if the last frames of a delivery wait for the peer's session window."""
        return self.session.is_sending(self)

    def accept(self, filters: dict[Any, Any] | None = None, properties: dict[Any, Any] | None = None) -> None:
        """Opens the link. The response has the filters and the distribution mode in effect (part 3, 3.5.3).

        `filters` are the filters in effect. Other filters of the peer are omitted. Messages always move, in any mode.
        """
        self.accepted = True
        attach, source = self.attach, self.attach.source
        mode = None if source.distribution_mode is None else "move"
        self.session.send(
            Attach(
                *(self.name, self.handle, False, attach.snd_settle_mode, attach.rcv_settle_mode),
                *(replace(source, filter=filters, distribution_mode=mode), attach.target),
                initial_delivery_count=0,
                properties=properties,
            )
        )

    def grant(self, delivery_count: int | None, link_credit: int, drain: bool) -> None:
        """Applies the peer's flow (part 2, 2.6.7), whose credit includes deliveries that the peer has not seen yet."""
        peer_count = self.delivery_count if delivery_count is None else delivery_count
        in_flight = (self.delivery_count - peer_count) % _SEQUENCE
        self.credit = max(0, link_credit - in_flight)
        self.drain = drain

    def drained(self) -> None:
        """Completes a drain: consumes the remaining credit and reports this to the peer (part 2, 2.6.7)."""
        self.delivery_count = (self.delivery_count + self.credit) % _SEQUENCE
        self.credit = 0
        self.drain = False
        self.session.send_flow(self.handle, self.delivery_count, 0, drain=True)

    def transfer(self, tag: bytes, payload: bytes, *, settled: bool, message_format: int = 0) -> Delivery | None:
        """Sends a message with one credit. Returns its delivery, or None if the message is sent settled."""
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) % _SEQUENCE
        return self.session.transfer(self, tag, payload, settled=settled, message_format=message_format)


def address_of(terminus: Any) -> str:
    """Returns the address of a source or target. The result is empty if there is no address."""
    address = terminus.address if isinstance(terminus, Source | Target) else None
    return address if isinstance(address, str) else ""
