"""Jobs at an admission state, in the rows of either store: active, waiting, admitted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import AdmissionState, Candidate, WaitingQueue, admit_candidate, remove_active
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.queues import add_waiting, remove_waiting
from shared.core.gates.rules import Directory, Gate, GateKind
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.ports.admissions import ASLEEP, AdmissionWrite, StoredAdmission
from shared.ports.index import FIRST_CHECK, ActiveRow
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

NOWHERE = Directory()
LATER, HOUR = START + timedelta(minutes=7), timedelta(hours=1)


def job(number: int, **changes: object) -> Job:
    return replace(planned(f"job_{number:03d}", doc_id=f"doc-{number}", **changes).job, created_at=START)


async def stored(storage: Storage) -> StoredAdmission:
    found = await storage.admissions.read("tenant_a")
    assert found is not None
    return found


async def opened(storage: Storage) -> StoredAdmission:
    await storage.index.write_admission(
        AdmissionWrite(before=None, after=AdmissionState(tenant="tenant_a", counted_at=START))
    )
    return await stored(storage)


async def inside(storage: Storage, number: int) -> Job:
    """Returns a job that its quotas admitted at once."""
    before, one = await stored(storage), job(number)
    place = Place(candidate=Candidate.of(one))
    after = admit_candidate(before.admission, NOWHERE, place.candidate, START)
    await storage.index.reserve(one, replacing=None, place=place, admission=AdmissionWrite(before=before, after=after))
    return one


async def in_line(storage: Storage, number: int, line: int = 0, rank: int | None = None) -> QueuedJob:
    """A job that arrived, and then lined up."""
    before, one = await stored(storage), replace(job(number), status=JobStatus.THROTTLED)
    candidate = replace(Candidate.of(one), rank=number if rank is None else rank)
    place = Place(state=PlaceState.ARRIVING, initial_status=JobStatus.THROTTLED, candidate=candidate)
    write = AdmissionWrite(before=before, after=replace(before.admission, staged=before.admission.staged + 1))
    await storage.index.reserve(one, replacing=None, place=place, admission=write)
    arrived = await active(storage, number)
    assert (arrived.place, arrived.check_at) == (place, START + FIRST_CHECK)
    before = await stored(storage)
    requested = before.admission.queues.get(line) or WaitingQueue(
        job_type=f"T{line}", mode="DEFAULT", source=None, emergency=False
    )
    after = add_waiting(before.admission, line, requested, candidate.rank)
    waits = replace(place, state=PlaceState.WAITING, queue=line)
    await storage.index.move_place(arrived, waits, ASLEEP, AdmissionWrite(before=before, after=after))
    return QueuedJob(candidate, line, one.idempotency_hash, START)


async def active(storage: Storage, number: int) -> ActiveRow:
    found = await storage.index.read_active("tenant_a", f"job_{number:03d}")
    assert found is not None
    return found


def admitting(before: StoredAdmission, *rows: QueuedJob, leaving: Candidate | None = None) -> AdmissionWrite:
    admission = remove_active(before.admission, leaving, 0) if leaving is not None else before.admission
    for row in rows:
        admission = admit_candidate(remove_waiting(admission, row.queue), NOWHERE, row.candidate, START)
    admission = replace(admission, staged=admission.staged - len(rows))
    return AdmissionWrite(before=before, after=admission, admitted=rows, check_at=LATER)


async def due(storage: Storage, at: datetime) -> list[str]:
    return [row.job_id for row in await storage.index.due("tenant_a", now=at, limit=500)]


def ended(one: Job) -> Job:
    return replace(one, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START)


def type_gate(name: str) -> Gate:
    return Gate(GateKind.TYPE, "tenant_a", name)
