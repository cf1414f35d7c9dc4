"""Bulk operations in the memory world: started, run by call, checked against their items, by workers that may die."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from shared.core.bulks import Bulk, BulkAction, BulkItem, ItemState
from shared.core.jobs.states import JobStatus
from shared.operations.bulks.bulks import read_bulk, start_bulk
from shared.operations.bulks.work_bulk import work_bulk
from tests.operations.conftest import World
from tests.operations.support import create_numbered

TENANT = "tenant_a"


async def made(world: World, number: int, **changes: Any) -> str:
    return (await create_numbered(world, number, **changes)).stored.record.job.job_id


async def started(world: World, action: BulkAction, key: str | None = None, **words: Any) -> Bulk:
    bulk, _ = await start_bulk(
        world.context, tenant=TENANT, action=action, words=words, reason="why", actor="app:1", key=key
    )
    return bulk


async def worked(world: World, bulk: Bulk, calls: int = 1000) -> Bulk:
    """Handles the calls of a bulk operation, as the queue's function does, until none is left; returns it as stored."""
    queue = world.context.bus.admission_calls.bulk_calls  # type: ignore[attr-defined]
    while queue and calls:
        calls -= 1
        tenant, bulk_id, at = queue.pop(0)
        if at is not None and at > world.clock.now():
            world.clock.advance((at - world.clock.now()).total_seconds())
        await work_bulk(world.context, world.orchestrations, tenant, bulk_id)
        await adds_up(world, bulk)
    return await read_bulk(world.context, TENANT, bulk.bulk_id)


async def outcomes(world: World, bulk: Bulk) -> dict[str, BulkItem]:
    return {
        each.job_id: each for each in await world.context.bulks.items(TENANT, bulk.bulk_id, after=None, limit=99999)
    }


async def adds_up(world: World, bulk: Bulk) -> None:
    """The counts are those of the items, and each open item has one piece of work."""
    found, items = await read_bulk(world.context, TENANT, bulk.bulk_id), await outcomes(world, bulk)
    states = Counter(each.state for each in items.values())
    assert (found.matched, found.done, found.refused) == (
        len(items),
        states[ItemState.DONE],
        states[ItemState.REFUSED],
    )
    work = await world.context.bulks.work(TENANT, bulk.bulk_id, limit=99999)
    acts = [each.job_id for each in work if each.dependants_after is None]
    assert sorted(acts) == sorted(each.job_id for each in items.values() if each.state is ItemState.OPEN)


async def status(world: World, job_id: str) -> JobStatus:
    return (await world.job(job_id)).job.status


async def requests(world: World, job_id: str, type_: str) -> int:
    return sum(event.type == type_ for event in await world.ledger.events(job_id))


async def later(world: World) -> None:
    """Jobs and bulks of different milliseconds."""
    world.clock.advance(1)


class Killed(BaseException):
    """The process is killed: none of its later calls takes effect."""


class _Mortal:
    """A port that counts calls down to the end of the process, before or after the last call's effect."""

    def __init__(self, target: Any, life: list[float]) -> None:
        self._target, self._life = target, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            self._life[0] -= 0.5
            if self._life[0] < 0:
                raise Killed
            result = await found(*args, **fields)
            self._life[0] -= 0.5
            if self._life[0] < 0:
                raise Killed
            return result

        return call


async def mortal(world: World, life: list[float], work: Callable[[World], Awaitable[Any]]) -> bool:
    """Runs `work`. Returns whether it ended before the process did."""
    context = replace(
        world.context,
        ledger=_Mortal(world.ledger, life),  # type: ignore[arg-type]
        index=_Mortal(world.index, life),  # type: ignore[arg-type]
        bulks=_Mortal(world.context.bulks, life),  # type: ignore[arg-type]
    )
    try:
        await work(replace(world, context=context))
    except Killed:
        return False
    return True
