"""Exports of the tables, from which lost tables are restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Exported:
    """An export that is complete."""

    #: the instant when it began, and a digest of the account, as `20261127T030000Z-1f2e3d4c`
    name: str
    rows: int


class LedgerExports(Protocol):
    """Written by one process at a time: the timer `prune`. Each method raises LedgerUnavailable."""

    async def go_on(self, now: datetime, is_over: Callable[[], bool]) -> Exported | None:
        """Continues the export that is not complete, or begins the one of the day; returns it once it is complete.

        None: there is more to do, or the day has its export. Raises ExportLate for one that is dropped.
        """

    async def remove_before(self, before: datetime) -> None:
        """Removes exports that began earlier, except the last one that is complete."""
