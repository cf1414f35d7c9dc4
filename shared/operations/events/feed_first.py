"""Writes the feed in the process that committed. Messages carry the hints whose events could not be written (R71).

A message to the function `tell` costs three operations of Service Bus and wakes an instance. Writing here costs only
the transaction that `tell` also needs. Several processes may write one feed, as several instances of `tell` do: HEAD's
ETag orders them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from shared.core.events.hints import Hint
from shared.operations.events.feed_writer import write_own
from shared.operations.process.context import Context

#: time for which a process sends all hints of a tenant whose feed it could not write. Many processes write to it, and
#: `tell` writes up to a hundred hints together
_QUEUED = timedelta(seconds=30)
#: maximum tenants that a process leaves to `tell`; it tries the feeds of further tenants each time
_MAX_LEFT = 1_000


class FeedFirst:
    """A writer of the feeds for a process, except feeds that it could not write in the last 30 s."""

    def __init__(self, context: Callable[[], Context]) -> None:
        """Sets the context, which must be of all tenants."""
        self._context = context
        self._left: dict[str, datetime] = {}

    async def write(self, hints: Sequence[Hint]) -> list[Hint]:
        """Writes the events of the hints. Returns the hints whose events are not written, which the caller sends as
        messages. Raises nothing.
        """
        context = self._context()
        now = context.clock.now()
        self._left = {tenant: until for tenant, until in self._left.items() if until > now}
        unwritten = [hint for hint in hints if hint.tenant in self._left]
        failed = await write_own(context, [hint for hint in hints if hint.tenant not in self._left])
        if len(self._left) < _MAX_LEFT:
            self._left |= {hint.tenant: now + _QUEUED for hint in failed}
        return unwritten + failed
