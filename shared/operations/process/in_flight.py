"""What is in flight on the bus, as one process knows it: read for guards that have a number alone (R56)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared import telemetry
from shared.errors import BusUnavailable
from shared.ports.bus import Counts

#: how long a process relies on a count that it read, or on the fault that it met
COUNT_LIVES = timedelta(seconds=10)


@dataclass
class Count:
    """Directives of a service on one lane, or of all services on it."""

    read_at: datetime
    #: as the bus counted them; None: it could not be asked
    counted: int | None
    #: what this process let through since: the bus may not have counted it
    passed: int = 0

    @property
    def known(self) -> int | None:
        return None if self.counted is None else self.counted + self.passed


@dataclass
class InFlight:
    """The last count of each lane and service."""

    #: by (lane, service); None: every service
    _counts: dict[tuple[int, str | None], Count] = field(default_factory=dict)
    _reading: dict[tuple[int, str | None], asyncio.Lock] = field(default_factory=dict)

    async def of(self, counts: Counts, lane: int, service: str | None, now: datetime) -> Count:
        """Returns the counts, at most ten seconds old. One read serves all callers meanwhile. A fault of the bus is
        counted.
        """
        key = (lane, service)
        async with self._reading.setdefault(key, asyncio.Lock()):
            known = self._counts.get(key)
            if known is None or now - known.read_at >= COUNT_LIVES:
                known = self._counts[key] = Count(now, await _counted(counts, lane, service))
            return known


async def _counted(counts: Counts, lane: int, service: str | None) -> int | None:
    with telemetry.tolerate(BusUnavailable):
        return await counts.in_flight(lane, service)
    return None
