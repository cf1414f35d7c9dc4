"""One invocation: what `func.Context` shows, what `func.Out` collects, and whose log line it is."""

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

#: The invocation that the running code belongs to; follows tasks and threads of user code.
current: contextvars.ContextVar[Invocation | None] = contextvars.ContextVar("invocation", default=None)


@dataclass(frozen=True, slots=True)
class RetryState:
    """`func.Context.retry_context`."""

    retry_count: int
    max_retry_count: int
    exception: str | None


@dataclass(frozen=True, slots=True)
class TraceState:
    """`func.Context.trace_context`: W3C headers of the caller."""

    trace_parent: str
    trace_state: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invocation:
    function: str
    directory: str
    trace: TraceState = TraceState("", "")
    retry: RetryState | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Context(FunctionsContext):
    """What a function's `context` parameter gets."""

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
    """An output parameter."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: Any) -> None:
        self._value = val

    def get(self) -> Any:
        return self._value


class InvocationFilter(logging.Filter):
    """Gives every log record the `invocation` it was written in."""

    def filter(self, record: logging.LogRecord) -> bool:
        invocation = current.get()
        record.invocation = f"{invocation.function} {invocation.id}" if invocation else "host"
        return True
