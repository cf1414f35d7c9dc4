"""Counts of the last hour by minute. Each minute has one row, and the rows of processes that are not yet added to this
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from shared.core.overview.minutes import MinuteCounts


class Minutes(Protocol):
    """Counts of minutes (`shared.core.overview.minutes`)."""

    async def add(self, counts: Mapping[datetime, MinuteCounts], writer: str) -> None:
        """Writes the counts of one process by minute. `writer` is new for each call. Raises LedgerUnavailable."""

    async def read(self, since: datetime) -> dict[datetime, MinuteCounts]:
        """Returns the counts of the minutes from `since` on, in order. Rows that cannot be decoded are left out.

        Raises LedgerUnavailable.
        """

    async def fold(self, now: datetime, active: Mapping[str, int] | None) -> None:
        """Adds the rows of processes to the row of their minute. Sets `active` in the row of the current minute, and
        deletes rows older than an hour.

        Handles the rows of one query. Each minute is one transaction, so two sweepers add each row exactly once.
        Raises LedgerUnavailable.
        """
