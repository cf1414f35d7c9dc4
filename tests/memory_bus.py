"""Queues and topic of the bus in this process: tests read the app's messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from shared.core.events.hints import Hint
from shared.errors import CountsForbidden
from shared.ports.bus import DeadReply
from shared.ports.feed import FeedEvent
from shared.ports.webhooks import DeliveryCall


class MemoryAdmissionCalls:
    """See `shared.ports.bus.AdmissionCalls`. Keeps each call and wakes no admission state."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None, datetime | None]] = []
        self.divisions: list[tuple[str, datetime, datetime]] = []
        #: those to bulks: tenant, id, when
        self.bulk_calls: list[tuple[str, str, datetime | None]] = []
        #: those to breakers: tenant, id of the gate
        self.breaker_calls: list[tuple[str, str]] = []

    async def call(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        bulk_id: str | None = None,
        breaker_of: str | None = None,
        at: datetime | None = None,
    ) -> None:
        if breaker_of is not None:
            self.breaker_calls.append((tenant, breaker_of))
        elif bulk_id is not None:
            self.bulk_calls.append((tenant, bulk_id, at))
        else:
            self.calls.append((tenant, job_id, at))

    async def call_allocation(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        self.divisions.append((gate_id, at, since or at))


class NoCounts:
    """See `shared.ports.bus.Counts`. The bus refuses the app's requests for counts."""

    async def in_flight(self, lane: int, service: str | None) -> int:
        raise CountsForbidden


class MemoryDeadReplies:
    """See `shared.ports.bus.DeadReplies`."""

    def __init__(self) -> None:
        #: by lane; None: those of all lanes
        self.lying: dict[int | None, list[DeadReply]] = {}

    async def waiting(self, lane: int | None) -> int:
        return len(self.lying.get(lane, []))

    async def drain(self, lane: int | None, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        queue = self.lying.get(lane, [])
        for reply in list(queue):
            if await take(reply):
                queue.remove(reply)
        return True


class MemoryHints:
    """See `shared.ports.feed.HintQueue`. Keeps each hint with the time when it is due."""

    def __init__(self) -> None:
        self.sent: list[tuple[Hint, datetime | None]] = []

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        self.sent += [(hint, at) for hint in hints]


class MemoryEvents:
    """See `shared.ports.feed.EventTopic`. Keeps each event and drops no duplicate."""

    def __init__(self) -> None:
        self.sent: list[FeedEvent] = []

    async def send(self, events: Sequence[FeedEvent]) -> None:
        self.sent += events


class MemoryDeliveries:
    """See `shared.ports.webhooks.DeliveryQueue`. Keeps each call with the time when it is due."""

    def __init__(self) -> None:
        self.sent: list[tuple[DeliveryCall, datetime | None]] = []

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        self.sent += [(call, at) for call in calls]
