"""Runs the functions of the app by the rules of the Python worker: `async` functions on one loop, others in a pool.

The loop runs in a separate thread. A function that blocks the loop stops the other functions of the app, as on Azure,
but not the host, which reports the function.

As in Microsoft's worker nothing refers to the task of a running invocation (azure_functions_worker/dispatcher.py,
`__poll_grpc`), and asyncio refers to tasks weakly. A task that waits for an object that only the task itself
references, such as its own stream without a timer, is garbage. After Python has collected the task, its invocation ends
by `functionTimeout` (azure-functions-python-worker issue 1800, azure-functions-durable-python issue 567).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from functions_emulator.host.errors import FunctionFailedError
from functions_emulator.host.functions import Function
from functions_emulator.host.invocation import Context, Invocation, current

_LOG = logging.getLogger("functions_emulator.host")

#: seconds without a beat after which the app's loop is reported as blocked
BLOCKED_AFTER_S = 2.0

_BEAT_INTERVAL_S = 0.5

#: `functionTimeout` if host.json has none: the default of every plan except Consumption
DEFAULT_TIMEOUT_S = 1800.0

#: seconds that represent no timeout. The timer keeps the host's side of an invocation alive, which a lost task does not
_NO_TIMEOUT_S = 10 * 365 * 86_400.0


class Worker:
    """The event loop and the thread pool of the app's code."""

    def __init__(self, function_timeout_s: float) -> None:
        """Sets the timeout in seconds. Infinity means no timeout."""
        self._timeout = min(function_timeout_s, _NO_TIMEOUT_S)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="app-loop", daemon=True)
        self._pool = ThreadPoolExecutor(_thread_count(), thread_name_prefix="app-sync")
        self._last_beat = monotonic()
        self._reported = False
        self._running: dict[str, str] = {}

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self) -> None:
        """Starts the thread of the loop."""
        self._thread.start()

    def collect_garbage(self, every_s: float) -> None:
        """Collects garbage every `every_s` seconds, so that a task without a strong reference disappears early."""
        gc.freeze()  # imported modules stay, so that a collection is short

        def collect() -> None:
            gc.collect()
            self._loop.call_later(every_s, collect)

        self._loop.call_soon_threadsafe(collect)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Returns the loop of `async` functions."""
        return self._loop

    @property
    def running(self) -> Mapping[str, str]:
        """Returns function names of running invocations, by invocation id."""
        return self._running

    async def call(self, function: Function, arguments: Mapping[str, Any], invocation: Invocation) -> Any:
        """Runs a function and returns its value. Raises `FunctionFailedError` after an error or `functionTimeout`."""
        values = dict(arguments)
        if function.takes_context:
            values["context"] = Context(invocation)
        self._running[invocation.id] = function.name
        try:
            if function.is_async:
                outcome = asyncio.get_running_loop().create_future()
                running = self._call_async(function, values, invocation, outcome)
                self._loop.call_soon_threadsafe(self._loop.create_task, running)
                del running
                return await asyncio.wait_for(outcome, self._timeout)
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            future_of_thread = loop.run_in_executor(self._pool, context.run, _call_sync, function, values, invocation)
            return await asyncio.wait_for(future_of_thread, self._timeout)
        except TimeoutError:
            if function.is_async:
                self._loop.call_soon_threadsafe(self._cancel, _task_name(invocation))
            problem = TimeoutError(f"the function did not end within functionTimeout ({self._timeout:g} s)")
            raise FunctionFailedError(function.name, problem, str(problem)) from None
        finally:
            self._running.pop(invocation.id, None)

    async def call_batch(self, runs: Sequence[tuple[Function, Mapping[str, Any], Invocation]]) -> list[Any]:
        """Runs sync functions one after another in one thread. Returns a value or a `FunctionFailedError` for each
        function.
        """

        def run_batch() -> list[Any]:
            results: list[Any] = []
            for function, values, invocation in runs:
                started = monotonic()
                try:
                    results.append(_call_sync(function, values, invocation))
                except FunctionFailedError as error:
                    results.append(error)
                if (took_s := monotonic() - started) > BLOCKED_AFTER_S:
                    _LOG.warning(
                        "the orchestrator %s took %.1f s in one episode; orchestrators must only yield, never block",
                        function.name,
                        took_s,
                    )
            return results

        for function, _, invocation in runs:
            self._running[invocation.id] = function.name
        try:
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, run_batch)
        finally:
            for _, _, invocation in runs:
                self._running.pop(invocation.id, None)

    async def _call_async(
        self, function: Function, values: Mapping[str, Any], invocation: Invocation, outcome: asyncio.Future[Any]
    ) -> None:
        """Runs the function and sets `outcome`, which references the host only.

        As in Microsoft's worker, a function that raises `CancelledError` has no outcome (`except Exception` in
        `_handle__invocation_request`).
        """
        current.set(invocation)
        task = asyncio.current_task()
        if task is not None:
            task.set_name(_task_name(invocation))
        value, failure = None, None
        try:
            value = await function.call(**values)
        except Exception as error:
            failure = _failed(function, error)
        outcome.get_loop().call_soon_threadsafe(_set_outcome, outcome, value, failure)

    def _cancel(self, name: str) -> None:
        """Cancels the task of an invocation, if it still exists."""
        for task in asyncio.all_tasks(self._loop):
            if task.get_name() == name:
                task.cancel()

    async def watch_loop(self) -> None:
        """Logs a blocked loop with the function and the stack that block it. Runs until cancelled."""
        while True:
            self._loop.call_soon_threadsafe(self._beat)
            await asyncio.sleep(_BEAT_INTERVAL_S)
            silence_s = monotonic() - self._last_beat
            if silence_s > BLOCKED_AFTER_S and not self._reported:
                self._reported = True
                _LOG.error("the app's event loop is blocked for %.1f s by %s", silence_s, self._blocking_task())
            elif silence_s < BLOCKED_AFTER_S and self._reported:
                self._reported = False
                _LOG.warning("the app's event loop is no longer blocked")

    def _beat(self) -> None:
        self._last_beat = monotonic()

    def _blocking_task(self) -> str:
        task = asyncio.current_task(self._loop)
        name = task.get_name() if task is not None else "a callback"
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        return f"{name}; use an async call there or a plain `def` function\n{stack}"

    async def drain(self, timeout: float) -> None:
        """Waits up to `timeout` seconds until no function runs."""
        deadline = monotonic() + timeout
        while self._running and monotonic() < deadline:  # noqa: ASYNC110  # the count changes in other threads
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Ends the loop. Does not stop a function that hangs in a thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive():
            closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
            await asyncio.wait([asyncio.wrap_future(closing)], timeout=2.0)
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _close(self) -> None:
        """Cancels the tasks that the app left on its loop, and closes the HTTP session of the durable client."""
        http_utils = sys.modules.get("azure.durable_functions.models.utils.http_utils")
        if http_utils is not None:
            await http_utils._close_session()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        # Apps do not close their clients, on Azure neither; that is not an error.
        self._loop.set_exception_handler(lambda loop, context: _LOG.debug("left open: %s", context.get("message")))


def _thread_count() -> int | None:
    """Returns `PYTHON_THREADPOOL_THREAD_COUNT`, or `None`, which is Python's default, if the value is invalid."""
    setting = os.environ.get("PYTHON_THREADPOOL_THREAD_COUNT", "")
    if setting and not (setting.isdigit() and int(setting) > 0):
        _LOG.warning(
            "PYTHON_THREADPOOL_THREAD_COUNT must be a whole number of at least 1, not %r; the value is ignored", setting
        )
        return None
    return int(setting) if setting else None


def _task_name(invocation: Invocation) -> str:
    return f"{invocation.function} {invocation.id}"


def _set_outcome(outcome: asyncio.Future[Any], value: Any, failure: FunctionFailedError | None) -> None:
    if outcome.done():
        return  # the host no longer waits
    if failure is not None:
        outcome.set_exception(failure)
    else:
        outcome.set_result(value)


def _call_sync(function: Function, values: Mapping[str, Any], invocation: Invocation) -> Any:
    current.set(invocation)
    try:
        return function.call(**values)
    except Exception as error:
        raise _failed(function, error) from None


def _failed(function: Function, error: BaseException) -> FunctionFailedError:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return FunctionFailedError(function.name, error, "".join(lines))
