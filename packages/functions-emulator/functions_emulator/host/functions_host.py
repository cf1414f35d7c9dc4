"""Builds and connects the parts of the host, and starts and stops them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Collection, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from functions_emulator.durable.clock import Clock, SystemClock
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.entities import Entities
from functions_emulator.durable.http_api import HttpApi, Links
from functions_emulator.durable.runner import Runner
from functions_emulator.durable.store import Store
from functions_emulator.host.admin import Admin
from functions_emulator.host.bindings import make_bindings, poison_blobs, queue_options
from functions_emulator.host.cors import load_cors
from functions_emulator.host.durable_functions import DurableClientReader, DurableFunctions, use_fast_timestamps
from functions_emulator.host.durable_options import (
    DEFAULT_VERSION,
    hub_name,
    poll_interval,
    replaces_running,
    versions,
    visibility_timeouts,
)
from functions_emulator.host.errors import FunctionFailedError, HostError
from functions_emulator.host.faults import Faults
from functions_emulator.host.functions import Function
from functions_emulator.host.host_json import HostJson, load_host_json
from functions_emulator.host.http_server import HttpServer
from functions_emulator.host.http_streams import Streams, extension
from functions_emulator.host.indexing import App, index_app
from functions_emulator.host.invocation import RetryState
from functions_emulator.host.invoker import Invoker
from functions_emulator.host.keys import Keys
from functions_emulator.host.log_levels import LevelFilter
from functions_emulator.host.manual_trigger import MANUAL_TRIGGERS
from functions_emulator.host.page import Page, home
from functions_emulator.host.retry_policy import delays
from functions_emulator.host.routes import RouteTable
from functions_emulator.host.schedule import parse_schedule
from functions_emulator.host.settings import Settings, load_settings
from functions_emulator.host.throttle import UNLIMITED, RequestThrottle
from functions_emulator.host.timer_trigger import TimerTrigger
from functions_emulator.host.virtual_time import ShiftedClock, VirtualTime, parse_duration
from functions_emulator.host.worker import DEFAULT_TIMEOUT_S, Worker

_LOG = logging.getLogger("functions_emulator.host")

#: name of a setting for tests: the duration between two garbage collections on the app's loop
_COLLECT_GARBAGE = "EMULATOR_COLLECT_GARBAGE"

#: seconds that running functions have after a stop
DRAIN_S = 10.0


class FunctionsHost:
    """The host of one app. If `data_dir` is `None`, the state is in memory. With port 0, the system chooses a free
    port.
    """

    def __init__(
        self,
        app_dir: Path,
        *,
        data_dir: Path | None,
        host: str,
        port: int,
        allowed_hosts: Collection[str] = (),
        virtual_clock: bool = False,
        keys: Keys | None = None,
        faults: Faults | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        self._app_dir = app_dir.resolve()
        self._data_dir = data_dir
        self._host, self._port = host, port
        self._names = (host, *allowed_hosts)
        self._keys = keys
        self._faults = faults or Faults()
        self._virtual_clock = virtual_clock
        self._drain_s = drain_s
        self._clock: Clock = SystemClock()
        self._timers: list[TimerTrigger] = []
        self._lock: IO[str] | None = None
        #: `True` after a `stop` in which a function did not end in time
        self.still_running = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """Returns the port on which the host serves."""
        return int(self.url.rsplit(":", 1)[1])

    async def start(self) -> None:
        """Serves at `url`. Raises `HostError` if the app, its host.json or its settings cannot be used, or if the port
        or the data folder cannot be used.
        """
        host_json = load_host_json(self._app_dir)
        levels = LevelFilter(host_json.mapping("logging.logLevel"))
        for handler in logging.getLogger().handlers:
            handler.addFilter(levels)
        settings = load_settings(self._app_dir)
        for key in host_json.unknown_keys:
            _LOG.warning("host.json: %s has no effect in the emulator", key)
        app = index_app(self._app_dir, settings)
        use_fast_timestamps()
        for problem in app.problems:
            _LOG.error("a function is not served: %s", problem)
        if app.refusals:
            _LOG.error(
                "Azure's Python worker would serve none of this app's functions, because of: %s",
                ", ".join(app.refusals),
            )
        self._store = Store(self._database())
        self._faults.kill_at_commit(self._store)
        if self._virtual_clock:
            self._clock = ShiftedClock(self._store)
        self._worker = Worker(host_json.seconds("functionTimeout", DEFAULT_TIMEOUT_S))
        self._worker.start()
        try:
            self._collect_garbage(settings)
            self.url = await self._assemble(app, settings, host_json)
        except BaseException:
            self._store.close()
            self._unlock()
            raise

    def _collect_garbage(self, settings: Settings) -> None:
        every = settings.get(_COLLECT_GARBAGE)
        if not every:
            return
        try:
            self._worker.collect_garbage(parse_duration(every).total_seconds())
        except ValueError as error:
            raise HostError(f"{_COLLECT_GARBAGE}: {error}") from None
        _LOG.info("garbage is collected every %s (%s)", every, _COLLECT_GARBAGE)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _database(self) -> Path | None:
        if self._data_dir is None:
            return None
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(f"--data {self._data_dir}: {error.strerror}") from None
        self._lock = _lock_data_dir(self._data_dir)
        return self._data_dir / "host.sqlite3"

    async def _assemble(self, app: App, settings: Settings, host_json: HostJson) -> str:
        directory = str(self._app_dir)
        durable = DurableFunctions(app.functions, self._worker, directory)
        hub = hub_name(host_json, settings)
        engine = Engine(
            self._store,
            self._clock,
            durable.catalog,
            versions(host_json),
            poll_interval(host_json),
            visibility_timeouts(host_json, settings),
        )
        entities = Entities(engine, host_json.number("extensions.durableTask.maxEntityOperationBatchSize", 50))
        client = self._faults.client(
            engine,
            host_json.values.get(DEFAULT_VERSION),
            replace_running=replaces_running(host_json),
        )
        api = self._faults.api(HttpApi(client, entities))
        routes = RouteTable(
            [one for one in app.functions if one.trigger.type == "httpTrigger"],
            host_json.text("extensions.http.routePrefix", "api"),
        )
        throttle = RequestThrottle(
            host_json.number("extensions.http.maxConcurrentRequests", UNLIMITED),
            host_json.number("extensions.http.maxOutstandingRequests", UNLIMITED),
        )
        http_server = HttpServer(
            routes,
            api,
            keys=self._keys,
            cors=load_cors(self._app_dir),
            names=self._names,
            throttle=throttle,
            home=None if settings.flag("AzureWebJobsDisableHomepage") else home(has_page=self._keys is None),
            custom_headers=host_json.mapping("extensions.http.customHeaders"),
        )
        url = await http_server.listen(self._host, self._port)
        _log_functions(app, routes, url)
        self._http_server = http_server
        links = Links(f"{url}/runtime/webhooks/durabletask/", _required_query(hub, self._keys))
        readers, writers = make_bindings(app, settings, host_json)
        readers["durableClient"] = DurableClientReader(links, hub, http_server.rpc_url(url))
        self._writers = writers
        self._invoker = Invoker(self._worker, directory, readers, writers)
        durable.connect(self._invoker)
        cores = os.cpu_count() or 1
        self._runner = Runner(
            engine,
            entities,
            self._faults.functions(durable),
            max_episodes=host_json.number("extensions.durableTask.maxConcurrentOrchestratorFunctions", 10 * cores),
            max_entities=host_json.number("extensions.durableTask.maxConcurrentEntityFunctions", 10 * cores),
            max_activities=host_json.number("extensions.durableTask.maxConcurrentActivityFunctions", 10 * cores),
            token_of=lambda resource: settings.get("EMULATOR_IDENTITY_TOKEN"),
        )
        self._start(self._worker.watch_loop())
        self._start(self._runner.run())
        self._start_timers(app)
        self._start_service_bus(app, settings, host_json)
        self._start_storage(app, settings, host_json)
        admin = Admin(app, engine, client, self._invoker, MANUAL_TRIGGERS, self._virtual_time(engine))
        base = extension()
        streams = None if base is None else Streams(base, self._worker.loop)
        http_server.open(self._invoker, links, admin, Page(app, engine, client), streams)
        return url

    def _virtual_time(self, engine: Engine) -> VirtualTime | None:
        if not isinstance(self._clock, ShiftedClock):
            return None

        def wake_times() -> list[datetime]:
            return [at for at in (engine.next_wake(), *(timer.due for timer in self._timers)) if at is not None]

        def is_idle() -> bool:
            return engine.idle and not self._worker.running

        return VirtualTime(self._clock, wake_times, is_idle)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_log_crash)
        self._tasks.append(task)
        return task

    def _start_timers(self, app: App) -> None:
        for one in app.functions:
            if one.trigger.type == "timerTrigger":
                schedule = parse_schedule(str(one.trigger.fields["schedule"]))
                trigger = TimerTrigger(one, schedule, self._store, self._clock, self._run_with_retries)
                self._timers.append(trigger)
                self._start(trigger.run())

    def _start_service_bus(self, app: App, settings: Settings, host_json: HostJson) -> None:
        functions = [one for one in app.functions if one.trigger.type == "serviceBusTrigger"]
        self._receivers: list[tuple[Any, asyncio.Task[None]]] = []
        if not functions:
            return
        from functions_emulator.host.service_bus_sessions import SessionTrigger
        from functions_emulator.host.service_bus_trigger import Limits, ServiceBusTrigger

        limits = Limits(
            max_concurrent_calls=host_json.number("extensions.serviceBus.maxConcurrentCalls", 16),
            max_renewal_s=host_json.seconds("extensions.serviceBus.maxAutoLockRenewalDuration", 300.0),
            prefetch_count=host_json.number("extensions.serviceBus.prefetchCount", 0),
            max_batch=host_json.number("extensions.serviceBus.maxMessageBatchSize", 1000),
            auto_complete=host_json.flag("extensions.serviceBus.autoCompleteMessages", True),
        )
        sessions = host_json.number("extensions.serviceBus.maxConcurrentSessions", 8)
        idle_s = host_json.seconds("extensions.serviceBus.sessionIdleTimeout", 60.0)
        for one in functions:
            connection = settings.connection(one.trigger.connection, one.trigger.service)
            trigger: ServiceBusTrigger | SessionTrigger
            if one.trigger.fields.get("isSessionsEnabled") is True:
                trigger = SessionTrigger(one, connection, limits, sessions, idle_s, self._run_quietly)
            else:
                trigger = ServiceBusTrigger(one, connection, limits, self._run_quietly)
            self._receivers.append((trigger, self._start(trigger.run())))

    def _start_storage(self, app: App, settings: Settings, host_json: HostJson) -> None:
        functions = [one for one in app.functions if one.trigger.type in ("queueTrigger", "blobTrigger")]
        if not functions:
            return
        from functions_emulator.host.storage_blob import BlobTrigger
        from functions_emulator.host.storage_queue import QueueTrigger

        options = queue_options(host_json)
        for one in functions:
            connection = settings.connection(one.trigger.connection, one.trigger.service)
            if one.trigger.type == "queueTrigger":
                self._start(QueueTrigger(one, connection, options, self._run_quietly).run())
            else:
                give_up = poison_blobs(settings, options)
                attempts = host_json.number("extensions.blobs.poisonBlobThreshold", 5)
                self._start(BlobTrigger(one, connection, self._store, self._run_quietly, give_up, attempts).run())

    async def _run_quietly(self, function: Function, value: Any, data: Mapping[str, Any] | None = None) -> bool:
        """Returns True if the function succeeded; the invoker logs a failure."""
        try:
            await self._invoker.invoke(function, value, trigger_data=data)
        except FunctionFailedError:
            return False
        return True

    async def _run_with_retries(self, function: Function, value: Any) -> None:
        waits = delays(function.retry)
        failure: str | None = None
        for attempt in range(len(waits) + 1):
            retry = RetryState(attempt, len(waits), failure) if waits else None
            try:
                await self._invoker.invoke(function, value, retry=retry)
                return
            except FunctionFailedError as error:
                failure = str(error)
            if attempt < len(waits):
                await asyncio.sleep(waits[attempt])

    async def stop(self) -> None:
        """Accepts no new work, waits up to `drain_s` seconds for running functions, and closes."""
        for trigger, _ in self._receivers:
            trigger.stop()
        waits: list[Awaitable[Any]] = [
            self._http_server.drain(self._drain_s),
            self._runner.drain(self._drain_s),
            self._worker.drain(self._drain_s),
        ]
        if self._receivers:
            waits.append(asyncio.wait([task for _, task in self._receivers], timeout=self._drain_s))
        await asyncio.gather(*waits)
        await self._http_server.stop()
        hanging = self._worker.running
        self.still_running = bool(hanging)
        if hanging:
            _LOG.warning("stopped while functions were running: %s", ", ".join(sorted(set(hanging.values()))))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._worker.stop()
        for writer in self._writers.values():
            await writer.close()
        self._store.close()
        self._unlock()
        if isinstance(self._clock, ShiftedClock):
            self._clock.stop()


def _lock_data_dir(folder: Path) -> IO[str]:
    """Locks the folder while the returned file is open, since two hosts would run every function twice. Does not lock
    the folder on Windows.

    Raises `HostError` if another host has locked it. The operating system unlocks it when the process dies.
    """
    handle = (folder / "host.lock").open("w")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise HostError(f"--data {folder}: another host uses the folder; name another folder") from None
    return handle


def _required_query(hub: str, keys: Keys | None) -> str:
    query = f"taskHub={quote(hub, safe='')}&connection=Storage"
    return query if keys is None else f"{query}&code={quote(keys.durable, safe='')}"


def _log_functions(app: App, routes: RouteTable, url: str) -> None:
    """Logs each function and its URL, as `func start` does."""
    for route in routes.routes:
        methods = ",".join(sorted(route.methods)) or "any method"
        _LOG.info("%s: %s/%s [%s]", route.function.name, url, route.template.text, methods)
    for one in app.functions:
        if one.trigger.type != "httpTrigger":
            _LOG.info("%s: %s", one.name, one.trigger.type)


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.critical("a task of the host has failed; restart the host: %r", error, exc_info=error)
