"""The cost of a sweep if many jobs wait: the admission states, not the jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.states import JobStatus
from tests.contexts import changed
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import World, built
from tests.operations.support import create_numbered, limited, swept


class Counted:
    """A port that counts its calls."""

    def __init__(self, target: Any, calls: Counter[str]) -> None:
        self._target, self._calls = target, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if callable(found):
            self._calls[name] += 1
        return found


async def calls_of_a_sweep(world: World, tenants: int, jobs: int) -> Counter[str]:
    """Returns the calls of a sweep in a world where one of `jobs` jobs of each tenant runs."""
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    for tenant in range(tenants):
        for number in range(jobs):
            await create_numbered(world, number, tenant_id=f"tenant_{tenant}")
    world.clock.advance(61 + 60)
    await swept(world)
    world.clock.advance(60)
    calls: Counter[str] = Counter()
    ports = {name: Counted(getattr(world.context, name), calls) for name in ("ledger", "index", "admissions")}
    await swept(replace(world, context=changed(world.context, **ports)))
    waiting = [each for each in world.ledger.jobs.values() if each.record.job.status is JobStatus.THROTTLED]
    assert len(waiting) == tenants * (jobs - 1)
    return calls


#: eighteen thousand of twenty tenants; of more than 1,000 a tenant the jobs are counted by a call
SIZE = pytest.param(20, 2, 900, marks=[pytest.mark.long, pytest.mark.timeout(900)])


@pytest.mark.parametrize(("tenants", "few", "many"), [(3, 2, 30), SIZE])
async def test_jobs_that_wait_cost_a_sweep_nothing(tenants: int, few: int, many: int) -> None:
    """The same calls whether two jobs of each tenant wait or many: their rows come in the pages of one query."""
    found = [await calls_of_a_sweep(built(MemoryLedger()), tenants, jobs) for jobs in (few, many)]
    pages = [each.pop("list_active") for each in found]
    assert found[0] == found[1]
    assert pages[1] <= 2 * pages[0]
