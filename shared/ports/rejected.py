"""Messages that no job could take: their ids, rows and store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class RejectedMessage:
    """A message that no job could take (luciusrejected)."""

    #: the same for every delivery of the same message (`shared.core.rejections`)
    id: str
    received_at: datetime
    reason: str
    detail: str
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    body: str
    #: when a job took it after all
    redriven_at: datetime | None = None
    #: what came of that
    redriven_outcome: str | None = None


class RejectedMessages(Protocol):
    """Where messages are parked that would otherwise block their lane."""

    async def quarantine(self, message: RejectedMessage) -> None:
        """Again is harmless, and keeps the mark of a redrive. Raises LedgerUnavailable."""

    async def read(self, id_: str) -> RejectedMessage | None:
        """None if there is no such message. Raises LedgerUnavailable."""

    async def list_day(self, day: str, *, after: str | None, limit: int) -> list[RejectedMessage]:
        """A day's messages (`YYYYMMDD`, UTC), newest first, past the id `after`. Raises LedgerUnavailable."""

    async def mark(self, id_: str, *, redriven_at: datetime, outcome: str) -> None:
        """Says that a job took the message. Raises LedgerUnavailable."""
