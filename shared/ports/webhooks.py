"""Webhooks' way out: the one who posts, and the queue `lucius-webhooks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.core.webhooks import Answer


class WebhookSender(Protocol):
    """Posts to addresses that callers named, and to no other network (R86)."""

    def check(self, url: str) -> None:
        """What can be seen from the address alone. Raises HookUrlRefused."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One try of 10 s at most, without redirects; what goes wrong stands in the answer, never raised."""


@dataclass(frozen=True, kw_only=True)
class DeliveryCall:
    """A message of the queue: a try of one delivery, a probe of a hook, or its flow after one that succeeded."""

    tenant: str
    hook_id: str
    #: of the delivery; with `flow`: those after it
    number: int = 0
    name: str = ""
    #: the delivery's `tries`, or the hook's `probe`, when it was sent
    tries: int = 0
    kind: str = "try"


class DeliveryQueue(Protocol):
    """The queue `lucius-webhooks`."""

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        """Now, or at an instant. Raises BusUnavailable."""
