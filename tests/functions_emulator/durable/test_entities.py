"""Entities by the rules of the extension: calls, signals, and ids in the form of theirs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import pytest

from tests.functions_emulator.durable.functions import Context, counter, one_call, upper, waits
from tests.functions_emulator.durable.hub import Hub


def test_a_signal_to_an_unknown_entity_fails_the_orchestration() -> None:
    """SignalEntity throws where a call does not: the instance fails, once nothing that it started is open."""

    def signals(context: Context) -> Any:
        timer = context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
        event = context.wait_for_external_event("go")
        yield context.task_any([event, timer])
        context.signal_entity(df.EntityId("nowhere", "k"), "add", 1)

    hub = Hub({"signals": signals})
    instance_id = hub.start("signals")
    hub.run()
    hub.raise_event(instance_id, "go")
    hub.run()
    assert hub.outcome(instance_id) == ("Running", None)
    hub.advance(minutes=10)
    status, output = hub.outcome(instance_id)
    assert status == "Failed"
    assert output.startswith("Orchestrator function 'signals' failed: The function 'nowhere' doesn't exist")


def test_an_orchestrations_id_may_look_like_an_entitys() -> None:
    """A start by HTTP accepts any id (HandleStartOrchestratorRequestAsync); entities of other names are unaffected."""

    hub = Hub({"one_call": one_call, "waits": waits}, {"upper": upper}, {"counter": counter})
    hub.start("one_call", "a", "@counter@1")
    hub.start("waits", None, "@x")
    hub.entities.signal("counter", "2", "add", None)
    hub.run()
    hub.raise_event("@x", "go", 1)
    hub.run()
    assert hub.outcome("@counter@1") == ("Completed", "A")
    assert hub.outcome("@x") == ("Completed", 1)
    assert hub.entities.state("counter", "2") == "1"


@pytest.mark.parametrize("parent", ["@x", "@counter@1"])
def test_a_result_for_a_purged_parent_is_dropped(tmp_path: Path, parent: str) -> None:
    """For any id of the parent, also after a restart; an entity with that id gets its operations only.

    IsExecutableInstance in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage: "No such instance".
    """

    def calls(context: Context) -> Any:
        return (yield context.call_sub_orchestrator("waits", None, "child"))

    functions: Any = ({"calls": calls, "waits": waits}, {}, {"counter": counter})
    hub = Hub(*functions, path=tmp_path / "hub.sqlite3")
    hub.start("calls", None, parent)
    hub.run()
    hub.client.terminate(parent, "")
    hub.run()
    hub.client.purge(parent)
    hub.raise_event("child", "go", 1)
    hub.run_episode(hub.engine.next_episode())  # type: ignore[arg-type]  # the child's last one
    hub.entities.signal("counter", "1", "add", None)
    assert hub.store.count("messages") == 2
    hub.store.close()
    hub = Hub(*functions, path=tmp_path / "hub.sqlite3")
    hub.run()
    assert (hub.store.count("messages"), hub.entities.state("counter", "1")) == (0, "1")


def test_entities_answer_calls_and_take_signals() -> None:
    """Operations run one after another; a call returns the entity's result, an error raises."""

    def counter(context: df.DurableEntityContext) -> None:
        state = context.get_state(lambda: 0)
        if context.operation_name == "add":
            state += context.get_input()
            context.set_state(state)
        elif context.operation_name == "fail":
            raise ValueError("cannot")
        context.set_result(state)

    def uses(context: Context) -> Any:
        one = df.EntityId("Counter", "k")
        context.signal_entity(one, "add", 5)
        value = yield context.call_entity(one, "add", 2)
        try:
            yield context.call_entity(one, "fail")
        except Exception as error:
            return [value, str(error)]

    hub = Hub({"uses": uses}, entities={"counter": counter})
    instance_id = hub.start("uses")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", [7, "cannot"])
    assert json.loads(hub.entities.state("counter", "k") or "") == 7
    hub.entities.signal("counter", "k", "add", json.dumps("3"))
    hub.run()
    assert json.loads(hub.entities.state("counter", "k") or "") == 10
    assert hub.stalls == []


def test_a_crash_does_not_count_an_operation_twice(tmp_path: Path) -> None:
    """A batch without a committed result runs again from the state before it."""

    def fresh() -> Hub:
        return Hub({}, entities={"counter": counter}, path=tmp_path / "hub.sqlite3")

    hub = fresh()
    hub.entities.signal("counter", "k", "add", None)
    assert hub.entities.next_batch() is not None
    hub.store.close()
    hub = fresh()
    hub.entities.signal("counter", "k", "add", None)
    hub.run()
    assert hub.entities.state("counter", "k") == "1"
    hub.advance(minutes=5)
    assert hub.entities.state("counter", "k") == "2"
    hub.store.close()
