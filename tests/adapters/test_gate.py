import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.tables.index import TablesIndex
from shared.core.job import Job
from shared.core.states import JobStatus
from shared.errors import AlreadyExists, Conflict, GateFull
from shared.ports.index import Guard
from shared.ports.sweeps import WorkCounts
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

LIMIT = 3


def gated(number: int) -> Job:
    return replace(planned(f"job_{number}", doc_id=f"doc-{number}").job, gated=True)


async def taken(storage: Storage, number: int) -> bool:
    """Whether the job got in, tried again as the creating function does."""
    while True:
        try:
            await storage.index.reserve(gated(number), replacing=None, tenant_limit=LIMIT)
        except GateFull:
            return False
        except (AlreadyExists, Conflict):
            continue
        return True


async def test_the_tenants_limit_is_exact_under_concurrency(storage: Storage) -> None:
    """Of twelve at once exactly three get in."""
    assert await storage.index.count_gated("tenant_a") == 0
    assert sum(await asyncio.gather(*(taken(storage, number) for number in range(12)))) == LIMIT
    assert await storage.index.count_gated("tenant_a") == LIMIT


async def test_each_end_makes_room_once(storage: Storage) -> None:
    """Race gate: closing is repeatable and counts down once; ends at the same time do not lose a count."""
    for number in range(LIMIT):
        assert await taken(storage, number)
    assert not await taken(storage, 9)
    ended = [
        replace(gated(number), status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START) for number in range(LIMIT)
    ]
    await asyncio.gather(
        *(storage.index.close(job, claim_expires_at=START + timedelta(days=30)) for job in ended for _ in range(2))
    )
    got_in = [await taken(storage, number) for number in range(10, 10 + LIMIT + 1)]
    assert got_in == [True] * LIMIT + [False]


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_eighty_ends_at_once_all_succeed(storage: Storage) -> None:
    """Race gate: in two processes; one goes after the other, and waits where another process was first."""
    assert isinstance(storage.index, TablesIndex)
    processes = [TablesIndex(storage.index._account, storage.index._table, "tenantsofgates") for _ in range(2)]
    jobs = [gated(number) for number in range(80)]
    await asyncio.gather(
        *(processes[number % 2].reserve(job, replacing=None, tenant_limit=80) for number, job in enumerate(jobs))
    )
    assert await storage.index.count_gated("tenant_a") == 80
    ended = [replace(job, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START) for job in jobs]
    await asyncio.gather(
        *(processes[number % 2].close(job, claim_expires_at=START) for number, job in enumerate(ended))
    )
    assert await storage.index.count_gated("tenant_a") == 0


async def test_a_withdrawn_creation_makes_room(storage: Storage) -> None:
    """The sweeper's withdrawal counts down as an end does."""
    for number in range(LIMIT):
        assert await taken(storage, number)
    [active] = await storage.index.due("tenant_a", now=START + timedelta(hours=1), limit=1)
    for _ in range(2):
        await storage.index.withdraw(active)
    assert await taken(storage, 9)
    assert not await taken(storage, 10)


async def test_counts_over_all_tenants(storage: Storage) -> None:
    """The guard's counts are by mode, and are read as they were written."""
    await storage.index.reserve(planned("job_1").job, replacing=None)
    await storage.index.reserve(planned("job_2", tenant_id="tenant_b").job, replacing=None)
    await storage.index.reserve(planned("job_3", mode="BURST", doc_id="d").job, replacing=None)
    counts = WorkCounts()
    for tenant in ("tenant_a", "tenant_b"):
        for active in await storage.index.list_active(tenant, after=None, limit=10):
            counts.add(active)
    assert (counts.modes, counts.active) == ({"DEFAULT": 2, "BURST": 1}, {"QUEUED": 3})
    assert await storage.index.read_guard() is None
    await storage.index.write_guard(Guard(dict(counts.modes), START))
    assert await storage.index.read_guard() == Guard(dict(counts.modes), START)


@pytest.mark.parametrize("ends", ["close", "withdraw"])
async def test_ungated_jobs_touch_no_gate(storage: Storage, ends: str) -> None:
    """Jobs of a time without a limit neither count up nor down."""
    job = planned("job_1").job
    await storage.index.reserve(job, replacing=None)
    if ends == "close":
        ended = replace(job, status=JobStatus.SUCCEEDED, completed_at=START)
        await storage.index.close(ended, claim_expires_at=START)
    else:
        [active] = await storage.index.due("tenant_a", now=START + timedelta(hours=1), limit=1)
        await storage.index.withdraw(active)
    got_in = [await taken(storage, number) for number in range(20, 20 + LIMIT + 1)]
    assert got_in == [True] * LIMIT + [False]
