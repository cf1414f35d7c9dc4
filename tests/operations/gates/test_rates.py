"""Ends and creations a second of a tenant with a quota, where each call to a store takes 10 ms and nothing else takes
time: the contention of the processes, without the machine's part (`make bench PART=gates` measures both).
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from benchmarks.jobs import gates
from benchmarks.jobs.quota_process import QuotaProcess, in_memory
from tests.jobs import START

PROCESSES, JOBS = 4, 120


class _Selector(selectors.SelectSelector):
    """A selector that advances the time by the loop's wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found and timeout:
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose sleeps take no time."""

    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


class LoopClock:
    """See `shared.ports.environment.Clock`."""

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    def with_clock(*args: Any, **fields: Any) -> list[QuotaProcess]:
        found = in_memory(*args, **fields)
        for each in found:
            each.context = replace(each.context, clock=LoopClock())
        return found

    monkeypatch.setattr(gates, "in_memory", with_clock)
    random.seed(33)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner.get_loop()


def test_four_processes_share_a_quota(loop: asyncio.AbstractEventLoop) -> None:
    """150 ends and 100 creations a second at least, and no end takes longer than three times the median.

    Each slot is free when its end is done. Takes 3 CPU seconds: the only test of one tenant's rate.
    """
    rows = loop.run_until_complete(gates.rates([PROCESSES], at_once=(50, JOBS), creations=JOBS, stores=("memory",)))
    found = {row["load"]: row for row in rows}
    print(found)
    ends = [row for load, row in found.items() if "ended" in load]
    creations = [row for load, row in found.items() if "creations" in load]
    assert (len(ends), len(creations)) == (3, 2)
    assert min(row["per_s"] for row in ends if "stream" not in row["load"]) >= 150
    assert max(row["max_over_p50"] for row in ends) <= 3
    assert min(row["per_s"] for row in creations) >= 100
    assert {row["late"] for row in rows} == {0}
    assert {row["again"] for row in rows} == {0}
