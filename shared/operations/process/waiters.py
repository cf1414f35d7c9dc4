"""Requests that this process holds back, with one read for all that wait for the same (R75, R82)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

#: of one process: half of what host.json lets it serve at once, so that waiters never keep others out
MAX_WAITERS = 50
#: of them, requests that wait for one tenant's events
MAX_FOLLOWERS = 10
#: between two reads of the rows of other processes, while a caller waits
_LOOK_S = 0.25


class End(NamedTuple):
    """The end of a tenant's feed or of a job's history."""

    #: of what was written last
    number: int
    #: the job is in a terminal state; a feed never ends
    ended: bool = False


#: reads the end from the store
Look = Callable[[], Awaitable[End]]


class Waiters:
    """How many responses this process holds back, and for which tenants."""

    def __init__(self) -> None:
        self._held: Counter[str | None] = Counter()
        self._following: Counter[str | None] = Counter()

    def has_room(self, tenant: str | None, *, follower: bool = False) -> bool:
        """Returns whether the tenant may hold one more request. It may hold as many as are free: alone half of them,
        and a tenant that holds none finds room. None: the caller sees every tenant's jobs. `follower`: it waits for
        events.
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
    """The end of a tenant's feed or of a job's history, as its waiting callers see it: its last number."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._end = End(0)
        self._looked_at = -math.inf
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Event] = set()
        #: of its holders
        self.users = 0

    def grew(self, number: int, *, ended: bool = False) -> None:
        """Notes that this process wrote, or read, up to `number`, and whether the job has ended."""
        # a lower one was read before what is known already was written
        if number >= self._end.number:
            self._take(End(number, ended))

    async def goes_past(self, number: int, seconds: float, *, to_end: bool = False) -> bool:
        """Waits up to `seconds` until there is more than `number`; with `to_end` until the job has ended.

        Returns whether that happened in time. Raises what the look raises.
        """
        end, woken = time.monotonic() + seconds, asyncio.Event()
        self._waiting.add(woken)
        try:
            while True:
                # before the look, or what is written during it would be missed
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

    async def _last(self) -> End:
        """Returns the end, as of a quarter of a second ago or later."""
        async with self._turn:
            if time.monotonic() - self._looked_at >= _LOOK_S:
                began_at = self._looked_at
                found = await self._look()
                # what this process wrote meanwhile is newer
                if self._looked_at == began_at:
                    self._take(found)
            return self._end

    def _take(self, end: End) -> None:
        if end.number > self._end.number:
            for woken in self._waiting:
                woken.set()
        self._end, self._looked_at = end, time.monotonic()


class Tails:
    """The tails that callers wait at, by tenant or by job id."""

    def __init__(self) -> None:
        self._tails: dict[str, Tail] = {}

    def grew(self, key: str, number: int, *, ended: bool = False) -> None:
        """Notes that this process wrote up to `number`, and wakes the requests that wait for it."""
        if (tail := self._tails.get(key)) is not None:
            tail.grew(number, ended=ended)

    @contextlib.contextmanager
    def of(self, key: str, look: Look) -> Iterator[Tail]:
        """Returns the one tail of the tenant or job. It is discarded with its last holder."""
        tail = self._tails.setdefault(key, Tail(look))
        tail.users += 1
        try:
            yield tail
        finally:
            tail.users -= 1
            if not tail.users:
                del self._tails[key]
