"""Runs the real orchestrator on the durable engine in process: episodes, activities, events, restarts after crashes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

from azure.functions import _durable_functions

from functions_emulator.durable import wire
from functions_emulator.durable.actions import Reply
from functions_emulator.durable.catalog import Catalog
from functions_emulator.durable.client import Client
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.episodes import Episode
from functions_emulator.durable.errors import InstanceExistsError, InstanceGoneError, InstanceNotFoundError
from functions_emulator.durable.events import ActivityTask, Instance
from functions_emulator.durable.store import Store
from functions_emulator.durable.visibility import VisibilityTimeouts
from functions_emulator.host.durable_functions import use_fast_timestamps
from orchestrations.job import job, step
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import Shown
from shared.errors import InstanceEnded, InstanceNotFound
from shared.ports import durable
from shared.ports.durable import InstanceState
from tape.scheduler import Scheduler

use_fast_timestamps()

Activity = Callable[..., Awaitable[dict[str, Any]]]


class Disturbances(Protocol):
    """Delays and losses of a simulated world."""

    def latency_s(self) -> float:
        """Returns the latency of a call or a message, in seconds."""

    def event_latency_s(self) -> float:
        """Returns the latency of an external event to its orchestration, in seconds."""

    def timer_lateness_s(self) -> float:
        """Returns the delay of a durable timer, in seconds."""

    def loses_episode(self) -> bool:
        """Returns `True` if the result of an episode is lost before it is stored."""

    def runs_twice(self) -> bool:
        """Returns `True` if an activity runs a second time."""


class EngineClock:
    """The engine's view of the scheduler's time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now(self) -> datetime:
        return self._scheduler.now

    def seconds_until(self, instant: datetime) -> float | None:
        return None

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Does nothing, since the code that advances the time runs the engine as well."""


class Durable:
    """The task hub. Its store outlives the engine, which stops and restarts with the host."""

    def __init__(
        self,
        scheduler: Scheduler,
        faults: Disturbances,
        activities: dict[str, Activity],
        visibility_timeout: timedelta,
    ) -> None:
        self._timeouts = VisibilityTimeouts(visibility_timeout, visibility_timeout)
        self._scheduler = scheduler
        self._faults = faults
        self._activities = activities
        self._orchestrators = {
            durable_names.JOB: job._function.get_user_function(),
            durable_names.STEP: step._function.get_user_function(),
        }
        self._catalog = Catalog(self._orchestrators, activities)
        self._clock = EngineClock(scheduler)
        self.store = Store(None)
        self.spawn: Callable[..., Any] = scheduler.spawn
        self.stalls: list[str] = []
        #: number of events that may have changed an instance's state
        self.changes = 0
        #: period in which the engine accepts messages and runs nothing
        self.away: tuple[datetime, datetime] = (scheduler.now, scheduler.now)
        self._running = False
        self._pump_at: datetime | None = None
        self.start()

    def start(self) -> None:
        """Starts a new process. Work items that were taken and not completed become visible again after a delay."""
        self.engine = Engine(self.store, self._clock, self._catalog, timeouts=self._timeouts)
        self.client = Client(self.engine)
        self.engine.work_arrived = self._soon
        self._running, self._pump_at = True, None
        self._soon()

    def stop(self) -> None:
        self._note_stalls()
        self._running = False

    def instances(self) -> list[Instance]:
        return self.store.instances()

    def alive(self, instance_id: str) -> bool:
        found = self.store.instance(instance_id)
        return found is not None and not found.status.is_terminal

    def waits_for(self, instance_id: str) -> tuple[str, ...]:
        return self.engine.reports.waiting_for(instance_id)

    def hung(self) -> list[str]:
        """Returns the orchestrations that never end in Azure, or that still hang here, each with the reason."""
        self._note_stalls()
        return self.stalls

    def _note_stalls(self) -> None:
        self.stalls += [
            f"{one.instance_id}: {one.reason}"
            for one in self.engine.reports.stalls
            if one.for_ever or one.over_at is None
        ]

    # --- driving the engine

    def _soon(self) -> None:
        self._pump_by(self._scheduler.now + timedelta(seconds=self._faults.latency_s()))

    def _pump_by(self, instant: datetime) -> None:
        if self.away[0] <= instant < self.away[1]:
            instant = self.away[1]
        if self._running and (self._pump_at is None or instant < self._pump_at):
            self._pump_at = instant
            self._scheduler.at(instant, lambda: self._pump(instant))

    def _pump(self, planned: datetime) -> None:
        if not self._running or self._pump_at != planned:
            return
        self._pump_at = None
        self.changes += 1
        episode = self.engine.next_episode()
        if episode is not None:
            reply = self._play(episode)
            if self._faults.loses_episode():
                self.engine.drop_episode(episode)
            else:
                self.engine.finish_episode(episode, reply)
            self._soon()
        while (task := self.engine.next_activity()) is not None:
            self.spawn(self._run(self.engine, task))
            if self._faults.runs_twice():
                self.spawn(self._run(self.engine, task))
        wakes_at = self.engine.next_wake()
        if wakes_at is not None:
            self._pump_by(wakes_at + timedelta(seconds=self._faults.timer_lateness_s()))

    def _play(self, episode: Episode) -> Reply:
        context = wire.encode_context(episode.instance, episode.history, episode.new_from)
        try:
            orchestrator = self._orchestrators[episode.instance.name]
            return wire.decode_reply(orchestrator(_durable_functions.OrchestrationContext(context)))
        except Exception as error:
            return wire.decode_error(str(error))

    async def _run(self, engine: Engine, task: ActivityTask) -> None:
        await self._scheduler.pause(self._faults.latency_s())
        request = json.loads(task.input or "{}")
        try:
            verdict = await self._activities[task.name](**request)
        except Exception as error:
            engine.fail_activity(task, f"Activity function '{task.name}' failed: {error!r}", "")
        else:
            engine.finish_activity(task, json.dumps(verdict))


class SimulatedOrchestrations:
    """An implementation of `Orchestrations` over the engine's client. Events have latency and can overtake each
    other.
    """

    def __init__(self, durable: Durable, scheduler: Scheduler, faults: Disturbances) -> None:
        self._durable = durable
        self._scheduler = scheduler
        self._faults = faults

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        self._durable.changes += 1
        try:
            self._durable.client.start(durable_names.JOB, instance_id, json.dumps(plan))
        except InstanceExistsError:
            return

    async def look_up(self, instance_id: str) -> durable.Instance:
        found = self._durable.store.instance(instance_id)
        if found is None:
            return durable.Instance(InstanceState.NOT_FOUND)
        shown = Shown.of(json.loads(found.custom_status) if found.custom_status else None)
        return durable.Instance(InstanceState.ENDED if found.status.is_terminal else InstanceState.ALIVE, shown)

    async def terminate(self, instance_id: str, reason: str) -> None:
        self._durable.changes += 1
        with contextlib.suppress(InstanceGoneError, InstanceNotFoundError):
            self._durable.client.terminate(instance_id, reason)

    async def purge(self, instance_id: str) -> bool:
        found = self._durable.store.instance(instance_id)
        if found is not None and not found.status.is_terminal:
            return False
        self._durable.changes += 1
        if found is not None:
            self._durable.client.purge(instance_id)
        return True

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        found = self._durable.store.instance(instance_id)
        if found is None:
            raise InstanceNotFound(instance_id)
        if found.status.is_terminal:
            raise InstanceEnded(instance_id)
        # JSON text within JSON, as the SDK sends it
        text = json.dumps(json.dumps(data))
        self._scheduler.later(self._faults.event_latency_s(), lambda: self._deliver(instance_id, name, text))

    def _deliver(self, instance_id: str, name: str, text: str) -> None:
        try:
            self._durable.client.raise_event(instance_id, name, text)
        except (InstanceGoneError, InstanceNotFoundError):
            return  # the message was in transit when the instance ended: dropped, as in Azure
