"""The app in process, in virtual time: its operations and orchestrators, over tables in memory and a recorded bus.

These parts are real: creation, redrive, replay and controls of jobs, the activities, replies, the sweeper, and the
table adapters. The orchestrators are also real, and run on the engine of the Functions emulator. These parts are
missing: HTTP, tokens, AMQP, the host's bindings, feeds, webhooks, and quotas, which a tape does not have.
"""

from __future__ import annotations

import itertools
import os
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from shared.adapters.memory_tables import MemoryAccount, MemoryTexts
from shared.adapters.protocol_files import load_registry
from shared.core.jobs import durable_names
from shared.errors import CountsForbidden, SettingsError
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.ending import follow_end
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.settle_step import settle_step
from shared.operations.process import parts
from shared.operations.process.context import Context, Stores
from shared.operations.sweeper.sweep import sweep
from shared.ports.bus import DeadReply, DirectivePublisher
from shared.ports.durable import Orchestrations
from shared.settings import Settings, load
from shared.store_wiring import stores_over
from tape.durable import Durable, SimulatedOrchestrations
from tape.lateness import Lateness, RecordedLanes
from tape.recording import RecordedJob, TapeError
from tape.scheduler import Scheduler

#: seconds of every call and message: equal, so that the order in time is the order of cause
_LATENCY_S = 0.001
_SWEEP_EVERY = timedelta(minutes=1)
#: maximum sweeps after the last event; they end jobs that wait for the sweeper
_MAX_SWEEPS = 60
_ENVIRONMENT = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_EVENTS": "off",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    "LUCIUS_ALLOWED_REF_SCHEMES": "https,s3,abfss,http",
}
#: settings of the recorded app that histories depend on, from the environment
SETTINGS = (
    *("LUCIUS_ACK_TIMEOUT_SECONDS", "LUCIUS_STEP_RESULT_TIMEOUT_SECONDS", "LUCIUS_ATTEMPT_MAX_SECONDS"),
    *("LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS", "LUCIUS_MAX_ATTEMPTS", "LUCIUS_PROGRESS_SECONDS", "LUCIUS_SERVICEBUS_LANES"),
    *("LUCIUS_DISPATCH_BACKOFF_SECONDS", "LUCIUS_ACK_BACKOFF_SECONDS", "LUCIUS_EXECUTION_BACKOFF_SECONDS"),
)

#: id of the job that this task creates: that of the recorded job
job_id_of_task: ContextVar[str] = ContextVar("job_id_of_task")


class Undisturbed:
    """A world without delays and losses."""

    def latency_s(self) -> float:
        return _LATENCY_S

    event_latency_s = timer_lateness_s = latency_s

    def loses_episode(self) -> bool:
        return False

    runs_twice = loses_episode


class QuietBus:
    """The parts of the bus that carry few messages on a tape. A tape has calls of jobs that waited for other
    jobs, and no dead letters.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def call(self, tenant: str, job_id: str | None = None, **_: Any) -> None:
        """Handles the call as `triggers.admission_bus` does for a job.

        A tape has no quotas and no bulk operations to call.
        """
        if job_id is not None:
            self._world.at(self._world.now(), partial(self._reconcile, job_id))

    async def _reconcile(self, job_id: str) -> None:
        context = self._world.context
        if (stored := await context.ledger.read(job_id)) is not None:
            await reconcile_place(context, self._world.orchestrations, stored)

    async def call_allocation(self, gate_id: str, **_: Any) -> None:
        return None

    async def waiting(self, lane: int) -> int:
        return 0

    async def drain(self, lane: int, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        return True

    async def in_flight(self, lane: int, service: str | None) -> int:
        raise CountsForbidden


class World:
    """One process of the app."""

    def __init__(self, start: datetime, app: Path, protocols: Path, workspace: str | None) -> None:
        self.scheduler = Scheduler(0, start)
        self._settings = _settings(workspace)
        self._stores = stores_over(MemoryAccount(), MemoryTexts(), MemoryTexts(), self._settings, self.now)
        self._registry = load_registry(protocols, app / "infra" / "bicep" / "topology.json")
        self._leases = itertools.count(1)
        self._fault: BaseException | None = None
        self.durable = Durable(
            self.scheduler,
            Undisturbed(),
            {durable_names.DISPATCH: self._dispatch, durable_names.SETTLE: self._settle},
            timedelta(minutes=5),
        )
        self.orchestrations: Orchestrations = SimulatedOrchestrations(self.durable, self.scheduler, Undisturbed())

    def connect(self, publisher: DirectivePublisher, jobs: Mapping[str, RecordedJob]) -> None:
        """Builds the context and connects the bus and the world."""
        self.lateness = Lateness(jobs, self._stores.ledger, self.scheduler)
        quiet: Any = QuietBus(self)
        self.context = Context(
            settings=self._settings,
            registry=self._registry,
            **{each.name: getattr(self._stores, each.name) for each in fields(Stores)},
            bus=parts.Bus(
                publisher=publisher,
                lanes=RecordedLanes(self.now),
                admission_calls=quiet,
                dead_replies=quiet,
                counts=quiet,
            ),
            follow_end=follow_end,
            clock=self,
            sleep=self.scheduler.pause,
            random=self.scheduler.random.random,
            new_job_id=job_id_of_task.get,
            new_lease=lambda: f"{next(self._leases):032x}",
            new_salt=lambda: "",
        )

    def at(self, at: datetime, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Schedules work. An exception of the work ends the play."""
        self.scheduler.at(at, lambda: self.scheduler.spawn(work()).add_done_callback(self._note_fault))

    def _note_fault(self, ended: Task[None]) -> None:
        if not ended.cancelled() and ended.exception() is not None:
            self._fault = self._fault or ended.exception()

    def now(self) -> datetime:
        return self.scheduler.now

    async def run(self, has_living_jobs: Callable[[], Awaitable[bool]]) -> None:
        """Runs until no event is left. Then sweeps, at most 60 times, for jobs that only the sweeper ends. Raises the
        first exception of the scheduled work.
        """
        try:
            for _ in range(_MAX_SWEEPS + 1):
                await self.scheduler.run(datetime.max.replace(tzinfo=UTC), lambda: self._fault is not None)
                if self._fault is not None:
                    raise self._fault
                if not await has_living_jobs():
                    return
                self.at(self.now() + _SWEEP_EVERY, self._sweep)
        finally:
            await self.scheduler.close()
            self.durable.store.close()

    async def _sweep(self) -> None:
        await sweep(self.context, self.orchestrations)

    async def _dispatch(self, **request: Any) -> dict[str, Any]:
        await self.lateness.before_dispatch(request["job_id"], request["step_id"])
        return (await dispatch_step(self.context, self.orchestrations, **request)).to_json()

    async def _settle(self, **request: Any) -> dict[str, Any]:
        await self.lateness.before_settle(request["job_id"], request["step_id"], request["attempt_no"])
        return (await settle_step(self.context, self.orchestrations, **request)).to_json()


def _settings(workspace: str | None) -> Settings:
    """Returns the defaults of the app, with the timings of the environment. Raises TapeError."""
    environ = _ENVIRONMENT | {name: os.environ[name] for name in SETTINGS if name in os.environ}
    try:
        settings = load(environ)
    except SettingsError as wrong:
        raise TapeError(str(wrong)) from None
    return replace(settings, workspace_uri=workspace) if workspace is not None else settings
