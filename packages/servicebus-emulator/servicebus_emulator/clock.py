"""The time source of the broker: milliseconds since 1970-01-01 UTC, as AMQP timestamps (AMQP 1.0 part 1, 1.6.17)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Returns Unix time in milliseconds."""


class SystemClock:
    """The machine's time plus the time by which tests advanced it."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, ms: int) -> None:
        """Moves the time forward by `ms`. Raises ValueError if `ms` is negative."""
        if ms < 0:
            raise ValueError("the clock can only be advanced")
        self._ahead_ms += ms
