"""Rows that a tenant's quotas write and read, counted where they leave, as in docs/explanation/scale.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from benchmarks.scale import governance
from benchmarks.scale.job import Job
from shared.adapters.tables.direct import DirectTable
from shared.core.jobs.states import JobStatus
from shared.operations.gates.freed import take_turn
from tests.adapters.job_cost import App, app, world

__all__ = ["app", "world"]  # fixtures

JOBS = 40
#: rows of a creation, and of an end, in a tenant without quotas
CREATION, END = 5, 5


@dataclass
class Rows:
    """Transactions by their size, and reads by the number of rows that each found; one that finds none counts 1."""

    written: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def take(self) -> tuple[list[int], list[int]]:
        found = (self.written, self.read)
        self.written, self.read = [], []
        return found


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Of all tables but that of the directory, which is not read for each job."""
    counted = Rows()
    submit, query, get = DirectTable.submit_transaction, DirectTable.query_entities, DirectTable.get_entity

    async def submit_transaction(self: DirectTable, operations: Sequence[Any]) -> Any:
        if self._name.startswith("index"):
            counted.written.append(len(operations))
        return await submit(self, operations)

    async def query_entities(self: DirectTable, query_filter: str, **options: Any) -> AsyncIterator[Any]:
        found = [entity async for entity in query(self, query_filter, **options)]
        if self._name.startswith("index"):
            counted.read.append(max(1, len(found)))
        for entity in found:
            yield entity

    async def get_entity(self: DirectTable, partition_key: str, row_key: str) -> Any:
        if self._name.startswith("index"):
            counted.read.append(1)
        return await get(self, partition_key, row_key)

    for method in (submit_transaction, query_entities, get_entity):
        monkeypatch.setattr(DirectTable, method.__name__, method)
    return counted


@pytest.mark.parametrize("app", ["one process"], indirect=True)
async def test_rows_of_creations_and_ends_that_come_together(app: App, rows: Rows) -> None:
    """Forty creations at once, forty ends, and the turn after them."""
    gated = app.limited(max_inflight_per_tenant=100, overflow="stage")
    await gated.job("OCR", 0)
    # the second count, since the tenant's quotas are new
    app.world.clock.advance(60)
    await gated.job("OCR", 1)
    context = gated.http.context
    rows.take()
    records = await asyncio.gather(*(gated.post("OCR", number) for number in range(10, 10 + JOBS)))
    written, read = rows.take()
    # GATES, and the rows of each job; GATES is read for each transaction
    together = [(size - 1) // CREATION for size in written]
    assert sum(together) == JOBS
    assert [CREATION * count + 1 for count in together] == written
    assert max(together) <= governance.CREATIONS_TOGETHER
    assert read == [1] * len(written) * (governance.CREATION_CALLS - 1)

    now = app.world.clock.now()
    for record in records:
        ended = replace(record.job, status=JobStatus.SUCCEEDED, completed_at=now)
        await context.index.close(ended, claim_expires_at=now, counted=True)
    written, read = rows.take()
    # FREED in, and ACTIVE read
    assert (written, read) == ([END + 1] * JOBS, [1] * JOBS)
    await take_turn(context, "tenant_a")
    written, read = rows.take()
    # GATES and the FREED rows: read, then written and removed
    assert (written, read) == ([1 + JOBS], [1, JOBS])
    assert len(written) + len(read) == governance.TURN_CALLS
    assert JOBS == governance.ENDS_TOGETHER
    of_each = governance.END_WRITES + governance.END_READS
    assert governance.TOGETHER.rows == pytest.approx(Job(1).index_entities + of_each + 2 / JOBS + 2 / 18)
