"""Orchestrations by the rules of the extension, on an engine without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import azure.durable_functions as df
import pytest

from functions_emulator.durable.errors import FunctionNotFoundError
from functions_emulator.durable.events import Event, Kind
from functions_emulator.durable.failures import NET_STACK
from functions_emulator.durable.store import RecentHistories
from tests.functions_emulator.durable.functions import Context, one_call, upper
from tests.functions_emulator.durable.hub import Hub


def broken(value: Any) -> Any:
    raise ValueError(f"no {value}")


def test_an_activitys_result_comes_back() -> None:
    """A call to an activity gets its input and returns its result; the instance completes."""
    hub = Hub({"one_call": one_call}, {"upper": upper})
    instance_id = hub.start("one_call", "word")
    assert hub.status(instance_id).status == "Pending"
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", "WORD")
    assert hub.episodes == 2
    assert hub.stalls == []


def test_calls_in_parallel_keep_their_order() -> None:
    """task_all gives the results in the order of its tasks."""

    def fan(context: Context) -> Any:
        return (yield context.task_all([context.call_activity("upper", one) for one in "abc"]))

    hub = Hub({"fan": fan}, {"upper": upper})
    instance_id = hub.start("fan")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", ["A", "B", "C"])


def test_a_failed_activity_fails_the_orchestration() -> None:
    """An exception that the code does not catch fails the orchestration, with the text and JSON of the extension.

    The two blanks are those of azure-functions-durable-python issue 496, the JSON after the reason that of
    azure-functions-durable-extension issue 2990.
    """

    def calls(context: Context) -> Any:
        yield context.call_activity("broken", 7)

    hub = Hub({"calls": calls}, {"broken": broken})
    instance_id = hub.start("calls")
    hub.run()
    status, output = hub.outcome(instance_id)
    assert status == "Failed"
    reason, details = output.split(" \n ", 1)
    assert reason == "Orchestrator function 'calls' failed: Activity function 'broken' failed:  ValueError: no 7"
    outer = json.loads(details)
    assert (outer["ClassName"], outer["Message"]) == ("System.Exception", " ValueError: no 7")
    inner = outer["InnerException"]
    assert inner["Message"] == "Result: Failure\nType: \nException: ValueError: no 7\nStack: stack"
    assert (inner["RemoteMessage"], inner["RemoteStackTrace"]) == ("ValueError: no 7", "stack")


def test_a_failed_activity_can_be_caught() -> None:
    """The orchestrator sees the failure as an exception where it waits."""

    def calls(context: Context) -> Any:
        try:
            yield context.call_activity("broken", 7)
        except Exception as error:
            return "no 7" in str(error)

    hub = Hub({"calls": calls}, {"broken": broken})
    instance_id = hub.start("calls")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", True)


@pytest.mark.parametrize(("fails", "expected"), [(0, 1), (2, 3), (3, 3)])
def test_retries_follow_their_options(fails: int, expected: int) -> None:
    """A failing activity is called again after each interval, up to the number of attempts."""
    attempts: list[int] = []

    def flaky(value: Any) -> int:
        attempts.append(1)
        if len(attempts) <= fails:
            raise ValueError("not yet")
        return len(attempts)

    def calls(context: Context) -> Any:
        options = df.RetryOptions(60_000, 3)
        return (yield context.call_activity_with_retry("flaky", options, None))

    hub = Hub({"calls": calls}, {"flaky": flaky})
    instance_id = hub.start("calls")
    hub.run()
    assert len(attempts) == 1
    hub.advance(minutes=2.5)
    assert len(attempts) == expected
    if fails < 3:
        assert hub.outcome(instance_id) == ("Completed", expected)
    else:
        # The extension makes a timer after the last failure too, which fires at once.
        assert hub.outcome(instance_id)[0] == "Failed"
        assert hub.kinds(instance_id).count(Kind.TIMER_FIRED) == 3
    assert hub.stalls == []


def test_a_sub_orchestration_answers_its_parent() -> None:
    """A child runs as a separate instance, and its output is the result of the parent's call."""

    def parent(context: Context) -> Any:
        named = yield context.call_sub_orchestrator("one_call", "a", "child-1")
        unnamed = yield context.call_sub_orchestrator("one_call", "b")
        return [named, unnamed]

    hub = Hub({"parent": parent, "one_call": one_call}, {"upper": upper})
    instance_id = hub.start("parent")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", ["A", "B"])
    assert hub.outcome("child-1") == ("Completed", "A")


def test_a_failed_sub_orchestration_fails_where_it_is_awaited() -> None:
    """The parent gets an exception with the text of the child's failure, and with its details.

    ScheduleDurableTaskEvents in Listener/OutOfProcOrchestrationShim.cs of the extension.
    """

    def parent(context: Context) -> Any:
        try:
            yield context.call_sub_orchestrator("child", None)
        except Exception as error:
            return str(error)

    def child(context: Context) -> Any:
        raise ValueError("no way")
        yield

    hub = Hub({"parent": parent, "child": child})
    instance_id = hub.start("parent")
    hub.run()
    assert hub.outcome(instance_id)[1] == (
        f"Orchestrator function 'child' failed: no way \n Message: no way, StackTrace: {NET_STACK}"
    )


def test_continue_as_new_starts_over_with_an_empty_history() -> None:
    """Each execution has its own input and history."""

    def rounds(context: Context) -> Any:
        left = context.get_input()
        yield context.call_activity("upper", "x")
        if left:
            context.continue_as_new(left - 1)
            return None
        return "end"

    hub = Hub({"rounds": rounds}, {"upper": upper})
    instance_id = hub.start("rounds", 3)
    execution = hub.status(instance_id).execution_id
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", "end")
    assert len(hub.calls) == 4
    assert hub.status(instance_id).execution_id != execution
    assert len(hub.kinds(instance_id)) < 12


def test_custom_status_is_kept_when_it_is_falsy() -> None:
    """The SDK does not send a falsy custom status, so it never clears one."""

    def talks(context: Context) -> Any:
        context.set_custom_status({"at": 1})
        yield context.wait_for_external_event("go")
        context.set_custom_status("")

    hub = Hub({"talks": talks})
    instance_id = hub.start("talks")
    hub.run()
    assert hub.status(instance_id).custom_status == '{"at": 1}'
    hub.raise_event(instance_id, "go")
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", None)
    assert hub.status(instance_id).custom_status == '{"at": 1}'


def test_an_unknown_orchestrator_is_started_and_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The start is accepted, the log names the known ones at once, and the first episode fails the instance.

    HandleStartOrchestratorRequestAsync in HttpApiHandler.cs of the extension does not check the function, and
    OrchestrationMiddleware in DurableTaskExtension.cs throws what becomes the output.
    """
    hub = Hub({"one_call": one_call}, {"upper": upper})
    instance_id = hub.start("found", 1)
    reason = (
        "The function 'found' doesn't exist, is disabled, or is not an orchestrator function. "
        "Additional info: The following are the known orchestrator functions: 'one_call'."
    )
    assert f"orchestration {instance_id} was started and will fail: {reason}" in caplog.text
    assert hub.outcome(instance_id) == ("Pending", None)
    hub.run()
    assert hub.outcome(instance_id) == ("Failed", f"Orchestrator function 'found' failed: {reason}")
    with pytest.raises(FunctionNotFoundError, match="'found'"):
        hub.client.restart(instance_id, with_new_id=True)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda context: context.call_activity("nowhere", None), "activity nowhere"),
        (
            lambda context: context.call_activity_with_retry("nowhere", df.RetryOptions(1000, 2), None),
            "activity nowhere",
        ),
        (lambda context: context.call_sub_orchestrator("nowhere", None), "sub-orchestration nowhere"),
        (lambda context: context.call_entity(df.EntityId("nowhere", "k"), "get"), "entity @nowhere@k (get)"),
    ],
)
def test_a_call_of_an_unknown_function_hangs(
    call: Callable[[Context], Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The instance stays Running without a call, for ever; the log names the function and the remedy.

    The exception of CallDurableTaskFunctionAsync (ContextImplementations/DurableOrchestrationContext.cs of the
    extension) is ignored by ProcessAsyncActionsV2 (Listener/OutOfProcOrchestrationShim.cs).
    """

    def lost(context: Context) -> Any:
        return (yield call(context))

    hub = Hub({"lost": lost}, {"upper": upper})
    instance_id = hub.start("lost")
    hub.advance(days=1)
    assert hub.outcome(instance_id) == ("Running", None)
    assert hub.kinds(instance_id) == [Kind.ORCHESTRATOR_STARTED, Kind.EXECUTION_STARTED, Kind.ORCHESTRATOR_COMPLETED]
    (report,) = hub.engine.reports.stalls
    assert report.for_ever
    assert (
        f"the code waits for {name}, which the extension does not start: The function 'nowhere' doesn't" in caplog.text
    )
    assert "Deploy the function or correct the call" in caplog.text
    hub.client.terminate(instance_id, "")
    hub.run()
    assert hub.outcome(instance_id)[0] == "Terminated"


def test_a_changed_orchestrator_is_caught() -> None:
    """Code that does not repeat the decisions of the history fails the instance as non-deterministic."""
    names = iter(["upper", "other", "other"])

    def changing(context: Context) -> Any:
        yield context.call_activity(next(names), "x")
        yield context.wait_for_external_event("go")

    hub = Hub({"changing": changing}, {"upper": upper, "other": upper})
    instance_id = hub.start("changing")
    hub.run()
    status, output = hub.outcome(instance_id)
    assert status == "Failed"
    assert "Non-Deterministic workflow detected" in output


def test_late_results_of_an_older_execution_are_dropped() -> None:
    """The result of an activity does not reach the instance that replaced its own."""

    def calls(context: Context) -> Any:
        return (yield context.call_activity("upper", context.get_input()))

    hub = Hub({"calls": calls}, {"upper": upper})
    hub.start("calls", "old", "same")
    hub.run_episode(hub.engine.next_episode())  # type: ignore[arg-type]
    old = hub.engine.next_activity()
    assert old is not None
    hub.client.terminate("same", "")
    hub.run()
    hub.start("calls", "new", "same")
    hub.engine.finish_activity(old, '"OLD"')
    hub.run()
    assert hub.outcome("same") == ("Completed", "NEW")


def test_histories_in_memory_are_bounded() -> None:
    """The least recently used history is dropped first; a history that was taken is not found again."""
    recent = RecentHistories(max_events=3)
    event = Event(Kind.GENERIC, -1, "", {})
    recent.put("a", "1", [event, event])
    recent.put("b", "1", [event])
    recent.put("c", "1", [event])
    assert recent.take("a", "1") is None
    assert recent.take("b", "2") is None
    assert recent.take("b", "1") == [event]
    assert recent.take("b", "1") is None
