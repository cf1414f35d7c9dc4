"""Changes while an export reads the tables: the app can continue with the restored store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from shared.adapters.memory_tables import MemoryAccount, MemoryTable
from shared.adapters.tables import exports
from shared.adapters.tables.export_format import Manifest, read_manifest
from shared.adapters.tables.exports import TablesExports
from shared.adapters.tables.table import Entity
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.read_history import read_history
from shared.operations.sweeper.sweep import sweep
from shared.refusals import LimitReached
from tests.adapters.exported_app import (
    NAMES,
    TENANT,
    MemoryFiles,
    app,
    feed_is_written,
    goes_on,
    page,
    restored,
    running,
    succeeded,
)
from tests.operations.support import dispatch, limited, service_sends, submitted


class Moving:
    """Tables in which `event` happens after this number of read rows."""

    def __init__(self, account: MemoryAccount, after: int, happens: Callable[[], Awaitable[object]]) -> None:
        self._account, self._left, self._happens = account, after, happens

    async def table(self, name: str) -> Any:
        table = await self._account.table(name)
        moving = self

        class Table(MemoryTable):
            async def query_entities(self, query_filter: str, **options: Any) -> AsyncIterator[Entity]:
                async for row in table.query_entities(query_filter, **options):
                    moving._left -= 1
                    if moving._left == 0:
                        await moving._happens()
                    yield row

        moves = Table(self._account, name)
        moves.partitions = table.partitions
        return moves


async def test_jobs_that_move_during_the_export_are_whole_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the export is when a job ends, another one runs, and a third and a fourth one are created.

    Each restored job has a history without a gap, is in the lists, and ends; the next event has the next number. No job
    stays active, and a job that is left out can be requested again.
    """
    monkeypatch.setattr(exports, "_PAGE", 3)
    monkeypatch.setattr(exports, "_READ_AGAIN_S", 0)
    place = 0
    while await export_meanwhile(place := place + 1):
        pass
    assert place > 20


async def export_meanwhile(place: int) -> bool:
    """Exports, with a change after this number of rows. Returns whether the export reads that many.

    The change is in the export completely or not at all.
    """
    account, files = MemoryAccount(), MemoryFiles()
    world, hints = app(account)
    world.clock.advance(3600)
    first, second = await running(world, 1), await submitted(world, request_type="OCR", payload={}, doc_id="two")
    of_other = await submitted(world, request_type="OCR", payload={}, tenant_id="tenant_b")
    await feed_is_written(world, hints)
    world.clock.advance(3600)
    for asleep in await world.context.index.awake_tenants(now=world.clock.now()):
        await world.context.index.put_to_sleep(asleep)
    happened: list[str] = []

    async def happens() -> None:
        await service_sends(world, first, "RESULT", 12)
        await dispatch(world, second)
        happened.extend([await succeeded(world, 3), await running(world, 4)])
        await feed_is_written(world, hints)

    moving = Moving(account, place, happens)
    exported = await TablesExports(moving, NAMES, files).go_on(world.clock.now(), lambda: False)
    if not happened:
        return False
    assert exported is not None
    after, hints = app(await restored(account, files, exported.name), world)
    tables = after.context.ledger._rows.account  # type: ignore[attr-defined]
    jobs = [key for key, part in tables.of(NAMES["ledger"]).partitions.items() if part.rows and key != of_other]
    assert {first, second} <= {*jobs}
    awake = {each.tenant for each in await after.context.index.awake_tenants(now=after.clock.now())}
    assert awake == {TENANT, "tenant_b"}
    listed = {row.job_id for row in await after.context.index.list_jobs(TENANT, after=None, limit=100)}
    for job_id in jobs:
        record, events = await read_history(after.context, job_id)
        assert [event.seq for event in events] == list(range(1, record.job.event_seq + 1))
    assert listed == {*jobs}
    for job_id in jobs:
        if not (await after.job(job_id)).job.status.terminal:
            await goes_on(after, job_id)
        assert (await after.job(job_id)).job.status is JobStatus.SUCCEEDED
    after.clock.advance(3600)
    await sweep(after.context, after.orchestrations)
    assert await after.context.index.list_active(TENANT, after=None, limit=100) == []
    for number, job_id in enumerate(happened, 3):
        again = await submitted(after, request_type="OCR", payload={}, doc_id=f"doc-{number}")
        assert (again == job_id) == (job_id in jobs)
    await succeeded(after, 7)
    await feed_is_written(after, hints)
    types, _ = await page(after, "earliest")
    assert types.count("job.completed") >= 3
    assert types[-1] == "job.completed"
    return True


async def latest(files: MemoryFiles) -> Manifest:
    return await read_manifest(files, (await files.folders())[-1])


async def test_later_events_are_read_feed_by_feed_in_as_many_runs_as_it_takes() -> None:
    """Each run ends after one feed, with any number of feeds, and the next one continues with the others."""
    account, files = MemoryAccount(), MemoryFiles()
    world, hints = app(account)
    tenants = [f"tenant_{number}" for number in range(4)]

    async def submit(doc_id: str) -> None:
        for tenant in tenants:
            await submitted(world, request_type="OCR", payload={}, tenant_id=tenant, doc_id=doc_id)
        await feed_is_written(world, hints)

    await submit("before")
    run = TablesExports(account, NAMES, files)
    left, exported = [0], None
    while exported is None:
        exported = await run.go_on(world.clock.now(), lambda: True)
        left.append(len((await latest(files)).feeds))
        if left[-2:] == [3, 4]:
            await submit("meanwhile")
    assert left[left.index(4) :][:5] == [4, 3, 2, 1, 0]
    after, _ = app(await restored(account, files, exported.name), world)
    for tenant in tenants:
        assert (await page(after, "earliest", tenant))[0] == ["job.queued", "job.queued"]


async def test_quotas_count_the_jobs_that_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any position of the export when a job takes the last slot: if the job is left out, its slot is free."""
    monkeypatch.setattr(exports, "_PAGE", 1)
    left_out = 0
    for place in range(1, 20):
        account, files = MemoryAccount(), MemoryFiles()
        world, _ = app(account)
        world = limited(world, max_inflight_per_tenant=2)
        await running(world, 1)
        world.clock.advance(3600)
        moving = Moving(account, place, partial(running, world, 2))
        exported = await TablesExports(moving, NAMES, files).go_on(world.clock.now(), lambda: False)
        assert exported is not None
        after, _ = app(await restored(account, files, exported.name), world)
        after = limited(after, max_inflight_per_tenant=2)
        if len(await after.context.index.list_active(TENANT, after=None, limit=10)) == 1:
            left_out += 1
            await running(after, 3)
        with pytest.raises(LimitReached):
            await running(after, 4)
    assert left_out > 3
