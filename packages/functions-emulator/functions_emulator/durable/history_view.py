"""The history as `showHistory=true` shows it, with names instead of numbers, and with a call and its result as one
item.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from functions_emulator.durable.events import Event, Kind

_NAMES = {
    Kind.EXECUTION_STARTED: "ExecutionStarted",
    Kind.EXECUTION_COMPLETED: "ExecutionCompleted",
    Kind.EXECUTION_TERMINATED: "ExecutionTerminated",
    Kind.TASK_SCHEDULED: "TaskScheduled",
    Kind.TASK_COMPLETED: "TaskCompleted",
    Kind.TASK_FAILED: "TaskFailed",
    Kind.SUB_ORCHESTRATION_CREATED: "SubOrchestrationInstanceCreated",
    Kind.SUB_ORCHESTRATION_COMPLETED: "SubOrchestrationInstanceCompleted",
    Kind.SUB_ORCHESTRATION_FAILED: "SubOrchestrationInstanceFailed",
    Kind.TIMER_CREATED: "TimerCreated",
    Kind.TIMER_FIRED: "TimerFired",
    Kind.EVENT_SENT: "EventSent",
    Kind.EVENT_RAISED: "EventRaised",
    Kind.CONTINUE_AS_NEW: "ContinueAsNew",
    Kind.GENERIC: "GenericEvent",
    Kind.EXECUTION_SUSPENDED: "ExecutionSuspended",
    Kind.EXECUTION_RESUMED: "ExecutionResumed",
}
_BEGINNINGS = frozenset({Kind.TASK_SCHEDULED, Kind.SUB_ORCHESTRATION_CREATED, Kind.TIMER_CREATED})
_ENDS = frozenset(
    {
        Kind.TASK_COMPLETED,
        Kind.TASK_FAILED,
        Kind.SUB_ORCHESTRATION_COMPLETED,
        Kind.SUB_ORCHESTRATION_FAILED,
        Kind.TIMER_FIRED,
    }
)


def show_history(history: Sequence[Event], *, with_output: bool) -> list[dict[str, Any]]:
    """Returns JSON objects for a history. `with_output` adds `Result` and `Input`."""
    begun = {one.event_id: one for one in history if one.kind in _BEGINNINGS}
    ended = {_task_id(one) for one in history if one.kind in _ENDS}
    lines = []
    for event in history:
        if event.kind not in _NAMES or (event.kind in _BEGINNINGS and event.event_id in ended):
            continue
        line: dict[str, Any] = {"EventType": _NAMES[event.kind], "Timestamp": event.at}
        if event.kind in _ENDS:
            start = begun.get(_task_id(event))
            if start is not None:
                line["ScheduledTime"] = start.at
                line["FunctionName"] = start.data.get("Name")
            if event.kind is Kind.TIMER_FIRED:
                line["FireAt"] = event.data.get("FireAt")
            if "Reason" in event.data:
                line["Reason"] = event.data["Reason"]
        elif event.kind is Kind.EXECUTION_STARTED:
            line["FunctionName"] = event.data.get("Name")
        elif event.kind is Kind.EXECUTION_COMPLETED:
            line["OrchestrationStatus"] = event.data["OrchestrationStatus"]
        elif event.kind is Kind.TIMER_CREATED:
            line["FireAt"] = event.data.get("FireAt")
        elif "Name" in event.data:
            line["Name"] = event.data["Name"]
        if with_output:
            for field in ("Result", "Input"):
                if event.data.get(field) is not None:
                    line[field] = _parsed(event.data[field])
        lines.append({key: value for key, value in line.items() if value is not None})
    return lines


def _task_id(event: Event) -> Any:
    return event.data["TimerId" if event.kind is Kind.TIMER_FIRED else "TaskScheduledId"]


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
