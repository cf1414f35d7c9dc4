"""Schedules of timer triggers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from functions_emulator.durable.clock import stamp
from functions_emulator.host.errors import BindingError
from functions_emulator.host.schedule import parse_schedule
from functions_emulator.host.timer_trigger import TimerTrigger
from tests.functions_emulator.durable.manual_clock import ManualClock

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 */5 * * * *", timedelta(minutes=5)),
        ("*/5 * * * *", timedelta(minutes=5)),
        ("30 0 12 * * *", timedelta(seconds=30)),
        ("0 0 9 * * 1-5", timedelta(hours=21)),
        ("0 0 0 13 * 5", timedelta(days=11, hours=12)),
        ("0 0 12 * MAR SUN", timedelta(days=7)),
        ("00:00:10", timedelta(seconds=10)),
        ("1.00:00:00", timedelta(days=1)),
    ],
)
def test_the_next_occurrence(text: str, expected: timedelta) -> None:
    """The first of six fields is seconds; the day of the month and the weekday must both match."""
    assert parse_schedule(text).next_after(NOON) - NOON == expected


@pytest.mark.parametrize("text", ["", "every minute", "0 0 * *", "0 61 * * * *", "00:00:00"])
def test_bad_schedules_are_named(text: str) -> None:
    """The error names the schedule."""
    with pytest.raises(BindingError, match="schedule"):
        parse_schedule(text)


@pytest.mark.parametrize("on_startup", [False, True])
@pytest.mark.parametrize("missed", [False, True])
async def test_past_due_is_what_was_missed_before_the_start(missed: bool, on_startup: bool) -> None:
    """Not an instant that passes while the host notes the run before it; with `runOnStartup` it is the run at the
    start.
    """
    clock = ManualClock(NOON)
    next_one = {"Last": None, "Next": stamp(NOON - timedelta(seconds=1)), "LastUpdated": None}
    # each note takes longer than the schedule's interval
    store: Any = SimpleNamespace(
        state=lambda key: next_one if missed else None,
        put_state=lambda key, state: clock.advance(timedelta(seconds=2)),
    )
    runs: list[bool] = []

    class Ended(Exception):
        pass

    async def invoke(function: Any, request: Any) -> None:
        runs.append(request.past_due)
        if len(runs) == 3:
            raise Ended

    fields = {"useMonitor": True, "runOnStartup": on_startup}
    function: Any = SimpleNamespace(name="tick", trigger=SimpleNamespace(fields=fields))
    with pytest.raises(Ended):
        await TimerTrigger(function, parse_schedule("*/1 * * * * *"), store, clock, invoke).run()
    assert runs == [missed, False, False]
