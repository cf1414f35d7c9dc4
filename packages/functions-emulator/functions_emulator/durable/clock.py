"""The clocks of the engine, and the text forms of its timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of aware UTC timestamps."""

    def now(self) -> datetime:
        """Returns the current time, in UTC."""

    def seconds_until(self, instant: datetime) -> float | None:
        """Returns real seconds until `instant`, or `None` if the clock does not run. Then the caller must wait for the
        callback of `subscribe`.
        """

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Registers `changed`, which is called after each advance of the time."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def seconds_until(self, instant: datetime) -> float | None:
        return max(0.0, (instant - self.now()).total_seconds())

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Does nothing, since this clock cannot be advanced."""


def stamp(instant: datetime) -> str:
    """Returns ISO 8601 text in UTC with microseconds and `Z`. The order of the texts is the order of their times."""
    if instant.tzinfo is None:
        raise ValueError("the datetime has no time zone")
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_stamp(text: str) -> datetime:
    """Returns the time of an ISO 8601 text, to the microsecond. `Z` or no zone means UTC. Raises ValueError."""
    parsed = datetime.fromisoformat(text)
    try:
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the time is outside of the years 1 to 9999: {text}") from None


_TIME_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,7}))?")


def parse_time_span(text: str) -> timedelta:
    """Parses a .NET TimeSpan, `[d.]hh:mm:ss[.fffffff]`, of zero or more. Raises `ValueError` for other texts."""
    match = _TIME_SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time span like 00:05:00: {text!r}")
    days, hours, minutes, seconds, fraction = match.groups()
    whole = timedelta(days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    return whole + timedelta(seconds=float(f"0.{fraction or 0}"))
