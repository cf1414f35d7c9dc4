"""When each service last answered, in this process: for a stack without Azurite."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.ports.sweeps import Heard


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
