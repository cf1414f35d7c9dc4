"""Limits the concurrent creations of a process, with tenants in turns. Past the limit a request is refused at once
(R17).

More creations would only wait for the tables, each longer than the one before, until callers give up and repeat them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.refusals import Overloaded

#: creations in hand
AT_ONCE = 16
#: that wait for one of them to end; a tenant may have as many as are free, so alone half of them
MAX_WAITING = 128
#: a caller that waits longer had better ask again
LONGEST_WAIT_S = 10.0


class Submissions:
    """One process's creations, in hand and waiting."""

    def __init__(self) -> None:
        self._in_hand = 0
        #: by tenant, the one whose turn comes next first; no tenant without one that waits
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Waits for the tenant's turn, for a bounded time. Raises Overloaded."""
        if self._in_hand < AT_ONCE:
            self._in_hand += 1
        else:
            await self._wait(tenant)
        try:
            yield
        finally:
            self._give_on()

    async def _wait(self, tenant: str) -> None:
        own = self._waiting.get(tenant, ())
        if len(own) >= MAX_WAITING - sum(map(len, self._waiting.values())):
            raise Overloaded
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                # its turn came as it gave up
                self._give_on()
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError):
                raise Overloaded from None
            raise

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(tenant)
        # the process that freed a slot has skipped it if it gave up and had not run since
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[tenant]

    def _give_on(self) -> None:
        """To the first that waits of the next tenant; its others come after one of each other tenant."""
        while self._waiting:
            tenant = next(iter(self._waiting))
            waiting = self._waiting.pop(tenant)
            turn = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting
            if not turn.done():
                turn.set_result(None)
                return
        self._in_hand -= 1
