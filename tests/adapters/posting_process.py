"""Processes that post jobs of one or several tenants, and end their started jobs: `python -m`, with JSON as the
argument.

They post when the first of them reads a line, and begin to end jobs at the next line. They are forks of a process that
has imported the app, and share nothing else.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import sys
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from typing import Any

from shared.adapters.blobs import BlobTexts
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.errors import Transient
from shared.operations.gates.allocations import allocate_on_call
from shared.operations.gates.find_gate import find_platform_gate_by_id
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.jobs.control_job import control_job
from shared.refusals import Overloaded
from tests.memory_bus import MemoryAdmissionCalls
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import RecordingOrchestrations, World, built
from tests.operations.support import create_numbered

#: of a job's work
WORK_S = 0.05


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class Working(RecordingOrchestrations):
    """Each job that is started works a moment, and ends."""

    world: World | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        if instance_id not in self.states:
            await super().start(instance_id, plan)
            self.tasks.add(asyncio.get_running_loop().create_task(self._work(instance_id)))

    async def _work(self, job_id: str) -> None:
        assert self.world is not None
        await self.may_end.wait()
        await asyncio.sleep(WORK_S * random.random())
        origin = Origin(cause_id=f"end:{job_id}", actor="test", source="test")
        while True:
            try:
                await control_job(self.world.context, self, job_id, ControlKind.CANCEL, origin)
            except Transient:
                await asyncio.sleep(random.random())
            else:
                return


def world_of(asked: dict[str, Any], account: TablesAccount, texts: BlobTexts) -> World:
    world, own = built(MemoryLedger()), asked["own"]
    limit = "max_inflight" if len(asked["tenants"]) > 1 else "max_inflight_per_tenant"
    settings = replace(world.context.settings, **{limit: asked["limit"]}, overflow="stage")
    orchestrations = Working()
    context = replace(
        world.context,
        settings=settings,
        ledger=TablesLedger(account, f"ledger{own}", texts),
        index=TablesIndex(account, f"index{own}", f"tenants{own}"),
        admissions=TablesAdmissions(account, f"index{own}", f"gates{own}"),
        incidents=TablesIncidents(account, f"index{own}", f"gates{own}"),
        allocations=TablesAllocations(account, f"gates{own}"),
        bulks=TablesBulks(account, f"index{own}", f"gates{own}"),
        clock=Clock(),
        sleep=asyncio.sleep,
        random=random.random,
        new_job_id=lambda: uuid.uuid4().hex,
        new_lease=lambda: uuid.uuid4().hex,
    )
    orchestrations.world = world = replace(world, context=context, orchestrations=orchestrations)
    return world


async def post_and_end(asked: dict[str, Any], may_post: Event, may_end: Event) -> None:
    account = TablesAccount.connect(
        connection=asked["connection"], endpoint=None, credential=None, version_table=f"tenants{asked['own']}"
    )
    texts = BlobTexts.connect(connection=asked["connection"], endpoint=None, credential=None)
    world = world_of(asked, account, texts)
    orchestrations = world.orchestrations
    assert isinstance(orchestrations, Working)

    tenants = asked["tenants"]

    async def post(number: int) -> None:
        while True:
            try:
                await create_numbered(world, number, tenant_id=tenants[number % len(tenants)])
            except (Transient, Overloaded):
                await asyncio.sleep(random.random())
            else:
                return

    async def posts() -> None:
        await asyncio.gather(*(post(number) for number in range(asked["first"], asked["first"] + asked["count"])))

    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, may_post.wait)
    queue = asyncio.create_task(serve(world))
    posting = asyncio.create_task(posts())
    await loop.run_in_executor(None, may_end.wait)
    orchestrations.may_end.set()
    await posting
    # an end here may admit another job, which starts here
    for tenant in tenants:
        while await world.context.index.list_active(tenant, after=None, limit=1):  # noqa: ASYNC110  # others' rows
            await asyncio.sleep(0.2)
    queue.cancel()
    await asyncio.gather(*orchestrations.tasks)
    await account.close()
    await texts.close()


async def serve(world: World) -> None:
    """Handles this process's calls as the queue does."""
    context, calls = world.context, world.context.bus.admission_calls
    assert isinstance(calls, MemoryAdmissionCalls)
    while True:
        await asyncio.sleep(0.05)
        now = context.clock.now()
        due = [each for each in calls.divisions if each[1] <= now]
        calls.divisions = [each for each in calls.divisions if each[1] > now]
        tenants = {tenant for tenant, _, at in calls.calls if at is None or at <= now}
        calls.calls = [each for each in calls.calls if each[0] not in tenants]
        try:
            for gate_id, _, since in due:
                gate = find_platform_gate_by_id(context, gate_id)
                assert gate is not None
                for tenant, entered in (await allocate_on_call(context, gate, since)).items():
                    await notify(context, world.orchestrations, tenant, entered)
            for tenant in tenants:
                await notify(context, world.orchestrations, tenant, await take_turn(context, tenant))
        except Transient:
            # as the bus delivers again
            calls.divisions += due
            calls.calls += [(tenant, None, None) for tenant in tenants]


def main(asked: dict[str, Any]) -> int:
    forks = multiprocessing.get_context("fork")
    may_post, may_end = forks.Event(), forks.Event()

    def run(place: int) -> None:
        own_share = {**asked, "first": place * asked["count"]}
        asyncio.run(post_and_end(own_share, may_post, may_end))

    processes = [forks.Process(target=run, args=(place,), daemon=True) for place in range(asked["processes"])]
    for process in processes:
        process.start()
    print("ready", flush=True)
    for event in (may_post, may_end):
        sys.stdin.readline()
        event.set()
    for process in processes:
        process.join()
    return max(abs(process.exitcode or 0) for process in processes)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
