"""Counts of the last hour, minute by minute: one row a minute, and rows of processes that are not in one yet."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from shared.core.minutes import MinuteCounts


class Minutes(Protocol):
    """See `shared.core.minutes`."""

    async def add(self, counts: Mapping[datetime, MinuteCounts], writer: str) -> None:
        """Writes what one process counted, by minute; `writer` is new for each call. Raises LedgerUnavailable."""

    async def read(self, since: datetime) -> dict[datetime, MinuteCounts]:
        """Returns the recorded minutes since then, in order. Rows that cannot be read are left out.

        Raises LedgerUnavailable.
        """

    async def fold(self, now: datetime, active: Mapping[str, int] | None) -> None:
        """Adds the rows of processes to the row of their minute, sets `active` in the row of the current minute, and
        removes rows older than an hour; as much as one query shows. Each minute is one transaction, so that two
        sweepers add a row once. Raises LedgerUnavailable.
        """
