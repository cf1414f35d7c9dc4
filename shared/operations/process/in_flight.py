"""Counts of directives in flight on the bus, as one process knows them. A process reads them only for dispatch limits
with `max_active` (R56).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared import telemetry
from shared.errors import BusUnavailable
from shared.ports.bus import Counts

#: maximum age of a count, or of a fault in place of one
COUNT_LIVES = timedelta(seconds=10)


@dataclass
class InFlightCount:
    """The number of directives on a lane, of one service or of all."""

    read_at: datetime
    #: number from the bus; None if the read failed
    counted: int | None
    #: directives that this process sent since, which the bus possibly has not counted
    passed: int = 0

    @property
    def known(self) -> int | None:
        return None if self.counted is None else self.counted + self.passed


@dataclass
class InFlight:
    """The last count of each lane and service."""

    #: counts by (lane, service); None means every service
    _counts: dict[tuple[int, str | None], InFlightCount] = field(default_factory=dict)
    _reading: dict[tuple[int, str | None], asyncio.Lock] = field(default_factory=dict)

    async def of(self, counts: Counts, lane: int, service: str | None, now: datetime) -> InFlightCount:
        """Returns the count, at most ten seconds old. One read serves all callers in the meantime. After a fault of the
        bus, logs the fault and returns a count without a number.
        """
        key = (lane, service)
        async with self._reading.setdefault(key, asyncio.Lock()):
            known = self._counts.get(key)
            if known is None or now - known.read_at >= COUNT_LIVES:
                known = self._counts[key] = InFlightCount(now, await _count(counts, lane, service))
            return known


async def _count(counts: Counts, lane: int, service: str | None) -> int | None:
    with telemetry.tolerate(BusUnavailable):
        return await counts.in_flight(lane, service)
    return None
