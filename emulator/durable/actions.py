"""What an orchestrator asks for, as values; the extension awaits them strictly one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Retry:
    """`RetryOptions` of the SDK: the first interval repeats, there is no backoff."""

    interval: timedelta
    max_attempts: int


@dataclass(frozen=True, slots=True)
class CallActivity:
    name: str
    input: str | None
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class CallSubOrchestration:
    name: str
    input: str | None
    instance_id: str | None
    version: str | None
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class ContinueAsNew:
    input: str | None


@dataclass(frozen=True, slots=True)
class CreateTimer:
    fire_at: datetime
    cancelled: bool


@dataclass(frozen=True, slots=True)
class WaitForEvent:
    name: str


@dataclass(frozen=True, slots=True)
class CallEntity:
    entity: str
    operation: str
    input: str | None


@dataclass(frozen=True, slots=True)
class SignalEntity:
    entity: str
    operation: str
    input: str | None


@dataclass(frozen=True, slots=True)
class CallHttp:
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WhenAny:
    children: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class WhenAll:
    children: tuple[Action, ...]


Action = (
    CallActivity
    | CallSubOrchestration
    | ContinueAsNew
    | CreateTimer
    | WaitForEvent
    | CallEntity
    | SignalEntity
    | CallHttp
    | WhenAny
    | WhenAll
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of an orchestrator function to one episode.

    `actions` is the full list since the start. `output` and `custom_status` are JSON texts; `error` is the
    message of the exception that ended the code.
    """

    done: bool
    actions: tuple[Action, ...]
    output: str | None = None
    error: str | None = None
    custom_status: str | None = None
