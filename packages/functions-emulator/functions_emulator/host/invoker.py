"""Runs a function for a trigger. Reads the inputs, calls the function, writes the outputs, and logs a failure."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from functions_emulator.host.errors import FunctionFailedError
from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.invocation import Invocation, OutValue, RetryState, TraceState
from functions_emulator.host.worker import Worker

_LOG = logging.getLogger("functions_emulator.host")


class InputReader(Protocol):
    """A reader of the input bindings of one type."""

    async def read(self, binding: Binding, trigger_data: Mapping[str, Any]) -> Any:
        """Returns the value of an input binding."""


class OutputWriter(Protocol):
    """A writer of the output bindings of one type."""

    async def write(self, binding: Binding, value: Any, trigger_data: Mapping[str, Any]) -> None:
        """Writes a value to the target of an output binding. Raises an error if the write fails."""

    async def close(self) -> None:
        """Closes the writer's connections."""


class Invoker:
    """The invoker of functions. `readers` and `writers` are by binding type. An `http` output is returned to the
    caller.
    """

    def __init__(
        self,
        worker: Worker,
        directory: str,
        readers: Mapping[str, InputReader],
        writers: Mapping[str, OutputWriter],
    ) -> None:
        self._worker = worker
        self._directory = directory
        self._readers = readers
        self._writers = writers

    @property
    def running(self) -> list[str]:
        """Returns names of the running functions, sorted."""
        return sorted(self._worker.running.values())

    async def invoke(
        self,
        function: Function,
        trigger_value: Any,
        *,
        trigger_data: Mapping[str, Any] | None = None,
        trace: TraceState | None = None,
        retry: RetryState | None = None,
    ) -> Any:
        """Runs the function. Returns the value of its HTTP output, else its return value.

        `trigger_data` are the values for binding expressions. Logs a failure and raises `FunctionFailedError`.
        """
        trace = trace or TraceState("", "")
        invocation = Invocation(function.name, self._directory, trace=trace, retry=retry)
        data = trigger_data or {}
        try:
            values: dict[str, Any] = {function.trigger.name: trigger_value}
            for binding in function.inputs:
                values[binding.name] = await self._readers[binding.type].read(binding, data)
            for name, expected in function.plain_inputs.items():
                values[name] = _plain_value(values[name], expected)
            outs = {binding.name: OutValue() for binding in function.outputs if binding.name != "$return"}
            values.update(outs)
            result = await self._worker.call(function, values, invocation)
            if result is not None and not function.may_return:
                raise TypeError("the function returned a value and has no $return binding")
            returned = result
            for binding in function.outputs:
                value = result if binding.name == "$return" else outs[binding.name].get()
                if binding.type == "http":
                    returned = value
                elif value is not None:
                    await self._writers[binding.type].write(binding, value, data)
            return returned
        except FunctionFailedError as error:
            _LOG.error("%s failed, invocation %s: %s\n%s", function.name, invocation.id, error, error.stack.rstrip())
            raise
        except Exception as error:  # a binding failed: so did the invocation
            _LOG.error("%s failed, invocation %s: %s: %s", function.name, invocation.id, type(error).__name__, error)
            raise FunctionFailedError(function.name, error, "") from error


def _plain_value(value: Any, expected: type) -> Any:
    """Returns the value for a parameter annotated `str` or `bytes`: a message's body, a blob's content, JSON of a
    timer."""
    if value is None or isinstance(value, str | bytes):
        content = value
    elif hasattr(value, "get_body"):
        content = value.get_body()
    elif hasattr(value, "read"):
        content = value.read()
    elif hasattr(value, "past_due"):
        timer = {"IsPastDue": value.past_due, "ScheduleStatus": value.schedule_status, "Schedule": value.schedule}
        content = json.dumps(timer)
    else:
        content = json.dumps(value)
    if isinstance(content, bytes) and expected is str:
        return content.decode()
    return content.encode() if isinstance(content, str) and expected is bytes else content
