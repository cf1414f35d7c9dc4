"""Wrong admission states, each with the case of `test_admission_orders` that finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.adapters.tables import ending
from shared.adapters.tables.active import inserts
from shared.adapters.tables.admissions import wait_entity
from shared.adapters.tables.keys import due_row
from shared.adapters.tables.table import RowOperation
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import remove_active
from shared.core.gates.places import Decision, Place, PlaceState, admit_or_queue, decide_arrival, release
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.operations.gates import admission_turns, arrivals, freed
from shared.operations.jobs import create_job
from shared.operations.jobs.creation import initial_status_of
from shared.ports.admissions import ASLEEP, AdmissionWrite
from tests.memory_stores import MemoryIndex


def lines_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """WAIT is written with the claim, before the job has rows."""

    def arrived(admission: Any, directory: Any, candidate: Any, now: Any, **fields: Any) -> Decision:
        decision = decide_arrival(admission, directory, candidate, now, **fields)
        if decision.place.state is not PlaceState.ARRIVING:
            return decision
        after, place = admit_or_queue(decision.admission, directory, decision.place, now)
        return replace(decision, admission=after, place=place)

    def inserted(partition: str, job: Job, place: Place | None) -> list[RowOperation]:
        (_, active), (_, due) = inserts(partition, job, place)
        if place is None or place.queue is None:
            return [("create", active), ("create", due)]
        waiting = QueuedJob(place.candidate, place.queue, job.idempotency_hash, job.created_at, ASLEEP)
        asleep = {"check_at": ASLEEP}
        due |= {"RowKey": due_row(ASLEEP, job.job_id)}
        rows = ({**active, **asleep}, {**due, **asleep}, wait_entity(partition, waiting, place.queue))
        return [("create", row) for row in rows]

    monkeypatch.setattr(arrivals, "decide_arrival", arrived)
    monkeypatch.setattr(ending, "inserts", inserted)


def finishes_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that finishes a creation does not read the status with which its rows are written."""

    async def queued(*args: Any) -> JobStatus:
        await initial_status_of(*args)
        return JobStatus.QUEUED

    monkeypatch.setattr(create_job, "initial_status_of", queued)


def counts_by_existence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job with an ACTIVE row counts as active."""
    monkeypatch.setattr(
        freed, "release", lambda admission, place: remove_active(release(admission, place), place.candidate, 0)
    )


def ends_without_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end leaves no FREED row, and its process lowers the count in a separate transaction."""
    close = MemoryIndex.close

    async def closed(self: MemoryIndex, job: Job, **fields: Any) -> bool:
        active = self.active.get((job.tenant, job.job_id))
        left = await close(self, job, **{**fields, "counted": False})
        row = active.make_freed(job.updated_at) if active is not None and fields["counted"] else None
        if row is not None:
            stored = self.admissions.admissions[job.tenant]
            await self.write_admission(AdmissionWrite(before=stored, after=release(stored.admission, row.place)))
        return left

    monkeypatch.setattr(MemoryIndex, "close", closed)


def takes_rows_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn leaves the FREED rows that it has taken."""
    write = admission_turns.prepare_write

    async def written(*args: Any) -> Any:
        return replace(await write(*args), freed=())

    monkeypatch.setattr(freed, "prepare_write", written)


MUTANTS = {
    lines_up_at_once: "a creation and its duplicate",
    finishes_without_a_look: "a creation and its duplicate",
    counts_by_existence: "a cancel of a staged job",
    ends_without_a_row: "a duplicate of a staged job",
    takes_rows_twice: "a duplicate of a staged job",
}
