"""The host dies at every port call of a job's life in turn, before it takes effect and after."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from shared.core.occurrences import ControlKind
from tests.simulation import protocols
from tests.simulation.chaos import NO_FAULTS, CrashAt
from tests.simulation.world import Plan, simulate

PAUSE, RESUME, CANCEL = ControlKind.PAUSE, ControlKind.RESUME, ControlKind.CANCEL


@dataclass(frozen=True)
class Life:
    """One job, what people ask of it and when, and what must come of it."""

    request_type: str
    script: tuple[tuple[float, ControlKind], ...]
    ends: str
    redriven_after_s: float | None = None
    retention: timedelta | None = None

    @property
    def plan(self) -> Plan:
        return Plan(
            jobs=1,
            odds=NO_FAULTS,
            calm_after=timedelta(0),
            request_types=(self.request_type,),
            script=self.script,
            redriven_after_s=self.redriven_after_s,
            retention=self.retention,
        )


LIVES = {
    "undisturbed": Life(protocols.SEQUENCE, (), "SUCCEEDED"),
    "side by side": Life(protocols.GROUP, (), "SUCCEEDED"),
    "paused and resumed": Life(protocols.SEQUENCE, ((4, PAUSE), (90, RESUME)), "SUCCEEDED"),
    "paused and cancelled": Life(protocols.SEQUENCE, ((4, PAUSE), (90, CANCEL)), "CANCELLED"),
    "cancelled": Life(protocols.SEQUENCE, ((4, CANCEL),), "CANCELLED"),
    "cancelled and redriven": Life(protocols.SEQUENCE, ((4, CANCEL),), "SUCCEEDED", redriven_after_s=400),
    "archived": Life(protocols.SEQUENCE, (), "ARCHIVED", retention=timedelta(hours=2)),
    "a group paused": Life(protocols.GROUP, ((61, PAUSE), (200, RESUME)), "SUCCEEDED"),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_pause_of_days_survives_restarts() -> None:
    """PAUSED for three days, the host killed before, during and after: resumed, it ends with one attempt a step."""
    days = Plan(
        jobs=1,
        odds=NO_FAULTS,
        calm_after=timedelta(days=4),
        script=((4, PAUSE), (timedelta(days=3).total_seconds(), RESUME)),
    )
    undisturbed = simulate(1, days)
    calls = undisturbed.calls
    for call in (0, 12, calls // 3, calls // 2, calls - 20):
        told = simulate(1, replace(days, crash_at=CrashAt(call, after=True)))
        assert told.violations == []
        assert (told.jobs, told.events["ATTEMPT_RECORDED"]) == (undisturbed.jobs, 3)
        assert told.jobs == {"SUCCEEDED": 1}


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_crash_at_any_call_costs_nothing(life: Life) -> None:
    """Wherever the host dies, the job ends as it would have, with the same attempts: nothing lost, nothing twice."""
    undisturbed = simulate(1, life.plan)
    assert undisturbed.violations == []
    assert undisturbed.jobs[life.ends] == 1
    crashes = 0
    for call in range(1, undisturbed.calls + 1):
        for after in (False, True):
            told = simulate(1, replace(life.plan, crash_at=CrashAt(call, after)))
            where = f"died {'after' if after else 'before'} call {call}"
            assert told.violations == [], where + "\n" + "\n".join(told.violations)
            if not told.crashes:
                continue  # the call raised, as when two steps side by side write at once
            crashes += 1
            assert told.jobs == undisturbed.jobs, where
            if set(told.jobs) == {"SUCCEEDED"}:
                # the bus drops a second publish of an attempt, so the services did each step once
                attempts = undisturbed.events["ATTEMPT_RECORDED"]
                assert told.events["ATTEMPT_RECORDED"] == told.lives.total() == attempts, where
            assert told.settled_after < timedelta(hours=1) + (life.retention or timedelta()), where
    assert crashes > undisturbed.calls
    print(f"{crashes} crashes, one a run")
