"""Drives the engine on an asyncio loop: runs functions for episodes, batches and activities, and wakes timers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from functions_emulator.durable import wire
from functions_emulator.durable.actions import Reply
from functions_emulator.durable.catalog import entity_name
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.entities import Batch, Entities, encode_batch
from functions_emulator.durable.episodes import Episode
from functions_emulator.durable.events import ActivityTask
from functions_emulator.durable.failures import http_failure
from functions_emulator.durable.http_call import HttpCallError, call_http
from functions_emulator.durable.replay import HTTP_ACTIVITY


class ActivityFailedError(Exception):
    """An activity function failed. The orchestrator's exception has `reason` and `details`."""

    def __init__(self, reason: str, details: str = "") -> None:
        self.reason, self.details = reason, details
        super().__init__(reason)


class OrchestratorRaisedError(Exception):
    """An orchestrator function raised an exception, or does not exist. If its code has started, the message ends with
    `OUT_OF_PROC_MARKER` and the state.
    """


_LOG = logging.getLogger("functions_emulator.durable")


@dataclass(frozen=True, slots=True)
class OrchestratorCall:
    """A call of an orchestrator function. `context` is the trigger input as JSON text."""

    name: str
    instance_id: str
    context: str


class Functions(Protocol):
    """The functions of the app. Inputs and results are JSON texts."""

    async def run_orchestrators(self, calls: Sequence[OrchestratorCall]) -> Sequence[str | OrchestratorRaisedError]:
        """Returns one result for each call. An exception of the function is a result too."""

    async def run_entity(self, name: str, entity_id: str, batch: str) -> str:
        """Returns the new state and the results. Raises `ActivityFailedError` if the function failed or is unknown."""

    async def run_activity(self, name: str, instance_id: str, text: str | None) -> str:
        """Returns the result. Raises `ActivityFailedError` if the function failed or is unknown."""


#: maximum episodes in a batch. Orchestrator functions only compute, and would take the interpreter from the host's loop
#: at every switch of threads. So they run in batches, one batch after another
_MAX_BATCH = 16
#: seconds after which the next batch starts while a function blocks the current one
_SLOW_BATCH_S = 0.1


class Runner:
    """The driver of an engine. Runs up to `max_episodes` orchestrators, `max_activities` activities and `max_entities`
    entities concurrently.
    """

    def __init__(
        self,
        engine: Engine,
        entities: Entities,
        functions: Functions,
        *,
        max_episodes: int,
        max_activities: int,
        max_entities: int,
        token_of: Callable[[str], str | None] = lambda resource: None,
    ) -> None:
        """Sets the engine and the functions.

        `token_of` returns the bearer token of a managed identity for a resource, or `None`.
        """
        self._engine = engine
        self._entities = entities
        self._functions = functions
        self._token_of = token_of
        self._episodes = max_episodes
        self._activities = max_activities
        self._entity_batches = max_entities
        self._batches = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def run(self) -> None:
        """Runs until `drain` is called or the task is cancelled."""
        loop = asyncio.get_running_loop()
        self._engine.work_arrived = self._wake.set
        self._wake.set()
        renewal = loop.create_task(self._renew())
        renewal.add_done_callback(self._ended)
        timer: asyncio.TimerHandle | None = None
        try:
            while not self._stopping:
                await self._wake.wait()
                self._wake.clear()
                self._dispatch()
                if timer is not None:
                    timer.cancel()
                at = self._engine.next_wake()
                seconds = None if at is None else self._engine.clock.seconds_until(at)
                # asyncio's timers fire some milliseconds early at times; another wake-up is cheap.
                timer = None if seconds is None else loop.call_later(min(seconds, 3600.0), self._wake.set)
        finally:
            renewal.cancel()
            if timer is not None:
                timer.cancel()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._engine.timeouts.renewal_interval.total_seconds())
            self._engine.renew()

    async def drain(self, timeout: float) -> None:
        """Accepts no new work, waits up to `timeout` seconds for running functions, and releases unfinished work."""
        self._stopping = True
        self._wake.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)
        self._engine.store.give_back()

    def _dispatch(self) -> None:
        while not self._stopping and self._batches == 0:
            episodes = self._next_batch()
            if not episodes:
                break
            self._episodes -= len(episodes)
            self._batches += 1
            self._spawn(self._run_episodes(episodes))
        while not self._stopping and self._entity_batches > 0:
            batch = self._entities.next_batch()
            if batch is None:
                break
            self._entity_batches -= 1
            self._spawn(self._run_entity(batch))
        while not self._stopping and self._activities > 0:
            task = self._engine.next_activity()
            if task is None:
                break
            self._activities -= 1
            self._spawn(self._run_activity(task))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.critical("a task of the durable engine has failed; restart the host: %r", error, exc_info=error)

    def _next_batch(self) -> list[Episode]:
        batch: list[Episode] = []
        while len(batch) < min(_MAX_BATCH, self._episodes):
            episode = self._engine.next_episode()
            if episode is None:
                break
            batch.append(episode)
        return batch

    async def _run_episodes(self, batch: Sequence[Episode]) -> None:
        slow = asyncio.get_running_loop().call_later(_SLOW_BATCH_S, self._start_next_batch)
        calls = [
            OrchestratorCall(
                one.instance.name,
                one.instance.instance_id,
                wire.encode_context(one.instance, one.history, one.new_from, self._engine.poll_interval),
            )
            for one in batch
        ]
        results: Sequence[str | OrchestratorRaisedError] = ()
        try:
            results = await self._functions.run_orchestrators(calls)
        finally:
            self._episodes += len(batch)
            if slow.when() > asyncio.get_running_loop().time():
                slow.cancel()
                self._start_next_batch()
            for one in batch[len(results) :]:
                self._engine.drop_episode(one)
        for one, result in zip(batch, results, strict=True):
            self._engine.finish_episode(one, _reply(result))

    def _start_next_batch(self) -> None:
        self._batches -= 1
        self._wake.set()

    async def _run_entity(self, batch: Batch) -> None:
        done = False
        try:
            name = entity_name(batch.entity_id)
            text = await self._functions.run_entity(name, batch.entity_id, encode_batch(batch))
            reply = json.loads(text)
            done = True
        except ActivityFailedError as error:
            failure = {"isError": True, "result": json.dumps(error.reason)}
            reply = {"entityExists": batch.state is not None, "entityState": batch.state}
            reply["results"] = [failure] * len(batch.messages)
            done = True
        finally:
            self._entity_batches += 1
            if not done:
                self._entities.drop(batch)
        self._entities.finish(batch, exists=reply["entityExists"], state=reply["entityState"], results=reply["results"])

    async def _run_activity(self, task: ActivityTask) -> None:
        try:
            if task.name == HTTP_ACTIVITY:
                result = await call_http(task.input or "{}", self._token_of)
            else:
                result = await self._functions.run_activity(task.name, task.instance_id, task.input)
        except ActivityFailedError as error:
            self._engine.fail_activity(task, error.reason, error.details)
        except HttpCallError as error:
            self._engine.fail_activity(task, *http_failure(str(error)))
        else:
            self._engine.finish_activity(task, result)
        finally:
            self._activities += 1
            self._wake.set()


def _reply(result: str | OrchestratorRaisedError) -> Reply:
    if isinstance(result, OrchestratorRaisedError):
        return wire.decode_error(str(result))
    try:
        return wire.decode_reply(result)
    except wire.WireError as error:
        return Reply(done=False, actions=(), error=str(error))
