"""The function app's process: it can die at any port call, stays unreachable for a while, and restarts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tape.scheduler import Scheduler
from tests.simulation.faults import Faults


class HostDown(Exception):
    """The connection was cut, or no process listened."""


class Host:
    """Everything that runs in the process, so that a crash ends all of it at once."""

    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self._scheduler = scheduler
        self._faults = faults
        #: in the order of their start: a crash ends them in one order
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._calls = itertools.count(1)
        self.calls = 0
        self.crashes = 0
        self.up = True
        self.on_stop: Callable[[], None] = lambda: None
        self.on_start: Callable[[], None] = lambda: None

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task within the process: a crash ends it."""
        task = self._scheduler.spawn(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task

    async def serve(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs the work for a client outside. Raises HostDown if the process is down, or dies meanwhile."""
        if not self.up:
            work.close()
            raise HostDown
        task = self.spawn(work)
        await asyncio.wait([task])
        if task.cancelled():
            raise HostDown
        return task.result()

    def crash(self) -> None:
        self.up = False
        self.crashes += 1
        self.on_stop()
        for task in list(self._tasks):
            task.cancel()
        self._scheduler.later(self._scheduler.random.uniform(0.5, 90), self._start)

    def _start(self) -> None:
        self.up = True
        self.on_start()

    async def through(self, call: Callable[[], Awaitable[Any]], fault: Exception) -> Any:
        """One port call: slow, refused, done without a response, or ended by a crash before or after it."""
        self.calls = number = next(self._calls)
        odds = self._faults.odds
        await self._scheduler.pause(self._faults.latency_s())
        await self._perhaps_die(number, after=False)
        if self._faults.occurs(odds.unavailable):
            raise fault
        answer = await call()
        await self._scheduler.pause(self._faults.latency_s())
        await self._perhaps_die(number, after=True)
        if self._faults.occurs(odds.answer_lost):
            raise fault
        return answer

    async def _perhaps_die(self, number: int, *, after: bool) -> None:
        if self.up and self._faults.crashes(number, after=after):
            self.crash()
            await asyncio.get_running_loop().create_future()


class Port:
    """Any port of the app, with the faults of the host around each call."""

    def __init__(self, host: Host, target: object, fault: type[Exception]) -> None:
        self._host = host
        self._target = target
        self._fault = fault

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._target, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._host.through(lambda: method(*args, **kwargs), self._fault(f"{name} in the simulation"))

        return call
