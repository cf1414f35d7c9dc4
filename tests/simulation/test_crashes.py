"""The host dies at every port call of a job's life in turn, before it takes effect and after."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.simulation.chaos import NO_FAULTS, CrashAt
from tests.simulation.world import Plan, simulate

#: one job that nobody disturbs
CALM = Plan(jobs=1, odds=NO_FAULTS, calm_after=timedelta(0))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_crash_at_any_call_costs_nothing() -> None:
    """Wherever the host dies, the job succeeds, with one attempt a step: no work is lost and none done twice."""
    undisturbed = simulate(1, CALM)
    assert undisturbed.violations == []
    attempts = Counter({"SUCCEEDED": 1})
    for call in range(1, undisturbed.calls + 1):
        for after in (False, True):
            told = simulate(1, Plan(**{**vars(CALM), "crash_at": CrashAt(call, after)}))
            where = f"died {'after' if after else 'before'} call {call}"
            assert told.violations == [], where + "\n" + "\n".join(told.violations)
            assert told.crashes == 1, where
            assert told.jobs == attempts, where
            assert told.events["ATTEMPT_RECORDED"] == 3, where
            assert told.lives["_good"] == 3, where
            assert told.settled_after < timedelta(minutes=30), where
    print(f"{2 * undisturbed.calls} crashes, one a run")
