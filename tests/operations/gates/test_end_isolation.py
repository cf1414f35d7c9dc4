"""A job starts, moves and ends with any fault of rows and queues that are not its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates import ends
from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates import freed
from shared.operations.process.hinting import Hinting
from shared.operations.sweeper.sweep import sweep
from tests.contexts import changed
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.gates.test_gate_counts import counted_by_another, hurrying
from tests.operations.support import cancelled, create_numbered, dispatch, limited, service_sends, submitted
from tests.worlds.gates import admission_of, ended, posted, staging, states_written, statuses

__all__ = ["staging"]  # a fixture


@pytest.mark.parametrize("fault", [LedgerUnavailable("away"), TypeError("a decoder's own fault")])
async def test_the_directory_of_quotas_may_be_away(world: World, fault: Exception) -> None:
    """A process uses its last copy for five minutes; then it stages new jobs. Other jobs continue and end."""
    [first, second] = await posted(world, 1, 2)
    await dispatch(world, first)
    away = failing(world.index.admissions, "versions", error=fault)
    world.clock.advance(299)
    await service_sends(world, first, "RESULT", 1)
    assert await world.index.read_active("tenant_a", first) is None
    await posted(world, 3)
    world.clock.advance(2)
    [late] = await posted(world, 4)
    assert await statuses(world, [late]) == ["THROTTLED"]
    await dispatch(world, second)
    await service_sends(world, second, "RESULT", 1)
    assert await world.index.read_active("tenant_a", second) is None
    away.ends()
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    assert await statuses(world, [late]) == ["QUEUED"]


async def test_a_list_row_that_is_gone_keeps_no_slot(staging: World) -> None:
    """The next job starts at once; the sweeper writes the row again."""
    first, second = await posted(staging, 1, 2)
    [row] = [row for row in staging.index.listed if row.job_id == first]
    staging.index.rows.remove("tenant_a", row.cursor)
    await ended(staging, first)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "QUEUED"]
    staging.clock.advance(1)
    await sweep(staging.context, staging.orchestrations)
    rows = await staging.index.list_jobs("tenant_a", after=None, limit=9)
    assert {row.job_id: row.status for row in rows}[first] == "SUCCEEDED"


@pytest.mark.parametrize("name", ["list_dependants", "is_dependant"])
async def test_dependants_that_cannot_be_read_keep_no_slot(staging: World, name: str) -> None:
    """The ended job returns its slot, and makes no call that has the fault; the sweeper notifies the others."""
    [first] = await posted(staging, 1)
    waits = await create_numbered(staging, 2, dependencies=[first])
    [third] = await posted(staging, 3)
    with failing(staging.index, name, at=[1]):
        await ended(staging, first)
    assert await statuses(staging, [first, third]) == ["SUCCEEDED", "QUEUED"]
    calls = staging.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    assert first not in [job_id for _, job_id, _ in calls]
    await ended(staging, third)
    for _ in range(3):
        staging.clock.advance(61)
        await sweep(staging.context, staging.orchestrations)
    assert await staging.index.read_active("tenant_a", first) is None
    assert await statuses(staging, [waits.stored.record.job.job_id]) == ["QUEUED"]


async def test_a_breaker_keeps_no_slot(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluation of an end raises: the job is removed from the count."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(freed, "record_outcome", broken)
    assert ends.record_outcome is not broken
    first, second = await posted(staging, 1, 2)
    await ended(staging, first)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "QUEUED"]
    assert (await admission_of(staging)).active == 1


@pytest.mark.parametrize("fault", [LedgerUnavailable("away"), AttributeError("of the sender")])
async def test_a_queue_of_hints_that_raises_keeps_no_slot(staging: World, fault: Exception) -> None:
    """The end waits for its hint after the next job has started, and the sweeper checks the job soon."""

    class Broken:
        async def send(self, *_: Any, **__: Any) -> None:
            assert (await staging.job(second)).job.status is JobStatus.QUEUED, "the slot waits for the hint"
            raise fault

    feed = MemoryFeed()
    hinting = Hinting(Broken(), staging.clock)  # type: ignore[arg-type]
    first, second = await posted(staging, 1, 2)
    await dispatch(staging, first)
    context = changed(staging.context, feed=feed, hinting=hinting)
    await service_sends(replace(staging, context=context), first, "RESULT", 1)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "QUEUED"]
    soon = staging.clock.now() + timedelta(minutes=1)
    assert [row.job_id for row in await staging.index.due_for_clearing("tenant_a", now=soon, limit=9)] == [first]


async def test_a_turn_that_fails_is_the_sweepers(staging: World) -> None:
    """The end is done; the next job starts within a minute."""
    first, second = await posted(staging, 1, 2)
    with failing(staging.context.admissions, "list_freed", at=[1]):
        await ended(staging, first)
    assert await staging.index.read_active("tenant_a", first) is None
    assert await statuses(staging, [second]) == ["THROTTLED"]
    staging.clock.advance(60)
    await sweep(staging.context, staging.orchestrations)
    assert await statuses(staging, [second]) == ["QUEUED"]
    assert (await admission_of(staging)).active == 1


async def test_a_count_while_an_ended_job_stays(staging: World) -> None:
    """Its dependants could not be read, so its ACTIVE row is ENDED and its FREED row waits: the count includes it."""
    world = limited(staging, max_inflight_per_tenant=2, overflow="stage")
    first, second = await posted(world, 1, 2)
    await create_numbered(world, 3, dependencies=[first])
    await dispatch(world, first)
    waiting = await posted(world, 4, 5)
    # the second count of the admission state comes with the end's own turn
    world.clock.advance(61)
    with failing(world.index, "list_dependants", at=[1]):
        await service_sends(world, first, "RESULT", 1)
    assert sorted(await statuses(world, [second, *waiting])) == ["QUEUED", "QUEUED", "THROTTLED"]
    assert (await create_numbered(world, 6)).stored.record.job.status is JobStatus.THROTTLED


async def test_more_jobs_leave_a_line_than_one_turn_takes(world: World) -> None:
    """Sixty at once, during an end: the jobs of another queue keep their positions, and start."""
    types = ("OCR", "OCR_EMBEDDING_SIS")
    gates = [Gate(GateKind.TYPE, "tenant_a", each) for each in types]
    await states_written(world, *(GateState(gate=gate, rule=Rule(max_active=1), rule_seq=1) for gate in gates))
    world.clock.advance(61)
    jobs = await posted(world, *range(61))
    others = [await submitted(world, doc_id=f"other-{number}") for number in range(3)]
    await dispatch(world, jobs[0])
    ports = {name: yielding(getattr(world.context, name)) for name in ("index", "admissions", "ledger")}
    together = replace(world, context=changed(world.context, **ports))
    await asyncio.gather(
        service_sends(together, jobs[0], "RESULT", 1), *(cancelled(together, job_id) for job_id in jobs[1:])
    )
    admission = await admission_of(world)
    assert (admission.active, admission.staged, admission.waiting) == (1, 2, 2)
    for job_id in others[:2]:
        await cancelled(world, job_id)
    assert await statuses(world, [others[2]]) == ["QUEUED"]


def yielding(port: Any) -> Any:
    """Returns the port, each of whose calls lets other tasks run first."""

    class Yielding:
        def __getattr__(self, name: str) -> Any:
            found = getattr(port, name)
            if not asyncio.iscoroutinefunction(found):
                return found

            async def call(*args: Any, **fields: Any) -> Any:
                await asyncio.sleep(0)
                return await found(*args, **fields)

            return call

    return Yielding()


async def test_ends_share_a_turn_that_fails(staging: World) -> None:
    """Another process counts for a long time: twenty ends wait for it once, together."""
    world = limited(staging, max_inflight_per_tenant=30, overflow="stage")
    jobs = await posted(world, *range(20))
    await counted_by_another(world, timedelta(hours=1))
    began = world.clock.now()
    ports = {name: yielding(getattr(world.context, name)) for name in ("index", "admissions", "ledger")}
    together = replace(hurrying(world), context=changed(hurrying(world).context, **ports))
    await asyncio.gather(*(ended(together, job_id) for job_id in jobs))
    assert world.clock.now() - began <= timedelta(seconds=8)
    assert world.index.active == {}
