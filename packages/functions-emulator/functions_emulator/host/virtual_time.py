"""The virtual clock, which an admin request advances. Hours of timers pass in seconds, in the order of the timers.

Between advances the clock runs as the machine's clock does, because SDKs measure their waits with it. `time-machine`
shifts `datetime.now` and `time.time` of the whole process, so the app sees the same time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from functions_emulator.durable.store import Store
from functions_emulator.host.errors import HostError

#: maximum seconds of one step's wait for the work that it woke
_IDLE_TIMEOUT_S = 10.0
_IDLE_POLL_S = 0.01
#: number of consecutive polls without work after which the host is idle
_IDLE_POLLS = 3

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str) -> timedelta:
    """Reads a duration like `90s`, `15m`, `1h30m` or `2d`. Raises `ValueError` for another text."""
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise ValueError(f"a duration is like 90s, 15m or 1h30m, not {text!r}")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text)))


class ShiftedClock:
    """The machine's time plus a shift, which the store retains."""

    def __init__(self, store: Store) -> None:
        try:
            import time_machine
        except ImportError:
            raise HostError("--virtual-clock needs the package time-machine: pip install time-machine") from None
        self._store = store
        state = store.state("virtual-clock")
        self._shift = timedelta(seconds=float(state["shift_s"]) if state else 0.0)
        self._listeners: list[Callable[[], None]] = []
        # time_machine shifts the wall clock of the process, so real time is read from the monotonic clock.
        self._start = datetime.now(UTC)
        self._started = time.monotonic()
        self._traveller = time_machine.travel(self._start + self._shift, tick=True)
        self._process: Any = self._traveller.start()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=time.monotonic() - self._started) + self._shift

    def seconds_until(self, instant: datetime) -> float | None:
        return max(0.0, (instant - self.now()).total_seconds())

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def shift(self, by: timedelta) -> None:
        """Moves the clock and the process's time forward."""
        self._shift += by
        self._store.put_state("virtual-clock", {"shift_s": self._shift.total_seconds()})
        self._process.move_to(self.now())
        for changed in self._listeners:
            changed()

    def stop(self) -> None:
        """Ends the shift of the process's time."""
        self._traveller.stop()


class VirtualTime:
    """The time of the virtual clock. `wake_times` returns the times of timers. `is_idle` returns `True` if
    no work is running.
    """

    def __init__(
        self, clock: ShiftedClock, wake_times: Callable[[], Iterable[datetime]], is_idle: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._wake_times = wake_times
        self._is_idle = is_idle
        self._one_at_a_time = asyncio.Lock()

    def now(self) -> datetime:
        """Returns the current virtual time, in UTC."""
        return self._clock.now()

    async def advance(self, by: timedelta, bus_admin: str | None = None) -> None:
        """Advances by `by`, from timer to timer. After each step the method waits until the host is idle, at most 10 s.

        `bus_admin` is the URL of the admin API of a bus. The bus advances first in each step, so that no lock or
        message is older here than in the bus. Raises `ValueError` if the bus refuses, and `aiohttp.ClientError` if the
        bus is unreachable.
        """
        async with self._one_at_a_time:
            target = self._clock.now() + by
            await self._wait_until_idle()
            while (now := self._clock.now()) < target:
                due = [at for at in self._wake_times() if now < at <= target]
                step = min(due, default=target) - now
                if bus_admin is not None:
                    await _advance_bus(bus_admin, step)
                self._clock.shift(step)
                await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + _IDLE_TIMEOUT_S
        idle_polls = 0
        while idle_polls < _IDLE_POLLS and time.monotonic() < deadline:
            await asyncio.sleep(_IDLE_POLL_S)
            idle_polls = idle_polls + 1 if self._is_idle() else 0


async def _advance_bus(url: str, by: timedelta) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"seconds": by.total_seconds()}
        async with session.post(f"{url.rstrip('/')}/clock/advance", json=body) as response:
            if response.status != 200:
                raise ValueError(f"the bus does not advance its clock: {response.status} {await response.text()}")
