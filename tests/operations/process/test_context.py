"""Retries of writes that lost against another writer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.errors import AlreadyExists, Conflict, Contended
from tests.operations.conftest import World


@pytest.mark.parametrize("lost", [0, 1, 7])
async def test_a_write_that_lost_is_tried_again(world: World, lost: int) -> None:
    """Each wait is twice as long as the one before; no wait follows the last try."""
    errors = [(Conflict, AlreadyExists)[number % 2]() for number in range(lost)]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def act() -> str:
        if errors:
            raise errors.pop()
        return "written"

    context = replace(world.context, sleep=sleep, random=lambda: 1.0)
    assert await context.retry_on_conflict(act, "the row") == "written"
    assert waits == [0.02 * 2**number for number in range(lost)]


async def test_after_eight_conflicts_the_caller_has_to_retry(world: World) -> None:
    calls = []

    async def act() -> None:
        calls.append(1)
        raise Conflict

    with pytest.raises(Contended, match="the row changed at every try"):
        await world.context.retry_on_conflict(act, "the row")
    assert len(calls) == 8
