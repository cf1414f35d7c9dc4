"""What an episode newly asks the outside for. `task_id` is the SDK's and the extension's common counter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ScheduleActivity:
    """`input` is JSON text, or the request of an HTTP call."""

    task_id: int
    name: str
    input: str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ScheduleTimer:
    task_id: int
    fire_at: datetime


@dataclass(frozen=True, slots=True)
class ScheduleSubOrchestration:
    task_id: int
    name: str
    input: str | None
    instance_id: str
    version: str | None


@dataclass(frozen=True, slots=True)
class SendOperation:
    """An entity operation. A call is answered by an event whose name is `request_id`; a signal is not."""

    task_id: int
    entity: str
    operation: str
    input: str | None
    signal: bool
    request_id: str


Decision = ScheduleActivity | ScheduleTimer | ScheduleSubOrchestration | SendOperation
