"""An engine with real orchestrators of the SDK, driven by the test on a manual clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import azure.functions as func
from azure.durable_functions import Entity, Orchestrator

from functions_emulator.durable import wire
from functions_emulator.durable.catalog import Catalog, entity_name
from functions_emulator.durable.client import Client
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.entities import Entities, encode_batch
from functions_emulator.durable.episodes import Episode
from functions_emulator.durable.events import Instance, Kind
from functions_emulator.durable.failures import activity_failure
from functions_emulator.durable.store import Store
from functions_emulator.durable.versions import Versions
from functions_emulator.durable.visibility import VisibilityTimeouts
from tests.functions_emulator.durable.manual_clock import ManualClock

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Hub:
    """`run` does all work that is due; `advance` moves the time on the way. Counts episodes and activity calls."""

    def __init__(
        self,
        orchestrators: Mapping[str, Callable[..., Any]],
        activities: Mapping[str, Callable[..., Any]] | None = None,
        entities: Mapping[str, Callable[..., Any]] | None = None,
        *,
        path: Path | None = None,
        clock: ManualClock | None = None,
        versions: Versions | None = None,
        timeouts: VisibilityTimeouts | None = None,
    ) -> None:
        self._orchestrators = {name: Orchestrator.create(code) for name, code in orchestrators.items()}
        self._activities = dict(activities or {})
        self._entities = {name.lower(): Entity.create(code) for name, code in (entities or {}).items()}
        self.clock = clock or ManualClock(START)
        self.store = Store(path)
        catalog = Catalog(orchestrators, self._activities, entities or {})
        self.engine = Engine(self.store, self.clock, catalog, versions, timeouts=timeouts)
        self.client = Client(self.engine)
        self.entities = Entities(self.engine)
        self.episodes = 0
        self.calls: list[tuple[str, Any]] = []

    def start(self, name: str, value: Any = None, instance_id: str | None = None) -> str:
        """Starts an orchestration as the SDK's client does: JSON text in a JSON string."""
        text = None if value is None else json.dumps(json.dumps(value))
        return self.client.start(name, instance_id, text)

    def raise_event(self, instance_id: str, name: str, value: Any = None) -> None:
        self.client.raise_event(instance_id, name, json.dumps(value))

    def run(self) -> None:
        while self._run_one():
            pass

    def advance(self, **by: float) -> None:
        """Moves the clock from timer to timer, as real time would pass, and runs the work of each."""
        end = self.clock.now() + timedelta(**by)
        self.run()
        while (at := self.engine.next_wake()) is not None and at <= end:
            self.clock.advance_to(max(at, self.clock.now()))
            self.run()
        self.clock.advance_to(end)
        self.run()

    def _run_one(self) -> bool:
        episode = self.engine.next_episode()
        if episode is not None:
            self.run_episode(episode)
            return True
        batch = self.entities.next_batch()
        if batch is not None:
            code = self._entities[entity_name(batch.entity_id)]
            reply = json.loads(code(func.EntityContext(encode_batch(batch))))
            self.entities.finish(
                batch, exists=reply["entityExists"], state=reply["entityState"], results=reply["results"]
            )
            return True
        task = self.engine.next_activity()
        if task is None:
            return False
        value = None if task.input is None else json.loads(task.input)
        self.calls.append((task.name, value))
        try:
            self.engine.finish_activity(task, json.dumps(self._activities[task.name](value)))
        except Exception as error:
            self.engine.fail_activity(task, *activity_failure(task.name, f"{type(error).__name__}: {error}", "stack"))
        return True

    def run_episode(self, episode: Episode) -> None:
        self.episodes += 1
        context = wire.encode_context(episode.instance, episode.history, episode.new_from)
        try:
            reply = wire.decode_reply(self.play(episode.instance.name, context))
        except Exception as error:
            reply = wire.decode_error(str(error))
        self.engine.finish_episode(episode, reply)

    def play(self, name: str, context: str) -> str:
        """Returns the orchestrator's reply to the trigger input `context`. Raises its error."""
        code = self._orchestrators[self.engine.catalog.resolve("orchestrator", name)]
        return str(code(func.OrchestrationContext(context)))

    def status(self, instance_id: str) -> Instance:
        return self.client.status(instance_id)

    def outcome(self, instance_id: str) -> tuple[str, Any]:
        """The runtime status and the decoded output."""
        instance = self.status(instance_id)
        return instance.status.value, None if instance.output is None else json.loads(instance.output)

    def kinds(self, instance_id: str) -> list[Kind]:
        return [event.kind for event in self.client.history(self.status(instance_id))]

    @property
    def stalls(self) -> list[str]:
        return [report.reason for report in self.engine.reports.stalls]
