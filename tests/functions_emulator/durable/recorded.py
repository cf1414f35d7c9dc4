"""Orchestrators with histories recorded in `histories/`; run this module to record them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df

from tests.functions_emulator.durable.hub import Hub

HISTORIES = Path(__file__).parent / "histories"
Context = df.DurableOrchestrationContext


def two_steps(context: Context) -> Any:
    """Two steps that wait for an ACK and a result each, as the job orchestration of LUCIUS does."""
    results = []
    for number in range(2):
        yield context.call_activity("send", number)
        ack, result = (context.wait_for_external_event(f"{kind}:{number}") for kind in ("ack", "result"))
        first = context.create_timer(context.current_utc_datetime + timedelta(seconds=30))
        winner = yield context.task_any([ack, result, first])
        first.cancel()
        if winner is ack:
            second = context.create_timer(context.current_utc_datetime + timedelta(minutes=15))
            yield context.task_any([result, second])
            second.cancel()
        results.append(result.result)
    return results


def retried(context: Context) -> Any:
    """A call that fails twice, then a sub-orchestration, then a call of an entity."""
    options = df.RetryOptions(1000, 3)
    value = yield context.call_activity_with_retry("flaky", options, None)
    child = yield context.call_sub_orchestrator("child", value)
    count = yield context.call_entity(df.EntityId("counter", "k"), "add", child)
    return [value, child, count]


def child(context: Context) -> Any:
    return context.get_input() * 2
    yield


ORCHESTRATORS: dict[str, Callable[..., Any]] = {"two_steps": two_steps, "retried": retried, "child": child}


def play(name: str) -> tuple[Hub, str]:
    """Runs an orchestrator to its end."""
    attempts: list[int] = []

    def flaky(value: Any) -> int:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return len(attempts)

    def counter(context: df.DurableEntityContext) -> None:
        context.set_state(context.get_state(lambda: 0) + context.get_input())
        context.set_result(context.get_state())

    hub = Hub(ORCHESTRATORS, {"send": lambda value: value, "flaky": flaky}, {"counter": counter})
    instance_id = hub.start(name, instance_id=name)
    hub.run()
    if name == "two_steps":
        for event in ("ack:0", "result:0", "result:1"):
            hub.advance(seconds=1)
            hub.raise_event(instance_id, event, event)
    hub.advance(minutes=1)
    return hub, instance_id


if __name__ == "__main__":
    for recorded in ("two_steps", "retried"):
        hub, instance_id = play(recorded)
        history = hub.client.history(hub.status(instance_id))
        lines = [[int(one.kind), one.event_id, one.at, dict(one.data)] for one in history]
        (HISTORIES / f"{recorded}.json").write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
