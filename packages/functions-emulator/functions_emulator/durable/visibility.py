"""Decides when queued work is visible, by the rules of Azure Storage queues.

A delay has whole seconds. A message that a host takes is hidden until the end of a visibility timeout. The host extends
the timeouts of running activities. After a kill of the host, the message is visible again when the timeout ends.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions_emulator.durable.clock import stamp
from functions_emulator.durable.events import ActivityTask

_LOG = logging.getLogger("functions_emulator.durable")


@dataclass(frozen=True, slots=True)
class VisibilityTimeouts:
    """Times for which taken messages and calls stay hidden. The defaults are those of the extension."""

    #: messages to orchestrations and entities: `controlQueueVisibilityTimeout` of host.json
    messages: timedelta = timedelta(minutes=5)
    #: activity calls: `workItemQueueVisibilityTimeout` of host.json
    activities: timedelta = timedelta(minutes=5)

    @property
    def renewal_interval(self) -> timedelta:
        """Returns the interval at which a host extends the timeouts of running activities (AdjustRenewAt in
        TaskActivityDispatcher.cs).
        """
        return min(timedelta(seconds=30), self.activities / 2)


def delayed(until: datetime, now: datetime) -> datetime:
    """Returns the time at which a message that is sent at `now` for `until` becomes visible.

    The time is up to a second early, and never late. DurableTask.AzureStorage sends the delay unchanged
    (GetVisibilityDelay in Messaging/TaskHubQueue.cs), and the storage client cuts the delay to whole seconds,
    `(int?)visibilityTimeout?.TotalSeconds` (SendMessageInternal in QueueClient.cs of Azure.Storage.Queues). The
    receiver of the message does not compare the requested time.
    """
    return now + timedelta(seconds=max(0, int((until - now).total_seconds())))


class ActivityQueue:
    """The activity calls that wait, that run, or that a killed process had taken."""

    def __init__(self, calls: Iterable[tuple[ActivityTask, datetime | None]]) -> None:
        """Loads the calls of the store, each with the time until which the call is hidden."""
        self._waiting: deque[ActivityTask] = deque()
        self._hidden: list[tuple[datetime, int, ActivityTask]] = []
        self.running: dict[int, ActivityTask] = {}
        for task, hidden_until in calls:
            if hidden_until is None:
                self._waiting.append(task)
            else:
                heapq.heappush(self._hidden, (hidden_until, task.seq, task))

    def add(self, task: ActivityTask) -> None:
        self._waiting.append(task)

    def take(self, now: datetime) -> ActivityTask | None:
        """Returns the next visible call, or `None`. The call counts as running until `end`."""
        self._show(now)
        if not self._waiting:
            return None
        task = self._waiting.popleft()
        self.running[task.seq] = task
        return task

    def end(self, task: ActivityTask) -> None:
        self.running.pop(task.seq, None)

    def next_at(self, now: datetime) -> datetime | None:
        """Returns the earliest time when a call that is hidden at `now` becomes visible, or `None`."""
        self._show(now)
        return self._hidden[0][0] if self._hidden else None

    def idle(self, now: datetime) -> bool:
        """Returns True if no call waits or runs."""
        self._show(now)
        return not self._waiting and not self.running

    def _show(self, now: datetime) -> None:
        while self._hidden and self._hidden[0][0] <= now:
            self._waiting.append(heapq.heappop(self._hidden)[2])


def log_hidden(count: int, until: datetime | None) -> None:
    """Writes one warning if a killed host had taken messages or calls. `until` is the end of their timeouts."""
    if until is not None:
        _LOG.warning(
            "a killed host had received %d messages and activity calls. They are delivered again by %s, after their "
            "visibility timeouts (storageProvider of host.json, or EMULATOR_VISIBILITY_TIMEOUT)",
            count,
            stamp(until),
        )
