"""Timers in a heap. The server reads the time of the next timer, and runs due timers. This module does not sleep."""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: minimum number of cancelled timers before the heap is cleaned up
_SWEEP_AT = 1024


class Timer:
    """A call that runs at a given time, unless the timer is cancelled."""

    __slots__ = ("_timers", "call", "due_ms")

    def __init__(self, timers: Timers, due_ms: int, call: Callable[[], None]) -> None:
        self._timers = timers
        self.due_ms = due_ms
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            self._timers.count_cancelled()


class Timers:
    """Calls in order of time. Calls of the same time are in order of creation."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._serial = 0
        self._cancelled = 0

    def at(self, due_ms: int, call: Callable[[], None]) -> Timer:
        """Adds a call. `due_ms` is in Unix milliseconds."""
        timer = Timer(self, due_ms, call)
        self._serial += 1
        heapq.heappush(self._heap, (due_ms, self._serial, timer))
        return timer

    def count_cancelled(self) -> None:
        """Counts a cancelled timer. Cleans up the heap when more than 1,024 of its timers, and more than half of them,
        are cancelled.

        Most locks are settled before they expire.
        """
        self._cancelled += 1
        if self._cancelled > _SWEEP_AT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def next_due_ms(self) -> int | None:
        """Returns the time of the next call, or None without a call."""
        heap = self._heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def run_due(self, now_ms: int) -> None:
        """Runs all due calls in order, including calls that become due during the run."""
        while (due := self.next_due_ms()) is not None and due <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            call, timer.call = timer.call, None
            if call is not None:
                call()
