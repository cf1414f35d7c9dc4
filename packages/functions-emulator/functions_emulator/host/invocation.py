"""One invocation of a function, with its `func.Context`, its `func.Out` values, and the mark in its log lines."""

from __future__ import annotations

import contextvars
import logging
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from azure.functions import Context as FunctionsContext
from azure.functions import Out

#: invocation of the running code; tasks and threads of user code inherit it
current: contextvars.ContextVar[Invocation | None] = contextvars.ContextVar("invocation", default=None)


@dataclass(frozen=True, slots=True)
class RetryState:
    """The value of `func.Context.retry_context`."""

    retry_count: int
    max_retry_count: int
    exception: str | None


@dataclass(frozen=True, slots=True)
class TraceState:
    """The value of `func.Context.trace_context`, with the W3C trace headers of the caller."""

    trace_parent: str
    trace_state: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a function. `directory` is the folder of the app."""

    function: str
    directory: str
    trace: TraceState = TraceState("", "")
    retry: RetryState | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Context(FunctionsContext):
    """The value of a function's `context` parameter."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._local = threading.local()
        self._local.invocation_id = invocation.id

    @property
    def invocation_id(self) -> str:
        return self._invocation.id

    @property
    def thread_local_storage(self) -> Any:
        return self._local

    @property
    def function_name(self) -> str:
        return self._invocation.function

    @property
    def function_directory(self) -> str:
        return self._invocation.directory

    @property
    def trace_context(self) -> Any:
        return self._invocation.trace

    @property
    def retry_context(self) -> Any:
        return self._invocation.retry


class OutValue(Out):  # type: ignore[type-arg]  # any value
    """The value of an output parameter."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: Any) -> None:
        self._value = val

    def get(self) -> Any:
        return self._value


class InvocationFilter(logging.Filter):
    """A filter that adds `invocation` to every log record. The value is the function and the invocation id, or
    `host`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        invocation = current.get()
        record.invocation = f"{invocation.function} {invocation.id}" if invocation else "host"
        return True
