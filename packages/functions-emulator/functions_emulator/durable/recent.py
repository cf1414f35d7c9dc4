"""Histories kept in memory, so that an episode need not read and parse what the one before has written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from functions_emulator.durable.events import Event

#: About 150 MB of events at most.
MAX_EVENTS = 200_000


class RecentHistories:
    """The least recently used go first. Keyed by execution, so a replaced instance never meets an old history."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self._max_events = max_events
        self._histories: OrderedDict[tuple[str, str], list[Event]] = OrderedDict()
        self._count = 0

    def take(self, instance_id: str, execution_id: str) -> list[Event] | None:
        """Gives the history out; `put` brings it back when what was added is committed."""
        history = self._histories.pop((instance_id, execution_id), None)
        if history is not None:
            self._count -= len(history)
        return history

    def put(self, instance_id: str, execution_id: str, history: Sequence[Event]) -> None:
        self._histories[(instance_id, execution_id)] = list(history)
        self._count += len(history)
        while self._count > self._max_events and self._histories:
            _, oldest = self._histories.popitem(last=False)
            self._count -= len(oldest)
