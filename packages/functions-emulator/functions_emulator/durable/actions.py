"""The actions of an orchestrator, as values. The extension awaits the actions one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry options. The SDK's `RetryOptions` repeat the interval. Only HTTP calls have a `backoff` other than 1."""

    interval: timedelta
    max_attempts: int
    backoff: float = 1.0
    longest: timedelta = timedelta(days=6)

    def delay(self, attempts: int) -> timedelta:
        """Returns the wait after this number of attempts, or zero after the last attempt (source: RetryInterceptor of
        DurableTask.Core).
        """
        if attempts >= self.max_attempts:
            return timedelta()
        return timedelta(
            seconds=min(self.interval.total_seconds() * self.backoff ** (attempts - 1), self.longest.total_seconds())
        )


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
    """An HTTP call. With `polls` the extension polls the `Location` of a 202 response until the status changes."""

    request: Mapping[str, Any]
    polls: bool = False
    retry: Retry | None = None


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


@dataclass(slots=True, eq=False)
class Await:
    """An action that a replay awaits. `children` are the children of a `WhenAny` or `WhenAll`."""

    action: Action
    parent: Await | None
    done: bool = False
    children: list[Await] = field(default_factory=list)
    attempts: int = 0
    in_backoff: bool = False
    #: the reason why the extension has not scheduled it; the action is then done immediately
    problem: str | None = None
    poll: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of an orchestrator function to one episode.

    `actions` is the full list since the start of the execution. `output` and `custom_status` are JSON texts. `error` is
    the message of the exception that ended the code.
    """

    done: bool
    actions: tuple[Action, ...]
    output: str | None = None
    error: str | None = None
    custom_status: str | None = None
