"""Rows of usage and of sources, in memory and on the real tables (R68)."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.usage import TablesUsage
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.core.usage import MAX_GROUPS, OTHERS, Counted, HourUsage, hour_of
from shared.operations.sweeper.usage import roll_up_hour
from shared.operations.usage.read_usage import read_usage
from shared.ports import usage as port
from shared.ports.usage import Folding, FoldPosition, SeenSource, Usage
from tests.adapters.conftest import Storage
from tests.jobs import START, planned
from tests.memory_stores import MemoryUsage
from tests.operations.conftest import World, world

__all__ = ["world"]  # a fixture of the operations' tests

NOON = hour_of(START)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "tables"])
async def usage(request: pytest.FixtureRequest) -> AsyncIterator[Usage]:
    if request.param == "memory":
        yield MemoryUsage()
        return
    own = uuid.uuid4().hex[:12]
    account = TablesAccount.connect(
        connection=request.getfixturevalue("azurite"), endpoint=None, credential=None, version_table=f"tenants{own}"
    )
    yield TablesUsage(account, f"index{own}")
    await account.close()


async def test_an_hour_is_read_as_it_was_written(usage: Usage) -> None:
    """Each part separately, and again replacing the previous one; hours in order, of this tenant, within the bounds."""
    assert await usage.hours("büro", NOON, NOON + HOUR) == []
    jobs = {("OCR", "scanner/7 №"): Counted(3, 2, 1, 2, Counter({0: 1, 19: 1})), ("OCR", ""): Counted(1)}
    peaks = {("", ""): 3, ("source", ""): 1}
    for hour in (NOON, NOON + HOUR, NOON - HOUR):
        await usage.put_peaks("büro", hour, peaks)
    for _ in range(2):
        await usage.put_jobs("büro", NOON, jobs)
    await usage.put_jobs("another", NOON, jobs)
    found = await usage.hours("büro", NOON, NOON + 2 * HOUR)
    assert found == [HourUsage(NOON, jobs, peaks, folded=True), HourUsage(NOON + HOUR, peaks=peaks)]
    await usage.remove_before("büro", NOON + HOUR, limit=10)
    assert [each.hour for each in await usage.hours("büro", NOON - 9 * HOUR, NOON + 9 * HOUR)] == [NOON + HOUR]


async def test_processes_add_up_what_they_refused(usage: Usage) -> None:
    """At the same time, and of more sources than there is room for."""
    await asyncio.gather(*(usage.add_refused("acme", NOON, {("OCR", "s"): number}) for number in (1, 2, 4)))
    await usage.add_refused("acme", NOON, {("OCR", f"s{number}"): 1 for number in range(MAX_GROUPS)})
    [found] = await usage.hours("acme", NOON, NOON + HOUR)
    assert (found.refused["OCR", "s"], found.refused["OCR", OTHERS], len(found.refused)) == (7, 1, MAX_GROUPS + 1)
    assert (found.jobs, found.folded) == ({}, False)


async def test_the_largest_hour_is_one_row(usage: Usage) -> None:
    """Every group there may be, with the longest names, in characters that take two units each."""
    long = "\N{GRINNING FACE}" * 252
    jobs = {("T" * 128, f"{long}{number:04d}"): Counted(9**9, 9**9, 9**9, 9**9, Counter(dict.fromkeys(range(20), 9**9)))
            for number in range(MAX_GROUPS + 1)}  # fmt: skip
    await usage.put_jobs("acme", NOON, jobs)
    assert (await usage.hours("acme", NOON, NOON + HOUR))[0].jobs == jobs


async def test_a_fold_goes_on_where_it_was(usage: Usage) -> None:
    """Its sums and the row that it came to, until it is over; so does a share."""
    assert await usage.read_folding("acme", NOON) == Folding()
    begun = Folding({("OCR", ""): Counted(2, waits=Counter({3: 2}))}, "LIST:1:job_1")
    await usage.write_folding("acme", NOON, begun)
    assert (await usage.read_folding("acme", NOON), await usage.read_folding("acme", NOON - HOUR)) == (begun, Folding())
    assert all(not each.folded for each in await usage.hours("acme", NOON, NOON + HOUR))
    for _ in range(2):
        await usage.write_folding("acme", NOON, None)
    assert await usage.read_folding("acme", NOON) == Folding()
    for share, position in ((0, FoldPosition(NOON, "acme")), (1, FoldPosition(NOON + HOUR))):
        assert await usage.read_position(share) == FoldPosition()
        await usage.write_position(share, position)
        assert await usage.read_position(share) == position


async def test_second_folds_are_found_by_their_hour(usage: Usage) -> None:
    """Those before an instant, page by page, until they are done."""
    for tenant, hour in (("b", NOON), ("a", NOON), ("=guard", NOON - HOUR), ("c", NOON + HOUR)):
        await usage.put_fold_again(tenant, hour)
        await usage.put_fold_again(tenant, hour)
    first = await usage.list_fold_again(NOON + HOUR, after="", limit=2)
    rest = await usage.list_fold_again(NOON + HOUR, after=first[-1][2], limit=2)
    assert [(hour, tenant) for hour, tenant, _ in [*first, *rest]] == [
        (NOON - HOUR, "=guard"),
        (NOON, "a"),
        (NOON, "b"),
    ]
    for _ in range(2):
        await usage.delete_fold_again("a", NOON)
    found = await usage.list_fold_again(NOON + 9 * HOUR, after="", limit=9)
    assert [tenant for _, tenant, _ in found] == ["=guard", "b", "c"]


def seen(name: str, job: str = "job_1", hours: int = 0) -> SeenSource:
    return SeenSource(name=name, first_job=job, first_at=START, last_job=job, last_at=NOON + hours * HOUR)


async def test_sources_that_were_seen(usage: Usage, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and last job of each; where there is no room, the one that was not seen for longest gives way."""
    monkeypatch.setattr("shared.adapters.tables.usage.MAX_SOURCES", 2)
    assert port.MAX_SOURCES == 1_000
    assert await usage.see_source("acme", seen("a/b №?#"))
    assert await usage.see_source("acme", seen("second"))
    assert not await usage.see_source("acme", seen("third"))
    assert await usage.see_source("acme", seen("a/b №?#", "job_2", hours=1))
    assert await usage.see_source("acme", seen("third", "job_3", hours=1))
    page = await usage.sources("acme", after="", limit=1)
    found = [*page, *await usage.sources("acme", after=page[0].cursor, limit=9)]
    expected = [replace(seen("a/b №?#", "job_2", hours=1), first_job="job_1"), seen("third", "job_3", hours=1)]
    assert sorted((replace(each, cursor="") for each in found), key=lambda each: each.name) == expected
    assert await usage.sources("another", after="", limit=9) == []


async def test_a_list_has_what_usage_needs(storage: Storage) -> None:
    """Source, staging, admission, end and error; for a job that was admitted at once only end and error."""

    def job(number: int, **changes: object) -> Job:
        return replace(planned(f"job_{number}", doc_id=f"{number}", **changes).job, created_at=START)

    staged = replace(job(1, source=" Scanner-7"), status=JobStatus.THROTTLED, staged_at=START)
    plain = job(2)
    for each in (staged, plain):
        await storage.index.reserve(each, replacing=None)
    active = await storage.index.read_active("tenant_a", "job_1")
    assert active is not None
    await storage.index.refresh_listing(active, replace(staged, admitted_at=START + HOUR, event_seq=2))
    ends = {"status": JobStatus.CANCELLED, "completed_at": START + 2 * HOUR, "error_code": "CANCELLED"}
    done = replace(plain, **ends)
    await storage.index.close(done, claim_expires_at=START + 3 * HOUR)
    rows = {row.job_id: row for row in await storage.index.list_jobs("tenant_a", after=None, limit=9)}
    names = ("source", "staged_at", "admitted_at", "ended_at", "error_code")
    found = [tuple(getattr(row, name) for name in names) for _, row in sorted(rows.items())]
    assert found == [
        ("scanner-7", START, START + HOUR, None, None),
        (None, None, None, START + 2 * HOUR, "CANCELLED"),
    ]


async def test_a_fold_of_the_rows_that_are_stored(storage: Storage, usage: Usage, world: World) -> None:
    """The list of an hour and nothing of the hours around it, page by page."""
    for number, minutes in enumerate((-1, 0, 1, 59, 60)):
        one = planned(f"job_{number}", doc_id=f"{number}", source="s" if number == 2 else None).job
        created_at = NOON + timedelta(minutes=minutes)
        await storage.index.reserve(replace(one, created_at=created_at), replacing=None)
    context = replace(world.context, index=storage.index, usage=usage)
    assert await roll_up_hour(context, usage, "tenant_a", NOON, lambda: False, again=False)
    [hour] = await usage.hours("tenant_a", NOON, NOON + HOUR)
    assert {key: each.created for key, each in hour.jobs.items()} == {
        (one.request_type, ""): 2,
        (one.request_type, "s"): 1,
    }
    used = await read_usage(context, "tenant_a", START, None)
    assert used.total.counted.created == 3
