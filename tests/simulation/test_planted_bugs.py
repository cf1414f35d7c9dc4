"""The simulation is able to fail: with a part of the product taken out, some world does not end well."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from shared.operations.sweeper.report import SweepReport
from tests.simulation.test_crashes import LIVES
from tests.simulation.test_seeds import HOSTILE, plan_of
from tests.simulation.world import simulate

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def test_replies_of_foreign_leases_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that takes them lets a step succeed with another attempt's result."""
    replies = importlib.import_module("shared.core.replies")
    honest = replies._rejection
    monkeypatch.setattr(
        replies, "_rejection", lambda *args: None if honest(*args) == "STALE_ATTEMPT" else honest(*args)
    )
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(30))


def test_the_parked_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is cancelled while it is paused leaves its orchestration behind."""
    for name in ("transition", "control_job"):
        monkeypatch.setattr(importlib.import_module(f"shared.operations.{name}"), "resume_parked", _nothing)
    [violation] = simulate(1, LIVES["paused and cancelled"].plan).violations[:1]
    assert "waits for" in violation


def test_nobody_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What callers and services leave half done, nobody finishes."""

    async def idle(*args: Any, **kwargs: Any) -> SweepReport:
        return SweepReport(dry_run=False)

    monkeypatch.setattr("tests.simulation.world.sweep", idle)
    assert any(simulate(seed, HOSTILE).violations for seed in range(60))


def test_nobody_is_fenced_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that takes writes from stale reads loses events."""
    memory = importlib.import_module("shared.adapters.memory").MemoryLedger
    honest = memory.commit

    async def careless(self: Any, before: Any, after: Any, events: Any) -> Any:
        return await honest(self, replace(before, etag=self._jobs[after.job.job_id].etag), after, events)

    monkeypatch.setattr(memory, "commit", careless)
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(30))


def test_a_sweeper_that_only_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that nobody takes up is found as soon as the sweeper's period is over, not at the end of the world."""
    monkeypatch.setattr(importlib.import_module("shared.operations.sweeper.sweep"), "repair", _nothing)
    reports = [simulate(seed, HOSTILE) for seed in range(20)]
    assert any("has had no owner since" in violation for one in reports for violation in one.violations[:1])


def test_a_job_that_no_sweep_can_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its ACTIVE row a living job is nobody's: found at the event that made it."""
    memory = importlib.import_module("shared.adapters.memory").MemoryIndex
    honest = memory.reserve

    async def forgetful(self: Any, job: Any, **fields: Any) -> None:
        await honest(self, job, **fields)
        del self._active[job.tenant, job.job_id]

    monkeypatch.setattr(memory, "reserve", forgetful)
    assert "nothing leads the sweeper to it" in simulate(1, plan_of(1)).violations[0]
