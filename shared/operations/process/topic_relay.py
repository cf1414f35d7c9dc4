"""Relays the feeds to the topic `lucius-events`: each event at least once, in its tenant's order (R80).

HEAD's `sent` is the number of the last relayed event of a tenant's feed. `sent` is stored after the send, with the
tenant's next transaction or half a minute later. So a crash in between repeats events and skips none. An unreachable
topic delays nothing else: a task of the process tries again, and `prune` finds the events that no process knows (R81).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from shared import telemetry
from shared.errors import Conflict, LuciusError
from shared.operations.process.hinting import Spawn
from shared.operations.process.known_feeds import KnownFeeds
from shared.ports.environment import Clock
from shared.ports.feed import EventTopic, Feed, FeedEvent, FeedWrite

#: maximum events and bytes of one send, and bytes of a message in addition to its event; the bus accepts 256 KB
_MAX_EVENTS, _MAX_BYTES, _ENVELOPE_BYTES = 100, 200_000, 600
#: maximum time of one call of `pass_on`, for which the next batch of hints waits; the process's task sends the rest
_CALL = timedelta(seconds=5)
#: maximum number of tenants that the task sends at the same time
_MAX_TURN = 50
#: maximum tenants that a process remembers; `prune` finds the events of the others
_MAX_TENANTS = 10_000
#: time without tries after a failed send: doubled for each further one, up to the second value
_QUIET, _LONGEST_QUIET = timedelta(seconds=5), timedelta(minutes=1)
#: seconds between two checks of the process's task
_LOOK_S = 5.0
#: time after a tenant's last send until HEAD is written without a transaction of the tenant
_IDLE = timedelta(seconds=30)
#: age below which an event is left to its writer, not to `prune`
_OWN = timedelta(minutes=2)


@dataclass
class _Tenant:
    """The state of a tenant's feed with respect to the topic, as a process knows it."""

    #: time of the last write or send
    changed_at: datetime
    #: number of the last written event, and number up to which all are known to be sent
    number: int = 0
    sent: int = 0
    #: `True` if HEAD must be read before the next send, since other processes may have sent events
    is_unread: bool = False
    #: events after `sent` in memory, in order
    at_hand: list[FeedEvent] = field(default_factory=list)
    #: time of the oldest event that could not be sent; None if the call that wrote it sends it
    behind_since: datetime | None = None

    @property
    def is_sent(self) -> bool:
        return not self.is_unread and self.sent >= self.number

    def fall_behind(self, now: datetime) -> None:
        """Drops the waiting events, so that they do not fill the memory. The relay reads them from the feed when the
        topic responds again.
        """
        self.behind_since = self.behind_since or (self.at_hand[0].at if self.at_hand else now)
        self.is_unread = True
        self.at_hand = []


class TopicRelay:
    """The relay of one process from the feeds to the topic."""

    def __init__(
        self,
        topic: EventTopic,
        feed: Feed,
        known_feeds: KnownFeeds,
        clock: Clock,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        spawn: Spawn = asyncio.create_task,
    ) -> None:
        self._topic = topic
        self._feed = feed
        self._known_feeds = known_feeds
        self._clock = clock
        self._sleep = sleep
        self._spawn = spawn
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        #: Race passing: one caller sends at a time, so that events of a tenant leave in order
        self._turn = asyncio.Lock()
        #: number of consecutive failed sends, and time before which none is tried
        self._failures = 0
        self._quiet_until: datetime | None = None
        #: kept here, since asyncio refers to tasks weakly
        self._worker: asyncio.Task[None] | None = None

    def find_sent(self, write: FeedWrite) -> int:
        """Returns the number of the last event of the tenant's feed that is known to be sent, for HEAD."""
        one = self._tenants.get(write.tenant)
        return max(write.head.sent, one.sent if one is not None else 0)

    def wrote(self, write: FeedWrite) -> None:
        """Notes the events of a transaction that the feed has, and that `pass_on` sends."""
        one = self._entry(write.tenant)
        one.sent = max(one.sent, write.head.sent)
        one.number = max(one.number, write.number)
        one.changed_at = self._clock.now()
        if one.behind_since is None:
            one.at_hand += write.events

    async def pass_on(self, tenants: Collection[str]) -> None:
        """Sends events that the feeds have and the topic lacks, for at most 5 s and until the first failure. A task of
        the process sends the rest.

        For a tenant without a new event, reads HEAD, since the tenant's writer may have died. Raises no error of
        LUCIUS.
        """
        mine = [tenant for tenant in tenants if self._entry(tenant).behind_since is None]
        for tenant in mine:
            one = self._entry(tenant)
            one.is_unread = one.is_unread or one.is_sent
        until = self._clock.now() + _CALL
        try:
            # the next batch of hints must not wait for an unreachable topic
            while not self._failures and self._clock.now() < until and await self._send_some(mine):
                pass
        finally:
            for one in map(self._entry, mine):
                if not one.is_sent:
                    one.fall_behind(self._clock.now())
            self._set_gauges()
            self._see_to_the_rest()

    async def find_unsent(self, tenant: str) -> None:
        """Notes the tenant's feed if it has unsent events of a process that died. Raises LedgerUnavailable."""
        head = await self._feed.head(tenant)
        if head.sent >= head.number or tenant in self._tenants:
            return
        first = await self._feed.events(tenant, after=head.sent, limit=1)
        now = self._clock.now()
        if first and now - first[0].at < _OWN:
            return
        one = self._entry(tenant)
        one.is_unread, one.behind_since = True, first[0].at if first else now

    async def catch_up(self, until: datetime) -> None:
        """Sends unsent events and stores the progress, until the given time. A task sends the rest.

        Raises no error of LUCIUS.
        """
        while self._clock.now() < until and not self._is_quiet() and await self._send_some(self._behind()):
            pass
        for tenant in list(self._tenants):
            if self._clock.now() < until:
                await self._store(tenant)
        self._set_gauges()
        self._see_to_the_rest()

    def _entry(self, tenant: str) -> _Tenant:
        """Returns the tenant's entry and moves it to the end, so that other tenants have the next turns."""
        one = self._tenants.setdefault(tenant, _Tenant(self._clock.now()))
        self._tenants.move_to_end(tenant)
        while len(self._tenants) > _MAX_TENANTS:
            self._tenants.popitem(last=False)
        return one

    def _behind(self) -> list[str]:
        """Returns at most `_MAX_TURN` (50) tenants with unsent events, the longest without a turn first."""
        return [tenant for tenant, one in self._tenants.items() if not one.is_sent][:_MAX_TURN]

    def _is_quiet(self) -> bool:
        return self._quiet_until is not None and self._clock.now() < self._quiet_until

    async def _send_some(self, tenants: Sequence[str]) -> bool:
        """Sends one batch of events of these tenants. Returns `True` if events were sent, or if HEAD shows that a
        tenant's events were already sent.
        """
        async with self._turn:
            batch: list[tuple[_Tenant, FeedEvent]] = []
            is_known, size = False, 0
            for tenant in tenants:
                one = self._entry(tenant)
                if one.is_sent:
                    continue
                found = await self._next(tenant, one)
                is_known = is_known or one.is_sent
                for event in found:
                    size += len(event.text.encode()) + _ENVELOPE_BYTES
                    if batch and (len(batch) == _MAX_EVENTS or size > _MAX_BYTES):
                        break
                    batch.append((one, event))
                else:
                    continue
                break
            if not batch:
                return is_known
            sent_of = list({id(one): one for one, _ in batch}.values())
            try:
                await self._topic.send([event for _, event in batch])
            except LuciusError as fault:
                self._fail(fault, sent_of, len(batch))
                return False
            self._failures, self._quiet_until = 0, None
            for one, event in batch:
                one.sent = event.number
            for one in sent_of:
                one.changed_at = self._clock.now()
                one.at_hand = [event for event in one.at_hand if event.number > one.sent]
                one.behind_since = None if one.is_sent else one.behind_since
            return True

    def _fail(self, fault: LuciusError, tenants: Collection[_Tenant], count: int) -> None:
        telemetry.record_fault(fault, "EVENTS_UNSENT", count=count)
        now = self._clock.now()
        self._quiet_until = now + min(_QUIET * 2 ** min(self._failures, 10), _LONGEST_QUIET)
        self._failures += 1
        for one in tenants:
            one.fall_behind(now)

    async def _next(self, tenant: str, one: _Tenant) -> list[FeedEvent]:
        """Returns the next unsent events, from memory or from one page of the feed.

        Returns no events if HEAD or the page cannot be read.
        """
        try:
            if one.is_unread:
                head = await self._feed.head(tenant)
                one.number, one.sent, one.is_unread = max(one.number, head.number), max(one.sent, head.sent), False
            one.at_hand = [event for event in one.at_hand if event.number > one.sent]
            if one.sent < one.number and not (one.at_hand and one.at_hand[0].number == one.sent + 1):
                one.at_hand = await self._feed.events(tenant, after=one.sent, limit=_MAX_EVENTS)
                self._skip_removed(tenant, one)
        except LuciusError as fault:
            telemetry.record_fault(fault, "EVENTS_UNSENT", tenant_id=tenant)
            one.fall_behind(self._clock.now())
            return []
        if one.is_sent:
            one.behind_since = None
        # another process may have written between two events of this one
        return [event for place, event in enumerate(one.at_hand) if event.number == one.at_hand[0].number + place]

    def _skip_removed(self, tenant: str, one: _Tenant) -> None:
        """Skips events that `prune` deleted before the topic accepted them."""
        first = one.at_hand[0].number if one.at_hand else one.number + 1
        if first > one.sent + 1:
            telemetry.warn("EVENTS_NEVER_SENT", tenant_id=tenant, count=first - one.sent - 1)
            one.sent = first - 1

    async def _store(self, tenant: str) -> None:
        """Writes the last sent number to HEAD and forgets the tenant. Raises no error of LUCIUS."""
        one = self._tenants.get(tenant)
        if one is None or not one.is_sent:
            return
        try:
            known = await self._known_feeds.of(self._feed, tenant)
            async with known.turn:
                if known.head.sent < one.sent:
                    head = replace(known.head, sent=one.sent)
                    write = FeedWrite(tenant=tenant, head=head, events=[], seen={}, heads_since=head.heads_since)
                    known.head = await self._feed.write(write)
        except Conflict:
            # other processes write to the feed; the next check reads HEAD again
            self._known_feeds.forget(tenant)
        except LuciusError as fault:
            telemetry.record_fault(fault)
            self._known_feeds.forget(tenant)
        else:
            if one.is_sent and known.head.sent >= one.sent:
                self._tenants.pop(tenant, None)

    def _see_to_the_rest(self) -> None:
        if self._tenants and (self._worker is None or self._worker.done()):
            self._worker = self._spawn(self._work())

    async def _work(self) -> None:
        """Sends until every known event is sent and every HEAD has the last sent number."""
        while self._tenants:
            if not self._is_quiet() and await self._send_some(self._behind()):
                continue
            now = self._clock.now()
            for tenant, one in list(self._tenants.items()):
                if now - one.changed_at >= _IDLE:
                    await self._store(tenant)
            self._set_gauges()
            if self._tenants:
                await self._sleep(_LOOK_S)

    def _set_gauges(self) -> None:
        behind = [one for one in self._tenants.values() if one.behind_since is not None]
        # a tenant whose HEAD is not known has at least one unsent event
        telemetry.set_gauge("events_unsent", sum(max(one.number - one.sent, 1) for one in behind))
        oldest = min((one.behind_since for one in behind if one.behind_since is not None), default=None)
        age_s = (self._clock.now() - oldest).total_seconds() if oldest is not None else 0.0
        telemetry.set_gauge("events_unsent_oldest_seconds", max(age_s, 0.0))


def add_sent(passing: TopicRelay | None, write: FeedWrite) -> FeedWrite:
    """Returns `write` with the number of the last sent event in HEAD.

    Without a topic, all events count as sent, so a later topic does not get them.
    """
    sent = passing.find_sent(write) if passing is not None else write.number
    return replace(write, head=replace(write.head, sent=sent))
