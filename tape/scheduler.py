"""Virtual time and one seeded order of events. The same seed gives the same simulation."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any


class Scheduler:
    """A heap of events. Nothing happens in the simulated world outside of these events."""

    def __init__(self, seed: int, start: datetime) -> None:
        self.random = random.Random(seed)
        self.now = start
        self.events = 0
        self._heap: list[tuple[datetime, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        self.at(self.now + timedelta(seconds=max(seconds, 0.0)), action)

    def at(self, instant: datetime, action: Callable[[], object]) -> None:
        heapq.heappush(self._heap, (max(instant, self.now), next(self._numbers), action))

    async def pause(self, seconds: float) -> None:
        """Pauses for virtual seconds. Other tasks continue."""
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        self.later(seconds, wake)
        await woken

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task

    async def run(self, until: datetime, stop: Callable[[], bool]) -> None:
        """Runs until `stop` returns True after an event, no event is left, or the next event is later than `until`."""
        await self._let_run()
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action = heapq.heappop(self._heap)
            action()
            self.events += 1
            await self._let_run()
            if stop():
                return

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _let_run(self) -> None:
        """Runs woken tasks to their next pause or wait, until no task of the loop is ready."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # asyncio has no other way to ask
        while ready:  # noqa: ASYNC110  # no event signals that nothing is left to do
            await asyncio.sleep(0)
