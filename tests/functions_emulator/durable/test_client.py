"""The operations of a client: terminate, suspend, rewind, restart, start again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import azure.durable_functions as df
import pytest

from functions_emulator.durable.errors import InstanceExistsError, InstanceGoneError
from tests.functions_emulator.durable.functions import Context, event_or_timer, one_call, upper
from tests.functions_emulator.durable.hub import Hub


def broken(value: Any) -> Any:
    raise ValueError(f"broken by {value}")


def test_terminate_ends_at_once() -> None:
    """A terminated instance has the reason as output, and refuses events."""
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    hub.client.terminate(instance_id, "enough")
    hub.run()
    assert hub.outcome(instance_id) == ("Terminated", "enough")
    with pytest.raises(InstanceGoneError):
        hub.raise_event(instance_id, "go")
    hub.advance(minutes=20)
    assert hub.outcome(instance_id) == ("Terminated", "enough")


@pytest.mark.parametrize("status", ["Pending", "Running", "Suspended"])
def test_terminate_ends_an_instance_of_any_status(status: str) -> None:
    """Earlier messages are ignored; the custom status stays, and the reason may be absent."""

    def reports(context: Context) -> Any:
        context.set_custom_status({"step": 1})
        return (yield context.wait_for_external_event("go"))

    hub = Hub({"reports": reports})
    instance_id = hub.start("reports")
    if status != "Pending":
        hub.run()
    if status == "Suspended":
        hub.client.suspend(instance_id, "wait")
        hub.run()
    assert hub.outcome(instance_id)[0] == status
    hub.raise_event(instance_id, "go", 1)
    hub.client.terminate(instance_id, None)
    assert hub.outcome(instance_id)[0] == status
    hub.run()
    assert hub.outcome(instance_id) == ("Terminated", None)
    assert hub.status(instance_id).custom_status == (None if status == "Pending" else '{"step": 1}')
    assert hub.store.count("messages") == 0


def test_suspended_instances_hold_events_back() -> None:
    """Events that come during a suspension take effect after resume."""
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    hub.client.suspend(instance_id, "wait")
    hub.run()
    assert hub.outcome(instance_id)[0] == "Suspended"
    hub.client.resume(instance_id, "go on")
    hub.raise_event(instance_id, "go", 1)
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", 1)


def test_the_reason_of_a_suspension_is_the_output() -> None:
    """Until the instance is resumed, whose reason replaces it, and then ends.

    UpdateStateAsync in AzureTableTrackingStore.cs of DurableTask.AzureStorage.
    """
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    assert hub.outcome(instance_id) == ("Running", None)
    hub.client.suspend(instance_id, "wait")
    hub.run()
    assert hub.outcome(instance_id) == ("Suspended", "wait")
    hub.client.resume(instance_id, "go on")
    hub.run()
    assert hub.outcome(instance_id) == ("Running", "go on")
    hub.raise_event(instance_id, "go", 1)
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", 1)


def test_a_start_over_a_live_instance_names_its_status_alone() -> None:
    """CreateTaskOrchestrationAsync in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage."""
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    with pytest.raises(InstanceExistsError) as refused:
        hub.client.start("w", instance_id, None)
    assert str(refused.value) == "An Orchestration instance with the status Running already exists."


@pytest.mark.parametrize("kind", ["event", "timer", "activity", "child"])
def test_what_comes_for_a_suspended_instance_waits_for_its_resumption(kind: str) -> None:
    """Events, timers and results that come meanwhile are in the history, and take effect after the resumption.

    HandleEventWhileSuspended and HandleExecutionResumedEvent in TaskOrchestrationContext.cs of DurableTask.Core.
    """

    def waits(context: Context) -> Any:
        match kind:
            case "event":
                return (yield context.wait_for_external_event("go"))
            case "timer":
                yield context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
                return 1
            case "activity":
                return (yield context.call_activity("one", None))
            case _:
                return (yield context.call_sub_orchestrator("child", None))

    def child(context: Context) -> Any:
        return (yield context.wait_for_external_event("go"))

    hub = Hub({"waits": waits, "child": child}, {"one": lambda value: 1})
    instance_id = hub.start("waits")
    hub.run_episode(hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    hub.client.suspend(instance_id, "wait")
    hub.run_episode(hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    hub.run()
    for one in hub.client.find():
        if one.instance_id != instance_id or kind == "event":
            hub.raise_event(one.instance_id, "go", 1)
    hub.advance(minutes=11)
    assert hub.outcome(instance_id) == ("Suspended", "wait")
    hub.client.resume(instance_id, "go on")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", 1)
    assert hub.stalls == []


def test_an_event_completes_a_suspended_instance_whose_code_cancels_a_timer() -> None:
    """A fault of Azure: the cancelled timer ends the `task_any` for the extension, and nothing checks the suspension.

    The code plays the event, since it knows no suspension, and cancels its timer; InvokeAPIFromAction in
    OutOfProcOrchestrationShim.cs of the extension cancels it at once, and ExecuteCore in TaskOrchestrationExecutor.cs
    of DurableTask.Core completes what has ended and has nothing open.
    """
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    hub.client.suspend(instance_id, "wait")
    hub.run()
    hub.raise_event(instance_id, "go", 1)
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", 1)


def test_a_suspended_instance_calls_no_activity() -> None:
    """An activity that the code calls during a suspension is scheduled after resume."""

    def calls(context: Context) -> Any:
        yield context.wait_for_external_event("go")
        return (yield context.call_activity("upper", "x"))

    hub = Hub({"calls": calls}, {"upper": upper})
    instance_id = hub.start("calls")
    hub.run()
    hub.client.suspend(instance_id, "")
    hub.raise_event(instance_id, "go")
    hub.run()
    assert hub.calls == []
    assert hub.outcome(instance_id)[0] == "Suspended"
    hub.client.resume(instance_id, "")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", "X")
    assert hub.stalls == []


def test_rewind_makes_the_failed_call_again() -> None:
    """After rewind only the failed call runs again, and the instance completes."""
    healed = False

    def sick(value: Any) -> str:
        if not healed:
            raise ValueError("sick")
        return "well"

    def calls(context: Context) -> Any:
        first = yield context.call_activity("upper", "a")
        second = yield context.call_activity("sick", None)
        return [first, second]

    hub = Hub({"calls": calls}, {"upper": upper, "sick": sick})
    instance_id = hub.start("calls")
    hub.run()
    assert hub.outcome(instance_id)[0] == "Failed"
    healed = True
    hub.client.rewind(instance_id, "healed")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", ["A", "well"])
    assert [name for name, _ in hub.calls] == ["upper", "sick", "sick"]


def test_rewind_runs_only_the_failed_of_parallel_calls() -> None:
    """Two of four calls fail; the others keep their results, and the ids match the history."""
    healed = False

    def sick(value: Any) -> Any:
        if not healed and value % 2:
            raise ValueError("sick")
        return value

    def calls(context: Context) -> Any:
        return (yield context.task_all([context.call_activity("sick", number) for number in range(4)]))

    hub = Hub({"calls": calls}, {"sick": sick})
    instance_id = hub.start("calls")
    hub.run()
    assert hub.outcome(instance_id)[0] == "Failed"
    healed = True
    hub.client.rewind(instance_id, "healed")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", [0, 1, 2, 3])
    assert [value for _, value in hub.calls] == [0, 1, 2, 3, 1, 3]


def test_rewind_goes_down_into_failed_sub_orchestrations() -> None:
    """The failed call of the grandchild runs again and its parents complete; the completed child does not run again."""
    healed = False

    def sick(value: Any) -> str:
        if not healed:
            raise ValueError("sick")
        return "well"

    def leaf(context: Context) -> Any:
        return (yield context.call_activity("sick", None))

    def middle(context: Context) -> Any:
        return (yield context.call_sub_orchestrator("leaf", None, f"{context.instance_id}.leaf"))

    def top(context: Context) -> Any:
        fine = context.call_sub_orchestrator("one_call", "x", "fine")
        bad = context.call_sub_orchestrator("middle", None, "bad")
        return (yield context.task_all([fine, bad]))

    hub = Hub({"top": top, "middle": middle, "leaf": leaf, "one_call": one_call}, {"sick": sick, "upper": upper})
    instance_id = hub.start("top")
    hub.run()
    assert [hub.outcome(one)[0] for one in (instance_id, "bad", "bad.leaf")] == ["Failed"] * 3
    healed = True
    hub.client.rewind(instance_id, "healed")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", ["X", "well"])
    assert hub.outcome("bad.leaf") == ("Completed", "well")
    assert [name for name, _ in hub.calls] == ["upper", "sick", "sick"]


def test_rewind_cannot_take_retries_back(caplog: pytest.LogCaptureFixture) -> None:
    """The timers between attempts stay in the history, so the replay is non-deterministic; the log warns at once.

    It is the same on Azure (azure-functions-durable-extension issue 617).
    """

    def calls(context: Context) -> Any:
        return (yield context.call_activity_with_retry("broken", df.RetryOptions(1000, 2), None))

    hub = Hub({"calls": calls}, {"broken": broken})
    instance_id = hub.start("calls")
    hub.advance(seconds=5)
    assert hub.outcome(instance_id)[0] == "Failed"
    hub.client.rewind(instance_id, "in vain")
    hub.run()
    status, output = hub.outcome(instance_id)
    assert status == "Failed"
    assert "Non-Deterministic" in output
    assert "continued after a failed call" in caplog.text


def test_restart_runs_the_same_input_again() -> None:
    """With a new id both instances exist; with the same id the old one is replaced."""
    hub = Hub({"one_call": one_call}, {"upper": upper})
    instance_id = hub.start("one_call", "x")
    hub.run()
    again = hub.client.restart(instance_id, with_new_id=True)
    assert hub.client.restart(instance_id, with_new_id=False) == instance_id
    hub.run()
    assert hub.outcome(again) == hub.outcome(instance_id) == ("Completed", "X")
    assert again != instance_id


def test_a_live_id_is_refused_and_a_finished_one_replaced() -> None:
    """Starting the id of a live instance is an error; a finished instance is replaced."""
    hub = Hub({"one_call": one_call}, {"upper": upper})
    hub.start("one_call", "a", "same")
    with pytest.raises(InstanceExistsError):
        hub.start("one_call", "b", "same")
    hub.run()
    hub.start("one_call", "b", "same")
    hub.run()
    assert hub.outcome("same") == ("Completed", "B")
