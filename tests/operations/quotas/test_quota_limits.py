"""Reads and writes of allocations and incidents, counted, as in the model of docs/explanation/scale.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scale import governance
from shared.core.gates.allocation import MAX_TENANTS
from shared.operations.gates import allocations, freed
from shared.operations.gates.admission_turns import MAX_JOBS, read_directory
from shared.operations.gates.allocations import allocate
from shared.operations.incidents.incidents import dismiss_incident
from tests.operations.conftest import World
from tests.operations.support import Counting, by, limited
from tests.worlds.events import of, swept
from tests.worlds.gates import PLATFORM, created, ruled, served
from tests.worlds.incidents import an_incident


def test_the_model_has_the_bounds_of_the_app() -> None:
    assert (governance.ENDS_TOGETHER, governance.CREATIONS_TOGETHER) == (freed.MAX_FREED, MAX_JOBS)
    assert governance.BOOK_TENANTS == MAX_TENANTS
    assert allocations.INTERVAL.total_seconds() == governance.ALLOCATED_EVERY_S


@pytest.mark.parametrize("is_changed", [True, False])
@pytest.mark.parametrize("tenants", [3, 12])
async def test_an_allocation_reads_each_tenant_once_and_each_that_changes_twice(
    world: World, tenants: int, is_changed: bool
) -> None:
    """With a limit that was doubled, or is as it was."""
    world = limited(world)
    await ruled(world, PLATFORM, max_active=tenants)
    for number in range(5 * tenants):
        await created(world, number, f"tenant_{number // 5}")
    for _ in range(4):
        world.clock.advance(30)
        await served(world)
    if is_changed:
        await ruled(world, PLATFORM, max_active=2 * tenants)
    world.clock.advance(11)
    admissions, allocations, index = (
        Counting(each) for each in (world.context.admissions, world.context.allocations, world.context.index)
    )
    context = replace(world.context, admissions=admissions, allocations=allocations, index=index)
    await read_directory(context)
    admissions.calls.clear()
    await allocate(context, PLATFORM)
    changed = index.calls["write_admission"]
    assert admissions.calls == {"read": tenants + changed}
    assert allocations.calls["read"] + allocations.calls["asks"] == governance.BOOK_READS
    assert allocations.calls["write"] == governance.BOOK_WRITES
    rows = sum(admissions.calls.values()) + changed + governance.BOOK_READS + governance.BOOK_WRITES
    assert rows == governance.allocation(tenants, changed)


async def test_an_incident_of_a_job_writes_five_rows_in_the_list_of_open_ones(world: World) -> None:
    """Two when the job fails, three when a person settles it."""
    fed = of(world)
    incidents = Counting(fed.world.context.incidents)
    context = replace(fed.world.context, incidents=incidents)
    fed = replace(fed, world=replace(fed.world, context=context))

    async def written() -> int:
        await fed.taken()
        for _ in range(3):
            await swept(fed)
        found = incidents.calls["enter_open"] + incidents.calls["leave_open"]
        incidents.calls.clear()
        return found

    incident_id = await an_incident(fed.world)
    assert await written() == governance.OPENING_WRITES
    await dismiss_incident(context, incident_id, by())
    assert await written() == governance.SETTLING_WRITES
