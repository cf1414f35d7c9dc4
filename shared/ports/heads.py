"""The heads of each tenant's histories by day, and the time until which the heads are complete (R91)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from shared.core.audit.heads import DayHead


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The time until which a tenant's heads are complete, and the state of the running check."""

    #: time before which each event has its head; None if no check was completed
    until: datetime | None = None
    #: end of the checked period; None if no check is running
    goal: datetime | None = None
    #: last living job that the check has read
    after: str = ""
    #: ETag; "": the row does not exist yet
    etag: str = ""


class Heads(Protocol):
    """Heads, which `shared.operations.events.feed_writer` writes with the feed. Each method raises
    LedgerUnavailable.
    """

    async def list_days(
        self, tenant: str, first: date, last: date, *, after: str = "", limit: int
    ) -> list[tuple[str, DayHead]]:
        """Returns heads of the days from `first` to `last` with their positions, by day and name, after the position
        `after`.
        """

    async def remove_before(self, tenant: str, day: date, *, limit: int) -> int:
        """Deletes heads of days before `day`, at most `limit` (up to 100). Returns their number."""

    async def read_completed(self, tenant: str) -> Completed: ...

    async def write_completed(self, tenant: str, completed: Completed) -> Completed:
        """Writes the state under the row's ETag, and returns the state with the new ETag. Raises Conflict."""
