"""Jobs at gates in the memory world: posted, ended, counted against the rows, and processes that die among them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.gates.desk import Desk
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule
from shared.errors import LedgerUnavailable
from shared.operations.gates.desk_counts import place_of
from shared.operations.process.gate_directory import GateDirectory
from shared.ports.desks import ASLEEP, DeskWrite
from shared.ports.index import ActiveRow
from tests.contexts import changed
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.support import create_numbered, dispatch, limited, service_sends

TENANT = Gate(GateKind.TENANT, "tenant_a")


@pytest.fixture
def staging(world: World) -> World:
    """One active job a tenant; the others wait."""
    return limited(world, max_inflight_per_tenant=1, overflow="stage")


async def posted(world: World, *numbers: int, **changes: Any) -> list[str]:
    return [(await create_numbered(world, number, **changes)).stored.record.job.job_id for number in numbers]


async def ended(world: World, job_id: str, number: int = 1) -> None:
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", number)


async def status(world: World, *job_ids: str) -> list[str]:
    return [(await world.job(job_id)).job.status.value for job_id in job_ids]


async def desk_of(world: World, tenant: str = "tenant_a") -> Desk:
    """The desk, which says what the rows say."""
    stored = await world.index.desks.read(tenant)
    assert stored is not None
    desk, rows = stored.desk, await world.index.list_active(tenant, after=None, limit=1000)
    staged = [row for row in rows if place_of(row).is_staged]
    waiting = [row for row in rows if place_of(row).state is PlaceState.WAITING]
    assert (desk.active, desk.staged, desk.waiting) == (len(rows) - len(staged), len(staged), len(waiting))
    asleep = [_is_asleep(row) for row in rows]
    assert asleep == [row.check_at == ASLEEP for row in rows]
    kept = {row.candidate.job_id for owner, row in world.index.desks.waiting if owner == tenant}
    assert kept == {row.job_id for row in waiting}
    return desk


def _is_asleep(row: ActiveRow) -> bool:
    place = place_of(row)
    # one that waits for other jobs is looked at once an hour
    return place.state is PlaceState.WAITING or (place.state is PlaceState.OFF and not place.dependencies_left)


async def ruled(world: World, *states: GateState, tenant: str = "tenant_a") -> None:
    """As one who changes rules does it, in another process."""
    now = world.clock.now()
    await world.index.desks.enter_tenant(tenant, now)
    stored = await world.index.desks.read(tenant)
    desk = stored.desk if stored is not None else Desk(tenant=tenant, counted_at=now - timedelta(days=1))
    for state in states:
        desk = desk.with_state(state)
    await world.index.write_desk(DeskWrite(before=stored, after=desk))


def held(until: datetime, rule: Rule | None = None) -> GateState:
    hold = Hold(reason="audit", actor="op", at=START, until=until)
    return GateState(gate=TENANT, rule=rule, rule_seq=1, hold=hold)


class Dying:
    """A port whose call `name` ends the process, before it takes effect or after, at the `turn`-th time."""

    def __init__(self, target: Any, name: str, *, after: bool = False, turn: int = 1) -> None:
        self._target, self._name, self._after, self._turn = target, name, after, turn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name != self._name:
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            self._turn -= 1
            if self._turn:
                return await found(*args, **fields)
            if self._after:
                await found(*args, **fields)
            raise LedgerUnavailable("killed here")

        return call


def killed_at(world: World, port: str, name: str, **when: Any) -> World:
    ports: Any = {port: Dying(getattr(world.context, port), name, **when)}
    return replace(world, context=changed(world.context, **ports, gate_directory=GateDirectory()))
