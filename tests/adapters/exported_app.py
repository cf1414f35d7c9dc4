"""A process of the app over tables that are exported and restored, and the steps of tests with its jobs."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from dataclasses import fields, replace
from typing import Any

from shared.adapters.memory_tables import MemoryAccount, MemoryTexts
from shared.adapters.tables.export_format import ROLES
from shared.adapters.tables.restore import Restore
from shared.adapters.tables.table import Tables
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import VerdictKind
from shared.errors import DataLost
from shared.operations.events.feed_writer import write_feed
from shared.operations.events.read_feed import EventFilter, read_feed
from shared.operations.jobs.settle_step import settle_step
from shared.operations.process.context import Stores
from shared.operations.process.hinting import Hinting
from shared.operations.process.parts import Process
from shared.operations.sweeper.sweep import sweep
from shared.store_wiring import stores_over
from tests.contexts import changed
from tests.memory_bus import MemoryHints
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import World, built
from tests.operations.support import dispatch, service_sends, submitted

NAMES = {role: f"lucius{role}" for role in ROLES}
TENANT = "tenant_a"


class MemoryFiles:
    """See `shared.adapters.tables.export_format.Files`."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put_bytes(self, name: str, content: bytes) -> None:
        self.kept[name] = content

    async def get_bytes(self, name: str) -> bytes:
        if name not in self.kept:
            raise DataLost(name)
        return self.kept[name]

    async def folders(self) -> list[str]:
        return sorted({name.split("/")[0] for name in self.kept})

    async def remove(self, prefix: str) -> None:
        for name in [name for name in self.kept if name.startswith(prefix)]:
            del self.kept[name]


def app(account: Tables, before: World | None = None, settings: Any = None) -> tuple[World, MemoryHints]:
    """A process of the app over the tables, with a new task hub; `before`: at the time of that one."""
    world, hints = built(MemoryLedger()), MemoryHints()
    if before is not None:
        world.clock.advance((before.clock.now() - world.clock.now()).total_seconds())
    settings = settings or world.context.settings
    stores = stores_over(account, MemoryTexts(), MemoryTexts(), settings, world.clock.now)
    numbers = itertools.count(1 if before is None else 1000)
    context = changed(
        world.context,
        **{each.name: getattr(stores, each.name) for each in fields(Stores)},
        feed=stores.feed,
        hooks=stores.hooks,
        hinting=Hinting(hints, world.clock),
        process=Process(),
        settings=settings,
        new_job_id=lambda: f"job_{next(numbers)}",
        new_lease=lambda: uuid.uuid4().hex,
    )
    return replace(world, context=context, ledger=stores.ledger, index=stores.index), hints  # type: ignore[arg-type]


async def feed_is_written(world: World, hints: MemoryHints) -> None:
    await asyncio.sleep(0)
    sent, hints.sent = hints.sent, []
    await write_feed(world.context, [hint for hint, _ in sent])


async def succeeded(world: World, number: int) -> str:
    job_id = await submitted(world, request_type="OCR", payload={}, doc_id=f"doc-{number}")
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 10 * number + 1)
    await service_sends(world, job_id, "RESULT", 10 * number + 2)
    return job_id


async def running(world: World, number: int) -> str:
    job_id = await submitted(world, request_type="OCR", payload={}, doc_id=f"doc-{number}")
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 10 * number + 1)
    return job_id


async def goes_on(world: World, job_id: str) -> None:
    """The sweeper starts the orchestration on the new task hub, which sends an attempt to a service that replies."""
    world.clock.advance(20 * 60)
    await sweep(world.context, world.orchestrations)
    [instance] = [each for each in world.orchestrations.started if each.startswith(job_id)]
    for _ in range(5):
        verdict = await dispatch(world, job_id, instance_id=instance)
        if verdict.kind is VerdictKind.SENT:
            break
        await settle_step(
            *(world.context, world.orchestrations),
            **{"job_id": job_id, "instance_id": instance, "step_id": "ocr", "attempt_no": verdict.attempt_no},
        )
        world.clock.advance(10 * 60)
    await service_sends(world, job_id, "RESULT", 99)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED


async def page(world: World, after: str, tenant: str = TENANT) -> tuple[list[str], str]:
    found = await read_feed(
        world.context, tenant, after=after, event_filter=EventFilter(), limit=100, invalid=ValueError
    )
    return [str(event["type"]) for event in found.events], found.next


async def rows_of(account: Tables, names: dict[str, str]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Without those that a restore changes: the version of the store, and the id of the feeds."""
    found = {}
    for role, name in names.items():
        table = await account.table(name)
        async for row in table.query_entities("PartitionKey gt @any", parameters={"any": ""}):
            values = {key: value for key, value in row.items() if key != "feed_id"} | {"": sorted(row.int64)}
            found[role, row["PartitionKey"], row["RowKey"]] = values
    return found


async def restored(account: Tables, files: MemoryFiles, name: str) -> MemoryAccount:
    new = MemoryAccount()
    await Restore({role: new.of(NAMES[role]) for role in ROLES}, files).run(name)
    return new
