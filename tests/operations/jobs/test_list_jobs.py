from datetime import timedelta
from typing import Any

import pytest

from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.jobs import list_jobs as lists
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.sweeper import listing as relisting
from shared.operations.sweeper.listing import continue_survey
from shared.operations.sweeper.sweep import sweep
from shared.ports.sweeps import Survey
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import dispatch, relisted, service_sends, submitted


async def several(world: World, count: int, **changes: Any) -> list[str]:
    """Jobs a minute apart, the newest last."""
    ids = []
    for _ in range(count):
        world.clock.advance(60)
        ids.append(await submitted(world, idempotency_key=world.clock.now().isoformat(), **changes))
    return ids


async def failed(world: World, job_id: str) -> None:
    await dispatch(world, job_id)
    error = {"code": "PDF_ENCRYPTED", "message": "locked"}
    await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=error, result_ref=None)


async def pages(world: World, job_filter: JobFilter, limit: int) -> list[list[str]]:
    """Every page in turn, until there is no next."""
    after: str | None = None
    found = []
    while True:
        page = await list_jobs(world.context, job_filter, after=after, limit=limit)
        found.append([line.jobId for line in page.lines])
        assert not page.partial or page.after is not None
        after = page.after
        if after is None:
            return found


async def test_pages_are_full_whatever_the_filter(world: World) -> None:
    """A filter thins the list, not the pages: each holds `limit` jobs until the last."""
    red = await several(world, 5, labels={"team": "red"})
    await several(world, 20, labels={"team": "blue"})
    red += await several(world, 4, labels={"team": "red"})
    red.reverse()
    assert await pages(world, JobFilter(tenant_id="tenant_a", label=("team", "red")), 4) == [red[:4], red[4:8], red[8:]]


async def test_a_page_ends_at_the_bound_and_the_next_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rare matches, one request reads few rows more than it shows, says so, and loses none."""
    monkeypatch.setattr(lists, "MAX_READ_MORE", 8)
    monkeypatch.setattr(lists, "_LEAST_LOOK", 2)
    read: list[int] = []
    listed = world.index.list_jobs

    async def counted(*args: Any, **fields: Any) -> Any:
        rows = await listed(*args, **fields)
        read[-1] += len(rows)
        return rows

    monkeypatch.setattr(world.index, "list_jobs", counted)
    [old] = await several(world, 1, labels={"team": "red"})
    await several(world, 20)
    some = await several(world, 3, labels={"team": "red"})
    found, after = [], None
    while True:
        read.append(0)
        page = await list_jobs(
            world.context, JobFilter(tenant_id="tenant_a", label=("team", "red")), after=after, limit=10
        )
        found.append([line.jobId for line in page.lines])
        assert read[-1] <= len(page.lines) + 8
        assert page.partial == (page.after is not None)
        if (after := page.after) is None:
            break
    assert found[0] == some[::-1]
    assert [job_id for page in found for job_id in page] == [*some[::-1], old]
    assert [] in found


async def test_a_page_of_exactly_the_last_jobs_is_the_last(world: World) -> None:
    """No empty page follows a full one that had them all, with a filter and without."""
    ids = await several(world, 4, labels={"team": "red"})
    for label in (None, ("team", "red")):
        assert await pages(world, JobFilter(tenant_id="tenant_a", label=label), 2) == [
            [ids[3], ids[2]],
            [ids[1], ids[0]],
        ]


async def test_a_line_is_as_of_an_event_and_a_sweep_brings_it_forward(world: World) -> None:
    """Without a filter a row comes from the index alone: it has the event of its state, and a sweep updates it."""
    [job_id] = await several(world, 1)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)

    async def line() -> tuple[Any, ...]:
        [found] = (await list_jobs(world.context, JobFilter(tenant_id="tenant_a"), after=None, limit=10)).lines
        return found.status, found.current_step_id, found.seq

    job = (await world.job(job_id)).job
    assert await line() == ("QUEUED", "ocr", 1)
    assert await relisted(world) == 1
    assert await line() == ("IN_PROGRESS", "ocr", job.event_seq)
    assert await relisted(world) == 0


async def test_an_end_that_the_index_missed_is_in_the_list_after_one_sweep(world: World) -> None:
    """After a crash between the end of a job and its index rows the list is wrong for one sweep at most."""
    [job_id] = await several(world, 1)
    with failing(world.index, "close"), pytest.raises(LedgerUnavailable):
        await failed(world, job_id)
    await sweep(world.context, world.orchestrations)
    [found] = (await list_jobs(world.context, JobFilter(tenant_id="tenant_a"), after=None, limit=10)).lines
    job = (await world.job(job_id)).job
    assert (found.status, found.completed_at, found.error_code) == ("FAILED_FINAL", job.completed_at, job.error_code)
    assert found.error_code


async def test_relisting_goes_on_where_its_bound_stopped_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more active jobs than a sweep has time for, the next one reads the others; the counts are carried over."""
    monkeypatch.setattr(relisting, "_ROUND", 2)
    monkeypatch.setattr(relisting, "_PAGE", 2)
    for job_id in await several(world, 3, tenant_id="tenant_a") + await several(world, 2, tenant_id="tenant_b"):
        await dispatch(world, job_id)
    at, behind, tenants = Survey(), [], []
    while True:
        found = await continue_survey(
            world.context, ["tenant_b", "tenant_a"], at, lambda: True, due_at=world.clock.now()
        )
        behind.append(found.behind)
        tenants += [(each.tenant, each.counts.rows, each.at_one_time) for each in found.tenants]
        at = found.survey
        if at.after is None:
            break
    assert behind == [2, 1, 2, 0]
    assert tenants == [("tenant_a", 3, False), ("tenant_b", 2, False)]
    assert (at.counts.active.total(), at.counts.unacked) == (5, 5)


async def test_states_are_those_of_now(world: World) -> None:
    """A job in progress is found as such although its LIST row knows only that it lives; ended ones by their end."""
    waiting, running, dead = await several(world, 3)
    await dispatch(world, running)
    await service_sends(world, running, "ACK", 1)
    await failed(world, dead)

    async def found(*statuses: JobStatus) -> list[str]:
        [page] = await pages(world, JobFilter(statuses=frozenset(statuses)), 10)
        return page

    assert await found(JobStatus.IN_PROGRESS) == [running]
    assert await found(JobStatus.QUEUED) == [waiting]
    assert await found(JobStatus.FAILED_FINAL) == [dead]
    assert await found(JobStatus.QUEUED, JobStatus.FAILED_FINAL) == [dead, waiting]


async def test_time_and_type(world: World) -> None:
    """`since` is inclusive, `until` is not."""
    ids = await several(world, 4)
    [ocr] = await several(world, 1, request_type="OCR", payload={})
    window = JobFilter(since=START + timedelta(seconds=120), until=START + timedelta(seconds=240))
    assert await pages(world, window, 10) == [[ids[2], ids[1]]]
    assert await pages(world, JobFilter(request_type="OCR"), 10) == [[ocr]]


async def test_all_tenants_are_merged_newest_first(world: World) -> None:
    """Without a tenant, pages run through every tenant's jobs in the order of their creation."""
    ids = []
    for number in range(6):
        ids += await several(world, 1, tenant_id=f"tenant_{number % 3}")
    ids.reverse()
    assert await pages(world, JobFilter(), 4) == [ids[:4], ids[4:]]


async def test_a_key_and_a_correlation_id_lead_to_their_jobs(world: World) -> None:
    """With the other parameters they narrow further; of another tenant they lead nowhere."""
    first, second = [await submitted(world, idempotency_key=each, correlation_id="mail-7") for each in ("a", "b")]
    await several(world, 3)
    third = await submitted(world, idempotency_key="c", correlation_id="mail-7", labels={"team": "red"})
    await submitted(world, tenant_id="tenant_b", idempotency_key="a", correlation_id="mail-7")

    async def found(**words: Any) -> list[str]:
        [page] = await pages(world, JobFilter(**{"tenant_id": "tenant_a", **words}), 100)
        return sorted(page)

    assert await found(idempotency_key="a") == [first]
    assert await found(correlation_id="mail-7") == sorted([first, second, third])
    assert await found(correlation_id="mail-7", label=("team", "red")) == [third]
    assert await found(correlation_id="mail-7", until=world.clock.now() - timedelta(seconds=1)) == sorted(
        [first, second]
    )
    assert await found(idempotency_key="a", correlation_id="mail-7") == [first]
    assert await found(idempotency_key="a", correlation_id="mail-8") == []
    assert await found(idempotency_key="a", until=START - timedelta(days=1)) == []
    assert await found(idempotency_key="x") == await found(correlation_id="x") == []
    assert await found(tenant_id="tenant_c", idempotency_key="a") == []
    assert len(await found(tenant_id=None, correlation_id="mail-7")) == 4


async def test_pages_of_a_correlation_id(world: World) -> None:
    """Each job once, also where the rows of one in between are gone."""
    ids = [await submitted(world, idempotency_key=str(number), correlation_id="batch") for number in range(5)]
    await world.index.delete_listing((await world.job(ids[2])).job)

    found = await pages(world, JobFilter(tenant_id="tenant_a", correlation_id="batch"), 2)

    assert sorted(job_id for page in found for job_id in page) == sorted([*ids[:2], *ids[3:]])
    assert not [
        row for row in world.index.rows.all_rows if row["RowKey"].startswith("CORRELATION:") and ids[2] in row["RowKey"]
    ]
