"""Bringing an instance into being, for a client or for a parent orchestration."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from functions_emulator.durable.decisions import ScheduleSubOrchestration
from functions_emulator.durable.errors import InstanceExistsError
from functions_emulator.durable.events import Instance, Kind, Parent, Status

if TYPE_CHECKING:
    from functions_emulator.durable.engine import Engine


def start_child(engine: Engine, parent: Instance, call: ScheduleSubOrchestration, now: datetime) -> None:
    """Starts a sub-orchestration for `parent`; an id that is in use fails the call, not the parent."""
    name = engine.catalog.resolve("orchestrator", call.name)
    link = Parent(parent.instance_id, parent.execution_id, call.task_id)
    existing = engine.store.instance(call.instance_id)
    if existing is not None and not existing.status.is_terminal:
        data: dict[str, object] = {
            "TaskScheduledId": call.task_id,
            "Reason": str(InstanceExistsError(call.instance_id, existing.status)),
            "Details": "",
        }
        engine.post(parent.instance_id, parent.execution_id, Kind.SUB_ORCHESTRATION_FAILED, data, now)
        return
    text = None if call.input is None else json.dumps(call.input)
    create(engine, name, call.instance_id, text, call.version or parent.version, link)


def create(
    engine: Engine, name: str, instance_id: str, text: str | None, version: str | None, parent: Parent | None
) -> None:
    now = engine.clock.now()
    engine.store.delete_instance(instance_id)
    engine.reports.forget(instance_id, now)
    instance = Instance(
        instance_id=instance_id,
        execution_id=uuid.uuid4().hex,
        name=name,
        version=version,
        input=text,
        status=Status.PENDING,
        custom_status=None,
        output=None,
        created_at=now,
        updated_at=now,
        parent=parent,
    )
    engine.store.put_instance(instance)
    data: dict[str, object] = {"Name": name, "Version": version, "Input": text}
    engine.post(instance_id, instance.execution_id, Kind.EXECUTION_STARTED, data, now)
