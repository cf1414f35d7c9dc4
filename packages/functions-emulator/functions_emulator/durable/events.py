"""The history of an orchestration: event kinds and the values the engine keeps about an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any


class Kind(IntEnum):
    """Numbers of DurableTask.Core's `EventType`, which are also those on the SDK's wire."""

    EXECUTION_STARTED = 0
    EXECUTION_COMPLETED = 1
    EXECUTION_TERMINATED = 3
    TASK_SCHEDULED = 4
    TASK_COMPLETED = 5
    TASK_FAILED = 6
    SUB_ORCHESTRATION_CREATED = 7
    SUB_ORCHESTRATION_COMPLETED = 8
    SUB_ORCHESTRATION_FAILED = 9
    TIMER_CREATED = 10
    TIMER_FIRED = 11
    ORCHESTRATOR_STARTED = 12
    ORCHESTRATOR_COMPLETED = 13
    EVENT_SENT = 14
    EVENT_RAISED = 15
    CONTINUE_AS_NEW = 16
    GENERIC = 17
    EXECUTION_SUSPENDED = 19
    EXECUTION_RESUMED = 20


class Status(StrEnum):
    """`runtimeStatus` of an instance."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATED = "Terminated"

    @property
    def is_terminal(self) -> bool:
        return self in (Status.COMPLETED, Status.FAILED, Status.TERMINATED)


@dataclass(frozen=True, slots=True)
class Event:
    """One history event. `data` holds DurableTask's own field names (`Name`, `Input`, `TaskScheduledId`, ...).

    `memo` is where the wire format keeps the text it has made of the event, since it is sent in every episode.
    """

    kind: Kind
    event_id: int
    at: str
    data: Mapping[str, Any]
    memo: list[str] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parent:
    """Who waits for a sub-orchestration, and under which task id."""

    instance_id: str
    execution_id: str
    task_id: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An orchestration as its status shows it. `input`, `output`, `custom_status` are JSON texts or `None`.

    `note` is JSON text of `Reports`, so that another process knows what the instance waits for and whether it hangs.
    """

    instance_id: str
    execution_id: str
    name: str
    version: str | None
    input: str | None
    status: Status
    custom_status: str | None
    output: str | None
    created_at: datetime
    updated_at: datetime
    parent: Parent | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """An event on its way to an instance. `execution_id` `None`: for whichever execution is current."""

    seq: int
    instance_id: str
    execution_id: str | None
    kind: Kind
    data: Mapping[str, Any]
    visible_at: str


@dataclass(frozen=True, slots=True)
class ActivityTask:
    """One activity call that has not reported back yet. `input` is the JSON text the function gets."""

    seq: int
    instance_id: str
    execution_id: str
    task_id: int
    name: str
    input: str | None
