"""A check of a waiting job that was due: it can be admitted nevertheless (R49)."""

from __future__ import annotations

from datetime import timedelta

from shared.core.jobs.states import JobStatus
from tests.operations.conftest import World
from tests.operations.support import limited, swept
from tests.worlds.gates import posted, ruled, statuses


async def test_who_waits_is_let_in_after_a_look_that_was_due(world: World) -> None:
    """Its DUE row does not have its queue: if it moved alone, no write of the admission state could delete it again."""
    world = limited(world)
    await ruled(world, max_active=1)
    [first, second] = await posted(world, 0, 1)
    row = await world.index.read_active("tenant_a", second)
    assert row is not None
    await world.index.reschedule_check(row, world.clock.now() + timedelta(seconds=30))
    world.clock.advance(61)
    await swept(world)
    await ruled(world, max_active=2)
    assert JobStatus.THROTTLED not in await statuses(world, [first, second])
