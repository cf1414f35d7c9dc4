"""The table of the sweeper's duties: their order, their budgets, and that none stops another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates.breaker import Breaker, BreakerState
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates.admission_turns import read_directory
from shared.operations.quotas import quotas
from shared.operations.sweeper import duties
from shared.operations.sweeper.duties import DUTIES, PASS_S, Duty
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.sweep import sweep
from shared.ports.admissions import AdmissionWrite
from shared.ports.sweeps import SweeperShare
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import create_numbered, limited, submitted
from tests.worlds.gates import OPERATOR, PLATFORM, active_jobs, created, ruled, served, with_breaker_over_all

_NAMES = [duty.name for duty in DUTIES]


def table(monkeypatch: pytest.MonkeyPatch, run: Callable[[Duty, Pass, IsOver], Awaitable[None]]) -> None:
    """Replaces the functions of the duties."""

    def replaced(duty: Duty) -> Duty:
        return replace(duty, run=lambda one, is_over: run(duty, one, is_over))

    monkeypatch.setattr(duties, "DUTIES", tuple(map(replaced, DUTIES)))


@pytest.mark.parametrize("failing", _NAMES)
async def test_a_duty_that_fails_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """After any exception. For dead replies, looks and deletions the sweep reports it at its end."""
    done: list[str] = []

    async def run(duty: Duty, one: Pass, is_over: IsOver) -> None:
        done.append(duty.name)
        if duty.name == failing:
            raise KeyError("status")

    table(monkeypatch, run)
    required = next(duty.required for duty in DUTIES if duty.name == failing)
    for _ in range(2):
        done.clear()
        if required:
            with pytest.raises(KeyError):
                await sweep(world.context, world.orchestrations)
        else:
            await sweep(world.context, world.orchestrations)
        assert set(_NAMES) - set(done) <= {"all logs of quotas and incidents"}


def test_jobs_come_first() -> None:
    """Replies, then the jobs, then the waiting ones; a sweep is shorter than its period."""
    assert _NAMES[:6] == [
        "dead replies",
        "checks of due jobs",
        "clearing of ended jobs",
        "more checks of due jobs",
        "admission",
        "allocation",
    ]
    assert PASS_S < 60


async def test_a_duty_has_what_those_before_it_left_and_its_own_at_least(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A duty that takes too long uses the remaining time, and not a budget."""
    left: dict[str, float] = {}

    async def run(duty: Duty, one: Pass, is_over: IsOver) -> None:
        began, used = world.clock.now(), 0
        while not is_over() and used < 100:
            world.clock.advance(0.5)
            used += 1
        left[duty.name] = used / 2
        world.clock.time = began + timedelta(seconds=35 if duty.name == "checks of due jobs" else 0)

    table(monkeypatch, run)
    await sweep(world.context, world.orchestrations)
    # checks took 35 s of their 30: the clearings have their 10 s, and admission has the rest
    assert (
        left["checks of due jobs"],
        left["clearing of ended jobs"],
        left["more checks of due jobs"],
        left["admission"],
    ) == (30, 10, 5, 8)
    assert left["rejected messages"] == PASS_S - 35
    assert all(left[duty.name] >= duty.budget_s for duty in DUTIES)


async def test_a_duty_that_hangs_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port never responds: the later duties are done."""
    done: list[str] = []

    async def run(duty: Duty, one: Pass, is_over: IsOver) -> None:
        if duty.name == "deliveries":
            await asyncio.Event().wait()
        done.append(duty.name)

    table(monkeypatch, run)
    monkeypatch.setattr(duties, "DUTY_S", 0.0)
    await sweep(world.context, world.orchestrations)
    assert done == [name for name in _NAMES if name != "deliveries"]


@pytest.mark.parametrize(
    ("dry_run", "share", "sweepers", "missing"),
    [
        (False, SweeperShare(), 1, set()),
        (False, SweeperShare(1, 2), 2, {duty.name for duty in DUTIES if duty.first_share}),
        (False, SweeperShare(), 2, set()),
        (True, SweeperShare(), 1, {duty.name for duty in DUTIES if not duty.dry_run}),
    ],
)
async def test_which_pass_does_what(
    world: World, monkeypatch: pytest.MonkeyPatch, dry_run: bool, share: SweeperShare, sweepers: int, missing: set[str]
) -> None:
    """A dry run reads only; the first share works for all; a sweep by hand keeps the marks of several sweepers."""
    done: list[str] = []

    async def run(duty: Duty, one: Pass, is_over: IsOver) -> None:
        done.append(duty.name)

    table(monkeypatch, run)
    context = replace(world.context, settings=replace(world.context.settings, sweepers=sweepers))
    await sweep(context, world.orchestrations, share, dry_run=dry_run)
    assert set(_NAMES) - set(done) == missing


async def test_an_hour_has_one_pass_that_does_what_is_done_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sweep of the hour, at any minute, in any process, of a share whose position says so."""
    done: list[int] = []

    async def run(duty: Duty, one: Pass, is_over: IsOver) -> None:
        if duty.hourly:
            done.append((world.clock.now() - began).seconds // 60)

    table(monkeypatch, run)
    began = world.clock.time = world.clock.now().replace(minute=0)
    for minutes in (3, 20, 30, 10, 1, 58):
        world.clock.advance(60 * minutes)
        await sweep(world.context, world.orchestrations)
    assert done == [3, 63, 122]


class Killed(BaseException):
    """The process is killed."""


@pytest.mark.parametrize(
    "duty", [name for name in _NAMES if _NAMES.index(name) > _NAMES.index("more checks of due jobs")]
)
async def test_a_process_that_dies_in_an_accessory_has_left_its_position(
    world: World, monkeypatch: pytest.MonkeyPatch, duty: str
) -> None:
    """A sweep has time for one of three tenants: the next sweep starts with the second."""
    jobs = [await submitted(world, tenant_id=f"tenant_{number}") for number in range(3)]
    world.orchestrations.states.clear()
    world.orchestrations.started.clear()
    monkeypatch.setattr("shared.operations.sweeper.turns.AT_ONCE", 1)
    start = world.orchestrations.start

    async def slow(*args: Any) -> None:
        world.clock.advance(41)
        await start(*args)

    async def dies(one: Pass, is_over: IsOver) -> None:
        raise Killed

    monkeypatch.setattr(world.orchestrations, "start", slow)
    killed = tuple(replace(each, run=dies) if each.name == duty else each for each in DUTIES)
    world.clock.advance(61)
    with monkeypatch.context() as patched:
        patched.setattr(duties, "DUTIES", killed)
        with pytest.raises(Killed):
            await sweep(world.context, world.orchestrations)
    assert (await world.index.read_position(0)).look == "tenant_1"
    await sweep(world.context, world.orchestrations)
    assert world.orchestrations.started == jobs[:2]


async def test_a_position_that_cannot_be_decoded_is_replaced(world: World) -> None:
    """That pass begins at the first tenant, does all, and fails at its end; the next one is as ever."""
    job_id = await submitted(world)
    world.orchestrations.states.clear()
    world.clock.advance(61)
    with failing(world.index, "read_position", error=KeyError("survey")), pytest.raises(KeyError):
        await sweep(world.context, world.orchestrations)
    assert world.orchestrations.started == [job_id] * 2
    assert (await world.index.read_position(0)).hourly_at is not None


class Away:
    """The list of open incidents, whose partition does not respond."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        async def fails(*_: Any, **__: Any) -> Any:
            raise LedgerUnavailable("503")

        return fails if name in ("open", "find_open", "enter_open", "list_open") else getattr(self._target, name)


async def test_waiting_jobs_are_admitted_while_no_incident_can_be_written(world: World) -> None:
    """A breaker of another type is open, a hold has ended by time, and its call was lost."""
    world = limited(world)
    tenant, other = Gate(GateKind.TENANT, "tenant_a"), Gate(GateKind.TYPE, "tenant_a", "OCR_EMBEDDING")
    rule: Any = {"breaker": {"min_calls": 1, "cooldown_s": 900}}
    await quotas.set_rule(world.context, world.orchestrations, other, rule, OPERATOR, rule_seq=None)
    until = world.clock.now() + timedelta(minutes=2)
    await quotas.hold(world.context, world.orchestrations, tenant, OPERATOR, until=until)
    job_id = (await create_numbered(world, 5)).stored.record.job.job_id
    stored = world.index.admissions.admissions["tenant_a"]
    now = world.clock.now()
    opened = Breaker(state=BreakerState.OPEN, epoch=1, opened_at=now, until=now + timedelta(hours=5))
    admission = stored.admission.with_state(replace(stored.admission.state(other), breaker=opened))
    await world.index.write_admission(AdmissionWrite(before=stored, after=admission))
    world.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    context = replace(world.context, incidents=Away(world.context.incidents))
    world.clock.advance(121)
    await sweep(context, world.orchestrations)
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED


async def test_quotas_are_allocated_while_no_incident_can_be_written(world: World) -> None:
    """The breaker of one type over all tenants is open; a job of another type waits for an allocation that was lost."""
    world = limited(world, overflow="stage")
    await with_breaker_over_all(world)
    await ruled(world, PLATFORM, max_active=1)
    first = await created(world, 1, "t1")
    await served(world)
    waits = await created(world, 2, "t2", request_type="OCR_EMBEDDING")
    assert waits not in active_jobs(world).get("t2", [])
    known = await read_directory(world.context)
    [breaker] = [state for state in known.over_all.values() if state.gate.kind is GateKind.PLATFORM_TYPE]
    now = world.clock.now()
    opened = Breaker(state=BreakerState.OPEN, epoch=1, opened_at=now, until=now + timedelta(hours=5))
    await world.index.admissions.put_over_all(breaker.gate, replace(breaker, breaker=opened), now)
    job = await world.job(first)
    assert not job.job.status.terminal
    await ruled(world, PLATFORM, max_active=2)
    world.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    world.context.bus.admission_calls.divisions.clear()  # type: ignore[attr-defined]
    context = replace(world.context, incidents=Away(world.context.incidents))
    for _ in range(3):
        world.clock.advance(61)
        await sweep(context, world.orchestrations)
    assert (await world.job(waits)).job.status is JobStatus.QUEUED
