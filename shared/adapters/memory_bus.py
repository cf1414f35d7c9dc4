"""What the bus holds for the app, in this process: for tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from shared.ports.bus import DeadReply
from shared.ports.sweeps import Heard


class MemoryDeskCalls:
    """See `shared.ports.bus.DeskCalls`: what was called for, for tests; nobody looks."""

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

    async def divide(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        self.divisions.append((gate_id, at, since or at))


class MemoryAnswers:
    """See `shared.ports.sweeps.Answers`."""

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}

    async def note(self, service: str, at: datetime) -> None:
        self._heard[service] = replace(self._heard.get(service, Heard()), answered_at=at)

    async def mark(self, service: str, silent_since: datetime | None) -> None:
        self._heard[service] = replace(self._heard.get(service, Heard()), silent_since=silent_since)

    async def read(self) -> dict[str, Heard]:
        return dict(self._heard)


class MemoryDeadReplies:
    """See `shared.ports.bus.DeadReplies`."""

    def __init__(self) -> None:
        self.lying: dict[int, list[DeadReply]] = {}

    async def waiting(self, lane: int) -> int:
        return len(self.lying.get(lane, []))

    async def drain(self, lane: int, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        queue = self.lying.get(lane, [])
        for reply in list(queue):
            if await take(reply):
                queue.remove(reply)
        return True
