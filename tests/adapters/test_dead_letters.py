"""DEAD rows over the memory and the real tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import Contended
from shared.ports.dead_letters import LetterState
from shared.ports.index import Index
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

ENDS = pytest.mark.parametrize("state", [LetterState.REDRIVEN, LetterState.DISMISSED])


async def ended(index: Index, number: int = 1, status: JobStatus = JobStatus.FAILED_FINAL, **changes: Any) -> Job:
    """Returns a job that ended this number of minutes after the start, as this release closes it."""
    planned_job = planned(f"job_{number}", doc_id=f"doc-{number}").job
    await index.reserve(planned_job, replacing=None)
    job = replace(
        planned_job,
        status=status,
        error_code="PDF_ENCRYPTED",
        event_seq=9,
        completed_at=START + timedelta(minutes=number, microseconds=1234),
        **changes,
    )
    await index.close(job, claim_expires_at=START + timedelta(days=30))
    return job


async def dead(index: Index, **options: Any) -> list[str]:
    return [row.job_id for row in await index.dead_letters("tenant_a", **{"after": None, "limit": 10, **options})]


async def states(index: Index) -> list[str | None]:
    return [row.dead_letter for row in await index.list_jobs("tenant_a", after=None, limit=10)]


async def test_the_end_of_a_job_that_failed_for_good_is_a_dead_letter(storage: Storage) -> None:
    """With the columns that a list needs; no other end is one, and a second close changes nothing."""
    job = await ended(storage.index)
    await ended(storage.index, 2, JobStatus.SUCCEEDED)
    await ended(storage.index, 3, JobStatus.CANCELLED)
    await storage.index.close(job, claim_expires_at=START + timedelta(days=30))
    [row] = await storage.index.dead_letters("tenant_a", after=None, limit=10)
    assert (row.job_id, row.tenant_id, row.request_type, row.labels) == (
        *("job_1", job.tenant_id, job.request_type),
        dict(job.labels),
    )
    assert (row.error_code, row.created_at, row.ended_at) == ("PDF_ENCRYPTED", job.created_at, job.completed_at)
    assert sorted(map(str, await states(storage.index))) == ["LISTED", "None", "None"]
    assert await storage.index.dead_letters("tenant_b", after=None, limit=10) == []


async def test_an_end_that_is_written_after_the_redrive_is_none(storage: Storage) -> None:
    """A sweeper closes a job that was taken up again meanwhile."""
    await ended(storage.index, redriven_by="job_2")
    assert (await dead(storage.index), await states(storage.index)) == ([], ["REDRIVEN"])


async def test_dead_letters_are_in_the_order_of_their_ends(storage: Storage) -> None:
    """The last that failed first, whenever they were created; paged by the cursor of the last row."""
    for number in (2, 5, 1, 4, 3):
        await ended(storage.index, number)
    first = await storage.index.dead_letters("tenant_a", after=None, limit=2)
    assert [row.job_id for row in first] == ["job_5", "job_4"]
    assert await dead(storage.index, after=first[-1].cursor) == ["job_3", "job_2", "job_1"]
    assert await dead(storage.index, since=START + timedelta(minutes=4)) == ["job_5", "job_4"]


@ENDS
async def test_a_dead_letter_goes_once(storage: Storage, state: LetterState) -> None:
    """A redriven or dismissed one is not listed, and its first end stays."""
    job = await ended(storage.index)
    assert await storage.index.end_dead_letter(job, state) is state
    for again in LetterState.REDRIVEN, LetterState.DISMISSED:
        assert await storage.index.end_dead_letter(job, again) is state
    assert (await dead(storage.index), await states(storage.index)) == ([], [state.value])


@ENDS
async def test_it_can_be_ended_before_the_job_leaves_the_active_ones(storage: Storage, state: LetterState) -> None:
    """The sweeper can list the failure before the end is written: LIST has it, and there is no DEAD row."""
    job = planned("job_1").job
    await storage.index.reserve(job, replacing=None)
    [active] = await storage.index.list_active("tenant_a", after=None, limit=10)
    failed = replace(job, status=JobStatus.FAILED_FINAL, event_seq=9, completed_at=START)
    await storage.index.refresh_listing(active, failed)
    assert await storage.index.end_dead_letter(failed, state) is state
    assert (await dead(storage.index), await states(storage.index)) == ([], [state.value])


@ENDS
async def test_a_job_that_the_list_does_not_know_as_failed_is_left_alone(storage: Storage, state: LetterState) -> None:
    """Its end is not in the index yet, or it is archived: the caller gets the result."""
    job = planned("job_1").job
    await storage.index.reserve(job, replacing=None)
    failed = replace(job, status=JobStatus.FAILED_FINAL, completed_at=START)
    assert await storage.index.end_dead_letter(failed, state) is None
    await storage.index.close(failed, claim_expires_at=START)
    assert await dead(storage.index) == ["job_1"]
    await storage.index.delete_listing(failed)
    assert await storage.index.end_dead_letter(failed, state) is None


async def test_the_listing_goes_with_its_dead_letter(storage: Storage) -> None:
    """Retention leaves neither row; again is harmless, also of a job that was redriven."""
    job, redriven = await ended(storage.index), await ended(storage.index, 2)
    await storage.index.end_dead_letter(redriven, LetterState.REDRIVEN)
    for each in (job, job, redriven):
        await storage.index.delete_listing(each)
    assert (await dead(storage.index), await states(storage.index)) == ([], [])


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_of_two_that_change_the_row_at_once_one_decides_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race letter: a dismissal and a redrive read the same row; the slower one finds the other's write."""
    index, job = storage.index, await ended(storage.index)
    rows: Any = index._rows  # type: ignore[attr-defined]
    real = rows.transact
    meets: list[Any] = []

    async def transact(*args: Any) -> Any:
        if meets:
            await meets.pop()
        return await real(*args)

    monkeypatch.setattr(rows, "transact", transact)
    meets.append(index.end_dead_letter(job, LetterState.DISMISSED))
    assert await index.end_dead_letter(job, LetterState.REDRIVEN) is LetterState.DISMISSED
    assert await states(index) == ["DISMISSED"]


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_a_row_that_changes_at_every_try_is_left_for_later(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets 503 and tries again; nothing was half done."""
    job = await ended(storage.index)
    rows: Any = storage.index._rows  # type: ignore[attr-defined]
    real = rows.read

    async def stale(*args: Any) -> Any:
        row = await real(*args)
        if row is not None:
            row.metadata["etag"] = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""
        return row

    with monkeypatch.context() as patched:
        patched.setattr(rows, "read", stale)
        with pytest.raises(Contended):
            await storage.index.end_dead_letter(job, LetterState.REDRIVEN)
        assert await dead(storage.index) == ["job_1"]
    assert await storage.index.end_dead_letter(job, LetterState.REDRIVEN) is LetterState.REDRIVEN
