"""Operations under the context of one request do the resulting work for other tenants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from shared.access.caller import Caller, Scope
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.process.context import Context
from shared.operations.quotas import quotas
from shared.ports.index import ActiveRow
from shared.wiring import seen_by
from tests.jobs import START, envelope
from tests.operations.conftest import World
from tests.operations.support import by, cancelled, limited
from tests.worlds import events as feeds
from tests.worlds.gates import OPERATOR as BY
from tests.worlds.gates import PLATFORM, count, created, ruled, served

SCOPES = frozenset(Scope)
TENANT_A = Caller(actor="user:a", scopes=SCOPES, tenant="tenant_a")
#: an operator with the role that moves jobs, and without the role that reads them
MOVER = Caller(actor="app:operator", scopes=SCOPES, tenant=None, moves_all=True)
OPERATOR = replace(MOVER, sees_all=True)
CALLERS = pytest.mark.parametrize("caller", [TENANT_A, MOVER, OPERATOR], ids=["tenant", "mover", "operator"])


#: by store of the context, a read of another tenant
OF_ANOTHER: dict[str, Callable[[Context], Awaitable[object]]] = {
    "index": lambda context: context.index.list_active("tenant_b", after=None, limit=1),
    "admissions": lambda context: context.admissions.read("tenant_b"),
    "usage": lambda context: context.usage.sources("tenant_b", after="", limit=1),
    "bulks": lambda context: context.bulks.slots("tenant_b"),
    "incidents": lambda context: context.incidents.list_of_tenant("tenant_b", after=None, limit=1),
    "rejected": lambda context: context.rejected.list_days(
        START.date(), START.date(), tenant="tenant_b", after=None, limit=1
    ),
    "hooks": lambda context: context.require_events().hooks.all_of("tenant_b"),
    "feed": lambda context: context.require_events().feed.events("tenant_b", after=0, limit=1),
}


@pytest.mark.parametrize("name", OF_ANOTHER)
async def test_each_store_of_a_context_is_its_callers(world: World, name: str) -> None:
    """A tenant's caller reads no other tenant; one with change rights only reads in requests that change."""
    context, read = feeds.of(world).world.context, OF_ANOTHER[name]
    for caller, moving in ((TENANT_A, False), (TENANT_A, True), (MOVER, False)):
        with pytest.raises(PermissionError):
            await read(seen_by(caller, context, moving=moving))
    moves = seen_by(MOVER, context, moving=True)
    if name == "feed":
        with pytest.raises(PermissionError):
            await read(moves)
    else:
        assert not await read(moves)
    for each in (seen_by(OPERATOR, context, moving=False), moves.of_all_tenants):
        assert not await read(each)


def scoped(world: World, caller: Caller) -> Context:
    """The context of one request that changes something."""
    return seen_by(caller, world.context, moving=True)


def forget_calls(world: World) -> None:
    """The queue's calls are late: only the request itself acts."""
    world.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    world.context.bus.admission_calls.divisions.clear()  # type: ignore[attr-defined]


async def with_free_places(world: World, waiting: int) -> tuple[World, list[str]]:
    """30 free places, jobs of tenant_b that wait for them, and no call under way; returns the jobs that wait."""
    world = limited(world)
    await ruled(world, PLATFORM, max_active=30)
    ended = [await created(world, number, "tenant_c") for number in range(30)]
    await served(world)
    jobs = [await created(world, 100 + number, "tenant_b") for number in range(waiting)]
    forget_calls(world)
    for job_id in ended:
        await cancelled(world, job_id)
    forget_calls(world)
    world.clock.advance(30)
    return world, jobs


async def admitted_and_started(world: World, jobs: list[str]) -> tuple[int, int]:
    """Returns the numbers of tenant_b's jobs that have a slot, and of those that have started."""
    rows = [await world.index.read_active("tenant_b", job_id) for job_id in jobs]
    inside = [row.job_id for row in rows if _is_inside(row)]
    started = [job_id for job_id in inside if (await world.job(job_id)).job.status is JobStatus.QUEUED]
    return len(inside), len(started)


def _is_inside(row: ActiveRow | None) -> bool:
    return row is not None and row.place is not None and not row.place.is_staged


@CALLERS
@pytest.mark.parametrize("waiting", [5, 60])
async def test_a_request_starts_the_jobs_of_other_tenants_that_its_division_admits(
    world: World, caller: Caller, waiting: int
) -> None:
    """Without the queue: a place that a job of another tenant got by this request is not idle until the sweep."""
    world, jobs = await with_free_places(world, waiting)
    request = envelope(tenant_id="tenant_a", request_type="OCR", payload={}, doc_id="a")
    made = await create_job(scoped(world, caller), world.orchestrations, request, correlation_id=None)
    assert made.stored.record.job.status is JobStatus.QUEUED
    inside, started = await admitted_and_started(world, jobs)
    assert inside == started == min(waiting, 29)


@CALLERS
async def test_a_redrive_starts_them_too(world: World, caller: Caller) -> None:
    """The second of the two ways in which a job is made."""
    old = await created(world, 0, "tenant_a")
    await cancelled(world, old)
    world, jobs = await with_free_places(world, 25)
    await redrive_job(scoped(world, caller), world.orchestrations, old, by())
    assert await admitted_and_started(world, jobs) == (25, 25)


@CALLERS
async def test_a_control_does_not_depend_on_what_its_caller_may_read(world: World, caller: Caller) -> None:
    """The end of a job deletes the histories of earlier ended jobs, and requests the feed for each."""
    fed = feeds.of(limited(world, max_inflight=3, overflow="stage"))
    world = fed.world
    jobs = [await created(world, number, "tenant_a") for number in range(5)]
    for job_id in jobs:
        world.clock.advance(15)
        stored = await control_job(scoped(world, caller), world.orchestrations, job_id, ControlKind.CANCEL, by())
        assert stored.record.job.status is JobStatus.CANCELLED
        await fed.taken()
        world.orchestrations.states.clear()
    assert world.orchestrations.purged == jobs[:4]


async def test_a_mover_who_reads_nothing_changes_a_limit_over_all_tenants(world: World) -> None:
    """Jobs of each tenant start at once with the higher limit."""
    world = limited(world)
    await ruled(world, PLATFORM, max_active=1)
    for number, tenant in enumerate(["tenant_b", "tenant_b", "tenant_c"]):
        await created(world, number, tenant)
    await served(world)
    forget_calls(world)
    await quotas.set_rule(scoped(world, MOVER), world.orchestrations, PLATFORM, {"max_active": 3}, BY, rule_seq=None)
    assert count(world) == {"tenant_b": 2, "tenant_c": 1}


async def test_a_hold_of_its_own_ends_for_its_tenant_alone(world: World) -> None:
    """A tenant's caller resumes: its own jobs start, and the hold of another tenant stays."""
    world = limited(world)
    own, other = Gate(GateKind.TENANT, "tenant_a"), Gate(GateKind.TENANT, "tenant_b")
    mine = replace(BY, own=True)
    await quotas.hold(scoped(world, TENANT_A), world.orchestrations, own, mine, until=None)
    await quotas.hold(world.context, world.orchestrations, other, BY, until=None)
    for number, tenant in enumerate(["tenant_a", "tenant_b"]):
        await created(world, number, tenant)
    await quotas.resume(scoped(world, TENANT_A), world.orchestrations, own, mine)
    assert count(world) == {"tenant_a": 1}
    with pytest.raises(PermissionError):
        await quotas.resume(scoped(world, TENANT_A), world.orchestrations, other, mine)
