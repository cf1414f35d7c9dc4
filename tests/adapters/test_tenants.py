"""Tenants that sleep while nothing is owed to them, so that a sweep reads only the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.adapters.tables.index import TablesIndex
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.ports.index import FIRST_CLEARING, WAKE_LASTS, Index
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

HOURS = timedelta(hours=2)


def posted(number: int, at: datetime = START, tenant_id: str = "tenant_a") -> Job:
    job = planned(f"job_{number}", doc_id=str(number), tenant_id=tenant_id).job
    return replace(job, created_at=at, updated_at=at)


async def ends(index: Index, job: Job) -> None:
    ended = replace(job, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=job.created_at)
    await index.close(ended, claim_expires_at=START + timedelta(days=30))


async def awake(index: Index, now: datetime) -> list[str]:
    return sorted(each.tenant for each in await index.awake_tenants(now=now))


def another_process(index: Index) -> Index:
    """The same rows, and nothing remembered."""
    assert isinstance(index, TablesIndex)
    return TablesIndex(index._rows.account, index._rows.name, index._tenants._rows.name)


async def test_a_tenant_sleeps_until_something_is_owed(storage: Storage) -> None:
    """Until its ENDED row is due; then it is awake; without one it sleeps until its next POST, and is listed always."""
    index = storage.index
    await index.reserve(posted(1), replacing=None)
    await index.reserve(posted(2, tenant_id="tenant_b"), replacing=None)
    assert await awake(index, START) == ["tenant_a", "tenant_b"]
    await ends(index, posted(1))
    [one] = [each for each in await index.awake_tenants(now=START) if each.tenant == "tenant_a"]
    assert one.posted_at == START
    await index.put_to_sleep(one)
    assert await awake(index, START + FIRST_CLEARING - timedelta(seconds=1)) == ["tenant_b"]
    assert await awake(index, START + FIRST_CLEARING) == ["tenant_a", "tenant_b"]
    assert sorted(await index.tenants()) == ["tenant_a", "tenant_b"]
    [ended] = await index.due_for_clearing("tenant_a", now=START + HOURS, limit=9)
    await index.finish_clearing(ended)
    [one] = [each for each in await index.awake_tenants(now=START + HOURS) if each.tenant == "tenant_a"]
    await index.put_to_sleep(one)
    assert await awake(index, START + timedelta(days=36_500)) == ["tenant_b"]
    await another_process(index).reserve(posted(3, START + HOURS), replacing=None)
    assert await awake(index, START + HOURS) == ["tenant_a", "tenant_b"]


@pytest.mark.parametrize("post_first", [True, False])
async def test_a_post_and_a_sleep_at_once_leave_the_tenant_awake(storage: Storage, post_first: bool) -> None:
    """Race sleep: whichever is written first, the sweeper finds the new job."""
    index = storage.index
    await index.reserve(posted(1), replacing=None)
    await ends(index, posted(1))
    [read] = await index.awake_tenants(now=START + HOURS)
    for is_post in (post_first, not post_first):
        if is_post:
            await another_process(index).reserve(posted(2, START + HOURS), replacing=None)
        else:
            await index.put_to_sleep(read)
    assert await awake(index, START + HOURS) == ["tenant_a"]


async def test_a_post_keeps_a_tenant_awake_for_a_sweep_that_began_before(storage: Storage) -> None:
    """The sweep lists the tenants late, or the clock of the process that takes the POST is ahead."""
    await storage.index.reserve(posted(1), replacing=None)
    await another_process(storage.index).reserve(posted(2, START + timedelta(seconds=18)), replacing=None)
    assert await awake(storage.index, START) == ["tenant_a"]


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_a_process_remembers_for_five_minutes_that_a_tenant_is_awake(storage: Storage) -> None:
    """Its POSTs write the tenant's row once in that time, so that a row an hour old means an hour without a POST."""
    index = storage.index
    seen = []
    for number, later in enumerate((timedelta(), WAKE_LASTS - timedelta(seconds=1), WAKE_LASTS)):
        await index.reserve(posted(number, START + later), replacing=None)
        [one] = await index.awake_tenants(now=START + HOURS)
        seen.append(one.posted_at - START)
    assert seen == [timedelta(), timedelta(), WAKE_LASTS]
