"""Limits a process to 16 concurrent creations and 128 waiting creations, with tenants in turns. Immediately refuses
other requests (R17).

More concurrent creations only make each creation wait longer for the tables, until callers stop waiting and send their
requests again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.refusals import Overloaded

#: maximum concurrent creations
AT_ONCE = 16
#: maximum waiting creations; a tenant can have at most as many as are free, so alone half of them
MAX_WAITING = 128
#: maximum seconds that a caller waits before it should send the request again
LONGEST_WAIT_S = 10.0


class Submissions:
    """The running and waiting creations of one process."""

    def __init__(self) -> None:
        self._in_hand = 0
        #: waiting creations by tenant, in the order of turns; each tenant has at least one
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Waits for the tenant's turn, at most `LONGEST_WAIT_S` (10) seconds. Raises Overloaded."""
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
                # the turn of this submission came while it gave up
                self._give_on()
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError):
                raise Overloaded from None
            raise

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(tenant)
        # `_give_on` has already removed a submission that gave up before it could leave
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[tenant]

    def _give_on(self) -> None:
        """Gives the free slot to the first waiting creation of the next tenant, and moves that tenant behind the
        others.
        """
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
