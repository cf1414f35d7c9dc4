"""Whole worlds in which services are guarded (R56)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from shared.contracts.messages import Directive
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule
from tests.contexts import changed
from tests.jobs import START
from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS
from tests.simulation.plans import HOSTILE, MODERATE, Plan
from tests.simulation.world import World

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")

GUARD = Gate.over_all(GateKind.SERVICE, "ocr")
LIMIT = 3


class Counts:
    """The simulated bus's own, at once."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def in_flight(self, lane: int, service: str | None) -> int:
        known = [one for one in self._world.bus.directives if not one.taken and one.directive.lane == lane]
        return sum(service in (None, one.directive.step_type.lower()) for one in known)


async def guarded(seed: int, plan: Plan, state: GateState) -> World:
    world = World(seed, plan)
    world.context = changed(world.context, counts=Counts(world))
    world._others = world._other_processes()
    await world.index.admissions.put_over_all(state.gate, state, START)
    return world


async def test_a_guard_is_never_exceeded_by_one_process() -> None:
    """Thirty documents for one slow worker: at no publish is the number reached, and every job has its one attempt."""
    plan = Plan(
        jobs=30,
        odds=NO_FAULTS,
        faults_end_after=timedelta(0),
        request_types=(protocols.ONE_STEP,),
        one_worker_s=20,
        owners_checked=False,
    )
    world = await guarded(1, plan, GateState(gate=GUARD, rule=Rule(max_active=LIMIT)))
    most: Counter[int] = Counter()
    check = world.bus.on_publish

    def published(directive: Directive) -> None:
        check(directive)
        lying = sum(not one.taken and one.directive.lane == directive.lane for one in world.bus.directives)
        most[directive.lane] = max(most[directive.lane], lying + 1)

    world.bus.on_publish = published
    report = await world.run()
    assert not report.violations, "\n".join(report.violations)
    records = list(world.ledger.records.values())
    assert {(record.job.status, record.job.attempts_total) for record in records} == {("SUCCEEDED", 1)}
    assert max(most.values()) == LIMIT
    # a wait of any length is one event
    assert report.events["GATED"] > 10
    assert max(record.job.event_seq for record in records) <= 7


@pytest.mark.parametrize("seed", [5, 7])
async def test_a_hold_loses_no_job(seed: int) -> None:
    """An hour of it, amid the faults of other worlds: crashes, losses, controls; every job ends well afterwards."""
    plan = HOSTILE if seed % 4 == 3 else MODERATE
    hold = Hold(reason="slow", actor="operator", at=START, until=START + timedelta(hours=1))
    world = await guarded(seed, plan, GateState(gate=GUARD, hold=hold))
    report = await world.run()
    assert not report.violations, "\n".join(report.violations)
    assert all(record.job.status.terminal for record in world.ledger.records.values())
    assert report.events["GATED"] > 0
