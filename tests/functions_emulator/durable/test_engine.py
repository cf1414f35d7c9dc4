"""Orchestrations by the rules of the extension, on an engine without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import pytest

from functions_emulator.durable.errors import FunctionNotFoundError
from functions_emulator.durable.events import Event, Kind
from functions_emulator.durable.failures import NET_STACK
from functions_emulator.durable.store import RecentHistories
from tests.functions_emulator.durable.hub import START, Hub

Context = df.DurableOrchestrationContext
TEN_MINUTES = timedelta(minutes=10)


def upper(value: str) -> str:
    return value.upper()


def broken(value: Any) -> Any:
    raise ValueError(f"no {value}")


def one_call(context: Context) -> Any:
    return (yield context.call_activity("upper", context.get_input()))


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


def event_or_timer(context: Context) -> Any:
    timer = context.create_timer(context.current_utc_datetime + TEN_MINUTES)
    event = context.wait_for_external_event("go")
    winner = yield context.task_any([event, timer])
    if winner is event:
        timer.cancel()
        return event.result
    return "late"


def test_an_event_wins_against_a_timer() -> None:
    """The event's payload is returned, and the cancelled timer does not hold the instance open."""
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.run()
    assert hub.outcome(instance_id) == ("Running", None)
    hub.raise_event(instance_id, "go", {"a": 1})
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", {"a": 1})
    assert hub.stalls == []


def test_a_timer_of_whole_seconds_fires_when_it_is_due() -> None:
    """A second before the timer nothing happens; when it is due it wins."""
    hub = Hub({"w": event_or_timer})
    instance_id = hub.start("w")
    hub.advance(minutes=9, seconds=59)
    assert hub.outcome(instance_id)[0] == "Running"
    hub.advance(seconds=1)
    assert hub.outcome(instance_id) == ("Completed", "late")


@pytest.mark.parametrize(
    ("seconds", "committed_after", "fires_after"), [(5.7, 0, 5), (2, 0.004, 1.004), (0.9, 0, 0), (-3, 0, 0), (3, 0, 3)]
)
def test_a_timer_fires_up_to_a_second_early(seconds: float, committed_after: float, fires_after: float) -> None:
    """Its delay counts from the end of the episode that made it, without the part of a second.

    Nothing looks at FireAt when the message comes: GetVisibilityDelay in Messaging/TaskHubQueue.cs of
    DurableTask.AzureStorage 2.9, and `(int?)visibilityTimeout?.TotalSeconds` in QueueClient.cs of Azure.Storage.Queues.
    """

    def sleeps(context: Context) -> Any:
        fire_at = context.current_utc_datetime + timedelta(seconds=seconds)
        yield context.create_timer(fire_at)
        return (fire_at - context.current_utc_datetime).total_seconds()

    hub = Hub({"sleeps": sleeps})
    instance_id = hub.start("sleeps")
    episode = hub.engine.next_episode()
    assert episode is not None
    hub.clock.advance(timedelta(seconds=committed_after))
    hub.run_episode(episode)
    fires_at = START + timedelta(seconds=fires_after)
    assert (hub.engine.next_wake() or hub.clock.now()) == fires_at
    hub.clock.advance_to(fires_at)
    hub.run()
    assert hub.outcome(instance_id) == ("Completed", pytest.approx(seconds - fires_after))


def test_an_early_event_waits_for_its_waiter() -> None:
    """An event that comes before the wait is kept, also one for a pending instance."""

    def later(context: Context) -> Any:
        yield context.create_timer(context.current_utc_datetime + TEN_MINUTES)
        return (yield context.wait_for_external_event("go"))

    hub = Hub({"later": later})
    instance_id = hub.start("later")
    hub.raise_event(instance_id, "go", "early")
    hub.advance(minutes=10)
    assert hub.outcome(instance_id) == ("Completed", "early")


def test_a_long_timer_goes_in_legs() -> None:
    """A timer over six days fires at its time, with legs of three days in the history."""

    def long(context: Context) -> Any:
        yield context.create_timer(context.current_utc_datetime + timedelta(days=8))
        return context.current_utc_datetime.isoformat()

    hub = Hub({"long": long})
    instance_id = hub.start("long")
    hub.advance(days=7.9)
    assert hub.outcome(instance_id)[0] == "Running"
    hub.advance(days=0.2)
    assert hub.outcome(instance_id)[0] == "Completed"
    assert sum(kind.name == "TIMER_FIRED" for kind in hub.kinds(instance_id)) > 1


def test_a_sub_orchestration_answers_its_parent() -> None:
    """A child runs as an instance of its own, and its output is the result of the parent's call."""

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
    """The start is taken, the log names the known ones at once, and the first episode fails the instance.

    HandleStartOrchestratorRequestAsync in HttpApiHandler.cs of the extension does not look for the function, and
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
    """The instance stays Running without a call, for ever; the log names the function and what to do.

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
    assert "Deploy the function or correct its name" in caplog.text
    hub.client.terminate(instance_id, "")
    hub.run()
    assert hub.outcome(instance_id)[0] == "Terminated"


def test_a_signal_to_an_unknown_entity_fails_the_orchestration() -> None:
    """SignalEntity throws where a call does not: the instance fails, once nothing that it started is open."""

    def signals(context: Context) -> Any:
        timer = context.create_timer(context.current_utc_datetime + TEN_MINUTES)
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
    """A start by HTTP takes any id (HandleStartOrchestratorRequestAsync); entities of other names are not disturbed."""

    def counter(context: df.DurableEntityContext) -> None:
        context.set_state(context.get_state(lambda: 0) + 1)

    hub = Hub({"one_call": one_call, "w": event_or_timer}, {"upper": upper}, {"counter": counter})
    hub.start("one_call", "a", "@counter@1")
    hub.start("w", None, "@x")
    hub.entities.signal("counter", "2", "add", None)
    hub.run()
    hub.raise_event("@x", "go", 1)
    hub.run()
    assert hub.outcome("@counter@1") == ("Completed", "A")
    assert hub.outcome("@x") == ("Completed", 1)
    assert hub.entities.state("counter", "2") == "1"


@pytest.mark.parametrize("parent", ["@x", "@counter@1"])
def test_a_result_for_a_purged_parent_is_dropped(tmp_path: Path, parent: str) -> None:
    """Whatever the parent's id looks like, also after a restart; an entity with that id gets its operations only.

    IsExecutableInstance in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage: "No such instance".
    """

    def calls(context: Context) -> Any:
        return (yield context.call_sub_orchestrator("waits", None, "child"))

    def waits(context: Context) -> Any:
        return (yield context.wait_for_external_event("go"))

    def counter(context: df.DurableEntityContext) -> None:
        context.set_state(context.get_state(lambda: 0) + 1)

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

    def counter(context: df.DurableEntityContext) -> None:
        context.set_state(context.get_state(lambda: 0) + 1)

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
