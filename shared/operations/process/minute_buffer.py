"""Counts this process's commits until they are written for the overview each minute (`shared.core.overview.minutes`).

A commit is only counted in memory. One task of the process writes once a minute, and a sweep writes the counts of its
own process. A process that dies loses unwritten counts, so the numbers of the overview are approximate.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime

from shared import telemetry
from shared.core.jobs.job import Record
from shared.core.jobs.outcome import Outcome
from shared.core.overview.minutes import MINUTE, MinuteCounts, minute_of
from shared.ports.minutes import Minutes
from shared.time_limits import time_limit

#: maximum seconds of one write
_WRITE_S = 5.0
#: maximum minutes that are kept until the next write; the oldest is dropped first
_MAX_KEPT = 5


class MinuteBuffer:
    """The counts of one process. No method raises."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] | None = None) -> None:
        """Starts without counts. `sleep` is the sleep function of the task that writes. If None, only sweeps write."""
        self._sleep = sleep
        self._counts: dict[datetime, MinuteCounts] = {}
        #: kept here, since asyncio refers to tasks weakly
        self._writer: asyncio.Task[None] | None = None

    def note(self, before: Record, outcome: Outcome, minutes: Minutes) -> None:
        """Counts a committed transition without waiting."""
        if not outcome.transitioned or not outcome.events:
            return
        with telemetry.tolerate(Exception, "MINUTES_UNWRITTEN"):
            event = outcome.events[0]
            counts = self._counts.setdefault(minute_of(event.at), MinuteCounts())
            counts.note(before, outcome.record, event)
            while len(self._counts) > _MAX_KEPT:
                del self._counts[min(self._counts)]
            if self._sleep is not None and (self._writer is None or self._writer.done()):
                self._writer = asyncio.create_task(self._write_later(minutes, self._sleep))

    async def write(self, minutes: Minutes) -> None:
        """Writes the counts. After a fault the counts are dropped, even if the store does not have them, so that no
        count is added twice.
        """
        counts = {minute: each for minute, each in self._counts.items() if each.ends or each.latencies}
        self._counts = {}
        if not counts:
            return
        with telemetry.tolerate(Exception, "MINUTES_UNWRITTEN"):
            async with time_limit(_WRITE_S):
                await minutes.add(counts, uuid.uuid4().hex)

    async def _write_later(self, minutes: Minutes, sleep: Callable[[float], Awaitable[object]]) -> None:
        await sleep(MINUTE.total_seconds())
        await self.write(minutes)
