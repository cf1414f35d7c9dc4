"""Writes this process's committed public events to the feeds, or sends their hints to the queue (R71).

A commit notes its public events and continues. One task of the process writes or sends them together. Only a commit
that ends a job waits for that task. A failed send fails no commit, since `shared.operations.sweeper` replaces lost
hints.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared import telemetry
from shared.core.audit.heads import DayHead, latest
from shared.core.events.hints import Hint, encode_hint, hint_of
from shared.core.jobs.job import Event, Job
from shared.ports.environment import Clock
from shared.ports.feed import HintQueue

#: maximum hints and bytes of one send; the queue accepts 256 KB
_MAX_HINTS, _MAX_BYTES = 100, 200_000
#: maximum hints that wait in a process; further ones are left to the sweeper
_MAX_WAITING = 5_000
#: maximum jobs, quotas and incidents for which a process remembers their last rows without public events
_MAX_INTERNAL = 2_000
#: time without messages after a failed send, so that commits do not wait for an unreachable bus
_QUIET = timedelta(seconds=5)
#: maximum time that an end waits for its hint; the port's own limit for a first send is 6 s
_SEND_S = 8.0

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
#: writes feeds, and returns the hints that it could not write
WriteFeeds = Callable[[Sequence[Hint]], Awaitable[Sequence[Hint]]]


class Hinting:
    """The sender of one process's hints to the feed writer or the queue."""

    def __init__(
        self,
        queue: HintQueue,
        clock: Clock,
        spawn: Spawn = asyncio.create_task,
        *,
        has_heads: bool = False,
        write_feeds: WriteFeeds | None = None,
    ) -> None:
        """Sets the queue. `has_heads`: hints include the heads of their rows. `write_feeds`: a function that writes
        feeds before messages are sent. If `write_feeds` is None, each hint is a message.
        """
        self._queue = queue
        self._write_feeds = write_feeds
        self._clock = clock
        self._spawn = spawn
        self._waiting: deque[tuple[Hint, int, asyncio.Future[bool] | None]] = deque()
        self._has_heads = has_heads
        #: for each subject whose last rows mean no public event: first and last row, and their heads
        self._internal: OrderedDict[str, tuple[int, int, tuple[DayHead, ...]]] = OrderedDict()
        #: kept here, since asyncio refers to tasks weakly
        self._sender: asyncio.Task[None] | None = None
        self._quiet_until: datetime | None = None

    def note(self, job: Job, rows: Sequence[Event]) -> None:
        """Notes committed EVENT rows. The process's next send includes their hint if the rows have public events, or if
        the job has ended and hints include heads.
        """
        if rows and self._has_heads and job.status.terminal:
            # no sweep compares the job, so it gets a hint even without public events
            self._enqueue(self._extend(hint_of(job, rows)), None)
        elif rows:
            self.note_hint(hint_of(job, rows))

    def note_hint(self, hint: Hint) -> None:
        """Queues a hint with public or unknown events. Remembers the rows of any other hint, for the next hint of the
        same subject.
        """
        hint = self._extend(hint)
        if hint.events or hint.events is None:
            self._enqueue(hint, None)
        elif hint.last is not None:
            self._internal[hint.key] = (hint.first, hint.last, hint.heads or ())
            if len(self._internal) > _MAX_INTERNAL:
                self._internal.popitem(last=False)

    async def send(self, job: Job, rows: Sequence[Event] = ()) -> bool:
        """Sends the hints of these rows, or of all events of the job if `rows` is empty. Returns `True` if the queue or
        the feed has the hints.

        Raises nothing.
        """
        return await self.send_hint(hint_of(job, rows))

    async def send_hint(self, hint: Hint) -> bool:
        """Sends an existing hint. Returns `True` if the queue or the feed has it. Raises nothing."""
        return await is_sent(self._begin(hint))

    def begin(self, job: Job, rows: Sequence[Event] = ()) -> asyncio.Future[bool]:
        """Begins `send`. `is_sent` returns the result later."""
        return self._begin(hint_of(job, rows))

    def _begin(self, hint: Hint) -> asyncio.Future[bool]:
        sent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._enqueue(self._extend(hint), sent)
        return sent

    async def again(self, hints: Sequence[Hint], at: datetime) -> None:
        """Sends hints at the time `at`, for events that could not be written. Raises nothing."""
        for first in range(0, len(hints), _MAX_HINTS):
            # the receiver then reads their events
            await self._try(hints[first : first + _MAX_HINTS], at)

    async def settle(self) -> None:
        """Waits until the sender has tried to send all queued hints."""
        if (sender := self._sender) is not None:
            await asyncio.wait([sender])

    def _extend(self, hint: Hint) -> Hint:
        """Returns the hint with the earlier rows without public events, so that no process must read these rows."""
        first, last, heads = self._internal.pop(hint.key, (0, 0, ()))
        if not self._has_heads:
            hint = replace(hint, heads=None)
        if not (last and last + 1 == hint.first):
            return hint
        return replace(hint, first=first, heads=latest(*heads, *hint.heads) if hint.heads is not None else None)

    def _enqueue(self, hint: Hint, sent: asyncio.Future[bool] | None) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            _resolve(sent, is_sent=False)
            return
        self._waiting.append((hint, len(encode_hint(hint)), sent))
        if self._sender is None or self._sender.done():
            self._sender = self._spawn(self._send_all())

    async def _send_all(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft()]
            size = taken[0][1]
            while self._waiting and len(taken) < _MAX_HINTS and size + self._waiting[0][1] <= _MAX_BYTES:
                size += self._waiting[0][1]
                taken.append(self._waiting.popleft())
            lost = {hint.tenant for hint, _, _ in taken}
            try:
                lost = await self._try([hint for hint, _, _ in taken])
            finally:
                for hint, _, sent in taken:
                    _resolve(sent, is_sent=hint.tenant not in lost)

    async def _try(self, hints: Sequence[Hint], at: datetime | None = None) -> set[str]:
        """Sends the hints. Returns the tenants whose hints are neither in their feed nor in the queue."""
        try:
            if self._write_feeds is not None and at is None:
                hints = await self._write_feeds(hints)
            if hints and not self._is_quiet():
                await self._queue.send(hints, at=at)
                return set()
        except Exception as fault:
            # also defects of the sender, since ends of jobs wait here
            telemetry.record_fault(fault, "HINTS_LOST", count=len(hints))
            self._quiet_until = self._clock.now() + _QUIET
        return {hint.tenant for hint in hints}

    def _is_quiet(self) -> bool:
        return self._quiet_until is not None and self._clock.now() < self._quiet_until


async def is_sent(sent: asyncio.Future[bool]) -> bool:
    """Returns `True` if the queue or the feed has the hint. A hint that takes longer than `_SEND_S` (8 s) may still
    arrive.
    """
    done, _ = await asyncio.wait([sent], timeout=_SEND_S)
    return bool(done) and sent.result()


def _resolve(sent: asyncio.Future[bool] | None, is_sent: bool) -> None:
    if sent is not None and not sent.done():
        sent.set_result(is_sent)
