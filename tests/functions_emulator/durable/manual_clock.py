"""The clock of an engine in a test: the test moves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class ManualClock:
    """A clock that stops until `advance` or `advance_to` moves it forward."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("the clock needs an aware datetime")
        self._now = start.astimezone(UTC)
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> datetime:
        return self._now

    def seconds_until(self, instant: datetime) -> float | None:
        return 0.0 if instant <= self._now else None

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def advance(self, by: timedelta) -> None:
        self.advance_to(self._now + by)

    def advance_to(self, instant: datetime) -> None:
        if instant < self._now:
            raise ValueError("time does not go backwards")
        self._now = instant
        for changed in self._listeners:
            changed()
