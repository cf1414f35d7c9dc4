"""Calls activities and waits for events, by the rules of orchestrators (R27, R31)."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import azure.durable_functions as df

Yields = Generator[Any, Any, Any]

#: interval of retries after a crash of the activity; a directive that the bus does not accept is a verdict, not an
#: exception
_RETRY_INTERVAL_MS = 5_000
_TRIES = 3
#: R31: wait of the orchestration before a repeated call, and the maximum number of calls with the first
_ASK_AGAIN_AFTER = timedelta(seconds=60)
_MAX_ASKS = 5

#: Azure Storage delivers a timer's message up to a second early, since the extension cuts the delay to whole seconds.
#: The ledger decides on due times, so an early timer would only be set again (Azure/durabletask, TaskHubQueue.cs).
_EARLY = timedelta(seconds=1)
#: R31: maximum timer; the extension splits longer ones in its own way
MAX_TIMER = timedelta(days=3)


def ask(context: df.DurableOrchestrationContext, activity: str, request: dict[str, Any]) -> Yields:
    """Calls an activity and returns its verdict. Raises the activity's error after the last try."""
    retries = df.RetryOptions(_RETRY_INTERVAL_MS, _TRIES)
    for asked in range(1, _MAX_ASKS + 1):
        try:
            return (yield context.call_activity_with_retry(activity, retries, request))
        except Exception:
            if asked == _MAX_ASKS:
                raise
        yield timer_at(context, context.current_utc_datetime + _ASK_AGAIN_AFTER)
    raise AssertionError("the last try returns or raises")


def timer_at(context: df.DurableOrchestrationContext, due: datetime) -> Any:
    """Creates a timer that never fires before `due`. The app creates every timer with this function."""
    return context.create_timer(due + _EARLY)


def wait_until(context: df.DurableOrchestrationContext, tasks: list[Any], until: datetime) -> Yields:
    """Returns the first completed task, or None if the time came first, or three days passed first.

    Each call has its own timer, and cancels the timer as soon as an event comes first. A timer that is reused or left
    open keeps the orchestration Running. A time in the past by the engine's clock is replaced by the current time. So
    an app whose clock is behind requests the timer again once a second, and not in a busy loop.
    """
    now = context.current_utc_datetime
    timer = timer_at(context, min(max(until, now), now + MAX_TIMER))
    winner = yield context.task_any([*tasks, timer])
    if winner is timer:
        return None
    timer.cancel()
    return winner


def decoded(payload: Any) -> dict[str, Any]:
    """Decodes an event's payload. `raise_event` encodes the payload twice, so the payload arrives as JSON text."""
    value = json.loads(payload) if isinstance(payload, str) else payload
    return value if isinstance(value, dict) else {}
