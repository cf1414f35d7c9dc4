"""Parts of Service Bus that a job uses: duplicate detection, time to live, locks, redelivery, dead letters, peeks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.contracts.messages import Directive
from shared.core.jobs.backlog import MAX_SHOWN, LaneLook
from shared.core.jobs.directive import message_id
from shared.ports.bus import DeadReply
from tape.scheduler import Scheduler
from tests.simulation.faults import Faults

DUPLICATE_WINDOW = timedelta(minutes=30)
LOCK_S = 60.0
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass
class SentDirective:
    directive: Directive
    message_id: str
    enqueued_at: datetime
    expires_at: datetime
    taken: bool = False


@dataclass
class SentReply:
    body: bytes
    lane: int
    message_id: str
    sequence_number: int
    enqueued_at: datetime
    deliveries: int = 0
    done: bool = False


class Bus:
    """The bus. `on_directive` gets the directives for a platform service, `on_reply` the replies for the app."""

    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self._scheduler = scheduler
        self._faults = faults
        self._numbers = itertools.count(1)
        self.max_deliveries = 10
        self.directives: list[SentDirective] = []
        self.replies: list[SentReply] = []
        self.dead_letters: list[SentReply] = []
        self.on_publish: Callable[[Directive], None] = lambda directive: None
        self.on_directive: Callable[[Directive], None] = lambda directive: None
        self.on_reply: Callable[[SentReply], None] = lambda reply: None
        #: until then the services take nothing
        self.services_away_until: datetime = scheduler.now
        #: `True`: the services pull when they have room, instead of getting each directive at once
        self.pulled = False

    # --- directives

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        now = self._scheduler.now
        self.on_publish(directive)
        name = message_id(directive.jobId, directive.stepId, directive.attempt_no)
        if any(one.message_id == name and one.enqueued_at + DUPLICATE_WINDOW > now for one in self.directives):
            return
        expires_at = NEVER if time_to_live_s is None else now + timedelta(seconds=time_to_live_s)
        sent = SentDirective(directive, name, now, expires_at)
        self.directives.append(sent)
        if self.pulled:
            self._scheduler.later(self._faults.latency_s(), lambda: self.on_directive(sent.directive))
        else:
            self._scheduler.later(self._faults.latency_s(), lambda: self._hand_over(sent))

    def _hand_over(self, sent: SentDirective) -> None:
        now = self._scheduler.now
        if now < self.services_away_until and now < sent.expires_at:
            self._scheduler.at(self.services_away_until, lambda: self._hand_over(sent))
            return
        sent.taken = True
        if now < sent.expires_at:
            self.on_directive(sent.directive)
            if self._faults.occurs(self._faults.odds.completion_lost):
                self._scheduler.later(LOCK_S, lambda: self.on_directive(sent.directive))

    # --- replies

    def send_reply(self, lane: int, body: dict[str, Any] | bytes) -> None:
        number = next(self._numbers)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = SentReply(raw, lane, f"reply-{number}", number, self._scheduler.now)
        self.replies.append(sent)
        self.redeliver(sent, self._faults.latency_s())

    def redeliver(self, sent: SentReply, seconds: float) -> None:
        self._scheduler.later(seconds, lambda: self._deliver(sent))

    def _deliver(self, sent: SentReply) -> None:
        if sent.deliveries >= self.max_deliveries:
            sent.done = True
            self.dead_letters.append(sent)
            return
        self.on_reply(sent)

    # --- `shared.ports.bus.DeadReplies`

    async def waiting(self, lane: int | None) -> int:
        return sum(one.lane == lane for one in self.dead_letters)

    async def drain(self, lane: int | None, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        mine = [one for one in self.dead_letters if one.lane == lane]
        for one in mine:
            dealt_with = await take(
                DeadReply(
                    body=one.body,
                    lane=one.lane,
                    message_id=one.message_id,
                    sequence_number=one.sequence_number,
                    delivery_count=one.deliveries,
                    enqueued_at=one.enqueued_at,
                    reason="MaxDeliveryCountExceeded",
                )
            )
            if dealt_with and one in self.dead_letters:  # else another sweep took it too
                self.dead_letters.remove(one)
        return True


class Lanes:
    """See `shared.ports.bus.Lanes`: reads are shared, as by the real lanes."""

    def __init__(self, bus: Bus, scheduler: Scheduler) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._looks: dict[tuple[str, int], LaneLook] = {}
        #: number of reads that queried the bus
        self.asked = 0

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        lying = (one for one in self._bus.replies if not one.done and one.lane == lane)
        return self._look("replies", lane, since, ((one.message_id, one.enqueued_at) for one in lying))

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        now = self._scheduler.now
        lying = (one for one in self._bus.directives if not one.taken and one.expires_at > now)
        mine = (one for one in lying if one.directive.lane == lane and one.directive.step_type.lower() == service)
        return self._look(service, lane, since, ((one.message_id, one.enqueued_at) for one in mine))

    def _look(self, what: str, lane: int, since: datetime, lying: Iterable[tuple[str, datetime]]) -> LaneLook:
        known = self._looks.get((what, lane))
        if known is None or known.looked_at < since:
            self.asked += 1
            shown = list(itertools.islice(lying, MAX_SHOWN))
            known = LaneLook(self._scheduler.now, shown, is_all=len(shown) < MAX_SHOWN)
            self._looks[what, lane] = known
        return known
