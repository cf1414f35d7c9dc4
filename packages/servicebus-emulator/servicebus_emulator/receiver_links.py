"""A broker's message as an AMQP receiver gets it: the annotations, the delivery tag, and the link as a consumer."""

from __future__ import annotations

import uuid
from typing import Any, Protocol, cast

from servicebus_emulator.amqp.link import OutgoingLink
from servicebus_emulator.amqp.message import AmqpMessage
from servicebus_emulator.amqp.values import Int, Symbol, Timestamp
from servicebus_emulator.broker.message import Message, MessageState
from servicebus_emulator.broker.queue import MessageQueue

_SEQUENCE_NUMBER = Symbol("x-opt-sequence-number")
_ENQUEUED_TIME = Symbol("x-opt-enqueued-time")
_ENQUEUED_SEQUENCE_NUMBER = Symbol("x-opt-enqueue-sequence-number")
_LOCKED_UNTIL = Symbol("x-opt-locked-until")
_STATE = Symbol("x-opt-message-state")
_DEAD_LETTER_SOURCE = Symbol("x-opt-deadletter-source")


def render(message: Message) -> bytes:
    """The encoded message with what the broker knows about it."""
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
    return content.render(message.delivery_count, annotations)


class Peer(Protocol):
    """The client at the other end."""

    def is_behind(self) -> bool:
        """It has not read what it was sent; more waits in the queue until it has, and `request_messages` is called then."""


class LinkConsumer:
    """A receiving link, as `broker.queue.Consumer`. A delivery tag is the lock token in GUID byte order."""

    def __init__(self, link: OutgoingLink, queue: MessageQueue, peer: Peer) -> None:
        self.link = link
        self._peer = peer
        self.queue = queue
        self.settles_on_send = link.settles_on_send

    @property
    def credit(self) -> int:
        return 0 if self.link.closed or self._peer.is_behind() else self.link.credit

    def request_messages(self) -> None:
        """There is new credit, or the peer reads again."""
        self.queue.request_messages(self)

    def deliver(self, message: Message) -> None:
        tag = message.lock_token.bytes_le if message.lock_token is not None else uuid.uuid4().bytes_le
        self.link.transfer(tag, render(message), settled=self.settles_on_send)

    def closed(self) -> None:
        """The link is gone."""
        self.queue.remove_consumer(self)
