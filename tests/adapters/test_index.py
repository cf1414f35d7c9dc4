from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.job import Job
from shared.core.states import JobStatus
from shared.errors import AlreadyExists, Conflict
from shared.ports import ListFilter
from tests.adapters.conftest import Storage
from tests.jobs import START, planned


def job(job_id: str, minutes: int = 0, **changes: object) -> Job:
    planned_job = planned(job_id, **changes).job
    return replace(planned_job, created_at=START + timedelta(minutes=minutes))


async def test_a_claim_is_taken_once(storage: Storage) -> None:
    """The second reservation of the same request meets AlreadyExists; the first one's job is named by the claim."""
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
    """After a job's end its list row says how, and its claim when it expires."""
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
    ("only", "found"),
    [
        (ListFilter(statuses=frozenset({"SUCCEEDED"})), [2]),
        (ListFilter(statuses=frozenset({"SUCCEEDED", "QUEUED"})), [4, 3, 2, 1, 0]),
        (ListFilter(request_type="OCR"), [3]),
        (ListFilter(since=START + timedelta(minutes=3)), [4, 3]),
        (ListFilter(until=START + timedelta(minutes=1)), [0]),
        (ListFilter(since=START + timedelta(seconds=1), until=START + timedelta(minutes=3)), [2, 1]),
        (ListFilter(statuses=frozenset({"QUEUED"}), until=START + timedelta(minutes=3)), [1, 0]),
    ],
)
async def test_lists_are_filtered(storage: Storage, only: ListFilter, found: list[int]) -> None:
    """By state, type and time of creation, and paged like the whole list."""
    for number in range(5):
        kind = {"request_type": "OCR", "payload": {}} if number == 3 else {}
        await storage.index.reserve(job(f"job_{number}", number, doc_id=f"doc-{number}", **kind), replacing=None)
    ended = replace(job("job_2", 2, doc_id="doc-2"), status=JobStatus.SUCCEEDED, completed_at=START)
    await storage.index.close(ended, claim_expires_at=START + timedelta(days=30))
    seen: list[str] = []
    after: str | None = None
    while page := await storage.index.list_jobs("tenant_a", after=after, limit=2, only=only):
        seen += [listed.job_id for listed in page]
        after = page[-1].cursor
    assert seen == [f"job_{number}" for number in found]
