"""Receivers, as queues see them."""

from __future__ import annotations

from typing import Protocol

from servicebus_emulator.broker.message import Message


class Consumer(Protocol):
    """A receiver as the queue sees it."""

    @property
    def credit(self) -> int:
        """How many messages it would take now."""

    @property
    def settles_on_send(self) -> bool:
        """Receive-and-delete: what it is given is gone from the queue."""

    def deliver(self, message: Message) -> None:
        """Takes one message, locked for it (by `message.lock_token`) unless it settles on send."""
