"""Exports of the tables, from which lost tables are restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Exported:
    """A complete export, with its name and its number of rows."""

    #: time of its start, and a digest of the account, such as `20261127T030000Z-1f2e3d4c`
    name: str
    rows: int


class LedgerExports(Protocol):
    """Exports of the tables. The timer `prune` writes exports, in one process at a time. An operator can also write an
    export (`scripts.ledger_exports`).

    Each method raises LedgerUnavailable.
    """

    async def go_on(self, now: datetime, is_over: Callable[[], bool]) -> Exported | None:
        """Continues the incomplete export, or starts the export of the day. Returns the export if the export is now
        complete.

        Returns None if the export needs another call, or the day already has its export. Raises ExportLate for an
        export that is incomplete after two days, and deletes this export.
        """

    async def remove_before(self, before: datetime) -> None:
        """Deletes exports that started earlier than `before`, except the last complete export."""
