"""Jobs at quotas: changes of quotas, ends of jobs, openings of breakers, and processes that die meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.gates import allocation
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.breaker import Breaker, BreakerState
from shared.core.gates.log import LogEntry
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import EVERY, Gate, GateKind, GateState, Hold, Rule
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates.allocations import allocate_on_call
from shared.operations.gates.find_gate import find_platform_gate_by_id
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By, Changed
from shared.ports.admissions import ASLEEP, AdmissionWrite
from shared.ports.index import ActiveRow
from tests.contexts import changed
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.interleave import process_of
from tests.operations.support import create_numbered, dispatch, limited, service_sends

TENANT = Gate(GateKind.TENANT, "tenant_a")
OCR = Gate(GateKind.TYPE, "tenant_a", "OCR")
EVERYBODY = Gate(GateKind.TENANT, EVERY)
SCANNER = Gate(GateKind.SOURCE, "tenant_a", "scanner-7")
OPERATOR, OWN = By(actor="app:1 (ops)", reason="month end"), By(actor="app:2", reason="blank pages", own=True)
PLATFORM = Gate.over_all(GateKind.PLATFORM)
OCR_OF_ALL = Gate.over_all(GateKind.PLATFORM_TYPE, "OCR")
MIN_CALLS = 2
MINUTE = 60
COOLDOWN = 300


@pytest.fixture
def staging(world: World) -> World:
    """One active job a tenant; the others wait."""
    return limited(world, max_inflight_per_tenant=1, overflow="stage")


async def posted(world: World, *numbers: int, **changes: Any) -> list[str]:
    return [(await create_numbered(world, number, **changes)).stored.record.job.job_id for number in numbers]


async def ended(world: World, job_id: str, number: int = 1) -> None:
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", number)


async def admission_of(world: World, tenant: str = "tenant_a") -> AdmissionState:
    """Returns the admission state, which matches the rows."""
    stored = await world.index.admissions.read(tenant)
    assert stored is not None
    admission, rows = stored.admission, await world.index.list_active(tenant, after=None, limit=1000)
    staged = [row for row in rows if row.counted_place.is_staged]
    waiting = [row for row in rows if row.counted_place.state is PlaceState.WAITING]
    assert (admission.active, admission.staged, admission.waiting) == (
        len(rows) - len(staged),
        len(staged),
        len(waiting),
    )
    asleep = [_is_asleep(row) for row in rows]
    assert asleep == [row.check_at == ASLEEP for row in rows]
    kept = {row.candidate.job_id for owner, row in world.index.admissions.waiting if owner == tenant}
    assert kept == {row.job_id for row in waiting}
    return admission


def _is_asleep(row: ActiveRow) -> bool:
    place = row.counted_place
    # the sweeper checks a job that waits for other jobs once an hour
    return place.state is PlaceState.WAITING or (place.state is PlaceState.OFF and not place.dependencies_left)


async def states_written(world: World, *states: GateState, tenant: str = "tenant_a") -> None:
    """Writes states as another process that changes rules."""
    now = world.clock.now()
    await world.index.admissions.enter_tenant(tenant, now)
    stored = await world.index.admissions.read(tenant)
    admission = (
        stored.admission if stored is not None else AdmissionState(tenant=tenant, counted_at=now - timedelta(days=1))
    )
    for state in states:
        admission = admission.with_state(state)
    await world.index.write_admission(AdmissionWrite(before=stored, after=admission))


def held_state(until: datetime, rule: Rule | None = None) -> GateState:
    hold = Hold(reason="audit", actor="op", at=START, until=until)
    return GateState(gate=TENANT, rule=rule, rule_seq=1, hold=hold)


class Dying:
    """A port whose call `name` ends the process, before or after its effect, at the `turn`-th time."""

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


@pytest.fixture
def world(world: World) -> World:
    return limited(world)


async def ruled(world: World, gate: Gate = TENANT, seq: int | None = None, **numbers: int | None) -> Changed:
    return await quotas.set_rule(world.context, world.orchestrations, gate, numbers, OPERATOR, rule_seq=seq)


async def created(world: World, number: int, tenant: str = "tenant_a", **changes: Any) -> str:
    return (await create_numbered(world, number, tenant_id=tenant, **changes)).stored.record.job.job_id


async def statuses(world: World, jobs: Iterable[str]) -> list[JobStatus]:
    return [(await world.job(job)).job.status for job in jobs]


async def held(world: World, gate: Gate = TENANT, by: By = OPERATOR, **rest: Any) -> Changed:
    return await quotas.hold(world.context, world.orchestrations, gate, by, **{"until": None, **rest})


async def resumed(world: World, gate: Gate = TENANT, by: By = OPERATOR) -> Changed:
    return await quotas.resume(world.context, world.orchestrations, gate, by)


async def entries(world: World, gate: Gate = TENANT) -> list[LogEntry]:
    return await world.context.admissions.log(gate.tenant, gate.id, after=0, limit=1000)


# --- breakers of a tenant's types


async def with_breaker(world: World, gate: Gate = OCR, **members: Any) -> Changed:
    """Each job fails at its first failed attempt."""
    return await ruled(world, gate, breaker={"min_calls": MIN_CALLS, **members})


async def ends(world: World, job_id: str, *, good: bool = False) -> None:
    """By a RESULT that is good, or by attempts that all fail."""
    if good:
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1)
        return
    error = {"code": "BUSY", "message": "later"}
    number = 0
    while not (await world.job(job_id)).job.status.terminal:
        number += 1
        assert number < 10
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", number, status="FAILED_RETRY", error=error, result_ref=None)
        [step] = (await world.job(job_id)).steps
        if step.due_at is not None:
            world.clock.advance(max(0.0, (step.due_at - world.clock.now()).total_seconds()))
    assert (await world.job(job_id)).job.error_code == Reason.ATTEMPTS_EXHAUSTED


async def breaker_of(world: World, gate: Gate = OCR) -> Breaker:
    """Returns the breaker as stored, with the admitted jobs of the rows."""
    stored = await world.index.admissions.read("tenant_a")
    assert stored is not None
    found = stored.admission.state(gate).breaker
    assert found is not None
    rows = await world.index.list_active("tenant_a", after=None, limit=1000)
    epochs = [row.place.breaker_epoch for row in rows if row.place is not None and not row.place.is_staged]
    assert found.active == (epochs.count(found.epoch) if found.epoch else 0)
    return found


async def opened(world: World, *, waiting: int = 3) -> list[str]:
    """A breaker that two of three failed jobs opened, and jobs that wait at it."""
    await with_breaker(world)
    jobs = await posted(world, *range(100, 100 + MIN_CALLS))
    for job_id in jobs:
        await ends(world, job_id)
    assert (await breaker_of(world)).state is BreakerState.OPEN
    return [await after_a_second(world, number) for number in range(waiting)]


async def after_a_second(world: World, number: int) -> str:
    world.clock.advance(1)
    return (await posted(world, number))[0]


async def later(world: World, seconds: float) -> None:
    """Delivers the requested call of the admission state."""
    world.clock.advance(seconds)
    await admissions_look(world)


async def admissions_look(world: World) -> None:
    await notify(world.context, world.orchestrations, "tenant_a", await take_turn(world.context, "tenant_a"))


async def inside(world: World, jobs: list[str]) -> list[str]:
    found = zip(jobs, await statuses(world, jobs), strict=True)
    return [job_id for job_id, status in found if status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS)]


# --- quotas over all tenants


def apart(world: World) -> World:
    """Another process."""
    other = process_of(world)
    return replace(other, context=changed(other.context, gate_directory=GateDirectory()))


async def served(world: World, until: Any = None) -> None:
    """Serves calls as the queue does: in order, each at its time; none later than `until`, or than a second ahead."""
    calls = world.context.bus.admission_calls
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
            await notify(world.context, world.orchestrations, tenant, await take_turn(world.context, tenant))
            continue
        assert division is not None
        gate_id, since = division
        calls.divisions.remove((gate_id, at, since))  # type: ignore[attr-defined]
        gate = find_platform_gate_by_id(world.context, gate_id)
        assert gate is not None
        for each, entered in (await allocate_on_call(world.context, gate, since)).items():
            await notify(world.context, world.orchestrations, each, entered)


def active_jobs(world: World) -> dict[str, list[str]]:
    """Jobs that are QUEUED or further, by tenant, oldest first."""
    found: dict[str, list[str]] = {}
    for stored in world.ledger.jobs.values():
        job = stored.record.job
        if not job.is_staged and not job.status.terminal:
            found.setdefault(job.tenant, []).append(job.job_id)
    return {tenant: sorted(ids, key=lambda job_id: int(job_id[4:])) for tenant, ids in found.items()}


def count(world: World) -> dict[str, int]:
    return {tenant: len(ids) for tenant, ids in active_jobs(world).items()}


async def allocation_record(world: World, gate: Gate = PLATFORM) -> allocation.AllocationRecord:
    stored = await world.context.allocations.read(gate.id)
    assert stored is not None
    return stored.record


async def with_breaker_over_all(world: World, **numbers: Any) -> None:
    """Two bad ends of three open it, of two tenants."""
    breaker = {"min_calls": 2, "cooldown_s": COOLDOWN}
    await ruled(world, OCR_OF_ALL, breaker=breaker, **numbers)  # type: ignore[arg-type]


async def fail(world: World, *jobs: str) -> None:
    for job_id in jobs:
        await ends(world, job_id)
        world.clock.advance(1)
        await served(world)


async def breaker_over_all(world: World) -> Breaker:
    found = (await allocation_record(world, OCR_OF_ALL)).breaker
    assert found is not None
    return found


async def logged_over_all(world: World) -> list[str]:
    entries = await world.context.admissions.log(EVERY, OCR_OF_ALL.id, after=0, limit=100)
    assert [each.prev_hash for each in entries[1:]] == [each.hash for each in entries[:-1]]
    return [each.type for each in entries]
