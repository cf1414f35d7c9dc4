"""Timers and external events of orchestrations, by the rules of the extension."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.functions_emulator.durable.functions import Context, event_or_timer
from tests.functions_emulator.durable.hub import START, Hub


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

    Nothing compares FireAt when the message arrives: GetVisibilityDelay in Messaging/TaskHubQueue.cs of
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
        yield context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
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
