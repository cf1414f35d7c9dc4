"""The durable engine, as far as triggers may use it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from shared.core.jobs.verdict import NOTHING_SHOWN, Shown


class InstanceState(StrEnum):
    """The state of an instance, as the durable engine has it."""

    NOT_FOUND = "NOT_FOUND"
    #: Pending, Running or suspended by hand
    ALIVE = "ALIVE"
    ENDED = "ENDED"


@dataclass(frozen=True)
class Instance:
    """An instance as the durable engine has it."""

    state: InstanceState
    #: by its custom status
    shown: Shown = NOTHING_SHOWN


class Orchestrations(Protocol):
    """The durable engine, as far as triggers may speak to it."""

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        """Starts the job orchestration; one that exists already is left alone. Raises OrchestrationUnavailable."""

    async def look_up(self, instance_id: str) -> Instance:
        """Raises OrchestrationUnavailable."""

    async def terminate(self, instance_id: str, reason: str) -> None:
        """Asks the engine to end an instance that may be stuck; nothing happens where there is none, or it has ended.

        Raises OrchestrationUnavailable.
        """

    async def purge(self, instance_id: str) -> bool:
        """Removes the history of an instance that has ended; False: it has not. Raises OrchestrationUnavailable."""

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        """Raises InstanceNotFound, InstanceEnded, OrchestrationUnavailable."""
