"""New decisions of an episode: activities, timers, sub-orchestrations and entity operations.

`task_id` is the number of the decision in its execution. The SDK and the extension count in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions_emulator.durable.clock import stamp
from functions_emulator.durable.events import Event, Kind


@dataclass(frozen=True, slots=True)
class ScheduleActivity:
    """An activity call. `input` is JSON text. For an HTTP call, `input` is the request."""

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
    """An entity operation. The result of a call is an event with the name `request_id`. A signal has no result."""

    task_id: int
    entity: str
    operation: str
    input: str | None
    signal: bool
    request_id: str


Decision = ScheduleActivity | ScheduleTimer | ScheduleSubOrchestration | SendOperation


def history_event(decision: Decision, at: str) -> Event:
    """Returns the history event that records a decision. `at` is its timestamp as `stamp` writes it."""
    if isinstance(decision, ScheduleActivity):
        text = decision.input if isinstance(decision.input, str | None) else json.dumps(decision.input)
        data = {"Name": decision.name, "Version": "", "Input": json.dumps([text])}
        return Event(Kind.TASK_SCHEDULED, decision.task_id, at, data)
    if isinstance(decision, ScheduleTimer):
        return Event(Kind.TIMER_CREATED, decision.task_id, at, {"FireAt": stamp(decision.fire_at)})
    if isinstance(decision, ScheduleSubOrchestration):
        data = {"Name": decision.name, "InstanceId": decision.instance_id, "Input": decision.input or ""}
        return Event(Kind.SUB_ORCHESTRATION_CREATED, decision.task_id, at, data)
    request = {"id": decision.request_id, "op": decision.operation, "signal": decision.signal}
    data = {"InstanceId": decision.entity, "Name": "op", "Input": json.dumps(request)}
    return Event(Kind.EVENT_SENT, decision.task_id, at, data)
