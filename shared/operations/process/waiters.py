"""Delays responses of this process until a change, with one read for all responses that wait for the same subject (R75,
R82).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

#: maximum waiting responses of a process: half of the concurrent requests in host.json, so that they never block others
MAX_WAITERS = 50
#: maximum waiting responses for events of one tenant
MAX_FOLLOWERS = 10
#: seconds between two reads of rows of other processes, while a caller waits
_LOOK_S = 0.25


class LastEvent(NamedTuple):
    """The last event of a tenant's feed or of a job's history. `ended` is `True` for a job that has ended."""

    #: number of the last event
    number: int
    #: `True` if the job is in a terminal state; a feed never ends
    ended: bool = False


#: function that reads the last event from the store
Look = Callable[[], Awaitable[LastEvent]]


class Waiters:
    """The waiting responses of this process, counted by tenant."""

    def __init__(self) -> None:
        self._held: Counter[str | None] = Counter()
        self._following: Counter[str | None] = Counter()

    def has_room(self, tenant: str | None, *, follower: bool = False) -> bool:
        """Returns `True` if the tenant can have one more waiting response.

        A tenant has room while it holds fewer slots than are free, so a single tenant gets at most half of the 50
        slots. `tenant`: None for a caller for all tenants. `follower`: the response waits for events, at most 10 per
        tenant.
        """
        free = MAX_WAITERS - self._held.total()
        if follower and self._following[tenant] >= MAX_FOLLOWERS:
            return False
        return free > 0 and (tenant is None or self._held[tenant] < free)

    @contextlib.contextmanager
    def hold(self, tenant: str | None, *, follower: bool = False) -> Iterator[None]:
        counters = [self._held, self._following] if follower else [self._held]
        for each in counters:
            each[tenant] += 1
        try:
            yield
        finally:
            for each in counters:
                each[tenant] -= 1
                if not each[tenant]:
                    del each[tenant]


class Tail:
    """The last known event of a tenant's feed or of a job's history. All callers that wait for one feed or history
    share its tail.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._end = LastEvent(0)
        self._looked_at = -math.inf
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Event] = set()
        #: number of holders
        self.users = 0

    def grew(self, number: int, *, ended: bool = False) -> None:
        """Records that this process wrote or read up to `number`. `ended`: the job has ended."""
        # a lower number was read before the last known write
        if number >= self._end.number:
            self._take(LastEvent(number, ended))

    async def goes_past(self, number: int, seconds: float, *, to_end: bool = False) -> bool:
        """Waits up to `seconds` until the last number is above `number`, or with `to_end` until the job has ended.

        Returns `True` if the condition was met in time. Raises errors of the read.
        """
        end, woken = time.monotonic() + seconds, asyncio.Event()
        self._waiting.add(woken)
        try:
            while True:
                # cleared before the read, so that a write during the read is not missed
                woken.clear()
                known = await self._last()
                if known.ended if to_end else known.number > number:
                    return True
                if (left_s := end - time.monotonic()) <= 0:
                    return False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(_LOOK_S, left_s)):
                        await woken.wait()
        finally:
            self._waiting.discard(woken)

    async def _last(self) -> LastEvent:
        """Returns the last event, read at most a quarter of a second ago."""
        async with self._turn:
            if time.monotonic() - self._looked_at >= _LOOK_S:
                began_at = self._looked_at
                found = await self._look()
                # a write of this process in the meantime is newer
                if self._looked_at == began_at:
                    self._take(found)
            return self._end

    def _take(self, end: LastEvent) -> None:
        if end.number > self._end.number:
            for woken in self._waiting:
                woken.set()
        self._end, self._looked_at = end, time.monotonic()


class Tails:
    """The tails for which callers wait, by tenant or job id."""

    def __init__(self) -> None:
        self._tails: dict[str, Tail] = {}

    def grew(self, key: str, number: int, *, ended: bool = False) -> None:
        """Records that this process wrote up to `number`, and wakes the requests that wait for it."""
        if (tail := self._tails.get(key)) is not None:
            tail.grew(number, ended=ended)

    @contextlib.contextmanager
    def of(self, key: str, look: Look) -> Iterator[Tail]:
        """Yields the tail of the tenant or job, which all its callers share. The last caller drops the tail."""
        tail = self._tails.setdefault(key, Tail(look))
        tail.users += 1
        try:
            yield tail
        finally:
            tail.users -= 1
            if not tail.users:
                del self._tails[key]
