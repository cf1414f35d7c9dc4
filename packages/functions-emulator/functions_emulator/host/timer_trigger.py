"""Timer triggers. A timer runs at each occurrence. With `useMonitor`, a timer also runs once after occurrences that
passed while the host was down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from azure.functions.timer import TimerRequest

from functions_emulator.durable.clock import Clock, parse_stamp, stamp
from functions_emulator.durable.store import Store
from functions_emulator.host.functions import Function
from functions_emulator.host.schedule import Schedule

_LOG = logging.getLogger("functions_emulator.host")

#: maximum real sleep before the clock is read again
_MAX_SLEEP_S = 3600.0

#: minimum interval that is monitored by default
_MONITORED_FROM = timedelta(minutes=1)


class TimerTrigger:
    """A timer trigger. `invoke` runs the function with a `TimerRequest`, one run at a time.

    With `useMonitor` the store retains the last and the next occurrence, so that a missed occurrence runs late.
    `useMonitor` is the default for intervals of a minute and more.
    """

    def __init__(
        self,
        function: Function,
        schedule: Schedule,
        store: Store,
        clock: Clock,
        invoke: Callable[[Function, Any], Awaitable[object]],
    ) -> None:
        self._function = function
        self._schedule = schedule
        self._store = store
        self._clock = clock
        self._invoke = invoke
        self._key = f"timer:{function.name}"
        self._clock_changed = asyncio.Event()
        use_monitor = function.trigger.fields.get("useMonitor")
        self._monitored = use_monitor if isinstance(use_monitor, bool) else self._interval() >= _MONITORED_FROM
        #: the next occurrence; `None` before `run`
        self.due: datetime | None = None
        clock.subscribe(self._clock_changed.set)

    def _interval(self) -> timedelta:
        first = self._schedule.next_after(self._clock.now())
        return self._schedule.next_after(first) - first

    async def run(self) -> None:
        """Runs until cancelled. Only a missed occurrence is past due (`HandleTimerEvent` in TimerListener.cs)."""
        state = self._store.state(self._key) if self._monitored else None
        now = self._clock.now()
        due = parse_stamp(state["Next"]) if state else self._schedule.next_after(now)
        if due > now and self._schedule.next_after(now) < due:
            due = self._schedule.next_after(now)  # the schedule was changed while the host was down
        late = due <= now
        # there is one run at the start: that of a missed occurrence, if there is one
        if self._function.trigger.fields.get("runOnStartup") is True and not late:
            await self._fire(due, past_due=False)
            due = self._schedule.next_after(self._clock.now())
        self._remember(None if state is None else state["Last"], due)
        while True:
            await self._sleep_until(due)
            await self._fire(due, past_due=late)
            due, late = self._schedule.next_after(max(due, self._clock.now())), False
            self._remember(stamp(self._clock.now()), due)

    async def _sleep_until(self, due: datetime) -> None:
        self.due = due
        while self._clock.now() < due:
            self._clock_changed.clear()
            seconds = self._clock.seconds_until(due)
            timeout = None if seconds is None else min(seconds, _MAX_SLEEP_S)
            try:
                await asyncio.wait_for(self._clock_changed.wait(), timeout)
            except TimeoutError:
                continue

    async def _fire(self, due: datetime, *, past_due: bool) -> None:
        if past_due:
            _LOG.info("timer %s is past due (%s)", self._function.name, stamp(due))
        status = _schedule_status(self._store.state(self._key) or {}) if self._monitored else None
        request = TimerRequest(past_due=past_due, schedule_status=status, schedule={"AdjustForDST": True})
        await self._invoke(self._function, request)

    def _remember(self, last: str | None, due: datetime) -> None:
        if not self._monitored:
            return
        now = stamp(self._clock.now())
        self._store.put_state(self._key, {"Last": last, "Next": stamp(due), "LastUpdated": now})


def _schedule_status(status: Mapping[str, Any]) -> dict[str, str]:
    """Returns the schedule status of a `TimerRequest`; the zero time of .NET stands for never."""
    never = "0001-01-01T00:00:00+00:00"
    return {name: status.get(name) or never for name in ("Last", "Next", "LastUpdated")}
