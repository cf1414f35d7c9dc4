"""How many jobs may be active at once (LIFECYCLE "Creation", step 3; FEATURES A9).

The tenant's limit is exact: its GATE row counts in the transaction that creates the job. The limits over all
tenants are guards: the sweeper counts the active jobs once a minute, and each process adds what it admitted
since. So they can be overshot by what the other processes admit within one sweep; nothing is counted where no
limit is set.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.errors import Refusal
from shared.ports import Guard, Index
from shared.settings import Settings

#: how long a process relies on the counts that it read
GUARD_LIVES = timedelta(seconds=15)

#: jobs end all the time; a caller may ask again soon
RETRY_AFTER_S = 30

_ALL = "all"


class Admission:
    """One process's view of the guards."""

    def __init__(self) -> None:
        self._guard: Guard | None = None
        self._read_at: datetime | None = None
        self._admitted: dict[str, int] = {}

    async def admit(self, index: Index, settings: Settings, now: datetime, mode: str) -> None:
        """Raises Refusal (429) with the limit's name, LedgerUnavailable."""
        if settings.max_inflight is None and settings.max_inflight_burst is None:
            return
        if self._read_at is None or now - self._read_at >= GUARD_LIVES:
            guard = await index.read_guard()
            if guard is not None and (self._guard is None or guard.counted_at != self._guard.counted_at):
                self._admitted = {}
            self._guard, self._read_at = guard, now
        counted = self._guard.active if self._guard is not None else {}
        active = {_ALL: sum(counted.values()), **counted}
        if _full(settings.max_inflight, active.get(_ALL, 0) + self._admitted.get(_ALL, 0)):
            raise refusal("LUCIUS_MAX_INFLIGHT", f"{settings.max_inflight} jobs are active")
        if mode == "BURST" and _full(
            settings.max_inflight_burst, active.get("BURST", 0) + self._admitted.get("BURST", 0)
        ):
            raise refusal("LUCIUS_MAX_INFLIGHT_BURST", f"{settings.max_inflight_burst} jobs in mode BURST are active")

    def admitted(self, mode: str) -> None:
        """A job of `mode` was created by this process."""
        for key in (_ALL, mode):
            self._admitted[key] = self._admitted.get(key, 0) + 1


async def count(index: Index, settings: Settings, now: datetime) -> None:
    """The sweeper's part: counts anew, only where a guard is set. Raises LedgerUnavailable."""
    if settings.max_inflight is not None or settings.max_inflight_burst is not None:
        await index.write_guard(Guard(await index.count_active(), now))


def refusal(limit: str, detail: str) -> Refusal:
    """429 with the limit's name and when to come again."""
    return Refusal(
        429,
        "LIMIT_REACHED",
        f"{detail}, which is its limit; send the same request again later",
        headers={"Retry-After": str(RETRY_AFTER_S)},
        limit=limit,
    )


def _full(limit: int | None, active: int) -> bool:
    return limit is not None and active >= limit
