"""The host dies at every port call of a job's life in turn, before it takes effect and after."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS, CrashAt
from tests.simulation.plans import LIVES, PAUSE, RESUME, Life, Plan
from tests.simulation.world import simulate

#: of the lives: one by which the steps of a group run while it is paused
SEED = 3


@pytest.mark.parametrize("hours", [5, pytest.param(72, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_long_pause_survives_restarts(hours: int) -> None:
    """The host dies before, during and after a pause: the resumed job succeeds with one attempt a step."""
    paused = Plan(
        jobs=1,
        odds=NO_FAULTS,
        faults_end_after=timedelta(hours=hours),
        script=((4, PAUSE), (timedelta(hours=hours).total_seconds(), RESUME)),
    )
    undisturbed = simulate(SEED, paused)
    calls = undisturbed.calls
    for call in (0, 12, calls // 2, calls - 20):
        report = simulate(SEED, replace(paused, crash_at=CrashAt(call, after=True)))
        assert report.violations == []
        assert (report.jobs, report.events["ATTEMPT_RECORDED"]) == (undisturbed.jobs, 3)
        assert report.jobs == {"SUCCEEDED": 1}


@pytest.mark.parametrize("number", range(len(LIVES)), ids=LIVES)
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_crash_at_a_call_costs_nothing(number: int) -> None:
    """After a crash at any call the job has its usual end and attempts: nothing lost, nothing repeated.

    Every seventh call of each life, before it and after it in turn. The lives begin alike, and each with another call,
    so that together they cover all.
    """
    crash_at_calls(list(LIVES.values())[number], first=1 + number % 7, step=7)


@pytest.mark.parametrize("call", [7, 17, 29])
def test_a_crash_with_azures_visibility_timeout_costs_an_attempt_at_most(call: int) -> None:
    """The dead host's work is redelivered after five minutes, when an unexecuted attempt may be over."""
    plan = replace(LIVES["undisturbed"].plan, visibility_timeout=timedelta(minutes=5))
    undisturbed = simulate(SEED, plan)
    report = simulate(SEED, replace(plan, crash_at=CrashAt(call, after=False)))
    assert (report.violations, report.crashes, report.jobs) == ([], 1, undisturbed.jobs)
    assert report.behaviours.total() == undisturbed.events["ATTEMPT_RECORDED"]
    assert report.events["ATTEMPT_RECORDED"] <= undisturbed.events["ATTEMPT_RECORDED"] + 1


LINE = Plan(
    jobs=5,
    odds=NO_FAULTS,
    faults_end_after=timedelta(0),
    request_types=(protocols.ONE_STEP,),
    tenant_limit=1,
    overflow="stage",
    visibility_timeout=timedelta(seconds=1),
)


def sides_of(call: int, step: int) -> tuple[bool, ...]:
    """Returns the sides of the call at which the host dies: both if every call is tried, else in turn."""
    return (False, True) if step == 1 else (call // step % 2 == 0,)


def crash_in_line(first: int, step: int) -> None:
    """Jobs of two tenants with one place each: wherever the host dies, all succeed in one attempt each."""
    undisturbed = simulate(SEED, LINE)
    assert (undisturbed.violations, undisturbed.jobs, undisturbed.events["ADMITTED"]) == ([], {"SUCCEEDED": 5}, 3)
    crashes = 0
    for call in range(first, undisturbed.calls + 1, step):
        for after in sides_of(call, step):
            report = simulate(SEED, replace(LINE, crash_at=CrashAt(call, after)))
            where = f"died {'after' if after else 'before'} call {call}"
            assert report.violations == [], where + "\n" + "\n".join(report.violations)
            assert report.jobs["SUCCEEDED"] == 5, where
            assert report.events["ATTEMPT_RECORDED"] == 5, where
            crashes += report.crashes
    assert crashes


def test_a_crash_at_a_call_moves_the_line_all_the_same() -> None:
    """At every ninth call of five jobs' lives, before it and after it in turn; `long` has them all."""
    crash_in_line(4, 9)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_crash_at_any_call_moves_the_line_all_the_same() -> None:
    """The same for every call."""
    crash_in_line(1, 1)


@pytest.mark.long
@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_crash_at_any_call_costs_nothing(life: Life) -> None:
    """The same for every call."""
    crash_at_calls(life, first=1, step=1)


def crash_at_calls(life: Life, *, first: int, step: int) -> None:
    """Runs a world for each of these port calls, which has no effect, or is the last that has."""
    undisturbed = simulate(SEED, life.plan)
    assert undisturbed.violations == []
    assert undisturbed.jobs[life.ends] == 1
    crashes = 0
    calls = range(first, undisturbed.calls + 1, step)
    for call in calls:
        for after in sides_of(call, step):
            report = simulate(SEED, replace(life.plan, crash_at=CrashAt(call, after)))
            where = f"died {'after' if after else 'before'} call {call}"
            assert report.violations == [], where + "\n" + "\n".join(report.violations)
            if not report.crashes:
                continue  # the call raised, as when two steps side by side write at once
            crashes += 1
            assert report.jobs == undisturbed.jobs, where
            if set(report.jobs) == {"SUCCEEDED"}:
                # the bus drops a second publish of an attempt, so the services did each step once
                attempts = undisturbed.events["ATTEMPT_RECORDED"]
                assert report.events["ATTEMPT_RECORDED"] == report.behaviours.total() == attempts, where
            assert report.settled_after < timedelta(hours=1) + (life.retention or timedelta()), where
    assert crashes > len(calls) * len(sides_of(first, step)) / 2
    print(f"{crashes} crashes, one a run")
