"""The simulation can fail: with a part of the product taken out, some world breaks a rule."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

from shared.operations.sweeper.report import SweepReport
from tests.simulation.plans import HOSTILE, LIVES, plan_of
from tests.simulation.world import simulate

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")


async def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def test_replies_of_foreign_leases_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that takes them lets a step succeed with another attempt's result."""
    replies = importlib.import_module("shared.core.replies")
    original = replies._rejection
    monkeypatch.setattr(
        replies, "_rejection", lambda *args: None if original(*args) == "STALE_ATTEMPT" else original(*args)
    )
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(30))


def test_parked_orchestrations_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_stale_writes_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that takes writes from stale reads loses events."""
    memory = importlib.import_module("shared.adapters.memory").MemoryLedger
    original = memory.commit

    async def without_etag(self: Any, before: Any, after: Any, events: Any) -> Any:
        return await original(self, replace(before, etag=self._jobs[after.job.job_id].etag), after, events)

    monkeypatch.setattr(memory, "commit", without_etag)
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(30))


def test_a_sweeper_that_repairs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that nobody takes up is found as soon as the sweeper's period is over, not at the end of the world."""
    monkeypatch.setattr(importlib.import_module("shared.operations.sweeper.sweep"), "repair", _nothing)
    reports = [simulate(seed, HOSTILE) for seed in range(20)]
    assert any("has had no owner since" in violation for one in reports for violation in one.violations[:1])


def test_a_job_that_no_sweep_can_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its ACTIVE row a living job is nobody's: found at the event that made it."""
    memory = importlib.import_module("shared.adapters.memory").MemoryIndex
    original = memory.reserve

    async def without_active_row(self: Any, job: Any, **fields: Any) -> None:
        await original(self, job, **fields)
        del self._active[job.tenant, job.job_id]

    monkeypatch.setattr(memory, "reserve", without_active_row)
    assert "nothing leads the sweeper to it" in simulate(2, plan_of(2)).violations[0]
