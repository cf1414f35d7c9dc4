"""An episode, which is one run of an orchestrator function, and the state of the instance after the run."""

from __future__ import annotations

import json
from dataclasses import dataclass

from functions_emulator.durable.actions import Reply
from functions_emulator.durable.events import Event, Instance, Kind, Message, Status
from functions_emulator.durable.failures import orchestrator_reason
from functions_emulator.durable.replay import Outcome


@dataclass(frozen=True, slots=True)
class Episode:
    """One run of an orchestrator function over the whole history. Events from index `new_from` on are new."""

    instance: Instance
    messages: tuple[Message, ...]
    history: tuple[Event, ...]
    new_from: int

    @property
    def recorded(self) -> bool:
        """Returns True if an earlier episode of the instance was committed."""
        return self.instance.status is not Status.PENDING

    @property
    def control_reason(self) -> str | None:
        """Returns the reason of the last new suspension or resumption as JSON, or None without one. An instance that
        continues has this reason as its output.

        Source: UpdateStateAsync in AzureTableTrackingStore.cs of DurableTask.AzureStorage.
        """
        controls = [one for one in self.messages if one.kind in (Kind.EXECUTION_SUSPENDED, Kind.EXECUTION_RESUMED)]
        return json.dumps(controls[-1].data.get("Input")) if controls else None


def state_after(instance: Instance, reply: Reply, outcome: Outcome) -> tuple[Status, str | None, str | None]:
    """Returns status, output, and the error of a failed instance. An instance whose code has ended is complete only if
    no task is open.
    """
    error = outcome.failure or (reply.error if outcome.finished else None)
    if error is not None:
        return Status.FAILED, json.dumps(orchestrator_reason(instance.name, error)), error
    if outcome.finished and reply.done:
        return Status.COMPLETED, reply.output, None
    return (Status.SUSPENDED if outcome.suspended else Status.RUNNING), instance.output, None
