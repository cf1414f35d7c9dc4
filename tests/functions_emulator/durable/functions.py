"""Functions that the tests of several modules run: orchestrators, an activity and an entity."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import azure.durable_functions as df

Context = df.DurableOrchestrationContext


def upper(value: str) -> str:
    return value.upper()


def one_call(context: Context) -> Any:
    return (yield context.call_activity("upper", context.get_input()))


def waits(context: Context) -> Any:
    return (yield context.wait_for_external_event("go"))


def event_or_timer(context: Context) -> Any:
    timer = context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
    event = context.wait_for_external_event("go")
    winner = yield context.task_any([event, timer])
    if winner is event:
        timer.cancel()
        return event.result
    return "late"


def counter(context: df.DurableEntityContext) -> None:
    """Counts its operations."""
    context.set_state(context.get_state(lambda: 0) + 1)
