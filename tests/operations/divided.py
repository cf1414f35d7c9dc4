"""Gates over all tenants in the memory world: rules, jobs of many tenants, and the calls that divide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.core.gates import allocation
from shared.core.gates.breaker import Breaker
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.operations.gates.allocations import divide_called
from shared.operations.gates.find_gate import over_all_of_id
from shared.operations.gates.freed import let_in
from shared.operations.jobs.admission import notify
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By
from tests.contexts import changed
from tests.operations.breaking import ends
from tests.operations.conftest import World
from tests.operations.interleave import process_of
from tests.operations.support import create_numbered

PLATFORM = Gate.over_all(GateKind.PLATFORM)
BY = By(actor="op", reason="test")


def apart(world: World) -> World:
    """Another process."""
    other = process_of(world)
    return replace(other, context=changed(other.context, gate_directory=GateDirectory()))


async def ruled(world: World, gate: Gate = PLATFORM, **numbers: int | None) -> None:
    await quotas.set_rule(world.context, world.orchestrations, gate, numbers, BY, rule_seq=None)


async def posted(world: World, number: int, tenant: str, **changes: Any) -> str:
    return (await create_numbered(world, number, tenant_id=tenant, **changes)).stored.record.job.job_id


async def served(world: World, until: Any = None) -> None:
    """What the queue does: calls in their order, each at its time; none later than `until`, or than a second ahead."""
    calls = world.context.bus.desk_calls
    while pending := sorted(
        [(at or world.clock.now(), tenant, None) for tenant, _, at in calls.calls]  # type: ignore[attr-defined]
        + [(at, None, (gate_id, since)) for gate_id, at, since in calls.divisions],  # type: ignore[attr-defined]
        key=lambda call: call[0],
    ):
        at, tenant, division = pending[0]
        if at > (until or world.clock.now() + timedelta(seconds=1)):
            break
        if at > world.clock.now():
            world.clock.advance((at - world.clock.now()).total_seconds())
        if tenant is not None:
            calls.calls = [each for each in calls.calls if each[0] != tenant]  # type: ignore[attr-defined]
            await notify(world.context, world.orchestrations, tenant, await let_in(world.context, tenant))
            continue
        assert division is not None
        gate_id, since = division
        calls.divisions.remove((gate_id, at, since))  # type: ignore[attr-defined]
        gate = over_all_of_id(world.context, gate_id)
        assert gate is not None
        for each, entered in (await divide_called(world.context, gate, since)).items():
            await notify(world.context, world.orchestrations, each, entered)


def inside(world: World) -> dict[str, list[str]]:
    """Jobs that are QUEUED or further, by tenant, oldest first."""
    found: dict[str, list[str]] = {}
    for stored in world.ledger.jobs.values():
        job = stored.record.job
        if not job.is_staged and not job.status.terminal:
            found.setdefault(job.tenant, []).append(job.job_id)
    return {tenant: sorted(ids, key=lambda job_id: int(job_id[4:])) for tenant, ids in found.items()}


def count(world: World) -> dict[str, int]:
    return {tenant: len(ids) for tenant, ids in inside(world).items()}


async def book(world: World, gate: Gate = PLATFORM) -> allocation.Book:
    stored = await world.context.books.read(gate.id)
    assert stored is not None
    return stored.book


async def statuses(world: World, ids: Iterable[str]) -> list[JobStatus]:
    return [(await world.job(job_id)).job.status for job_id in ids]


OCR = Gate.over_all(GateKind.PLATFORM_TYPE, "OCR")
COOLDOWN = 300


async def with_breaker(world: World, **numbers: Any) -> None:
    """Two bad ends of three open it, of two tenants."""
    breaker = {"min_calls": 2, "cooldown_s": COOLDOWN}
    await ruled(world, OCR, breaker=breaker, **numbers)  # type: ignore[arg-type]


async def fail(world: World, *jobs: str) -> None:
    for job_id in jobs:
        await ends(world, job_id)
        world.clock.advance(1)
        await served(world)


async def breaker_of(world: World) -> Breaker:
    found = (await book(world, OCR)).breaker
    assert found is not None
    return found


async def log(world: World) -> list[str]:
    entries = await world.context.desks.log(EVERY, OCR.id, after=0, limit=100)
    assert [each.prev_hash for each in entries[1:]] == [each.hash for each in entries[:-1]]
    return [each.type for each in entries]
