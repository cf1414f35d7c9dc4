from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.blobs import ARCHIVE, CONTAINER, BlobTexts
from shared.core.jobs.job import Job
from shared.core.jobs.plan import make_tombstone
from shared.core.jobs.states import JobStatus
from shared.errors import Conflict, DataLost
from shared.ports.index import FIRST_CLEARING, Clearing
from shared.ports.ledger import Stored
from tests.adapters.conftest import Storage
from tests.jobs import START, Story, planned

LATE = START + timedelta(days=365)


def ended_job(number: int, **changes: object) -> Job:
    job = planned(f"job_{number}", doc_id=f"doc-{number}", **changes).job
    return replace(job, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START + timedelta(minutes=number))


async def close(storage: Storage, job: Job) -> None:
    await storage.index.reserve(replace(job, status=JobStatus.QUEUED), replacing=None)
    for _ in range(2):
        await storage.index.close(job, claim_expires_at=START + timedelta(days=30))


async def ids(storage: Storage, at: timedelta) -> list[str]:
    return [ended.job_id for ended in await storage.index.due_for_clearing("tenant_a", now=START + at, limit=10)]


async def test_ended_jobs_are_due_in_the_order_of_their_times(storage: Storage) -> None:
    """The earliest first, none before its time, another tenant's never; a bound is kept."""
    for number in (2, 1):
        await close(storage, ended_job(number))
    await close(storage, ended_job(3, tenant_id="tenant_b"))
    assert await ids(storage, FIRST_CLEARING) == []
    assert await ids(storage, FIRST_CLEARING + timedelta(minutes=1)) == ["job_1"]
    assert await ids(storage, timedelta(days=1)) == ["job_1", "job_2"]
    [first] = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=1)
    assert first.job_id == "job_1"


async def test_a_row_is_rescheduled_and_cleared_once(storage: Storage) -> None:
    """Race sweeps: of two sweeps at the same row one moves it, and the clearing deletes it."""
    await close(storage, ended_job(1))
    [row] = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10)
    for _ in range(2):
        await storage.index.reschedule_clearing(row, START + timedelta(days=30))
    assert await ids(storage, timedelta(days=29)) == []
    assert await ids(storage, timedelta(days=30)) == ["job_1"]
    [row] = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10)
    for _ in range(2):
        await storage.index.finish_clearing(row)
    await storage.index.reschedule_clearing(row, LATE)
    assert await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10) == []


async def test_a_claim_is_dropped_only_as_it_was_read(storage: Storage) -> None:
    """A claim that a new job took over meanwhile stays."""
    job, other = ended_job(1), replace(ended_job(1), job_id="job_9")
    await close(storage, job)
    claim = await storage.index.read_claim("tenant_a", job.idempotency_hash)
    assert claim is not None
    await storage.index.reserve(replace(other, status=JobStatus.QUEUED), replacing=claim)
    await storage.index.delete_claim("tenant_a", job.idempotency_hash, claim)
    taken = await storage.index.read_claim("tenant_a", job.idempotency_hash)
    assert taken is not None
    assert taken.job_id == "job_9"
    for _ in range(2):
        await storage.index.delete_claim("tenant_a", job.idempotency_hash, taken)
    assert await storage.index.read_claim("tenant_a", job.idempotency_hash) is None


async def test_a_job_is_unlisted_and_a_withdrawn_one_is_due(storage: Storage) -> None:
    """Only LIST is deleted; a withdrawal leaves its tombstone to clear."""
    await close(storage, ended_job(1))
    for _ in range(2):
        await storage.index.delete_listing(ended_job(1))
    assert await storage.index.list_jobs("tenant_a", after=None, limit=10) == []
    await storage.index.reserve(replace(ended_job(2), status=JobStatus.QUEUED), replacing=None)
    [active] = await storage.index.due("tenant_a", now=LATE, limit=10)
    for _ in range(2):
        await storage.index.withdraw(active)
    assert await ids(storage, FIRST_CLEARING) == ["job_2"]


async def test_a_dead_wait_is_known_to_the_next_look(storage: Storage) -> None:
    """The next check gets, for each step, the number of the awaited wake-up and of the ignored ones."""
    await storage.index.reserve(replace(ended_job(1), status=JobStatus.QUEUED), replacing=None)
    [active] = await storage.index.due("tenant_a", now=LATE, limit=10)
    assert active.looks == {}
    await storage.index.reschedule_check(active, START + timedelta(minutes=5), looks={"ocr": (7, 2), "sis": (1, 1)})
    for rows in (
        await storage.index.due("tenant_a", now=LATE, limit=10),
        await storage.index.list_active("tenant_a", after=None, limit=10),
    ):
        [seen] = rows
        assert (seen.looks, seen.check_at) == ({"ocr": (7, 2), "sis": (1, 1)}, START + timedelta(minutes=5))
    # its present time
    await storage.index.reschedule_check(seen, seen.check_at, looks={"ocr": (8, 1)})
    [seen] = await storage.index.due("tenant_a", now=LATE, limit=10)
    assert seen.looks == {"ocr": (8, 1)}
    await storage.index.reschedule_check(seen, START + timedelta(minutes=9))
    [seen] = await storage.index.due("tenant_a", now=LATE, limit=10)
    assert seen.looks == {}


async def test_a_look_that_was_overtaken_moves_nothing(storage: Storage) -> None:
    """Race sweeps: of two at the same row the first one's time stays; an end or a withdrawal deletes the row."""
    jobs = [replace(ended_job(number), status=JobStatus.QUEUED) for number in (1, 2)]
    for job in jobs:
        await storage.index.reserve(job, replacing=None)
    first, second = await storage.index.due("tenant_a", now=LATE, limit=10)
    await storage.index.reschedule_check(first, START + timedelta(minutes=5))
    await storage.index.reschedule_check(first, START + timedelta(minutes=50))
    assert [row.check_at for row in await storage.index.due("tenant_a", now=LATE, limit=10) if row != second] == [
        START + timedelta(minutes=5)
    ]
    # an end that knows nothing of the move, and a withdrawal that read the row before it
    await storage.index.close(ended_job(1), claim_expires_at=START)
    await storage.index.reschedule_check(second, START + timedelta(minutes=5))
    await storage.index.withdraw(second)
    assert await storage.index.due("tenant_a", now=LATE, limit=10) == []
    await storage.index.reschedule_check(second, START + timedelta(minutes=7))
    assert await storage.index.due("tenant_a", now=LATE, limit=10) == []
    assert await storage.index.list_active("tenant_a", after=None, limit=10) == []


async def test_due_jobs_are_paged(storage: Storage) -> None:
    """Past the last one of a page, also where many are due at one instant; none that is due later."""
    for number in range(5):
        await storage.index.reserve(replace(ended_job(number), status=JobStatus.QUEUED), replacing=None)
    pages: list[list[str]] = []
    after = None
    while rows := await storage.index.due("tenant_a", now=START + timedelta(minutes=1), limit=2, after=after):
        pages.append([row.job_id for row in rows])
        after = rows[-1]
    assert pages == [["job_0", "job_1"], ["job_2", "job_3"], ["job_4"]]
    assert await storage.index.due("tenant_a", now=START + timedelta(seconds=59), limit=2) == []


async def test_the_longest_due_come_first(storage: Storage) -> None:
    """In any order of keys: else a tenant with many due jobs would never get its last ones checked."""
    for number, minutes in ((1, 30), (2, 10), (3, 20)):
        await storage.index.reserve(replace(ended_job(number), status=JobStatus.QUEUED), replacing=None)
        rows = await storage.index.due("tenant_a", now=LATE, limit=10)
        [active] = [row for row in rows if row.job_id == f"job_{number}"]
        await storage.index.reschedule_check(active, START + timedelta(minutes=minutes))
    found = await storage.index.due("tenant_a", now=LATE, limit=2)
    assert [active.job_id for active in found] == ["job_2", "job_3"]


async def test_a_removed_job_leaves_nothing(storage: Storage) -> None:
    """Rows, a hundred and more events, and long strings in blobs; a job that moved since it was read stays."""
    story = Story(planned("job_1", payload={"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["🙂" * 20_000]}}))
    record, created = make_tombstone("job_2", tenant="tenant_a", claim="c", created_at=START, now=START, salt="")
    first = replace(created, job_id="job_1")
    stale = stored = await storage.ledger.create(story.record, first)
    story.record = story.record.with_job(event_seq=1, event_hash=first.hash)
    stored = Stored(stored.record, stored.etag)
    for number in range(120):
        # as if each were the first ignored one: this test is not about the limit
        story.record = story.record.with_job(suppressed=0)
        outcome = story.replied("ACK", attempt_no=1 + number, lease_id="another")
        stored = await storage.ledger.commit(stored, outcome.record, outcome.events)
    with pytest.raises(Conflict):
        await storage.ledger.remove(stale)
    assert len(await storage.ledger.events("job_1")) == 121
    await storage.ledger.remove(stored)
    assert (await storage.ledger.read("job_1"), await storage.ledger.events("job_1")) == (None, [])
    await storage.ledger.delete_remainder("job_1")
    await storage.ledger.remove(await storage.ledger.create(record, created))
    assert await storage.ledger.read("job_2") is None


async def test_the_archive_is_a_container_of_its_own(azurite: str) -> None:
    archive, texts = (
        BlobTexts.connect(connection=azurite, endpoint=None, credential=None, container=container)
        for container in (ARCHIVE, CONTAINER)
    )
    for text in ("first", "🙂"):
        await archive.put("tenant/202601/job_1.json", text)
        await texts.put("tenant/a", text)
    await texts.remove("tenant/")
    await texts.remove("tenant/")
    assert await archive.get("tenant/202601/job_1.json") == "🙂"
    with pytest.raises(DataLost):
        await texts.get("tenant/a")
    await archive.close()
    await texts.close()


@pytest.mark.parametrize("swept", [False, True])
async def test_an_end_moves_the_rows_of_earlier_ends(storage: Storage, swept: bool) -> None:
    """Race sweeps: also where a sweeper moved one of them meanwhile, and where the end is repeated: it ends the job."""
    for number in (1, 2):
        await close(storage, ended_job(number))
    rows = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10)
    if swept:
        await storage.index.reschedule_clearing(rows[0], START + timedelta(days=9), purged=True)
    last, purged = ended_job(3), [Clearing(row, START + timedelta(days=30)) for row in rows]
    await storage.index.reserve(replace(last, status=JobStatus.QUEUED), replacing=None)
    for _ in range(2):
        await storage.index.close(last, claim_expires_at=START + timedelta(days=30), purged=purged)
    assert await storage.index.list_active("tenant_a", after=None, limit=10) == []
    left = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10)
    order = ["job_3", "job_1", "job_2"]
    assert [(row.job_id, row.purged) for row in left] == [(job_id, job_id != "job_3") for job_id in order]


@pytest.mark.parametrize("gone", ["LIST", "CLAIM"])
@pytest.mark.parametrize("counted", [False, True])
async def test_a_row_that_is_gone_keeps_no_job_from_its_end(storage: Storage, gone: str, *, counted: bool) -> None:
    """The job is closed without it and is due at once; then the row is there again, as the end would have left it."""
    job = replace(ended_job(1), status=JobStatus.FAILED_FINAL, error_code="ATTEMPTS_EXHAUSTED")
    await storage.index.reserve(replace(job, status=JobStatus.QUEUED, error_code=None), replacing=None)
    claim = await storage.index.read_claim("tenant_a", job.idempotency_hash)
    assert claim is not None
    if gone == "LIST":
        await storage.index.delete_listing(replace(job, status=JobStatus.QUEUED, error_code=None))
    else:
        await storage.index.delete_claim("tenant_a", job.idempotency_hash, claim)
    assert await storage.index.close(job, claim_expires_at=LATE, counted=counted) is counted
    assert await storage.index.read_active("tenant_a", "job_1") is None
    [row] = await storage.index.due_for_clearing("tenant_a", now=START + timedelta(minutes=1), limit=10)
    assert (row.job_id, row.owed) == ("job_1", True)
    for _ in range(2):
        assert await storage.index.write_owed(job, claim_expires_at=LATE) == []
    [listed] = await storage.index.list_jobs("tenant_a", after=None, limit=9)
    assert (listed.status, listed.labels, listed.dead_letter) == ("FAILED_FINAL", job.labels, "LISTED")
    [dead] = await storage.index.dead_letters("tenant_a", after=None, limit=9)
    assert dead.job_id == "job_1"
    claim = await storage.index.read_claim("tenant_a", job.idempotency_hash)
    assert claim is not None
    assert (claim.job_id, claim.body_hash, claim.expires_at) == ("job_1", job.body_hash, LATE)
    await storage.index.reschedule_clearing(row, LATE)
    [row] = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10)
    assert not row.owed


async def test_a_row_that_is_refused_keeps_no_job_from_its_end(storage: Storage) -> None:
    """Its key is reported, and the other rows are there."""
    job = ended_job(1)
    await storage.index.reserve(replace(job, status=JobStatus.QUEUED), replacing=None)
    wrong = replace(job, current_step_id="s" * 40_000)
    assert await storage.index.close(wrong, claim_expires_at=LATE, counted=True)
    assert await storage.index.read_active("tenant_a", "job_1") is None
    [refused] = await storage.index.write_owed(wrong, claim_expires_at=LATE)
    assert refused.startswith("LIST:")
    claim = await storage.index.read_claim("tenant_a", job.idempotency_hash)
    assert claim is not None
    assert claim.expires_at == LATE


async def test_cleared_jobs_get_a_row_again(storage: Storage) -> None:
    """Once, recorded in their LIST rows; a sleeping tenant is woken. Not if one is archived meanwhile."""
    for number in range(3):
        await close(storage, ended_job(number))
    for row in await storage.index.due_for_clearing("tenant_a", now=LATE, limit=10):
        await storage.index.finish_clearing(row)
    [awake] = await storage.index.awake_tenants(now=LATE)
    await storage.index.put_to_sleep(awake)
    assert await storage.index.awake_tenants(now=LATE) == []
    late = [(row, LATE) for row in await storage.index.list_jobs("tenant_a", after=None, limit=10)]
    assert not any(row.cleared_again for row, _ in late)
    for _ in range(2):
        await storage.index.clear_again("tenant_a", late[:2], LATE)
    found = await storage.index.due_for_clearing("tenant_a", now=LATE, limit=1000)
    assert sorted(row.job_id for row in found) == sorted(row.job_id for row, _ in late[:2])
    assert all(row.purged and row.clear_at == LATE for row in found)
    assert [each.tenant for each in await storage.index.awake_tenants(now=LATE)] == ["tenant_a"]
    rows = await storage.index.list_jobs("tenant_a", after=None, limit=10)
    assert [row.cleared_again for row in rows] == [True, True, False]
    await storage.index.delete_listing(next(job for n in range(3) if (job := ended_job(n)).job_id == rows[0].job_id))
    await storage.index.clear_again("tenant_a", [late[2], late[0]], LATE)
    assert len(await storage.index.due_for_clearing("tenant_a", now=LATE, limit=1000)) == 2
