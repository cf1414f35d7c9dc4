"""What a connection tells its owner after reading bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from servicebus_emulator.amqp.link import Delivery, IncomingLink, OutgoingLink
from servicebus_emulator.amqp.performatives import Attach


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake is over."""

    container_id: str


@dataclass(frozen=True, slots=True)
class LinkAttaching:
    """The peer wants a link; answer with its `accept` or `refuse`."""

    link: IncomingLink | OutgoingLink
    attach: Attach


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A whole message came in. Answer with `link.settle(delivery_id, outcome)` unless the peer sent it settled."""

    link: IncomingLink
    delivery_id: int
    message_format: int
    payload: bytes
    settled: bool
    state: Any
    #: Larger than the link's max-message-size; `payload` is cut off.
    oversized: bool


@dataclass(frozen=True, slots=True)
class CreditGranted:
    """The peer changed the credit of a link on which it receives; `link.drain` tells whether it waits for a drain."""

    link: OutgoingLink


@dataclass(frozen=True, slots=True)
class DeliverySettling:
    """The peer told an outcome for what it received. If `settled`, it waits for no answer."""

    delivery: Delivery
    state: Any
    settled: bool


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link is gone, with its session or connection maybe."""

    link: IncomingLink | OutgoingLink


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """Nothing more will be read; write what is left and close the transport. `error` is our reason, if it was ours."""

    error: str | None


Event = Opened | LinkAttaching | MessageReceived | CreditGranted | DeliverySettling | LinkDetached | ConnectionClosed
