"""Calls of activities and waits for events, by the rules of orchestrators (R27, R31)."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import azure.durable_functions as df

Yields = Generator[Any, Any, Any]

#: covers crashes of the activity only: a bus that does not take a directive is a verdict, not an exception
_RETRY_INTERVAL_MS = 5_000
_TRIES = 3
#: R31: after that the orchestration itself waits and asks again, at most so often in a row
_ASK_AGAIN_AFTER = timedelta(seconds=60)
_MAX_ASKS = 5

#: Azure Storage shows a timer's message up to a second early: the extension's delay is cut to whole seconds. The ledger
#: decides on due times, so a timer that came early would only be set again (Azure/durabletask, TaskHubQueue.cs).
_EARLY = timedelta(seconds=1)
#: R31: the extension splits longer timers in a way of its own
MAX_TIMER = timedelta(days=3)


def ask(context: df.DurableOrchestrationContext, activity: str, request: dict[str, Any]) -> Yields:
    """The activity's verdict. Raises what the activity raised, after the last try."""
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
    """A timer that never fires before `due`. Every timer of the app is one."""
    return context.create_timer(due + _EARLY)


def wait_until(context: df.DurableOrchestrationContext, tasks: list[Any], until: datetime) -> Yields:
    """The task that came first, or None when the time came first.

    Each call has a timer of its own, cancelled in the same breath in which an event wins: a timer that is used
    twice or left open keeps the orchestration Running. A time that is over by the engine's clock is waited for as if it
    were now: the app whose clock is behind answers it again and again, once a second and not without a pause.
    """
    now = context.current_utc_datetime
    timer = timer_at(context, min(max(until, now), now + MAX_TIMER))
    winner = yield context.task_any([*tasks, timer])
    if winner is timer:
        return None
    timer.cancel()
    return winner


def decoded(payload: Any) -> dict[str, Any]:
    """An event's payload: `raise_event` encodes it twice, so that it arrives as JSON text."""
    value = json.loads(payload) if isinstance(payload, str) else payload
    return value if isinstance(value, dict) else {}
