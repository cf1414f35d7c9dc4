"""The durable engine, limited to the calls of triggers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from shared.core.jobs.verdict import NOTHING_SHOWN, Shown


class InstanceState(StrEnum):
    """The state of an instance, according to the durable engine."""

    NOT_FOUND = "NOT_FOUND"
    #: pending, running, or suspended by hand
    ALIVE = "ALIVE"
    ENDED = "ENDED"


@dataclass(frozen=True)
class Instance:
    """An instance, according to the durable engine."""

    state: InstanceState
    #: custom status of the orchestration
    shown: Shown = NOTHING_SHOWN


class Orchestrations(Protocol):
    """Calls to the durable engine."""

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        """Starts the job's orchestration, unless an orchestration with this id exists that has not ended. Raises
        OrchestrationUnavailable.
        """

    async def look_up(self, instance_id: str) -> Instance:
        """Returns the state of an instance. Raises OrchestrationUnavailable."""

    async def terminate(self, instance_id: str, reason: str) -> None:
        """Requests that the engine ends an instance that may be stuck. Does nothing if the instance does not exist or
        has ended.

        Raises OrchestrationUnavailable.
        """

    async def purge(self, instance_id: str) -> bool:
        """Deletes the history of an ended instance. Returns `False` if the instance has not ended. Raises
        OrchestrationUnavailable.
        """

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        """Raises an external event. Raises InstanceNotFound, InstanceEnded, OrchestrationUnavailable."""
