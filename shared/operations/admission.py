"""How many jobs of all tenants may be active at once (R16).

These limits are guards: the sweeper counts the active jobs once a minute, and each process adds what it let in since.
Race guard: within one sweep every other process may let in as many again as were free (docs/lifecycle.md has the
number); nothing is counted where no limit is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from shared.errors import LimitReached
from shared.ports.index import Guard, Index
from shared.settings import Settings

#: how long a process relies on the counts that it read
GUARD_LIVES = timedelta(seconds=15)

#: jobs end all the time; a caller may ask again soon
RETRY_AFTER_S = 30

BURST = "BURST"


class Admission:
    """One process's view of the guards."""

    def __init__(self) -> None:
        self._guard: Guard | None = None
        self._read_at: datetime | None = None
        #: (when, mode) of each job that was let in since the last count
        self._let_in: list[tuple[datetime, str]] = []
        #: claims of jobs that were let in and are being written
        self.writing: set[tuple[str, str]] = set()

    async def admit(self, index: Index, settings: Settings, now: datetime, mode: str) -> Callable[[], None]:
        """Counts a job in, before it is written: others ask meanwhile (Race guard). What it returns takes that back,
        once. Raises LimitReached, LedgerUnavailable.
        """
        await self.check(index, settings, now, mode)
        if not _guarded(settings):
            return lambda: None
        entry = (now, mode)
        self._let_in.append(entry)
        return lambda: self._let_in.remove(entry) if entry in self._let_in else None

    async def check(self, index: Index, settings: Settings, now: datetime, mode: str) -> None:
        """The same without counting. Raises as `admit` does."""
        if not _guarded(settings):
            return
        if self._read_at is None or now - self._read_at >= GUARD_LIVES:
            guard = await index.read_guard()
            if guard is not None:
                # what came after the count is not in it
                self._let_in = [entry for entry in self._let_in if entry[0] > guard.counted_at]
            self._guard, self._read_at = guard, now
        counted = self._guard.active if self._guard is not None else {}
        if _full(settings.max_inflight, sum(counted.values()) + len(self._let_in)):
            raise limit_reached("LUCIUS_MAX_INFLIGHT", f"{settings.max_inflight} jobs are active")
        bursts = counted.get(BURST, 0) + sum(each == BURST for _, each in self._let_in)
        if mode == BURST and _full(settings.max_inflight_burst, bursts):
            raise limit_reached(
                "LUCIUS_MAX_INFLIGHT_BURST", f"{settings.max_inflight_burst} jobs in mode BURST are active"
            )


def _guarded(settings: Settings) -> bool:
    return settings.max_inflight is not None or settings.max_inflight_burst is not None


async def write_guard(index: Index, settings: Settings, active: Mapping[str, int], counted_at: datetime) -> None:
    """The sweeper's part: its counts by mode, only where a guard is set. Raises LedgerUnavailable."""
    if _guarded(settings):
        await index.write_guard(Guard(dict(active), counted_at))


def limit_reached(limit: str, detail: str) -> LimitReached:
    """`limit` is the name of the setting; `detail` has how many jobs are active."""
    return LimitReached(limit, detail, RETRY_AFTER_S)


def _full(limit: int | None, active: int) -> bool:
    return limit is not None and active >= limit
