"""A process over a copy of the populated world, to purge a tenant in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory_tables import MemoryAccount, MemoryTexts, StoredRow
from shared.core.bulks import Bulk, BulkState
from shared.core.jobs.occurrences import ControlKind
from shared.operations.bulks.bulks import read_bulk
from shared.operations.bulks.purge_tenant import purge_step, start_purge
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.process.context import Context
from shared.operations.process.parts import Events, Process
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.rejected import RejectedMessage, rejection_id
from shared.store_wiring import stores_over
from tests.isolation.faults import Kind
from tests.isolation.world import EVERYTHING, OTHER, VICTIM
from tests.isolation.world import World as Populated
from tests.jobs import envelope
from tests.operations.conftest import RecordingOrchestrations, StillClock
from tests.operations.support import by

#: names of tables in the populated world, by the setting of the app
_TABLES = {
    **{"ledger_table": "ledger", "index_table": "index", "tenants_table": "tenants", "gates_table": "gates"},
    **{"rejected_table": "rejected", "feed_table": "feed"},
}
_LONG = "x" * 40_000


class Engine(RecordingOrchestrations):
    """An orchestration that is terminated has ended."""

    async def terminate(self, instance_id: str, reason: str) -> None:
        await super().terminate(instance_id, reason)
        self.states[instance_id] = InstanceState.ENDED


@dataclass
class Purging:
    """A process over a copy of the populated world's tables, days later."""

    account: MemoryAccount
    texts: MemoryTexts
    archive: MemoryTexts
    context: Context
    orchestrations: RecordingOrchestrations
    clock: StillClock

    async def started(self, reason: str = "the contract has ended") -> Bulk:
        return (await start_purge(self.context, VICTIM, reason=reason, actor="app:1"))[0]

    async def worked(self, bulk: Bulk, calls: int = 500) -> Bulk:
        """Handles the calls, each when it is due, until the bulk operation has ended."""
        for _ in range(calls):
            found = await read_bulk(self.context, VICTIM, bulk.bulk_id)
            if found.state is not BulkState.RUNNING:
                return found
            self.clock.time = max(self.clock.time, found.look_at)
            await work_bulk(self.context, self.orchestrations, VICTIM, bulk.bulk_id)
        raise AssertionError("it does not end")

    async def worked_steps(self, bulk: Bulk, steps: int) -> None:
        stored = await self.context.bulks.read(VICTIM, bulk.bulk_id)
        assert stored is not None
        for _ in range(steps):
            stored, _ = await purge_step(self.context, self.orchestrations, stored)

    async def left(self) -> dict[tuple[str, str, str], Any]:
        """Of the tenant, after a sweep, which forgets that it had webhooks."""
        await sweep(self.context, self.orchestrations)
        return self.of(VICTIM)

    def of(self, tenant: str) -> dict[tuple[str, str, str], Any]:
        """The rows that name the tenant in a key or in a value, and blobs."""
        found: dict[tuple[str, str, str], Any] = {}
        for table, partition, key, row in self.account.rows():
            if tenant in f"{partition} {key}" or tenant in str([*row.values.values()]):
                found[table, partition, key] = row.values
        for store in (self.texts, self.archive):
            found |= {("blobs", "", name): text for name, text in store.kept.items() if tenant in name}
        return found


@pytest.fixture(scope="module")
def populated() -> Populated:
    """Jobs with everything that a job can have, of three tenants; each has ended."""
    world = Populated(None, Kind.MISSING, EVERYTHING)
    asyncio.run(world.run())
    return world


@pytest.fixture
def purging(populated: Populated) -> Purging:
    """The tenant has a rejected message and archived jobs too."""
    return asyncio.run(_purging(populated))


async def _purging(populated: Populated) -> Purging:
    app, account, clock = populated.app, MemoryAccount(), StillClock()
    settings = replace(app.context.settings, retention_days=31)
    for setting, name in _TABLES.items():
        table = account.of(getattr(settings, setting))
        for partition, part in app.account.of(name).partitions.items():
            for key, row in part.rows.items():
                table.partitions[partition].put(key, StoredRow(dict(row.values), row.etag, row.longs))
    # ETags of new rows must not be those of old ones
    account._etags = app.account._etags
    texts, archive = MemoryTexts(), MemoryTexts()
    clock.time = app.now() + timedelta(days=40)
    stores = stores_over(account, texts, archive, settings, clock.now)
    assert app.context.events is not None
    named = {each: getattr(stores, each) for each in ("ledger", "index", "admissions", "allocations", "bulks")}
    named |= {each: getattr(stores, each) for each in ("incidents", "rejected", "archive", "usage", "answers")}
    events: Events = replace(app.context.events, feed=stores.feed, hooks=stores.hooks)
    context = replace(
        app.context,
        settings=settings,
        **named,
        sweep_marks=stores.sweep_marks,
        minutes=stores.minutes,
        events=events,
        process=Process(),
        clock=clock,
        sleep=_no_sleep,
    )
    orchestrations = Engine()
    purging = Purging(account, texts, archive, context, orchestrations, clock)
    for _ in range(3):
        await sweep(context, orchestrations)
        clock.advance(60)
    for tenant in (VICTIM, OTHER):
        await add_leftovers(purging, tenant)
    clock.advance(2 * 3600)
    return purging


async def _no_sleep(seconds: float) -> None:
    return None


async def add_leftovers(purging: Purging, tenant: str) -> None:
    """Adds a cancelled job and a rejected message of the tenant."""
    context = purging.context
    body = envelope(tenant_id=tenant, doc_id="late", request_type="OCR", payload={}, source="scanner")
    created = await create_job(context, purging.orchestrations, body, correlation_id=None)
    job_id = created.stored.record.job.job_id
    await control_job(context, purging.orchestrations, job_id, ControlKind.CANCEL, by("stop"))
    id_ = rejection_id(purging.clock.now(), lane=0, message_id=f"m-{tenant}", sequence_number=1)
    place = {"lane": 0, "message_id": f"m-{tenant}", "sequence_number": 1, "delivery_count": 1}
    message = RejectedMessage(
        id=id_, received_at=purging.clock.now(), reason="NOT_JSON", detail="", tenant=tenant, body=_LONG, **place
    )
    await context.rejected.quarantine(message)
