"""Ends, and jobs that join the waiting queue, which come together: one transaction has many of them (R48, R49)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.places import QueueFull
from shared.errors import Contended, LedgerRefused, LedgerUnavailable
from shared.operations.gates import freed, queue_joins
from shared.operations.gates.freed import take_turn
from shared.operations.process.gate_directory import GateDirectory
from shared.ports.admissions import AdmissionWrite
from shared.ports.index import PlaceMove
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import meanwhile, noted
from tests.operations.support import create_numbered, dispatch, limited, service_sends
from tests.worlds.gates import admission_of, ended, killed_at, posted, staging, statuses

__all__ = ["staging"]  # a fixture


def joined_together(world: World, refused: str = "") -> list[list[str]]:
    """The jobs of each transaction in which some join the queue; one with the job `refused` the store refuses."""
    found: list[list[str]] = []
    real = world.index.move_places

    async def call(moves: Sequence[PlaceMove], admission: AdmissionWrite) -> None:
        found.append([each.active.job_id for each in moves])
        # others come meanwhile
        await asyncio.sleep(0)
        if refused in found[-1]:
            raise LedgerRefused("a row is too large")
        await real(moves, admission)

    world.index.move_places = call  # type: ignore[method-assign]
    return found


async def on_their_way(world: World, *numbers: int) -> list[str]:
    """Creates jobs whose creator died before they joined the queue."""
    known = {row.job_id for row in await world.index.list_active("tenant_a", after=None, limit=1000)}
    for number in numbers:
        with pytest.raises(LedgerUnavailable):
            await posted(killed_at(world, "index", "move_places"), number)
    rows = await world.index.list_active("tenant_a", after=None, limit=1000)
    return sorted((row.job_id for row in rows if row.job_id not in known), key=lambda job_id: int(job_id[4:]))


async def repeated(world: World, *numbers: int) -> list[Any]:
    """The same requests again, together."""
    return await asyncio.gather(*(create_numbered(world, number) for number in numbers), return_exceptions=True)


async def test_jobs_that_join_the_queue_together_share_transactions(staging: World) -> None:
    """Sixteen of one process join it by five transactions at most, each once."""
    await posted(staging, 0)
    together = joined_together(staging)
    await asyncio.gather(*(create_numbered(staging, number) for number in range(1, 17)))
    assert len(together) <= 5
    assert len({job_id for jobs in together for job_id in jobs}) == 16
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting, admission.staged) == (1, 16, 16)


async def test_a_request_that_comes_twice_joins_the_queue_once(staging: World) -> None:
    """Two deliveries of one request finish its creation in one process: a transaction has a job's rows once."""
    await posted(staging, 0)
    [waits, other] = await on_their_way(staging, 1, 2)
    together = joined_together(staging)
    await repeated(staging, 1, 1, 2)
    assert sorted(job_id for jobs in together for job_id in jobs) == [waits, other]
    assert (await admission_of(staging)).waiting == 2


async def test_one_of_those_that_join_is_refused(staging: World) -> None:
    """Its row is refused by the store: it alone gets the error, and the others wait in the queue."""
    await posted(staging, 0)
    jobs = await on_their_way(staging, 1, 2, 3, 4)
    joined_together(staging, refused=jobs[1])
    found = await repeated(staging, 1, 2, 3, 4)
    assert [type(each).__name__ for each in found] == ["Created", "LedgerRefused", "Created", "Created"]
    rows = await staging.index.list_active("tenant_a", after=None, limit=10)
    waiting = [row.job_id for row in rows if row.place is not None and row.place.state == "WAITING"]
    assert sorted(waiting) == sorted({*jobs} - {jobs[1]})


async def test_one_of_those_that_join_finds_too_many_queues(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its call is scheduled again; the same transaction keeps the others in the queue."""
    await posted(staging, 0)
    jobs = await on_their_way(staging, 1, 2, 3)
    admit_or_queue = queue_joins.admit_or_queue

    def full(admission: AdmissionState, known: Any, place: Any, now: Any) -> Any:
        if place.candidate.job_id == jobs[1]:
            raise QueueFull(400, None)  # type: ignore[arg-type]
        return admit_or_queue(admission, known, place, now)

    monkeypatch.setattr(queue_joins, "admit_or_queue", full)
    found = await repeated(staging, 1, 2, 3)
    assert [type(each).__name__ for each in found] == ["Created", "Contended", "Created"]
    assert isinstance(found[1], Contended)


async def test_those_that_join_wait_for_a_count_once(staging: World) -> None:
    """While another process counts, eight jobs time out together, and not each after its own second."""
    await posted(staging, 0)
    numbers = range(1, 9)
    await on_their_way(staging, *numbers)
    stored = staging.index.admissions.admissions["tenant_a"]
    counting = replace(stored.admission, counting_until=staging.clock.now() + timedelta(minutes=1))
    await staging.index.write_admission(AdmissionWrite(before=stored, after=counting))
    began = staging.clock.now()

    async def sleep(seconds: float) -> None:
        staging.clock.advance(seconds)
        await asyncio.sleep(0)

    waits = replace(staging, context=replace(staging.context, sleep=sleep))
    found = await repeated(waits, *numbers)
    assert [type(each).__name__ for each in found] == ["Created"] * 8
    assert staging.clock.now() - began < timedelta(seconds=3)
    assert await statuses(staging, (each.stored.record.job.job_id for each in found)) == ["THROTTLED"] * 8


async def test_an_end_waits_until_its_own_slot_is_free(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ninety ends of one process need three turns of at most forty; none is done before its FREED row is gone."""
    # an end waits for its turn by the machine's own clock, which a loaded machine outlasts
    monkeypatch.setattr(freed, "_PATIENCE", timedelta(minutes=1))
    world = limited(world, max_inflight_per_tenant=100, overflow="stage")
    jobs = await posted(world, *range(90))
    for job_id in jobs:
        await dispatch(world, job_id)
    writes = noted(world.index, "write_admission")

    async def ends(job_id: str) -> bool:
        await service_sends(world, job_id, "RESULT", 1)
        rows = await world.index.admissions.list_freed("tenant_a", limit=1000)
        return job_id not in {row.job_id for row in rows}

    assert all(await asyncio.gather(*map(ends, jobs)))
    sizes = [len(admission.freed) for _, admission in writes]
    assert (sum(sizes), max(sizes), len(sizes) <= 5) == (90, 40, True)
    assert (await admission_of(world)).active == 0


async def test_an_end_whose_row_another_process_took_writes_nothing(staging: World) -> None:
    """The other one has freed the slot, and admitted the next job."""
    first, second = await posted(staging, 1, 2)
    other = replace(staging, context=changed(staging.context, gate_directory=GateDirectory()))
    meanwhile(staging.index.admissions, "list_freed", lambda: take_turn(other.context, "tenant_a"))
    writes = noted(staging.index, "write_admission")
    await ended(staging, first)
    assert [[row.job_id for row in admission.freed] for _, admission in writes] == [[first]]
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting) == (1, 0)
    rows = await staging.index.list_active("tenant_a", after=None, limit=10)
    assert [row.job_id for row in rows] == [second]
