"""One process's copy of the directory of quotas. A group of rows is read again if its version has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from shared.operations.process.concurrency import run_concurrently
from shared.ports.admissions import DirectoryRows, QuotaDirectory, joined

#: maximum time until a process reads all groups again (15 to 30 minutes), since rows restored from a backup may have
#: old versions
_ALL_AGAIN = timedelta(minutes=30)


class DirectoryCopy:
    """The groups of the directory's rows as last read, with the versions of the groups."""

    def __init__(self) -> None:
        self._groups: dict[str, DirectoryRows] = {}
        self._versions: dict[str, int] = {}
        #: time of the next read of all groups; None if never read
        self._all_again_at: datetime | None = None
        #: rows of all groups
        self.rows = DirectoryRows()

    async def refresh(self, admissions: QuotaDirectory, now: datetime, random: Callable[[], float]) -> Exception | None:
        """Reads the versions and then the changed groups, so that the next refresh finds a change in between.

        `random`: returns a number from 0 to 1. A group that cannot be read keeps its last rows, and the next refresh
        reads it again. Returns the fault of the first such group, or None. Raises LedgerUnavailable.
        """
        versions = await admissions.versions()
        if self._all_again_at is None or now >= self._all_again_at:
            found = await admissions.groups()
            self._groups = {name: self._or_last(name, rows) for name, rows in found.items()}
            self._versions = versions
            self._all_again_at = now + _ALL_AGAIN * (1 + random()) / 2
            self.rows = joined(self._groups.values())
            return None
        return await self._read_changed(admissions, versions)

    async def _read_changed(self, admissions: QuotaDirectory, versions: dict[str, int]) -> Exception | None:
        async def read(name: str) -> Exception | None:
            try:
                self._groups[name] = self._or_last(name, await admissions.group(name))
            except Exception as fault:
                # also a defect of a decoder, so that the other groups count
                return fault
            self._versions.pop(name, None)
            if name in versions:
                self._versions[name] = versions[name]
            return None

        known = self._versions
        changed = sorted(name for name in {*known, *versions} if known.get(name) != versions.get(name))
        if not changed:
            return None
        faults = [fault for fault in await run_concurrently(changed, read) if fault is not None]
        self.rows = joined(self._groups.values())
        return faults[0] if faults else None

    def _or_last(self, name: str, rows: DirectoryRows) -> DirectoryRows:
        """Returns the group's rows, or its last rows if its only row cannot be decoded."""
        last = self._groups.get(name)
        return replace(last, unread=rows.unread) if last is not None and name in rows.unread else rows
