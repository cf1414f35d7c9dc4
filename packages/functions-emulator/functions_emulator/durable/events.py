"""The values that the store keeps: instances, history events, messages and activity calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any


class Kind(IntEnum):
    """Kinds of history events. The numbers are those of `EventType` in DurableTask.Core, which the SDK uses too."""

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
    """One event of an instance's history."""

    kind: Kind
    event_id: int
    #: timestamp as `stamp` writes it
    at: str
    #: fields with the names of DurableTask: `Name`, `Input`, `TaskScheduledId`, ...
    data: Mapping[str, Any]
    #: the encoded event, once `wire` has encoded it: it is part of every later episode
    memo: list[str] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parent:
    """The orchestration that waits for a sub-orchestration, and the task id of its call."""

    instance_id: str
    execution_id: str
    task_id: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An orchestration. `input`, `output` and `custom_status` are JSON texts or `None`."""

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
    #: JSON text of `Reports` for the next process: the waits of the instance, and its stall, if any
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """An event that was sent to an instance. `execution_id` `None` means the current execution."""

    seq: int
    instance_id: str
    execution_id: str | None
    kind: Kind
    data: Mapping[str, Any]
    visible_at: str


@dataclass(frozen=True, slots=True)
class ActivityTask:
    """An activity call without a result yet. `input` is the JSON text that the function gets."""

    seq: int
    instance_id: str
    execution_id: str
    task_id: int
    name: str
    input: str | None
