"""The engine against a model of the event rules, for any sequence of events, crashes, suspensions and waits."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions_emulator.durable.visibility import VisibilityTimeouts
from tests.functions_emulator.durable.hub import Hub
from tests.functions_emulator.durable.manual_clock import ManualClock

NAMES = ("a", "b", "c")
_numbers = itertools.count()


def waits_in_turn(context: df.DurableOrchestrationContext) -> Any:
    """For each name an activity, then an event of that name, which races a timer that never wins."""
    seen = []
    for name in NAMES:
        sent = yield context.call_activity("send", name)
        timer = context.create_timer(context.current_utc_datetime + timedelta(hours=1))
        event = context.wait_for_external_event(name)
        yield context.task_any([timer, event])
        timer.cancel()
        seen.append([sent, event.result])
    return seen


class Model:
    """The event that the code receives: the last of the events that came before their wait, else the first one after
    it.

    An event reaches the instance in the episode that takes it; the events between two episodes are one batch.
    """

    def __init__(self) -> None:
        self.early: dict[str, int] = {}
        self.seen: list[int] = []
        self.waiting = False

    def take(self, batch: list[tuple[str, int]]) -> None:
        for name, value in batch:
            if self.waiting and len(self.seen) < len(NAMES) and name == NAMES[len(self.seen)]:
                self.seen.append(value)
                self.waiting = False
            elif name in NAMES:
                self.early[name] = value

    def wait(self) -> bool:
        """The code reaches its next wait; returns true if an early event ends it at once."""
        if self.waiting or len(self.seen) == len(NAMES):
            return False
        name = NAMES[len(self.seen)]
        if name in self.early:
            self.seen.append(self.early[name])
            return True
        self.waiting = True
        return False


operations = st.one_of(
    st.tuples(st.just("raise"), st.sampled_from((*NAMES, "other"))),
    st.tuples(st.sampled_from(["run", "crash", "crash in an episode", "crash in an activity", "suspend", "resume"])),
)


#: Ends between a kill and the start of the next process.
_TIMEOUT = timedelta(seconds=1)


def _hub(path: Path, clock: ManualClock | None = None) -> Hub:
    timeouts = VisibilityTimeouts(_TIMEOUT, _TIMEOUT)
    return Hub(
        {"waits": waits_in_turn}, {"send": lambda name: f"sent {name}"}, path=path, clock=clock, timeouts=timeouts
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=st.lists(operations, max_size=16))
def test_any_schedule_ends_as_the_model_expects(tmp_path: Path, schedule: list[tuple[str, ...]]) -> None:
    """The code receives each event by the rules, with crashes too, and nothing stalls."""
    path = tmp_path / f"{next(_numbers)}.sqlite3"
    hub = _hub(path)
    one = hub.start("waits")
    model, batch, values = Model(), [], itertools.count()

    suspended = False

    def run() -> None:
        """Activities end at once, so the code reaches every wait; a suspended instance calls no activity."""
        hub.run()
        model.take(batch)
        batch.clear()
        while not suspended and model.wait():
            pass

    run()
    for operation in [*schedule, ("resume",), *(("raise", name) for name in NAMES), ("run",)]:
        match operation:
            case "raise", name:
                if hub.outcome(one)[0] in ("Running", "Pending", "Suspended"):
                    value = next(values)
                    hub.raise_event(one, name, value)
                    batch.append((name, value))
                    run()
            case ("run",):
                run()
            case ("suspend",) | ("resume",) if hub.outcome(one)[0] in ("Running", "Suspended"):
                getattr(hub.client, operation[0])(one, "")
                suspended = operation == ("suspend",)
            case ("crash",):
                hub = _reopened(hub, path)
            case ("crash in an episode",):
                hub.engine.next_episode()
                hub = _reopened(hub, path)
            case ("crash in an activity",):
                hub.engine.next_activity()
                hub = _reopened(hub, path)
    run()
    status, output = hub.outcome(one)
    assert status == "Completed"
    assert output == [[f"sent {name}", value] for name, value in zip(NAMES, model.seen, strict=True)]
    assert hub.stalls == []
    hub.store.close()


def _reopened(hub: Hub, path: Path) -> Hub:
    """Reopens the hub after a kill: the state on disk stays, and taken messages become visible again."""
    hub.store.close()
    hub.clock.advance(_TIMEOUT)
    return _hub(path, hub.clock)


@pytest.mark.parametrize("kill_at", range(1, 9))
def test_a_crash_before_any_commit_repeats_that_step_only(tmp_path: Path, kill_at: int) -> None:
    """Rolled back at the n-th commit and opened again, the job ends with its result; no activity runs a third time."""

    class Killed(Exception):
        pass

    path = tmp_path / "hub.sqlite3"
    hub = _hub(path)
    commits = 0

    def committing(done: bool) -> None:
        nonlocal commits
        commits += not done
        if commits == kill_at and not done:
            raise Killed

    one = hub.start("waits")
    for name in NAMES:
        hub.raise_event(one, name, name.upper())
    hub.store.committing = committing
    calls = []
    try:
        hub.run()
    except Killed:
        calls = hub.calls
        hub = _reopened(hub, path)
        hub.run()
    assert hub.outcome(one) == ("Completed", [[f"sent {name}", name.upper()] for name in NAMES])
    assert len(calls) + len(hub.calls) <= len(NAMES) + 1
    hub.store.close()
