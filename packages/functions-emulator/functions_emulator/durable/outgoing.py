"""Sends the messages of an episode: activity calls, timers, sub-orchestrations, operations, and the result for a
parent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from functions_emulator.durable.catalog import Catalog
from functions_emulator.durable.clock import stamp
from functions_emulator.durable.decisions import (
    Decision,
    ScheduleActivity,
    ScheduleSubOrchestration,
    ScheduleTimer,
    SendOperation,
)
from functions_emulator.durable.errors import InstanceExistsError
from functions_emulator.durable.events import Instance, Kind, Parent
from functions_emulator.durable.messages import operation_data, result_of
from functions_emulator.durable.store import Store
from functions_emulator.durable.visibility import ActivityQueue, delayed


class _Post(Protocol):
    def __call__(
        self, instance_id: str, execution_id: str | None, kind: Kind, data: dict[str, object], at: datetime
    ) -> None: ...


class _Create(Protocol):
    def __call__(
        self, name: str, instance_id: str, text: str | None, version: str | None, parent: Parent | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The sender of an episode's messages. Every method must be called within a transaction of the store. `post` and
    `create` are methods of the engine.
    """

    store: Store
    catalog: Catalog
    activities: ActivityQueue
    post: _Post
    create: _Create

    def send(self, instance: Instance, decisions: Sequence[Decision], now: datetime) -> None:
        """Sends all decisions of a live instance's code."""
        for decision in decisions:
            if isinstance(decision, ScheduleActivity):
                text = decision.input if isinstance(decision.input, str | None) else json.dumps(decision.input)
                task = self.store.add_activity(
                    instance.instance_id, instance.execution_id, decision.task_id, decision.name, text
                )
                self.activities.add(task)
            elif isinstance(decision, ScheduleTimer):
                self.post(
                    instance.instance_id,
                    instance.execution_id,
                    Kind.TIMER_FIRED,
                    {"TimerId": decision.task_id, "FireAt": stamp(decision.fire_at)},
                    delayed(decision.fire_at, now),
                )
            elif isinstance(decision, ScheduleSubOrchestration):
                self._start_child(instance, decision, now)
        self.send_operations(instance, decisions, now)

    def send_operations(self, instance: Instance, decisions: Sequence[Decision], now: datetime) -> None:
        """Sends only the operations for entities, as an execution does when it ends."""
        for decision in decisions:
            if isinstance(decision, SendOperation):
                caller = None if decision.signal else instance
                data = operation_data(decision.request_id, decision.operation, decision.input, caller)
                self.post(decision.entity, None, Kind.GENERIC, data, now)

    def notify_parent(self, instance: Instance, now: datetime, error: str | None = None) -> None:
        """Sends the result of a sub-orchestration to its parent. `error` is the error of its code."""
        parent = instance.parent
        if parent is None:
            return
        kind, data = result_of(instance, parent.task_id, error)
        self.post(parent.instance_id, parent.execution_id, kind, data, now)

    def _start_child(self, parent: Instance, call: ScheduleSubOrchestration, now: datetime) -> None:
        """Starts a sub-orchestration of `parent`. An id that is in use fails the call, not the parent."""
        name = self.catalog.resolve("orchestrator", call.name)
        existing = self.store.instance(call.instance_id)
        if existing is not None and not existing.status.is_terminal:
            data: dict[str, object] = {
                "TaskScheduledId": call.task_id,
                "Reason": str(InstanceExistsError(call.instance_id, existing.status)),
                "Details": "",
            }
            self.post(parent.instance_id, parent.execution_id, Kind.SUB_ORCHESTRATION_FAILED, data, now)
            return
        text = None if call.input is None else json.dumps(call.input)
        link = Parent(parent.instance_id, parent.execution_id, call.task_id)
        self.create(name, call.instance_id, text, call.version or parent.version, link)
