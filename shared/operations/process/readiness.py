"""Checks the dependencies of the app, and remembers the time since which each has its present state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.errors import LuciusError
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.environment import Clock
from shared.ports.sweeps import SweepMark, SweepMarks, merged

Check = Callable[[], Awaitable[object]]

#: maximum seconds of one check; a probe of the platform waits longer, and a lane's first link takes half a second
CHECK_TIMEOUT_S = 3.0
#: minimum time between two checks; a request in between gets the last result
RECHECK_AFTER = timedelta(seconds=2)
#: time without a sweep after which the sweeper is late; it runs every minute
SWEEPER_LATE_AFTER = timedelta(minutes=5)

#: an id that no instance has; the engine's answer about it shows that the engine responds
_NOBODY = "health"


@dataclass(frozen=True)
class Dependency:
    """The result of one check. `since`: time since which this process finds the dependency up, or down."""

    name: str
    fault: str | None
    since: datetime


class Readiness:
    """The state of the app's dependencies as one process sees it. All dependencies are checked at the same time, each
    with a time limit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Dependency] = {}
        self._looked_at: datetime | None = None
        self._looking = asyncio.Lock()
        #: the sweeper's mark in the last check that reached the tables
        self.mark: SweepMark | None = None

    async def look(
        self, context: Context, orchestrations: Orchestrations, *, marks: SweepMarks, blob: Check | None
    ) -> list[Dependency]:
        """Returns the state of each dependency, by a call at most two seconds ago that changes nothing.

        `blob`: None if no blobs are used. Never raises.
        """

        async def tables() -> None:
            self.mark = merged((await marks.read(context.settings.sweepers)).values())

        checks: dict[str, Check] = {
            "tables": tables,
            "servicebus": lambda: context.bus.lanes.replies(0, since=self._clock.now()),
            "durable": lambda: orchestrations.look_up(_NOBODY),
        }
        return await self._check_all(checks if blob is None else checks | {"blob": blob})

    async def _check_all(self, checks: Mapping[str, Check]) -> list[Dependency]:
        """Returns the results in the order of `checks`. An error of a check becomes the fault of its dependency."""
        async with self._looking:
            now = self._clock.now()
            if self._looked_at is None or now - self._looked_at >= RECHECK_AFTER:
                found = await asyncio.gather(*(_fault(check) for check in checks.values()))
                self._looked_at = self._clock.now()
                for name, fault in zip(checks, found, strict=True):
                    self._note(name, fault, self._looked_at)
        return [self._known[name] for name in checks]

    def _note(self, name: str, fault: str | None, now: datetime) -> None:
        telemetry.increment("dependency_checks_total", dependency=name, outcome="ok" if fault is None else "down")
        before = self._known.get(name)
        changed = before is None or (before.fault is None) is not (fault is None)
        since = now if before is None or changed else before.since
        self._known[name] = Dependency(name, fault, since)
        if fault is not None and changed:
            telemetry.warn("DEPENDENCY_DOWN", dependency=name, reason=fault)
        elif changed and before is not None:
            telemetry.info("DEPENDENCY_BACK", dependency=name, down_s=(now - before.since).total_seconds())


def sweeper_late(mark: SweepMark | None, now: datetime) -> bool:
    """Returns `True` if the last sweep ended more than five minutes ago. Returns `False` before the first sweep."""
    return mark is not None and now - mark.ended_at > SWEEPER_LATE_AFTER


async def _fault(check: Check) -> str | None:
    try:
        await asyncio.wait_for(check(), CHECK_TIMEOUT_S)
    except TimeoutError:
        return f"no response within {CHECK_TIMEOUT_S:g} s"
    except LuciusError as error:
        return str(error)
    except Exception as error:
        # an unknown error may contain secrets, so only its type is shown
        return type(error).__name__
    return None
