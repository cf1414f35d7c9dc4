"""The heads of each tenant's histories, by day; and how far they are known to be complete (R91)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from shared.core.audit.heads import DayHead


@dataclass(frozen=True, kw_only=True)
class Completed:
    """How far a tenant's heads are complete, and the check that is under way."""

    #: every event before it has its head; None: never checked
    until: datetime | None = None
    #: up to when the check goes; None: none is under way
    goal: datetime | None = None
    #: the last living job that it has read
    after: str = ""
    #: "": there is no row yet
    etag: str = ""


class Heads(Protocol):
    """Written with the feed by `shared.operations.events.feed_writer`. Each method raises LedgerUnavailable."""

    async def list_days(
        self, tenant: str, first: date, last: date, *, after: str = "", limit: int
    ) -> list[tuple[str, DayHead]]:
        """Heads of the days from `first` to `last`, past the position `after`, by day and name; each with its
        position."""

    async def remove_before(self, tenant: str, day: date, *, limit: int) -> int:
        """Removes heads of earlier days, at most `limit` (up to 100); returns the number."""

    async def completed(self, tenant: str) -> Completed: ...

    async def write_completed(self, tenant: str, completed: Completed) -> Completed:
        """Under the row's ETag; returns it with its new one. Raises Conflict."""
