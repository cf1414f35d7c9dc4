"""The stall detector reports exactly the instances that would hang on Azure."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.functions_emulator.durable.functions import Context
from tests.functions_emulator.durable.hub import Hub

HOUR = timedelta(hours=1)


def two_waits_on_one_name(context: Context) -> Any:
    yield context.call_activity("echo", "a moment")
    first = yield context.wait_for_external_event("answer")
    second = yield context.wait_for_external_event("answer")
    return [first, second]


def winner_scheduled_earlier(context: Context) -> Any:
    result = context.wait_for_external_event("result")
    ack = context.wait_for_external_event("ack")
    yield context.task_any([ack, result])
    timer = context.create_timer(context.current_utc_datetime + HOUR)
    yield context.task_any([result, timer])
    return result.result  # the timer is not cancelled


def winner_with_cancelled_timer(context: Context) -> Any:
    result = context.wait_for_external_event("result")
    ack = context.wait_for_external_event("ack")
    yield context.task_any([ack, result])
    timer = context.create_timer(context.current_utc_datetime + HOUR)
    yield context.task_any([result, timer])
    timer.cancel()
    return result.result


def returns_with_open_timer(context: Context) -> Any:
    timer = context.create_timer(context.current_utc_datetime + HOUR)
    event = context.wait_for_external_event("go")
    yield context.task_any([event, timer])
    return "done"


def raises_with_open_timer(context: Context) -> Any:
    timer = context.create_timer(context.current_utc_datetime + HOUR)
    event = context.wait_for_external_event("go")
    yield context.task_any([event, timer])
    raise ValueError("enough")


def wrong_case(context: Context) -> Any:
    return (yield context.wait_for_external_event("Go"))


def hub() -> Hub:
    codes = (
        two_waits_on_one_name,
        winner_scheduled_earlier,
        winner_with_cancelled_timer,
        returns_with_open_timer,
        raises_with_open_timer,
        wrong_case,
    )
    return Hub({code.__name__: code for code in codes}, {"echo": lambda value: value})


def test_an_early_event_answers_two_waits_of_its_name() -> None:
    """The code gets the event twice and returns; the extension still waits, and nothing can wake it."""
    one = hub()
    instance_id = one.start("two_waits_on_one_name")
    one.raise_event(instance_id, "answer", 1)
    one.run()
    assert one.outcome(instance_id) == ("Running", None)
    (report,) = one.engine.reports.stalls
    assert report.for_ever
    assert "event 'answer'" in report.reason
    assert "a different name" in report.reason


def test_another_event_of_the_name_ends_the_stall() -> None:
    """A second event ends the wait of the extension, and with it the instance, as on Azure."""
    one = hub()
    instance_id = one.start("two_waits_on_one_name")
    one.raise_event(instance_id, "answer", 1)
    one.run()
    one.raise_event(instance_id, "answer", 2)
    one.run()
    assert one.outcome(instance_id)[0] == "Completed"
    assert one.engine.reports.stalls[0].over_at is not None


def test_the_sdks_payload_is_text_and_a_raw_one_is_not() -> None:
    """The SDK's client encodes twice, so the orchestrator gets JSON text; a raw payload arrives decoded."""

    def waits(context: Context) -> Any:
        value = yield context.wait_for_external_event("e")
        return [type(value).__name__, value]

    one = Hub({"waits": waits})
    sdk, raw = one.start("waits"), one.start("waits")
    one.client.raise_event(sdk, "e", '"{\\"a\\": 1}"')
    one.client.raise_event(raw, "e", '{"a": 1}')
    one.run()
    assert one.outcome(sdk) == ("Completed", ["str", '{"a": 1}'])
    assert one.outcome(raw) == ("Completed", ["dict", {"a": 1}])


def test_a_winner_that_was_scheduled_earlier() -> None:
    """The extension waits for the new timer alone, so the instance hangs until the timer has fired."""
    one = hub()
    instance_id = one.start("winner_scheduled_earlier")
    one.raise_event(instance_id, "ack")
    one.run()
    assert one.stalls == []
    one.raise_event(instance_id, "result", 7)
    one.run()
    assert one.outcome(instance_id) == ("Running", None)
    (report,) = one.engine.reports.stalls
    assert not report.for_ever
    assert "Cancel the new timer" in report.reason
    one.advance(hours=1)
    assert one.outcome(instance_id) == ("Completed", 7)


def test_a_timer_cancelled_at_once_is_no_stall() -> None:
    """The code cancels the new timer as soon as the reused event wins."""
    one = hub()
    instance_id = one.start("winner_with_cancelled_timer")
    one.raise_event(instance_id, "ack")
    one.run()
    one.raise_event(instance_id, "result", 7)
    one.run()
    assert one.outcome(instance_id) == ("Completed", 7)
    assert one.stalls == []


@pytest.mark.parametrize("name", ["returns_with_open_timer", "raises_with_open_timer"])
def test_an_open_timer_delays_the_end(name: str) -> None:
    """After a return or raise with an open timer the instance is Running until the timer has fired."""
    one = hub()
    instance_id = one.start(name)
    one.run()
    one.raise_event(instance_id, "go")
    one.run()
    assert one.outcome(instance_id) == ("Running", None)
    (reason,) = one.stalls
    assert "Cancel timers in `finally`" in reason
    one.advance(hours=1)
    assert one.outcome(instance_id)[0] in ("Completed", "Failed")


def test_an_events_name_in_another_case_is_lost() -> None:
    """The extension ignores the case of names, the SDK does not: the event is taken and the code does not wake."""
    one = hub()
    instance_id = one.start("wrong_case")
    one.run()
    one.raise_event(instance_id, "go")
    one.run()
    assert one.outcome(instance_id)[0] == "Running"
    (report,) = one.engine.reports.stalls
    assert report.for_ever
    assert "case" in report.reason


def test_a_long_timer_cannot_be_cancelled() -> None:
    """SDK 1.7 splits a timer over six days into legs, and `cancel` does not reach the open leg."""

    def long(context: Context) -> Any:
        timer = context.create_timer(context.current_utc_datetime + timedelta(days=8))
        event = context.wait_for_external_event("go")
        yield context.task_any([event, timer])
        timer.cancel()
        return "done"

    one = Hub({"long": long})
    instance_id = one.start("long")
    one.run()
    one.raise_event(instance_id, "go")
    one.run()
    assert one.outcome(instance_id)[0] == "Running"
    assert "is open" in one.stalls[0]


def test_another_process_knows_who_waits_and_who_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The waits and the stalls of instances are known after a crash, until the instances continue."""

    def patient(context: Context) -> Any:
        yield context.wait_for_external_event("go")

    path = tmp_path / "hub.sqlite3"
    code = {"patient": patient, "hanging": two_waits_on_one_name}
    one = Hub(code, {"echo": str}, path=path)
    waits, hangs = one.start("patient"), one.start("hanging")
    one.raise_event(hangs, "answer", "only")
    one.run()
    stalls_before = one.stalls
    assert len(stalls_before) == 1
    one.store.close()
    caplog.clear()

    other = Hub(code, {"echo": str}, path=path, clock=one.clock)
    assert other.stalls == stalls_before
    assert f"STALL: orchestration {hangs} (hanging)" in caplog.text
    assert other.engine.reports.waiting_for(waits) == ("event go",)
    other.raise_event(waits, "go")
    other.raise_event(hangs, "answer", "another")
    other.run()
    assert [other.outcome(one)[0] for one in (waits, hangs)] == ["Completed", "Completed"]
    assert other.engine.reports.stalls[0].over_at is not None
    other.store.close()
    last = Hub(code, {"echo": str}, path=path, clock=one.clock)
    assert (last.stalls, last.engine.reports.waiting_for(waits)) == ([], ())


def test_a_store_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    """A store without the columns of later versions is opened, and its instances continue."""
    path = tmp_path / "hub.sqlite3"
    code = {"hanging": two_waits_on_one_name}
    one = Hub(code, {"echo": str}, path=path)
    instance_id = one.start("hanging")
    one.run()
    one.store.close()
    with sqlite3.connect(path) as db:
        for table, column in (("instances", "note"), ("messages", "hidden_until"), ("activities", "hidden_until")):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    other = Hub(code, {"echo": str}, path=path, clock=one.clock)
    for _ in range(2):
        other.raise_event(instance_id, "answer")
        other.run()
    assert other.outcome(instance_id)[0] == "Completed"
