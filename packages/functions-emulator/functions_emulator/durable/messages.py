"""Makes the data of messages between instances and entities, by the fields of history events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from functions_emulator.durable.events import Instance, Kind, Status
from functions_emulator.durable.failures import orchestrator_details


def start_data(instance: Instance) -> dict[str, object]:
    """Returns the data of the message that starts an execution."""
    return {"Name": instance.name, "Version": instance.version, "Input": instance.input}


def operation_data(request_id: str, operation: str, text: str | None, caller: Instance | None) -> dict[str, Any]:
    """Returns the data of an operation for an entity. `text` is the operation's input as JSON text. A signal has no
    caller.
    """
    return {
        "id": request_id,
        "op": operation,
        "input": text,
        "signal": caller is None,
        "parent": None if caller is None else caller.instance_id,
        "parent_execution": None if caller is None else caller.execution_id,
    }


def is_operation(kind: Kind, data: Mapping[str, Any]) -> bool:
    """Returns True if a message is an operation for an entity. Every other message is for an orchestration."""
    return kind is Kind.GENERIC and "op" in data


def result_of(child: Instance, task_id: int, error: str | None) -> tuple[Kind, dict[str, object]]:
    """Returns kind and data of the message with which a finished sub-orchestration responds to the call `task_id`.

    `error` is the error of its code. Source: ProcessWorkflowCompletedTaskDecision in TaskOrchestrationDispatcher.cs of
    DurableTask.Core.
    """
    data: dict[str, object] = {"TaskScheduledId": task_id}
    if child.status is Status.COMPLETED:
        data["Result"] = child.output
        return Kind.SUB_ORCHESTRATION_COMPLETED, data
    data["Reason"] = json.loads(child.output) if child.output else child.status.value
    data["Details"] = None if error is None else orchestrator_details(error)
    return Kind.SUB_ORCHESTRATION_FAILED, data
