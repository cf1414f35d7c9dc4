"""Limits the webhook calls of a process. An endpoint uses at most four of the 16 slots (R85)."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

#: maximum concurrent calls to one webhook, or to one host in a tenant's `callback_urls`
AT_ONCE = 4
#: maximum webhook messages that a process handles at the same time: `maxConcurrentCalls` of host.json
PLACES = 16
#: minimum and maximum time before a call without a slot is repeated; several are repeated at the rate of the endpoint
_BACK_AFTER = timedelta(seconds=2)
_BACK_WITHIN = timedelta(minutes=10)
#: minimum and maximum time between two steps of a flow, which sends the waiting deliveries of one endpoint
_LEAST_SPAN, _MOST_SPAN = timedelta(seconds=0.2), timedelta(seconds=30)
#: time without sends after a failed one
_QUIET = timedelta(seconds=5)
#: maximum endpoints whose pace and next call are remembered
_MAX_PACES = 1_000
#: weight of the last call in the pace
_LAST = 0.3


class HookCalls:
    """The running calls of each endpoint, their duration, the time of the next repeated call, and the state of the
    message queue.
    """

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._of_tenants: Counter[str] = Counter()
        #: Race delivery: two messages for one delivery in a process post it once
        self._in_hand: set[tuple[str, str, int, str]] = set()
        self._pace: dict[str, timedelta] = {}
        self._next: dict[str, datetime] = {}
        self._quiet_until: datetime | None = None

    def is_quiet(self, now: datetime) -> bool:
        """Returns `True` if the queue refused a message in the last five seconds. Callers then do not try again."""
        return self._quiet_until is not None and now < self._quiet_until

    def be_quiet(self, now: datetime) -> None:
        self._quiet_until = now + _QUIET

    @contextlib.contextmanager
    def hold(self, key: str, delivery: tuple[str, str, int, str]) -> Iterator[bool]:
        """Reserves a slot for one call. Yields `False` if the endpoint or the tenant can have no further slot, or if
        the process already posts the delivery.

        A tenant gets another slot only while it uses fewer slots than are free. So with slow endpoints one tenant has
        at most half of the slots. Each next tenant has half of the rest: 8, 4, 2, 1 and 1.
        """
        tenant = delivery[0]
        free = PLACES - self._of_tenants.total()
        is_full = self._running[key] >= AT_ONCE or self._of_tenants[tenant] >= free
        if is_full or delivery in self._in_hand:
            yield False
            return
        self._running[key] += 1
        self._of_tenants[tenant] += 1
        self._in_hand.add(delivery)
        try:
            yield True
        finally:
            self._in_hand.discard(delivery)
            for running, each in ((self._running, key), (self._of_tenants, tenant)):
                running[each] -= 1
                if not running[each]:
                    del running[each]

    def is_in_hand(self, delivery: tuple[str, str, int, str]) -> bool:
        return delivery in self._in_hand

    def took(self, key: str, seconds: float) -> None:
        """Records the duration of a call to the endpoint."""
        last = timedelta(seconds=seconds)
        self._pace[key] = self._pace.get(key, last) * (1 - _LAST) + last * _LAST
        if len(self._pace) > _MAX_PACES:
            self._pace.pop(next(iter(self._pace)))

    def span(self, key: str, calls: int) -> timedelta:
        """Returns the estimated time that the endpoint needs for this number of calls. The time is 0.2 to 30 s, or 2 s
        before the first call.
        """
        pace = self._pace.get(key)
        return min(max(pace * calls / AT_ONCE, _LEAST_SPAN), _MOST_SPAN) if pace is not None else _BACK_AFTER

    def put_back(self, key: str, now: datetime) -> datetime | None:
        """Returns the time at which a call without a slot is repeated. Returns None if that time is more than ten
        minutes away. In that case the sweeper sends the calls again, the oldest first.
        """
        if len(self._next) >= _MAX_PACES:
            self._next = {each: at for each, at in self._next.items() if at > now}
        if len(self._next) >= _MAX_PACES:
            # at worst, a message returns too soon
            self._next.pop(next(iter(self._next)))
        spacing = self._pace.get(key, timedelta()) / AT_ONCE
        at = max(self._next.get(key, now) + spacing, now + _BACK_AFTER)
        if at > now + _BACK_WITHIN:
            return None
        self._next[key] = at
        return at
