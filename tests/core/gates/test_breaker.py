"""The life of a breaker over virtual time, at one tenant and over all (R61)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.gates.breaker import (
    MAX_COOLDOWN_S,
    MAX_ENDS,
    Breaker,
    BreakerRule,
    BreakerState,
    JobEnd,
    advance,
    count_end,
    count_ends,
    find_limit,
    find_next_change,
    merge_ends,
    reset,
)
from shared.core.gates.rules import Gate, GateKind
from tests.jobs import START

RULE = BreakerRule()
CLOSED, OPEN, HALF_OPEN = BreakerState
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OCR = Gate(GateKind.TYPE, "tenant_a", "OCR")


@dataclass
class Life:
    """One breaker, and a clock."""

    breaker: Breaker = field(default_factory=Breaker)
    rule: BreakerRule = RULE
    now: datetime = START

    def ends(self, *goods: bool, has_waiting: bool = True, epoch: int | None = None) -> Breaker:
        for good in goods:
            end = JobEnd(self.now, self.breaker.epoch if epoch is None else epoch, good)
            self.breaker = count_end(self.breaker, self.rule, end, self.now, has_waiting=has_waiting)
        return self.breaker

    def passes(self, span: timedelta) -> Breaker:
        self.now += span
        self.breaker = advance(self.breaker, self.now)
        return self.breaker


def opened(rule: BreakerRule = RULE) -> Life:
    life = Life(rule=rule)
    life.ends(*[False] * rule.min_calls)
    assert life.breaker.state is OPEN
    return life


def half_open(rule: BreakerRule = RULE) -> Life:
    life = opened(rule)
    life.passes(timedelta(seconds=rule.cooldown_s))
    assert life.breaker.state is HALF_OPEN
    return life


# --- opening


@pytest.mark.parametrize(
    ("bad", "good", "rule", "expected"),
    [
        (9, 0, RULE, CLOSED),
        (5, 5, RULE, OPEN),
        (4, 6, RULE, CLOSED),
        (3, 27, BreakerRule(failure_rate=0.1), OPEN),
        (3, 0, BreakerRule(min_calls=3), OPEN),
        (49, 1, BreakerRule(failure_rate=1.0, min_calls=50), CLOSED),
        (50, 0, BreakerRule(failure_rate=1.0, min_calls=50), OPEN),
    ],
)
def test_it_opens_at_the_rate_of_enough_ends(bad: int, good: int, rule: BreakerRule, expected: BreakerState) -> None:
    """Neither before `min_calls`, nor below `failure_rate`; at it, to the job."""
    life = Life(rule=rule)
    assert life.ends(*[True] * good, *[False] * bad).state is expected
    assert find_limit(life.breaker, life.now) == (0 if expected is OPEN else None)


def test_jobs_that_are_rare_open_it_too_and_old_ends_do_not_count() -> None:
    """Three an hour make ten within six hours; one an hour never does, over any time."""
    often, rare = Life(), Life()
    for _ in range(10):
        often.passes(20 * MINUTE)
        often.ends(False)
    assert often.breaker.state is OPEN
    for _ in range(100):
        rare.passes(60 * MINUTE)
        rare.ends(False)
    assert (rare.breaker.state, rare.breaker.calls) == (CLOSED, 6)


def test_the_last_fifty_ends_count() -> None:
    life = Life()
    life.ends(*[True] * 200)
    assert life.ends(*[False] * 24).state is CLOSED
    assert life.breaker.calls == MAX_ENDS
    assert life.ends(False).state is OPEN
    assert life.breaker.opened_by == (25, MAX_ENDS)


# --- while it is open, and after


def test_only_ends_of_its_own_epoch_count() -> None:
    """Jobs that were active at its opening count neither as good nor as bad, neither open nor half-open."""
    life = half_open()
    before = life.breaker
    assert life.ends(*[False] * 100, epoch=0) is before
    assert life.ends(*[True] * 100, epoch=0) is before
    assert life.ends(False).state is OPEN
    assert life.ends(True, epoch=1).epoch == 2


def test_an_end_while_it_is_open_moves_nothing() -> None:
    """Of a job that an operator admitted past its quotas."""
    life = opened()
    until = life.breaker.until
    assert (life.ends(False, True).state, life.breaker.until) == (OPEN, until)


def test_it_doubles_after_as_many_good_ends_and_closes_past_thirty_two() -> None:
    """1, 2, 4 ... 32 jobs at once: closed by the sixty-third good end in a row."""
    life, seen = half_open(), []
    for _ in range(63):
        seen.append(find_limit(life.breaker, life.now))
        life.passes(SECOND)
        life.ends(True)
    assert [seen.count(each) for each in (1, 2, 4, 8, 16, 32)] == [1, 2, 4, 8, 16, 32]
    assert (life.breaker.state, life.breaker.closed_at) == (CLOSED, life.now)
    # the good ends that closed it count on
    assert life.ends(*[False] * 24).state is CLOSED


def test_it_closes_where_nobody_waits() -> None:
    assert half_open().ends(True, has_waiting=False).state is CLOSED


def test_the_cool_down_doubles_and_comes_back_after_an_hour_closed() -> None:
    """60 s, 120 s ... 15 min; opened again within an hour it doubles on, later it is the rule's."""
    life, spans = opened(), []
    for _ in range(6):
        assert life.breaker.until is not None
        spans.append((life.breaker.until - life.now) // SECOND)
        life.now = life.breaker.until
        life.ends(False)
    assert spans == [60, 120, 240, 480, 900, 900]
    for closed_for, expected in ((59 * MINUTE, MAX_COOLDOWN_S), (60 * MINUTE, 60)):
        life = Life(life.breaker)
        life.passes(timedelta(seconds=MAX_COOLDOWN_S))
        life.now = max(life.now, life.breaker.until or life.now)
        life.ends(True, has_waiting=False)
        life.passes(closed_for)
        assert life.ends(*[False] * 20).cooldown_s == expected


def test_time_alone_is_what_looks_at_each_moment_make_of_it() -> None:
    """One read after a long time gives the same state as many reads in between."""
    often, once = opened(BreakerRule(cooldown_s=7)), opened(BreakerRule(cooldown_s=7))
    for _ in range(400):
        often.passes(SECOND)
        assert advance(once.breaker, often.now) == often.breaker
    # 33 cool-downs after it was half-open
    assert often.breaker.closed_at == START + 7 * SECOND + 32 * 7 * SECOND


def test_next_change_is_when_the_limit_changes() -> None:
    life = opened()
    for _ in range(33):
        moment = find_next_change(life.breaker, life.now)
        assert moment is not None
        assert find_limit(life.breaker, moment - timedelta(microseconds=1)) == find_limit(life.breaker, life.now)
        assert find_limit(life.breaker, moment) != find_limit(life.breaker, life.now)
        life.now = moment
    assert (find_limit(life.breaker, life.now), find_next_change(life.breaker, life.now)) == (None, None)


def test_a_clock_behind_anothers_changes_nothing() -> None:
    life = half_open()
    assert advance(life.breaker, life.now - 60 * MINUTE) is life.breaker
    assert find_limit(life.breaker, life.now - 60 * MINUTE) == 1


steps = st.lists(
    st.tuples(
        st.sampled_from(["good", "bad", "old", "look", "reset"]),
        st.booleans(),
        st.integers(min_value=0, max_value=2000),
    ),
    max_size=120,
)


@settings(deadline=None)
@given(steps, st.integers(min_value=1, max_value=900), st.integers(min_value=1, max_value=50))
def test_nothing_holds_it_shut_for_ever(moves: list[tuple[str, bool, int]], cooldown_s: int, min_calls: int) -> None:
    """Without a bad end it admits one more job with each cool-down, until it limits nothing."""
    life = Life(rule=BreakerRule(cooldown_s=cooldown_s, min_calls=min_calls))
    for what, has_waiting, seconds in moves:
        life.passes(seconds * SECOND)
        epoch = life.breaker.epoch
        match what:
            case "good" | "bad":
                life.ends(what == "good", has_waiting=has_waiting)
            case "old" if epoch:
                assert life.ends(False, True, epoch=epoch - 1) is advance(life.breaker, life.now)
            case "reset":
                life.breaker = reset(life.breaker)
        assert life.breaker.epoch - epoch in (0, 1)
        assert life.breaker.calls <= MAX_ENDS
        assert {end.epoch for end in life.breaker.ring} <= {life.breaker.epoch}
    stuck, cooldown = find_limit(life.breaker, life.now), timedelta(seconds=life.breaker.cooldown_s)
    for _ in range(34):
        if stuck is None:
            break
        life.passes(cooldown)
        later = find_limit(life.breaker, life.now)
        assert later is None or later > stuck
        stuck = later
    assert stuck is None


def test_a_reset_closes_it_and_leaves_nothing() -> None:
    """In the new epoch earlier jobs do not count, and the first cool-down is the rule's; it is idempotent."""
    life = opened()
    fresh = reset(life.breaker)
    assert fresh == Breaker(epoch=life.breaker.epoch + 1)
    assert reset(fresh) is fresh


# --- over all tenants


def ring(good: int, bad: int, *, epoch: int = 0, after: int = 0) -> list[JobEnd]:
    goods = [True] * good + [False] * bad
    return [JobEnd(START + (after + number) * SECOND, epoch, each) for number, each in enumerate(goods)]


@pytest.mark.parametrize(
    ("rings", "opens"),
    [
        ({"a": ring(0, 26), "b": ring(0, 24)}, True),
        ({"a": ring(0, 50)}, False),
        ({"a": ring(0, 40), "b": ring(9, 1)}, False),
        ({"a": ring(0, 40), "b": ring(0, 10)}, True),
        ({"a": ring(0, 40), "b": ring(0, 3)}, False),
        ({"a": ring(42, 3), "b": ring(2, 3)}, False),
        ({"a": ring(3, 3), "b": ring(3, 3), "c": ring(3, 3)}, True),
        ({"a": ring(0, 9)}, False),
    ],
)
def test_no_tenant_decides_for_all(rings: dict[str, list[JobEnd]], opens: bool) -> None:
    """One that sends broken documents, or has most of the jobs, counts for half; a dead service stops all jobs."""
    now = START + MINUTE
    assert (count_ends(Breaker(), RULE, rings, now, has_waiting=True).state is OPEN) is opens


@pytest.mark.parametrize(("min_tenants", "opens"), [(2, True), (3, False)])
def test_bad_ends_of_so_many_tenants_open_it(min_tenants: int, opens: bool) -> None:
    rings, rule = {"a": ring(0, 5), "b": ring(0, 5)}, BreakerRule(min_tenants=min_tenants)
    assert (count_ends(Breaker(), rule, rings, START + MINUTE, has_waiting=True).state is OPEN) is opens


def test_rings_are_folded_once() -> None:
    """The same rings again change nothing; new ends in them count, also late ones."""
    rings = {"a": ring(2, 2), "b": ring(2, 2)}
    now = START + MINUTE
    once = count_ends(Breaker(), RULE, rings, now, has_waiting=True)
    assert (once.calls, once.bad) == (8, 4)
    assert count_ends(once, RULE, rings, now, has_waiting=True) == once
    rings["b"] = [*rings["b"], JobEnd(START, 0, False)]
    twice = count_ends(once, RULE, rings, now, has_waiting=True)
    assert (twice.calls, twice.bad, [end.tenant for end in twice.ring[:3]]) == (9, 5, ["a", "b", "b"])
    more = {**rings, "a": [*rings["a"], *ring(0, 1, after=9)]}
    assert count_ends(twice, RULE, more, now, has_waiting=True).state is OPEN
    assert len(merge_ends({"a": ring(40, 0), "b": ring(40, 0)}, now)) == MAX_ENDS
