"""Rates as arithmetic: exact to one job, with any clock difference (R50)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.core.gates import rate
from shared.core.gates.rules import Gate, GateKind, GateState, Rule, Throttle
from tests.jobs import START

TENANT = Gate(GateKind.TENANT, "tenant_a")
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)


def starts(state: GateState, rule: Rule | None, until: timedelta, wait: Callable[[], timedelta]) -> list[datetime]:
    """Returns the starts that are allowed, each at its earliest time, or `wait` later."""
    now, found = START, []
    while True:
        at = rate.find_next_start(state, rule, now)
        if at is not None:
            assert at > now
            assert rate.find_next_start(state, rule, at - MICROSECOND) is not None, "it was allowed before"
            now = at
        else:
            found.append(now)
            state = rate.spend(state, rule, now)
            now += wait()
        if now > START + until:
            return [each for each in found if each <= START + until]


@pytest.mark.parametrize(("per_hour", "burst"), [(1, 1), (7, None), (60, 3), (97, 10)])
def test_a_rate_is_exact_to_the_job_over_ten_hours(per_hour: int, burst: int | None) -> None:
    """`burst` at once, then one whenever a whole token is there: not one more or less, and nothing is rounded."""
    rule = Rule(max_per_hour=per_hour, burst=burst)
    found = starts(GateState(gate=TENANT), rule, 10 * HOUR, timedelta)
    assert len(found) == 10 * per_hour + rule.burst_tokens
    assert found[: rule.burst_tokens] == [START] * rule.burst_tokens
    for begin in range(0, len(found), max(1, len(found) // 50)):
        ahead = [each for each in found[begin:] if each < found[begin] + HOUR]
        assert len(ahead) <= per_hour + rule.burst_tokens


@given(
    per_hour=st.integers(1, 5000),
    burst=st.integers(1, 20),
    waits=st.lists(st.integers(-3_600_000, 7_200_000), min_size=1, max_size=60),
)
@example(per_hour=132, burst=1, waits=[-1, 27273])
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_clock_gives_more_than_the_promise(per_hour: int, burst: int, waits: Sequence[int]) -> None:
    """At most the burst and the rate since the first clock, by clocks of processes that disagree and go back."""
    rule, state, now = Rule(max_per_hour=per_hour, burst=burst), GateState(gate=TENANT), START
    # credit grows from the first use of the rate, which may be before START
    first = latest = now + timedelta(milliseconds=waits[0])
    count = 0
    for wait_ms in waits:
        now += timedelta(milliseconds=wait_ms)
        latest = max(latest, now)
        while rate.find_next_start(state, rule, now) is None:
            state = rate.spend(state, rule, now)
            count += 1
        at = rate.find_next_start(state, rule, now)
        assert at is not None
        # the announced time is right: then it opens, by either clock
        assert rate.find_next_start(state, rule, at) is None
    assert count <= burst + per_hour * (latest - first) // HOUR


def test_a_changed_rate_keeps_the_credit() -> None:
    """The credit of the old rate, whole and fractional, stays under the new one."""
    rule, state = Rule(max_per_hour=60, burst=5), GateState(gate=TENANT)
    for _ in range(5):
        state = rate.spend(state, rule, START)
    state = rate.accrue(state, rule, START + timedelta(seconds=90))
    assert state.credit == rate.START * 3 // 2
    faster = replace(rule, max_per_hour=3600)
    assert rate.find_next_start(state, faster, START + timedelta(seconds=90)) is None
    state = rate.spend(state, faster, START + timedelta(seconds=90))
    assert rate.find_next_start(state, faster, START + timedelta(seconds=90)) == START + timedelta(seconds=90.5)


def test_a_throttle_begins_and_ends() -> None:
    """While it is on the slower rate counts, from its end the rule's own, to the microsecond; without a rule none."""
    rule, until = Rule(max_per_hour=3600, burst=1), START + timedelta(minutes=10)
    throttle = Throttle(max_per_hour=60, reason="r", actor="op", at=START, until=until)
    throttled = GateState(gate=TENANT, throttle=throttle)
    found = starts(throttled, rule, timedelta(minutes=11), timedelta)
    before, after = [each for each in found if each < until], [each for each in found if each >= until]
    assert (len(before), len(after)) == (10, 61)
    state = rate.spend(GateState(gate=TENANT, throttle=replace(throttle, max_per_hour=1)), None, START)
    assert rate.find_next_start(state, None, START) == until
    assert rate.find_next_start(state, None, until) is None
    assert rate.spend(state, None, until) is state
