"""The effect of a response on a delivery and its webhook, case by case (R85)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.events.event_types import OF_HOOKS
from shared.core.events.hints import MAX_CALLBACKS, callback_names
from shared.core.webhooks.deliveries import (
    FAILURES_TO_WAIT,
    WAITS,
    enable_hook,
    is_for,
    record_answer,
    with_dead_logged,
)
from shared.core.webhooks.hook_log import EVENTS
from shared.core.webhooks.webhooks import (
    DEFAULT_HOOK,
    Answer,
    Delivery,
    DeliveryState,
    Hook,
    HookAct,
    HookFilter,
    HookState,
    SecretVersion,
)
from tests.event_checks import payload_schema
from tests.jobs import START

HOOK = Hook(
    id="hook_1",
    tenant="t",
    url="https://a.example",
    created_at=START,
    created_by="user:x",
    updated_at=START,
    first=1,
    secret=SecretVersion(version=1, key_id="k1", salt="a"),
)
DEFAULT = replace(HOOK, id=DEFAULT_HOOK, url=None)
DELIVERY = Delivery(
    tenant="t",
    hook_id="hook_1",
    number=7,
    event_id="job_1:3:0",
    event_type="job.completed",
    job_id="job_1",
    created_at=START,
    due_at=START,
)
OK, BAD, POISON = Answer(status=204), Answer(status=500), Answer(status=404)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success_ends_a_delivery(status: int) -> None:
    found = record_answer(HOOK, DELIVERY, Answer(status=status, took_ms=12), START)
    assert (found.delivery.state, found.delivery.tries, found.delivery.status) == (DeliveryState.DELIVERED, 1, status)
    assert (found.delivery.ended_at, found.delivery.due_at, found.delivery.took_ms) == (START, None, 12)
    assert (found.act, found.flows) == (None, False)


def test_a_success_is_not_written_on_the_hook_each_time() -> None:
    well = record_answer(HOOK, DELIVERY, OK, START).hook
    assert well.succeeded_at == START
    assert record_answer(well, DELIVERY, OK, START + timedelta(seconds=59)).hook is well
    later = START + timedelta(seconds=60)
    assert record_answer(well, DELIVERY, OK, later).hook.succeeded_at == later
    failed = replace(well, failures=1, failing_since=START)
    assert record_answer(failed, DELIVERY, OK, START).hook == well


@pytest.mark.parametrize(
    "answer",
    [
        *(Answer(status=status) for status in (100, 301, 302, 308, 408, 425, 429, 500, 502, 503)),
        *(Answer(status=None, error=error) for error in ("TIMEOUT", "CONNECT", "TLS", "RESET", "ADDRESS_REFUSED")),
    ],
)
def test_what_is_a_failure_of_the_hook(answer: Answer) -> None:
    found = record_answer(HOOK, DELIVERY, answer, START)
    assert (found.hook.failures, found.hook.failing_since) == (1, START)
    assert (found.delivery.state, found.delivery.tries) == (DeliveryState.PENDING, 1)
    assert found.delivery.due_at == START + WAITS[0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422, 451])
def test_one_that_is_refused_is_dead_at_the_third_time(status: int) -> None:
    """It is no failure of the webhook, which delivers the other events."""
    delivery, answer = DELIVERY, Answer(status=status)
    for number in (1, 2):
        found = record_answer(HOOK, delivery, answer, START)
        assert (found.hook, found.act) == (HOOK, None)
        delivery = found.delivery
        assert (delivery.refusals, delivery.due_at) == (number, START + WAITS[number - 1])
    found = record_answer(HOOK, delivery, answer, START)
    assert (found.delivery.state, found.act, found.reason) == (DeliveryState.DEAD, HookAct.DEAD, f"HTTP_{status}")
    assert (found.hook.failures, found.hook.waits_until) == (0, None)
    after, data, reason = with_dead_logged(found.hook, START)
    assert (data, reason) == ({"deliveries": 1, "first": 7, "last": 7}, f"HTTP_{status}")
    assert after == replace(HOOK, dead_logged_at=START)


def test_a_receiver_that_refuses_everything_is_logged_once_a_minute() -> None:
    """Otherwise it would write HEAD with each of them, and block the writers of the feed."""
    hook, acts = replace(HOOK, dead_logged_at=START), []
    for second in (0, 10, 59, 60):
        delivery = replace(DELIVERY, number=100 - second, refusals=2, tries=2)
        found = record_answer(hook, delivery, POISON, START + timedelta(seconds=second))
        assert found.delivery.state is DeliveryState.DEAD
        hook = found.hook
        acts.append(found.act)
    assert acts == [None, None, None, HookAct.DEAD]
    _, data, _ = with_dead_logged(hook, START)
    assert data == {"deliveries": 4, "first": 40, "last": 100}


def test_410_switches_a_hook_off() -> None:
    found = record_answer(HOOK, DELIVERY, Answer(status=410), START)
    assert (found.hook.state, found.hook.state_reason, found.act) == (HookState.DISABLED, "GONE", HookAct.DISABLED)
    # with another URL it may continue
    assert found.delivery.state is DeliveryState.PENDING
    # and so may those that were under way with it
    other = record_answer(found.hook, replace(DELIVERY, number=9, refusals=2), Answer(status=410), START)
    assert (other.delivery.state, other.delivery.refusals) == (DeliveryState.PENDING, 2)
    assert (other.delivery.due_at, other.act, other.hook) == (None, None, found.hook)


def test_after_five_failures_the_hook_waits_as_a_whole() -> None:
    hook = HOOK
    for number in range(1, FAILURES_TO_WAIT):
        found = record_answer(hook, replace(DELIVERY, number=number), BAD, START)
        assert found.hook.waits_until is None
        hook = found.hook
    found = record_answer(hook, DELIVERY, BAD, START)
    assert (found.hook.waits_until, found.hook.probe, found.hook.waits) == (START + WAITS[0], hook.probe + 1, 1)
    assert found.delivery.due_at is None
    # those that were on their way then change no wait
    late = record_answer(found.hook, replace(DELIVERY, number=9), BAD, START + timedelta(seconds=3))
    assert (late.hook.waits_until, late.hook.probe) == (found.hook.waits_until, found.hook.probe)
    assert (late.hook.failures, late.delivery.due_at) == (FAILURES_TO_WAIT + 1, None)


def test_each_probe_that_fails_waits_longer_until_a_day_is_over() -> None:
    hook = replace(HOOK, failures=5, failing_since=START, waits_until=START, waits=1, probe=1)
    waits, now, delivery = [], START, DELIVERY
    while hook.state is HookState.ENABLED:
        assert hook.waits_until is not None
        now = hook.waits_until
        found = record_answer(hook, delivery, BAD, now, is_probe=True)
        hook, delivery = found.hook, found.delivery
        if hook.waits_until is not None:
            waits.append(hook.waits_until - now)
    assert waits == [*WAITS[1:], WAITS[-1], WAITS[-1]]
    assert (hook.state, found.act, found.reason) == (HookState.SUSPENDED, HookAct.SUSPENDED, "NO_SUCCESS")
    assert now - START >= timedelta(days=1)
    # it is the webhook's fault, and the delivery waits
    assert delivery.state is DeliveryState.PENDING
    after = enable_hook(hook)
    assert (after.state, after.failures, after.failing_since, after.waits) == (HookState.ENABLED, 0, None, 0)
    assert after.probe > hook.probe


def test_a_failure_of_last_week_and_one_of_today_are_no_week_of_failures() -> None:
    """Its delivery was refused at last, and then there was nothing to try."""
    failed = record_answer(HOOK, DELIVERY, BAD, START)
    refused = record_answer(failed.hook, replace(failed.delivery, refusals=2), POISON, START + HOUR)
    assert refused.delivery.state is DeliveryState.DEAD
    later = START + timedelta(days=7)
    found = record_answer(refused.hook, replace(DELIVERY, number=9), BAD, later)
    assert (found.hook.state, found.hook.failing_since, found.hook.failures) == (HookState.ENABLED, later, 1)
    assert found.delivery.due_at == later + WAITS[0]


@pytest.mark.parametrize("answer", [OK, POISON])
def test_a_probe_that_is_answered_lets_the_others_go(answer: Answer) -> None:
    hook = replace(HOOK, failures=5, failing_since=START, waits_until=START, waits=3, probe=4)
    found = record_answer(hook, DELIVERY, answer, START + HOUR, is_probe=True)
    assert found.flows
    assert (found.hook.waits_until, found.hook.failures, found.hook.probe) == (None, 0, 5)
    # a refusal is not a success: the day without success continues
    assert found.hook.failing_since == (None if answer is OK else START)


def test_a_success_that_was_on_its_way_lets_them_go_too() -> None:
    hook = replace(HOOK, failures=5, failing_since=START, waits_until=START + HOUR, waits=1, probe=1)
    found = record_answer(hook, DELIVERY, OK, START)
    assert (found.flows, found.hook.waits_until, found.hook.probe) == (True, None, 2)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (timedelta(seconds=1), WAITS[0]),
        (HOUR, HOUR),
        (timedelta(days=9), timedelta(days=1)),
    ],
)
def test_retry_after(asked: timedelta, expected: timedelta) -> None:
    answer = Answer(status=503, retry_after=asked)
    assert record_answer(HOOK, DELIVERY, answer, START).delivery.due_at == START + expected
    waiting = replace(HOOK, failures=4, failing_since=START)
    assert record_answer(waiting, DELIVERY, answer, START).hook.waits_until == START + expected


def test_a_callback_has_its_own_schedule_and_dies() -> None:
    delivery, hook, waits = DELIVERY, DEFAULT, []
    while delivery.state is DeliveryState.PENDING:
        found = record_answer(hook, delivery, BAD, START)
        delivery = found.delivery
        waits += [delivery.due_at - START] if delivery.due_at is not None else []
    assert waits == [*WAITS]
    assert (delivery.tries, found.act, found.reason) == (8, HookAct.DEAD, "HTTP_500")
    gone = record_answer(DEFAULT, DELIVERY, Answer(status=410), START)
    assert (gone.delivery.state, gone.act) == (DeliveryState.DEAD, HookAct.DEAD)
    for hook in (found.hook, gone.hook):
        assert (hook.state, hook.failures, hook.waits_until) == (HookState.ENABLED, 0, None)


@pytest.mark.parametrize("state", [HookState.DISABLED, HookState.SUSPENDED])
def test_what_was_on_its_way_changes_no_hook_that_is_off(state: HookState) -> None:
    off = replace(HOOK, state=state)
    for answer in (BAD, Answer(status=410)):
        found = record_answer(off, DELIVERY, answer, START)
        assert (found.hook.state, found.hook.waits_until, found.hook.failures) == (state, None, 0)
        assert found.act is None
    assert record_answer(off, DELIVERY, OK, START).hook.state is state


def event(type_: str, **data: Any) -> dict[str, Any]:
    return {"type": type_, "data": {"jobType": "OCR", **data}}


def test_whom_an_event_is_for() -> None:
    assert is_for(HOOK, event("job.queued"))
    assert is_for(replace(HOOK, state=HookState.SUSPENDED), event("job.queued"))
    assert not is_for(replace(HOOK, state=HookState.DISABLED), event("job.queued"))
    assert not is_for(DEFAULT, event("job.queued"))
    assert not is_for(HOOK, {"type": "webhook.dead", "data": {}})
    of_team = replace(HOOK, filter=HookFilter(labels={"team": "a"}))
    assert is_for(of_team, event("job.queued", labels={"team": "a", "x": "y"}))
    assert not is_for(of_team, event("job.queued"))
    # labels that an event leaves out
    assert not is_for(of_team, event("job.queued", labels={"omitted": 9000, "href": "/v1/jobs/1"}))
    # an event of no job has none of these
    assert not is_for(replace(HOOK, filter=HookFilter(job_types=frozenset({"OCR"}))), {"type": "x", "data": {}})


def test_names_of_callbacks_are_bounded() -> None:
    many = {f"n{number:03}": "https://a.example" for number in range(50)}
    assert callback_names(many) == tuple(sorted(many))[:MAX_CALLBACKS]
    assert callback_names({"": "https://a.example"}) == ()


def test_each_act_of_a_hook_has_its_decision() -> None:
    assert set(EVENTS) == set(HookAct)
    assert {type_ for type_ in EVENTS.values() if type_} == OF_HOOKS
    assert all(payload_schema(type_)["status"]["enum"] == [*HookState] for type_ in OF_HOOKS)
