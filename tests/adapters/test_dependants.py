"""DEP rows: the jobs that wait for the end of a job (R53)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.admission import ASLEEP
from shared.core.gates.admission_state import AdmissionState, Candidate
from shared.core.gates.places import Place, PlaceState, count_dependency
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, Conflict
from shared.ports.admissions import AdmissionWrite
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

WAITED_FOR = [f"job_{number}" for number in range(50)]


def waiting(job_id: str = "job_w") -> Job:
    job = replace(planned(job_id, doc_id=job_id).job, dependencies=WAITED_FOR, status=JobStatus.WAITING_FOR_JOBS)
    return replace(job, idempotency_hash=job_id)


def place(job: Job) -> Place:
    return Place(
        state=PlaceState.OFF,
        initial_status=JobStatus.WAITING_FOR_JOBS,
        candidate=Candidate.of(job),
        dependencies_left=len(WAITED_FOR),
    )


async def reserved(storage: Storage, *jobs: Job) -> None:
    for job in jobs:
        before = await storage.admissions.read("tenant_a")
        admission = before.admission if before is not None else AdmissionState(tenant="tenant_a", counted_at=START)
        write = AdmissionWrite(before=before, after=replace(admission, staged=admission.staged + 1))
        await storage.index.reserve(job, replacing=None, place=place(job), admission=write)


async def test_each_end_counts_once(storage: Storage) -> None:
    """The claim's transaction writes fifty rows; the transaction that counts deletes one, a second one finds none."""
    await reserved(storage, waiting())
    for left, job_id in enumerate(reversed(WAITED_FOR[-3:]), -len(WAITED_FOR)):
        active = await storage.index.read_active("tenant_a", "job_w")
        assert active is not None
        assert active.place is not None
        assert active.place.dependencies_left == -left
        counted = count_dependency(active.place, job_id, succeeded=left != -48)
        await storage.index.move_place(active, counted, START + timedelta(hours=1), settled=job_id)
        again = await storage.index.read_active("tenant_a", "job_w")
        assert again is not None
        with pytest.raises((Conflict, AlreadyExists)):
            await storage.index.move_place(again, counted, ASLEEP, settled=job_id)
        assert not await storage.index.is_dependant("tenant_a", job_id, "job_w")
    last = await storage.index.read_active("tenant_a", "job_w")
    assert last is not None
    assert last.place is not None
    assert (last.place.dependencies_left, last.place.failed_dependency) == (47, WAITED_FOR[-3])
    assert [row.job_id for row in await storage.index.due("tenant_a", now=START + timedelta(hours=2), limit=9)] == [
        "job_w"
    ]


async def test_a_count_under_an_old_etag_is_refused(storage: Storage) -> None:
    """Two ends at once: the second one reads the row as the first one left it."""
    await reserved(storage, waiting())
    active = await storage.index.read_active("tenant_a", "job_w")
    assert active is not None
    assert active.place is not None
    counted = count_dependency(active.place, "job_0", succeeded=True)
    await storage.index.move_place(active, counted, active.check_at, settled="job_0")
    with pytest.raises((Conflict, AlreadyExists)):
        await storage.index.move_place(active, counted, active.check_at, settled="job_1")
    assert await storage.index.is_dependant("tenant_a", "job_1", "job_w")


async def test_who_waits_is_listed_in_order_and_dropped(storage: Storage) -> None:
    """Of one job alone, at most the requested number; a missing row is dropped again without effect."""
    await reserved(storage, waiting("job_b"), waiting("job_a"), waiting("job_c"))
    assert await storage.index.list_dependants("tenant_a", "job_1", limit=2) == ["job_a", "job_b"]
    for _ in range(2):
        await storage.index.drop_dependant("tenant_a", "job_1", "job_a")
    assert await storage.index.list_dependants("tenant_a", "job_1", limit=9) == ["job_b", "job_c"]
    assert await storage.index.list_dependants("tenant_a", "job_10", limit=9) == ["job_a", "job_b", "job_c"]


async def test_who_waited_for_a_failure_stays_known(storage: Storage) -> None:
    """The row is written with the count, or if no job waits any more; idempotent; it is deleted with the list's row."""
    jobs = [waiting("job_a"), waiting("job_b"), waiting("job_c")]
    await reserved(storage, *jobs)
    active = await storage.index.read_active("tenant_a", "job_a")
    assert active is not None
    assert active.place is not None
    counted = count_dependency(active.place, "job_1", succeeded=False)
    await storage.index.move_place(active, counted, active.check_at, settled="job_1", succeeded=False)
    for _ in range(2):
        await storage.index.drop_dependant("tenant_a", "job_1", "job_b", succeeded=False)
        await storage.index.drop_dependant("tenant_a", "job_1", "job_c")
    assert await storage.index.list_dependants("tenant_a", "job_1", limit=9) == []
    assert await storage.index.list_failed_dependants("tenant_a", "job_1", limit=9) == ["job_a", "job_b"]
    assert await storage.index.list_failed_dependants("tenant_a", "job_1", limit=9, after="job_a") == ["job_b"]
    for _ in range(2):
        await storage.index.delete_listing(replace(jobs[0], completed_at=START, dependencies=["job_1"]))
    assert await storage.index.list_failed_dependants("tenant_a", "job_1", limit=9) == ["job_b"]
    assert await storage.index.list_dependants("tenant_a", "job_2", limit=9, after="job_a") == ["job_b", "job_c"]
