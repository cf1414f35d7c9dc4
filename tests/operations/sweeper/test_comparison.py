"""Dead letters of jobs that a release without them ended, before this one or beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.filters import JobFilter
from shared.errors import LedgerUnavailable
from shared.operations.dead_letters import list_dead_letters
from shared.operations.sweeper import comparison
from shared.operations.sweeper.comparison import compare_dead_letters
from shared.operations.sweeper.sweep import sweep
from shared.ports.dead_letters import Comparison, LetterState
from shared.ports.durable import InstanceState
from shared.ports.sweeps import Share
from tests.operations.conftest import World
from tests.operations.support import redrive
from tests.operations.test_dead_letters import failed, several


def forget(world: World, *job_ids: str) -> None:
    """What 0.2.0 leaves of an end: no DEAD row, and no word of it in LIST."""
    for tenant, rows in world.index._listed.items():
        for key, row in rows.items():
            if row.job_id in job_ids:
                rows[key] = replace(row, dead_letter=None)
                dead = world.index._dead[tenant]
                world.index._dead[tenant] = {name: each for name, each in dead.items() if each.job_id != row.job_id}


async def listed(world: World) -> list[str]:
    page = await list_dead_letters(world.context, JobFilter(), after=None, limit=100)
    return [line.jobId for line in page.lines]


async def compared(world: World, is_over: Callable[[], bool] = lambda: False) -> int:
    return await compare_dead_letters(world.context, Share(), is_over)


async def test_a_store_of_an_older_release_gets_its_dead_letters(world: World) -> None:
    """Of every tenant, also one that sleeps, in the first pass; what was redriven there is none."""
    ids = await several(world, 3) + await several(world, 2, tenant_id="tenant_b")
    await failed(world, *ids)
    await redrive(world, ids[0])
    forget(world, *ids)
    world.index._asleep_until["tenant_b"] = None
    assert await listed(world) == []
    await sweep(world.context, world.orchestrations)
    assert await listed(world) == ids[:0:-1]


async def test_two_releases_side_by_side(world: World) -> None:
    """Ends by the older one are found by the next comparison, ten minutes after the first, and then ever later."""
    await sweep(world.context, world.orchestrations)
    waits = []
    for _ in range(10):
        [job_id] = await several(world, 1)
        await failed(world, job_id)
        forget(world, job_id)
        began = world.clock.now()
        while job_id not in await listed(world):
            world.clock.advance(300)
            await compared(world)
        waits.append(world.clock.now() - began)
    assert timedelta(minutes=4) < waits[0] < timedelta(minutes=11)
    assert waits[0] < waits[1] < waits[2]
    assert timedelta(hours=23) < waits[-1] <= timedelta(days=1, minutes=5)


async def test_a_comparison_goes_on_where_its_time_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page a pass at the least, nothing left out, nothing read twice."""
    monkeypatch.setattr(comparison, "_PAGE", 2)
    ids = await several(world, 5) + await several(world, 4, tenant_id="tenant_b")
    await failed(world, *ids)
    forget(world, *ids)
    written = []
    while (await world.index.read_comparison(0)).next_at is None:
        written.append(await compared(world, lambda: True))
    assert written == [2, 2, 1, 2, 2, 0]
    assert set(await listed(world)) == set(ids)
    assert await compared(world) == 0


async def test_what_was_dismissed_stays_away(world: World) -> None:
    """A comparison asks what LIST says, and leaves what somebody decided."""
    [job_id] = await several(world, 1)
    await failed(world, job_id)
    await world.index.end_dead_letter((await world.job(job_id)).job, LetterState.DISMISSED)
    assert (await compared(world), await listed(world)) == (0, [])


async def test_a_job_that_is_read_while_it_is_redriven_stays_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race letter: the comparison has read the old job when its redrive comes."""
    [job_id] = await several(world, 1)
    await failed(world, job_id)
    forget(world, job_id)
    read = comparison.read_for_list

    async def slow(ledger: Any, asked: str) -> Any:
        stored = await read(ledger, asked)
        monkeypatch.undo()
        await redrive(world, job_id)
        return stored

    monkeypatch.setattr(comparison, "read_for_list", slow)
    assert (await compared(world), await listed(world)) == (0, [])


async def test_each_share_compares_its_own_tenants(world: World) -> None:
    """Of two sweepers each restores the dead letters of its tenants, and no other."""
    tenants = [f"tenant_{number}" for number in range(8)]
    ids = {tenant: (await several(world, 1, tenant_id=tenant))[0] for tenant in tenants}
    await failed(world, *ids.values())
    forget(world, *ids.values())
    shares = Share(0, 2), Share(1, 2)
    counts = [await compare_dead_letters(world.context, share, lambda: False) for share in shares]
    assert counts == [sum(map(share.has, tenants)) for share in shares]
    assert sum(counts) == 8


async def test_an_hour_after_its_end_a_job_is_looked_at_in_any_case(world: World) -> None:
    """Its clearing restores the dead letter, or takes the one that an older release's redrive left."""
    await world.index.write_comparison(0, Comparison(next_at=world.clock.now() + timedelta(days=9)))
    missing, stale, kept = await several(world, 3)
    await failed(world, missing, stale, kept)
    forget(world, missing)
    redriven = (await world.job(stale)).with_job(redriven_by="job_9")
    world.ledger._jobs[stale] = replace(world.ledger._jobs[stale], record=redriven)
    for job_id in (missing, stale, kept):
        world.orchestrations.states[job_id] = InstanceState.ENDED
    world.clock.advance(3700)
    await sweep(world.context, world.orchestrations)
    rows = await world.index.dead_letters("tenant_a", after=None, limit=10)
    assert [row.job_id for row in rows] == [kept, missing]


async def test_a_dry_run_and_a_store_that_fails_change_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run compares nothing; a comparison that fails is left for the next pass, and the pass ends as ever."""
    [job_id] = await several(world, 1)
    await failed(world, job_id)
    forget(world, job_id)
    await sweep(world.context, world.orchestrations, dry_run=True)
    assert await listed(world) == []

    async def away(*_: Any) -> None:
        raise LedgerUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(world.index, "restore_dead_letter", away)
        await sweep(world.context, world.orchestrations)
    assert await listed(world) == []
    await sweep(world.context, world.orchestrations)
    assert await listed(world) == [job_id]
