"""Events that a connection reports to its owner after reading bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from servicebus_emulator.amqp.link import Delivery, IncomingLink, LinkSession, OutgoingLink
from servicebus_emulator.amqp.performatives import Attach


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake has ended."""

    container_id: str


@dataclass(frozen=True, slots=True)
class LinkAttaching:
    """The peer requests a link. The owner calls `accept` or `refuse` of the link."""

    link: IncomingLink | OutgoingLink
    attach: Attach


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A whole message was received. The owner calls `link.settle(delivery_id, outcome)`, unless the message is
    settled.
    """

    link: IncomingLink
    delivery_id: int
    message_format: int
    payload: bytes
    settled: bool
    state: Any
    #: `True` if it is larger than the link's max-message-size; `payload` is then empty
    oversized: bool


@dataclass(frozen=True, slots=True)
class CreditGranted:
    """The peer changed the credit of a link on which it receives. With `link.drain` the peer expects a drain."""

    link: OutgoingLink


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """The peer's closed window of a session has opened again. The links of the session can send."""

    session: LinkSession


@dataclass(frozen=True, slots=True)
class DeliverySettling:
    """The peer sent an outcome for a delivery. If `settled`, the peer expects no reply."""

    delivery: Delivery
    state: Any
    settled: bool


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link ended, alone or with its session or connection."""

    link: IncomingLink | OutgoingLink


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection is closed. The owner sends the remaining output and closes the transport.

    `error` is the broker's reason for closing the connection, or None without a reason.
    """

    error: str | None


Event = (
    Opened
    | LinkAttaching
    | MessageReceived
    | CreditGranted
    | WindowOpened
    | DeliverySettling
    | LinkDetached
    | ConnectionClosed
)
