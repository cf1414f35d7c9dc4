"""Faults for tests of apps, by the repeatable option `--fault NAME=VALUE`.

- `kill-before-commit=N` and `kill-after-commit=N` kill the host before or after the N-th commit of its store.
- `run-twice=ACTIVITY` runs the function twice at each call of that activity.
- `delay-events=DURATION` delays external events by DURATION.
- `shuffle-events=DURATION` delays each external event by a random part of DURATION.
- `drop-answer=N` drops the response to the N-th request of the durable client. The request takes effect.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from functions_emulator.durable.client import Client
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.events import Kind
from functions_emulator.durable.http_api import ApiRequest, ApiResponse, HttpApi, Links
from functions_emulator.durable.runner import Functions, OrchestratorCall, OrchestratorRaisedError
from functions_emulator.durable.store import Store
from functions_emulator.host.errors import HostError
from functions_emulator.host.virtual_time import parse_duration

_NAMES = ("kill-before-commit", "kill-after-commit", "run-twice", "delay-events", "shuffle-events", "drop-answer")


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one host. A fault that is `None` is off."""

    kill_before_commit: int | None = None
    kill_after_commit: int | None = None
    run_twice: str | None = None
    delay_events: timedelta | None = None
    shuffle_events: timedelta | None = None
    drop_answer: int | None = None

    def kill_at_commit(self, store: Store) -> None:
        """Registers a callback that kills the process before or after a commit of `store`, if such a fault is set."""
        if self.kill_before_commit is None and self.kill_after_commit is None:
            return
        commits = 0

        def committing(done: bool) -> None:
            nonlocal commits
            commits += not done
            if commits == (self.kill_after_commit if done else self.kill_before_commit):
                os.kill(os.getpid(), signal.SIGKILL)

        store.committing = committing

    def client(self, engine: Engine, default_version: str | None, *, replace_running: bool) -> Client:
        """Returns the durable client, with the faults of events."""
        max_delay = self.delay_events or self.shuffle_events
        if max_delay is None:
            return Client(engine, default_version, replace_running=replace_running)
        shuffle = self.delay_events is None
        return _DelayingClient(engine, default_version, max_delay, shuffle=shuffle, replace_running=replace_running)

    def functions(self, functions: Functions) -> Functions:
        """Returns the functions of the app, with the fault of activities."""
        return functions if self.run_twice is None else _RepeatingFunctions(functions, self.run_twice)

    def api(self, api: HttpApi) -> HttpApi:
        """Returns the durable API, with the fault of responses."""
        return api if self.drop_answer is None else _LosingApi(api, self.drop_answer)


def parse_faults(options: Sequence[str]) -> Faults:
    """Reads the values of `--fault`. Raises `HostError` for an invalid fault."""
    values: dict[str, object] = {}
    for one in options:
        name, equals, value = one.partition("=")
        if name not in _NAMES or not equals:
            raise HostError(f"--fault {one}: must be NAME=VALUE, and NAME one of {', '.join(_NAMES)}")
        try:
            if name in ("delay-events", "shuffle-events"):
                values[name.replace("-", "_")] = parse_duration(value)
            else:
                values[name.replace("-", "_")] = value if name == "run-twice" else int(value)
        except ValueError as error:
            raise HostError(f"--fault {one}: {error}") from None
    return Faults(**values)  # type: ignore[arg-type]  # each value was made for its name above


class _DelayingClient(Client):
    def __init__(
        self, engine: Engine, default_version: str | None, max_delay: timedelta, *, shuffle: bool, replace_running: bool
    ) -> None:
        super().__init__(engine, default_version, replace_running=replace_running)
        self._max_delay = max_delay
        # The same calls have the same order in every run, so that a failing test fails again.
        self._random = random.Random(0) if shuffle else None

    def raise_event(self, instance_id: str, name: str, data_text: str | None) -> None:
        self.check_live(instance_id)
        share = 1.0 if self._random is None else self._random.random()
        at = self._engine.clock.now() + self._max_delay * share
        with self._store.transaction():
            self._engine.post(instance_id, None, Kind.EVENT_RAISED, {"Name": name, "Input": data_text}, at)


class _RepeatingFunctions:
    def __init__(self, functions: Functions, activity: str) -> None:
        self._functions = functions
        self._activity = activity.lower()

    async def run_orchestrators(self, calls: Sequence[OrchestratorCall]) -> Sequence[str | OrchestratorRaisedError]:
        return await self._functions.run_orchestrators(calls)

    async def run_entity(self, name: str, entity_id: str, batch: str) -> str:
        return await self._functions.run_entity(name, entity_id, batch)

    async def run_activity(self, name: str, instance_id: str, text: str | None) -> str:
        if name.lower() == self._activity:
            await self._functions.run_activity(name, instance_id, text)
        return await self._functions.run_activity(name, instance_id, text)


class _LosingApi(HttpApi):
    def __init__(self, api: HttpApi, number: int) -> None:
        self._api = api
        self._number = number
        self._calls = 0

    def handle(self, request: ApiRequest, links: Links) -> ApiResponse | None:
        response = self._api.handle(request, links)
        self._calls += 1
        return None if self._calls == self._number else response
