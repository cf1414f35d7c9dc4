"""With a million living jobs the sweeper keeps its period of a minute: the survey ends with its time and continues
there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.sweeper import listing
from shared.operations.sweeper.sweep import sweep
from shared.ports.index import ActiveRow
from tests.jobs import START
from tests.memory_stores import MemorySweepMark
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import limited, submitted
from tests.worlds.gates import created, held, statuses

#: a row of the test represents 250: 4,000 for a million, and a page of four for one of 1,000
PAGE, PAGE_S, ROW_S = 4, 0.1, 0.15
PERIOD_S, LOOK_S = 60, 0.05


@dataclass
class ManyRows:
    """Living jobs that are not due, of tenants of very unequal sizes, beside those of a memory index."""

    world: World
    sizes: dict[str, int]
    #: tenant to when its last page was read last
    read_whole: dict[str, list[datetime]] = field(default_factory=dict)
    pages: int = 0

    def __post_init__(self) -> None:
        self._others = self.world.index.list_active

    async def list_active(
        self, tenant: str, *, after: str | None, limit: int, unread: list[str] | None = None
    ) -> list[ActiveRow]:
        if tenant not in self.sizes:
            return await self._others(tenant, after=after, limit=limit, unread=unread)
        self.world.clock.advance(PAGE_S)
        self.pages += 1
        first = int(after.rpartition("-")[2]) + 1 if after else 0
        numbers = range(first, min(first + limit, self.sizes[tenant]))
        if len(numbers) < limit:
            self.read_whole.setdefault(tenant, []).append(self.world.clock.now())
        return [
            ActiveRow(
                job_id=f"{tenant}-{number:06}",
                tenant=tenant,
                claim="",
                created_at=START,
                check_at=START,
                request_type="OCR",
                mode="DEFAULT",
                status="IN_PROGRESS",
            )
            for number in numbers
        ]


def with_many(world: World, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> ManyRows:
    many = ManyRows(world, sizes)
    read = world.ledger.read

    async def slow(job_id: str) -> Any:
        if "-" in job_id:
            # sixteen at once, each 10 ms
            world.clock.advance(ROW_S)
        return await read(job_id)

    for name, value in (("_PAGE", PAGE), ("_ROUND", PAGE)):
        monkeypatch.setattr(listing, name, value)
    monkeypatch.setattr(world.ledger, "read", slow)
    monkeypatch.setattr(world.index, "list_active", many.list_active)
    world.context = replace(world.context, sweep_marks=MemorySweepMark())
    for tenant in sizes:
        world.index.put_awake(tenant, START)
    return many


async def test_a_million_living_jobs_keep_the_period(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store returns a page of 1,000 rows in 0.1 s, and a comparison takes 0.6 ms; 150 looks are due in each minute.

    Each sweep ends before the next one begins, each look is done in its sweep, and the gauges have every job once the
    survey ends: within 30 sweeps, repeatedly.
    """
    sizes = {f"tenant_{number:03}": 24 for number in range(100)} | {"tenant_050": 1_624}
    many = with_many(world, monkeypatch, sizes)
    due: list[str] = []

    async def repair(context: Any, orchestrations: Any, active: ActiveRow, report: Any) -> None:
        world.clock.advance(LOOK_S)
        due.append(active.job_id)

    async def listed(tenant: str, *, now: datetime, limit: int, after: ActiveRow | None = None) -> list[ActiveRow]:
        first = int(after.job_id) + 1 if after is not None else 0
        last = min(first + limit, 150) if tenant == "tenant_000" else 0
        row = ActiveRow(job_id="", tenant=tenant, claim="", created_at=START, check_at=START)
        return [replace(row, job_id=str(number)) for number in range(first, last)]

    monkeypatch.setattr("shared.operations.sweeper.looks.repair", repair)
    monkeypatch.setattr(world.index, "due", listed)
    total, complete = sum(sizes.values()), []
    for number in range(37):
        began = world.clock.now()
        due.clear()
        await sweep(world.context, world.orchestrations)
        assert len(due) == 150
        took_s = (world.clock.now() - began).total_seconds()
        assert took_s < PERIOD_S
        if (await world.index.read_position(0)).survey.after is None:
            complete.append(number)
            marks = await world.context.sweep_marks.read(1)  # type: ignore[union-attr]
            assert marks[0].counts.active == {"IN_PROGRESS": total}
        world.clock.advance(PERIOD_S - took_s)
    assert total == 4_000
    assert complete[0] < 30
    assert len(complete) >= 2
    assert many.read_whole.keys() == sizes.keys()
    # each page is read once in a survey, except those that are read together with the last one of a sweep
    assert many.pages < (len(complete) + 1) * (total / PAGE + len(sizes)) + 100 * listing.AT_ONCE


async def test_a_survey_that_never_ends_keeps_no_line_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenant with a waiting job is the last one: its admission state leads to it, not the rows of its jobs."""
    world = limited(world)
    await held(world, until=world.clock.now() + timedelta(minutes=1))
    job_id = await created(world, 1)
    assert await statuses(world, [job_id]) == [JobStatus.THROTTLED]
    # the call at the end of the hold is lost
    world.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    with_many(world, monkeypatch, {f"large_{number}": 2_000 for number in range(5)})
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    assert (await world.index.read_position(0)).survey.after is not None
    assert await statuses(world, [job_id]) == [JobStatus.QUEUED]


@pytest.mark.parametrize("fault", [LedgerUnavailable("503"), KeyError("status")])
async def test_a_row_that_cannot_be_read_stops_no_survey(world: World, fault: Exception) -> None:
    """A job, or all rows of a tenant: the others are counted, and the job as in its row."""
    jobs = [await submitted(world, tenant_id=f"tenant_{number}") for number in range(4)]
    world.context = replace(world.context, sweep_marks=MemorySweepMark())
    failing(world.ledger, "read", error=fault, only=lambda job_id: job_id == jobs[1])
    failing(world.index, "list_active", error=fault, only=lambda tenant, **_: tenant == "tenant_2")
    await sweep(world.context, world.orchestrations)
    marks = await world.context.sweep_marks.read(1)  # type: ignore[union-attr]
    assert marks[0].counts.active.total() == 3
