"""The feeds are passed on to the topic `lucius-events`: each event at least once, in its tenant's order (R80).

HEAD's `sent` says up to which event a tenant's feed was passed on. It is stored after the send, with the tenant's next
transaction or half a minute later by itself: so a death in between repeats events, and leaves none out. A topic that
refuses holds up nothing but itself: a task of the process tries again, and `prune` finds what no process knows of
(R81).
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
from shared.operations.process.known_feeds import KnownFeeds
from shared.ports.environment import Clock
from shared.ports.feed import EventTopic, Feed, FeedEvent, FeedWrite

#: of one send; the bus takes 256 KB with what each message has beside its event
_MAX_EVENTS, _MAX_BYTES, _ENVELOPE_BYTES = 100, 200_000, 600
#: of one call of `tell`, which the next batch of hints waits for; the process's task does the rest
_CALL = timedelta(seconds=5)
#: maximum number of tenants that the task sends at once
_MAX_TURN = 50
#: tenants that a process remembers; the others' events are found by `prune`
_MAX_TENANTS = 10_000
#: after a failed send, doubled by each one that follows: until then no task tries
_QUIET, _LONGEST_QUIET = timedelta(seconds=5), timedelta(minutes=1)
#: between two looks of the process's task
_LOOK_S = 5.0
#: after a tenant's last send, until HEAD says so without a transaction of the tenant's
_IDLE = timedelta(seconds=30)
#: an event of these minutes is its writer's business, not that of `prune`
_OWN = timedelta(minutes=2)

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


@dataclass
class _Tenant:
    """What a process knows of a tenant's feed, as far as it concerns the topic."""

    #: when it was written or sent last
    changed_at: datetime
    #: the last event that was written, and up to which one this process knows that all were sent
    number: int = 0
    sent: int = 0
    #: HEAD is to be read before the next send: others may have gone on
    is_unread: bool = False
    #: events after `sent` that need not be read, in order
    at_hand: list[FeedEvent] = field(default_factory=list)
    #: when the oldest event was written that could not be sent; None: the call that wrote sends
    behind_since: datetime | None = None

    @property
    def is_sent(self) -> bool:
        return not self.is_unread and self.sent >= self.number

    def fall_behind(self, now: datetime) -> None:
        """Discards the waiting events, which would fill the memory. They are read from the feed after the topic
        responds again.
        """
        self.behind_since = self.behind_since or (self.at_hand[0].at if self.at_hand else now)
        self.is_unread = True
        self.at_hand = []


class TopicRelay:
    """One a process, over its topic and its feed."""

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
        #: Race passing: one sends at a time, so that events of a tenant leave in their order
        self._turn = asyncio.Lock()
        #: failed sends in a row, and until when none is tried
        self._failures = 0
        self._quiet_until: datetime | None = None
        #: referred to here, since asyncio refers to tasks weakly
        self._worker: asyncio.Task[None] | None = None

    def sent(self, write: FeedWrite) -> int:
        """Returns the value for HEAD: up to which event the tenant's feed is known to have been sent."""
        one = self._tenants.get(write.tenant)
        return max(write.head.sent, one.sent if one is not None else 0)

    def wrote(self, write: FeedWrite) -> None:
        """Notes an event that the feed has; `pass_on` sends it."""
        one = self._entry(write.tenant)
        one.sent = max(one.sent, write.head.sent)
        one.number = max(one.number, write.number)
        one.changed_at = self._clock.now()
        if one.behind_since is None:
            one.at_hand += write.events

    async def pass_on(self, tenants: Collection[str]) -> None:
        """Sends what the feeds have and the topic lacks, with one try. A task of the process sends the rest.

        A tenant without a new event may have a writer that died: its HEAD is read. Raises nothing of LUCIUS's.
        """
        mine = [tenant for tenant in tenants if self._entry(tenant).behind_since is None]
        for tenant in mine:
            one = self._entry(tenant)
            one.is_unread = one.is_unread or one.is_sent
        until = self._clock.now() + _CALL
        try:
            # the next batch of hints does not wait for a topic that is away
            while not self._failures and self._clock.now() < until and await self._send_some(mine):
                pass
        finally:
            for one in map(self._entry, mine):
                if not one.is_sent:
                    one.fall_behind(self._clock.now())
            self._set_gauges()
            self._see_to_the_rest()

    async def find_unsent(self, tenant: str) -> None:
        """Returns whether the tenant's feed has unsent events whose process died. Raises LedgerUnavailable."""
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
        """Sends what is behind and stores how far that is, until an instant; what is left then goes on beside it.

        Raises nothing of LUCIUS's.
        """
        while self._clock.now() < until and not self._is_quiet() and await self._send_some(self._behind()):
            pass
        for tenant in list(self._tenants):
            if self._clock.now() < until:
                await self._store(tenant)
        self._set_gauges()
        self._see_to_the_rest()

    def _entry(self, tenant: str) -> _Tenant:
        """It goes to the end: the next one's turn is another's."""
        one = self._tenants.setdefault(tenant, _Tenant(self._clock.now()))
        self._tenants.move_to_end(tenant)
        while len(self._tenants) > _MAX_TENANTS:
            self._tenants.popitem(last=False)
        return one

    def _behind(self) -> list[str]:
        """Those first that had no turn for longest."""
        return [tenant for tenant, one in self._tenants.items() if not one.is_sent][:_MAX_TURN]

    def _is_quiet(self) -> bool:
        return self._quiet_until is not None and self._clock.now() < self._quiet_until

    async def _send_some(self, tenants: Sequence[str]) -> bool:
        """One send with what finds room in it, of these tenants; False: nothing came of it."""
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
        """The events that follow on what was sent, as many as are at hand or on one page; none: it cannot be read."""
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
        # another process may have written between two of this one's
        return [event for place, event in enumerate(one.at_hand) if event.number == one.at_hand[0].number + place]

    def _skip_removed(self, tenant: str, one: _Tenant) -> None:
        """What `prune` removed before the topic took it is gone for the topic too."""
        first = one.at_hand[0].number if one.at_hand else one.number + 1
        if first > one.sent + 1:
            telemetry.warn("EVENTS_NEVER_SENT", tenant_id=tenant, count=first - one.sent - 1)
            one.sent = first - 1

    async def _store(self, tenant: str) -> None:
        """HEAD says how far the tenant's feed was sent, and the process forgets it. Raises nothing of LUCIUS's."""
        one = self._tenants.get(tenant)
        if one is None or not one.is_sent:
            return
        try:
            known = await self._known_feeds.of(self._feed, tenant)
            async with known.turn:
                if known.head.sent < one.sent:
                    head = replace(known.head, sent=one.sent)
                    known.head = await self._feed.write(FeedWrite(tenant=tenant, head=head, events=[], seen={}))
        except Conflict:
            # others write into it; the next look reads what they stored
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
        """Until everything that this process knows of was sent, and HEADs say so."""
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
        # of one whose HEAD is not known there is an event at least
        telemetry.set_gauge("events_unsent", sum(max(one.number - one.sent, 1) for one in behind))
        oldest = min((one.behind_since for one in behind if one.behind_since is not None), default=None)
        age_s = (self._clock.now() - oldest).total_seconds() if oldest is not None else 0.0
        telemetry.set_gauge("events_unsent_oldest_seconds", max(age_s, 0.0))


def with_sent(passing: TopicRelay | None, write: FeedWrite) -> FeedWrite:
    """Returns HEAD with the number of the last sent event. Without a topic, all events count as sent: a later topic
    does not get them.
    """
    sent = passing.sent(write) if passing is not None else write.number
    return replace(write, head=replace(write.head, sent=sent))
