"""Instances that have messages due now, and the time of the next due message."""

from __future__ import annotations

import heapq
from datetime import datetime


class Wakeups:
    """A queue of instances. `take` does not return a taken instance again before `release`."""

    def __init__(self) -> None:
        self._ready: dict[str, None] = {}
        self._later: list[tuple[datetime, str]] = []
        self._busy: set[str] = set()
        self._again: set[str] = set()

    def add(self, instance_id: str, at: datetime, now: datetime) -> None:
        """Wakes the instance at `at`."""
        if at > now:
            heapq.heappush(self._later, (at, instance_id))
        else:
            self._ready[instance_id] = None

    def take(self, now: datetime) -> str | None:
        """Returns the id of an instance with work due, or `None`. The instance stays taken until `release`."""
        self._make_ready(now)
        while self._ready:
            instance_id = next(iter(self._ready))
            del self._ready[instance_id]
            if instance_id in self._busy:
                self._again.add(instance_id)
            else:
                self._busy.add(instance_id)
                return instance_id
        return None

    def release(self, instance_id: str) -> None:
        """Makes the instance available for `take` again."""
        self._busy.discard(instance_id)
        if instance_id in self._again:
            self._again.discard(instance_id)
            self._ready[instance_id] = None

    def next_at(self, now: datetime) -> datetime | None:
        """Returns the earliest wake-up after `now`, or `None`. A due instance waits for `take` until a slot is free."""
        self._make_ready(now)
        return self._later[0][0] if self._later else None

    def idle(self, now: datetime) -> bool:
        """Returns True if no instance is due and none is taken."""
        self._make_ready(now)
        return not self._ready and not self._busy and not self._again

    def _make_ready(self, now: datetime) -> None:
        while self._later and self._later[0][0] <= now:
            self._ready[heapq.heappop(self._later)[1]] = None
