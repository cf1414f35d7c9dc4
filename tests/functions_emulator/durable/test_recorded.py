"""Recorded histories, replayed by the engine and the SDK."""

from __future__ import annotations

import json
from typing import Any

import azure.durable_functions as df
import azure.functions as func
import pytest
from azure.durable_functions import Orchestrator

from functions_emulator.durable import wire
from functions_emulator.durable.actions import Reply
from functions_emulator.durable.events import Event, Instance, Kind, Status
from functions_emulator.durable.replay import Outcome, Replay
from tests.functions_emulator.durable import recorded
from tests.functions_emulator.durable.hub import START, Hub

EXPECTED = {"two_steps": ["result:0", "result:1"], "retried": [3, 6, 6]}


def _load(name: str) -> list[Event]:
    lines = json.loads((recorded.HISTORIES / f"{name}.json").read_text())
    return [Event(Kind(kind), event_id, at, data) for kind, event_id, at, data in lines]


def _replay(name: str, code: Any, history: list[Event], execution_id: str) -> tuple[Reply, Outcome]:
    instance = Instance(name, execution_id, name, None, None, Status.RUNNING, None, None, START, START, None)
    context = wire.encode_context(instance, history, len(history))
    reply = wire.decode_reply(Orchestrator.create(code)(func.OrchestrationContext(context)))
    return reply, Replay(reply, execution_id, lambda action: None).run(history)


def _execution_id(history: list[Event]) -> str:
    """The execution id of the recording, which a child's id contains; ids of entity calls are derived from it."""
    child = next((one for one in history if one.kind is Kind.SUB_ORCHESTRATION_CREATED), None)
    return "execution" if child is None else str(child.data["InstanceId"]).split(":")[0]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_history_replays_to_its_end(name: str) -> None:
    """The code returns the recorded result, and the replay repeats every decision."""
    history = _load(name)
    reply, outcome = _replay(name, recorded.ORCHESTRATORS[name], history, _execution_id(history))
    assert (reply.done, json.loads(reply.output or "")) == (True, EXPECTED[name])
    assert (outcome.finished, outcome.failure, outcome.stall, outcome.decisions) == (True, None, None, ())


def test_every_beginning_of_a_recorded_history_replays() -> None:
    """Cut after any episode, the replay makes no new decision and does not fail."""
    history = _load("two_steps")
    ends = [index for index, event in enumerate(history) if event.kind is Kind.ORCHESTRATOR_COMPLETED]
    assert len(ends) > 3
    for end in ends[:-1]:
        _, outcome = _replay("two_steps", recorded.two_steps, history[: end + 1], "execution")
        assert (outcome.failure, outcome.decisions, outcome.stall) == (None, (), None)


def test_a_changed_orchestrator_fails_on_a_recorded_history() -> None:
    """Code that calls another activity first is found non-deterministic."""

    def changed(context: df.DurableOrchestrationContext) -> Any:
        yield context.call_activity("prepare", 0)
        return (yield from recorded.two_steps(context))

    _, outcome = _replay("two_steps", changed, _load("two_steps"), "execution")
    assert outcome.failure is not None
    assert "Non-Deterministic" in outcome.failure


@pytest.mark.parametrize("name", EXPECTED)
def test_todays_engine_records_the_same_kinds(name: str) -> None:
    """Running the orchestrator again gives the recorded sequence of event kinds."""
    hub, instance_id = recorded.play(name)
    assert isinstance(hub, Hub)
    assert [one.kind for one in _load(name)] == hub.kinds(instance_id)
    assert hub.outcome(instance_id) == ("Completed", EXPECTED[name])
