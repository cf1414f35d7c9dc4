from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, Conflict
from shared.ports.sweeps import Survey, SweepPosition, TenantCounts, WorkCounts
from tests.adapters.conftest import Storage
from tests.jobs import START, planned


def job(job_id: str, minutes: int = 0, **changes: object) -> Job:
    planned_job = planned(job_id, **changes).job
    return replace(planned_job, created_at=START + timedelta(minutes=minutes))


async def test_a_claim_is_taken_once(storage: Storage) -> None:
    """The second reservation of the same request gets AlreadyExists; the claim names the first one's job."""
    first, second = job("job_1"), job("job_2")
    await storage.index.reserve(first, replacing=None)
    with pytest.raises(AlreadyExists):
        await storage.index.reserve(second, replacing=None)
    claim = await storage.index.read_claim("tenant_a", first.idempotency_hash)
    assert claim is not None
    assert (claim.job_id, claim.body_hash, claim.created_at, claim.expires_at) == (
        "job_1",
        first.body_hash,
        START,
        None,
    )
    assert [listed.job_id for listed in await storage.index.list_jobs("tenant_a", after=None, limit=10)] == ["job_1"]


async def test_tenants_do_not_see_each_other(storage: Storage) -> None:
    """The same request of another tenant is another job, in another list."""
    one, other = job("job_1"), job("job_2", tenant_id="tenant_b/x")
    await storage.index.reserve(one, replacing=None)
    await storage.index.reserve(other, replacing=None)
    assert [listed.job_id for listed in await storage.index.list_jobs("tenant_b/x", after=None, limit=10)] == ["job_2"]
    assert sorted(await storage.index.tenants()) == ["tenant_a", "tenant_b/x"]


async def test_close_ends_the_claims_eternity_and_is_repeatable(storage: Storage) -> None:
    """After a job's end its LIST row has its final status, and its claim has an expiry."""
    open_job = job("job_1")
    await storage.index.reserve(open_job, replacing=None)
    ended = replace(open_job, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START)
    for _ in range(2):
        await storage.index.close(ended, claim_expires_at=START + timedelta(days=30))
    claim = await storage.index.read_claim("tenant_a", ended.idempotency_hash)
    assert claim is not None
    assert claim.expires_at == START + timedelta(days=30)
    [listed] = await storage.index.list_jobs("tenant_a", after=None, limit=10)
    assert (listed.status, listed.seq) == ("SUCCEEDED", 9)


async def test_an_expired_claim_gives_way_once(storage: Storage) -> None:
    """Of two that replace the same expired claim, one wins."""
    await storage.index.reserve(job("job_1"), replacing=None)
    claim = await storage.index.read_claim("tenant_a", job("job_1").idempotency_hash)
    await storage.index.reserve(job("job_2"), replacing=claim)
    with pytest.raises(Conflict):
        await storage.index.reserve(job("job_3"), replacing=claim)
    claim = await storage.index.read_claim("tenant_a", job("job_1").idempotency_hash)
    assert claim is not None
    assert claim.job_id == "job_2"


async def test_lists_are_newest_first_and_paged(storage: Storage) -> None:
    """Pages follow each other by the cursor of the last row."""
    for number in range(5):
        await storage.index.reserve(job(f"job_{number}", number, doc_id=f"doc-{number}"), replacing=None)
    page = await storage.index.list_jobs("tenant_a", after=None, limit=2)
    assert [listed.job_id for listed in page] == ["job_4", "job_3"]
    page = await storage.index.list_jobs("tenant_a", after=page[-1].cursor, limit=10)
    assert [listed.job_id for listed in page] == ["job_2", "job_1", "job_0"]


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        (3, None, [4, 3]),
        (None, 1, [0]),
        (1, 3, [2, 1]),
        (5, None, []),
    ],
)
async def test_lists_are_of_a_time(storage: Storage, since: int | None, until: int | None, found: list[int]) -> None:
    """`since` is inclusive, `until` is not; paged like the whole list."""
    for number in range(5):
        await storage.index.reserve(job(f"job_{number}", number, doc_id=f"doc-{number}"), replacing=None)
    span = {name: START + timedelta(minutes=at) for name, at in (("since", since), ("until", until)) if at is not None}
    seen: list[str] = []
    after: str | None = None
    while page := await storage.index.list_jobs("tenant_a", after=after, limit=2, **span):
        seen += [listed.job_id for listed in page]
        after = page[-1].cursor
    assert seen == [f"job_{number}" for number in found]


async def test_a_living_jobs_line_is_brought_forward(storage: Storage) -> None:
    """Relisting writes state, step and event; a relisting that read the row before another one changes nothing."""
    created = job("job_1")
    await storage.index.reserve(created, replacing=None)
    [active] = await storage.index.list_active("tenant_a", after=None, limit=10)
    assert active.listed_seq == created.event_seq
    await storage.index.refresh_listing(active, replace(created, status=JobStatus.IN_PROGRESS, event_seq=7))
    await storage.index.refresh_listing(active, replace(created, status=JobStatus.PAUSING, event_seq=5))
    [listed] = await storage.index.list_jobs("tenant_a", after=None, limit=10)
    assert (listed.status, listed.current_step_id, listed.seq) == ("IN_PROGRESS", "ocr", 7)
    [active] = await storage.index.list_active("tenant_a", after=None, limit=10)
    assert active.listed_seq == 7


async def test_relisting_never_revives_a_line(storage: Storage) -> None:
    """A sweep that read the job before its end does not undo the writes of the end."""
    created = job("job_1")
    await storage.index.reserve(created, replacing=None)
    [active] = await storage.index.list_active("tenant_a", after=None, limit=10)
    ended = replace(created, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START)
    await storage.index.close(ended, claim_expires_at=START + timedelta(days=30))
    await storage.index.refresh_listing(active, replace(created, status=JobStatus.IN_PROGRESS, event_seq=7))
    [listed] = await storage.index.list_jobs("tenant_a", after=None, limit=10)
    assert (listed.status, listed.seq) == ("SUCCEEDED", 9)
    assert await storage.index.list_active("tenant_a", after=None, limit=10) == []


async def test_active_jobs_are_paged_and_the_place_is_kept(storage: Storage) -> None:
    """In the order of their ids; the position of an interrupted sweep is stored until one is complete."""
    for number in range(3):
        await storage.index.reserve(job(f"job_{number}", doc_id=f"doc-{number}"), replacing=None)
    first = await storage.index.list_active("tenant_a", after=None, limit=2)
    rest = await storage.index.list_active("tenant_a", after=first[-1].job_id, limit=2)
    assert [active.job_id for active in [*first, *rest]] == ["job_0", "job_1", "job_2"]
    assert await storage.index.read_position(0) == SweepPosition()
    counts = WorkCounts(Counter(QUEUED=2), Counter(DEFAULT=2), START, None, 1, START)
    survey = Survey(
        after=("tenant_a", "job_1"),
        is_whole=True,
        whole_at=START,
        counts=counts,
        of_tenant=TenantCounts(rows=2, inside=1, staged=1, waiting=1, queued=Counter(OCR=2)),
    )
    positions = (
        SweepPosition("tenant_a", None, "tenant_b", survey, START),
        SweepPosition(None, "b"),
        SweepPosition(survey=Survey(after=("tenant_b", ""))),
        SweepPosition(),
    )
    for position in positions:
        await storage.index.write_position(0, position)
        assert await storage.index.read_position(0) == position
    assert await storage.index.read_position(1) == SweepPosition()


async def test_a_job_whose_time_is_far_ahead_is_not_due(storage: Storage) -> None:
    """After 2286 milliseconds have 14 digits, with which a row would sort before those of today."""
    found = job("job_1")
    await storage.index.reserve(found, replacing=None)
    for year in (2200, 2300, 9999):
        active = await storage.index.read_active("tenant_a", "job_1")
        assert active is not None
        await storage.index.reschedule_check(active, START.replace(year=year))
        assert await storage.index.due("tenant_a", now=START + timedelta(days=1), limit=10) == []
