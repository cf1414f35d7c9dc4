"""Requests that this process holds back, and one look a tenant that serves all who wait for its feed (R75)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterator

from shared.ports.feed import Feed

#: of one process: half of what host.json lets it serve at once, so that waiters never keep others out
MAX_WAITERS = 50
#: of them, who wait for one tenant's events
MAX_FOLLOWERS = 10
#: between two looks at a feed that others write, while somebody waits for it
_LOOK_S = 0.25


class Waiters:
    """How many responses this process holds back, and for which tenants."""

    def __init__(self) -> None:
        self._held: Counter[str | None] = Counter()
        self._following: Counter[str | None] = Counter()

    def has_room(self, tenant: str | None, *, follower: bool = False) -> bool:
        """A tenant may hold as many as are free, so that none takes the last ones: alone half of them, and a tenant
        that holds none finds room. None: who sees every tenant's jobs. `follower`: it waits for events.
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


class FeedTail:
    """One tenant's feed, as whoever waits for it sees its end."""

    def __init__(self, feed: Feed, tenant: str) -> None:
        self._feed = feed
        self._tenant = tenant
        self._number = 0
        self._looked_at = -math.inf
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Event] = set()
        #: of who holds it
        self.users = 0

    def grew(self, number: int) -> None:
        """This process wrote up to `number`."""
        self._number, self._looked_at = number, time.monotonic()
        for woken in self._waiting:
            woken.set()

    async def goes_past(self, number: int, seconds: float) -> bool:
        """Whether the feed has more than `number` events: as soon as it has, or after so long.

        Raises LedgerUnavailable.
        """
        end, woken = time.monotonic() + seconds, asyncio.Event()
        self._waiting.add(woken)
        try:
            while True:
                # before the look, or what is written during it would be missed
                woken.clear()
                if await self._last() > number:
                    return True
                if (left_s := end - time.monotonic()) <= 0:
                    return False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(_LOOK_S, left_s)):
                        await woken.wait()
        finally:
            self._waiting.discard(woken)

    async def _last(self) -> int:
        """The number of the feed's last event, as of a quarter of a second ago or later."""
        async with self._turn:
            if time.monotonic() - self._looked_at >= _LOOK_S:
                began_at = self._looked_at
                number = (await self._feed.head(self._tenant)).number
                # what this process wrote meanwhile is newer
                if self._looked_at == began_at:
                    self._number, self._looked_at = number, time.monotonic()
            return self._number


class FeedTails:
    """The tails that somebody waits at."""

    def __init__(self) -> None:
        self._tails: dict[str, FeedTail] = {}

    def grew(self, tenant: str, number: int) -> None:
        """This process wrote the tenant's feed up to `number`: who waits for it is woken."""
        if (tail := self._tails.get(tenant)) is not None:
            tail.grew(number)

    @contextlib.contextmanager
    def of(self, feed: Feed, tenant: str) -> Iterator[FeedTail]:
        """The tenant's one tail; it is gone with the last who held it."""
        tail = self._tails.setdefault(tenant, FeedTail(feed, tenant))
        tail.users += 1
        try:
            yield tail
        finally:
            tail.users -= 1
            if not tail.users:
                del self._tails[tenant]
