"""Breakers of a job type over all tenants, from the ends of jobs to the next ones in (R54, R61, R62)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.api.explain import explain
from shared.api.quota import quota_over_all
from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import EVERY, Gate, GateKind, Rule
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates import admission_turns
from shared.operations.gates.allocations import allocate
from shared.operations.gates.platform_gates import read_platform_state
from shared.operations.gates.waiting import read_position
from shared.operations.quotas import quotas
from shared.operations.sweeper.sweep import sweep
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import cancelled
from tests.worlds.gates import (
    COOLDOWN,
    OCR_OF_ALL,
    OPERATOR,
    active_jobs,
    allocation_record,
    breaker_over_all,
    count,
    created,
    ends,
    fail,
    logged_over_all,
    ruled,
    served,
    statuses,
    with_breaker_over_all,
    world,
)

__all__ = ["world"]  # a fixture


async def opened(world: World, **numbers: Any) -> list[str]:
    """An open breaker, with a job of before at each of three tenants, and two that wait at each."""
    await with_breaker_over_all(world, **numbers)
    jobs = [await created(world, 10 * number + each, f"t{number}") for number in range(3) for each in range(2)]
    await fail(world, jobs[0], jobs[2])
    assert (await breaker_over_all(world)).state is BreakerState.OPEN
    waiting = [await created(world, 100 + number, f"t{number % 3}") for number in range(6)]
    await served(world)
    assert set(await statuses(world, waiting)) == {JobStatus.THROTTLED}
    return waiting


async def gone_in(world: World, jobs: Iterable[str]) -> list[str]:
    held = {job_id for ids in active_jobs(world).values() for job_id in ids}
    return [job_id for job_id in jobs if job_id in held]


async def cooled_down(world: World) -> None:
    until = (await breaker_over_all(world)).until
    assert until is not None
    world.clock.advance((until - world.clock.now()).total_seconds())
    await served(world)


async def test_an_allocation_that_a_reset_overtook_tries_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocation knows only the breaker that it read, so no further try can write it."""
    await opened(world, max_active=6)
    until = (await breaker_over_all(world)).until
    assert until is not None
    world.clock.advance((until - world.clock.now()).total_seconds())
    real, tries = admission_turns.act_on_admission, list[int]()

    async def act_after_reset(context: Any, tenant: str, act: Any, **fields: Any) -> Any:
        if tenant != EVERY or tries:
            return await real(context, tenant, act, **fields)
        tries.append(0)
        await quotas.reset_breaker(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR)

        async def counted(*seen: Any) -> Any:
            tries[0] += 1
            return await act(*seen)

        return await real(context, tenant, counted, **fields)

    monkeypatch.setattr(admission_turns, "act_on_admission", act_after_reset)
    assert await allocate(world.context, OCR_OF_ALL) == {}
    assert tries == [1]
    assert (await breaker_over_all(world)).state is BreakerState.CLOSED


async def test_it_opens_probes_over_all_tenants_and_closes(world: World) -> None:
    """No job starts when earlier jobs end; then one of all tenants, two, four, and at the end all."""
    waiting = await opened(world, max_active=6)
    for ids in active_jobs(world).values():
        for job_id in ids:
            await cancelled(world, job_id)
    world.clock.advance(20)
    await served(world)
    assert count(world) == {}
    await cooled_down(world)
    # with waiting jobs: one probe, then as many as the successful ends, again
    for allowed in (1, 2):
        held = await gone_in(world, waiting)
        assert len(held) == allowed
        for job_id in held:
            await ends(world, job_id, good=True)
            world.clock.advance(1)
            await served(world)
    held = await gone_in(world, waiting)
    assert len(held) == 3
    for job_id in held:
        await ends(world, job_id, good=True)
        world.clock.advance(1)
        await served(world)
    assert (await breaker_over_all(world)).state is BreakerState.CLOSED
    assert await logged_over_all(world) == ["RULE_SET", "BREAKER_OPENED", "BREAKER_HALF_OPEN", "BREAKER_CLOSED"]
    late = [await created(world, 200 + number, f"t{number % 4}") for number in range(5)]
    assert await gone_in(world, late) == late


async def test_a_tenant_that_comes_while_it_is_open_waits(world: World) -> None:
    """An emergency waits too; at the end of the cool-down one of all is admitted, and at its end each."""
    await opened(world)
    await ruled(world, Gate(GateKind.TENANT, "new"), emergency_max_active=5)
    late = [await created(world, 300, "new"), await created(world, 301, "new", priority="emergency")]
    assert set(await statuses(world, late)) == {JobStatus.THROTTLED}
    standing = await read_position(world.context, (await world.job(late[1])).job)
    text = explain(await world.job(late[1]), world.clock.now(), None, standing=standing).text
    assert "the breaker of type:OCR, which is open until" in text
    world.clock.advance(33 * 2 * COOLDOWN)
    await sweep(world.context, world.orchestrations)
    await served(world)
    assert await gone_in(world, late) == late
    assert (await breaker_over_all(world)).state is BreakerState.CLOSED


async def test_a_tenant_that_leaves_the_book_counts_again(world: World) -> None:
    """Its first end in six hours requests a division that reads it, also a successful one."""
    await with_breaker_over_all(world)
    await ends(world, await created(world, 1, "t0"), good=True)
    await served(world)
    assert (await breaker_over_all(world)).calls == 1
    assert set((await allocation_record(world, OCR_OF_ALL)).accounts) == {"t0"}
    world.clock.advance(timedelta(hours=7).total_seconds())
    await sweep(world.context, world.orchestrations)
    assert (await allocation_record(world, OCR_OF_ALL)).accounts == {}
    for number in (2, 3):
        await ends(world, await created(world, number, "t0"), good=True)
    world.clock.advance(1)
    await served(world)
    assert [end.good for end in (await breaker_over_all(world)).ring] == [True, True]


async def test_a_reset_lets_all_in(world: World) -> None:
    """The reset has its own epoch; a repetition changes nothing."""
    waiting = await opened(world)
    changed = await quotas.reset_breaker(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR)
    assert changed.after is not changed.before
    await served(world)
    assert await gone_in(world, waiting) == waiting
    found = await breaker_over_all(world)
    assert (found.state, found.epoch, found.calls) == (BreakerState.CLOSED, 2, 0)
    again = await quotas.reset_breaker(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR)
    assert again.after is again.before
    assert (await logged_over_all(world))[-1] == "BREAKER_RESET"


async def test_a_breaker_that_is_taken_away_lets_all_in(world: World) -> None:
    """A later breaker starts in another epoch; so does one of a rule that was deleted."""
    waiting = await opened(world)
    await ruled(world, OCR_OF_ALL, breaker=None, max_active=50)
    await served(world)
    assert await gone_in(world, waiting) == waiting
    await with_breaker_over_all(world)
    assert ((await breaker_over_all(world)).state, (await breaker_over_all(world)).calls) == (BreakerState.CLOSED, 0)
    await fail(world, waiting[0], waiting[1])
    assert (await breaker_over_all(world)).state is BreakerState.OPEN
    await quotas.delete_rule(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR, rule_seq=None)
    late = await created(world, 400, "t0")
    assert await gone_in(world, [late]) == [late]
    await with_breaker_over_all(world)
    assert (await breaker_over_all(world)).state is BreakerState.CLOSED


@pytest.mark.parametrize("broken", ["write_admission", "write", "put_over_all"])
@pytest.mark.parametrize("turn", range(1, 5))
async def test_a_division_that_dies_while_it_opens_is_repeated(world: World, broken: str, turn: int) -> None:
    """At each write: the next division continues; it opens once, and no notified tenant is admitted meanwhile."""
    await with_breaker_over_all(world)
    jobs = [await created(world, 10 * number + each, f"t{number}") for number in range(3) for each in range(2)]
    await fail(world, jobs[0])
    await ends(world, jobs[2])
    port = {
        "write_admission": world.index,
        "write": world.context.allocations,
        "put_over_all": world.context.admissions,
    }[broken]
    world.clock.advance(1)
    with failing(port, broken, at=[turn]), contextlib.suppress(LedgerUnavailable):
        await served(world)
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    found_now = await breaker_over_all(world)
    assert (found_now.state, found_now.epoch) == (BreakerState.OPEN, 1)
    assert await logged_over_all(world) == ["RULE_SET", "BREAKER_OPENED"]
    late = [await created(world, 100 + number, f"t{number}") for number in range(4)]
    assert set(await statuses(world, late)) == {JobStatus.THROTTLED}


async def test_a_limit_holds_while_a_breaker_comes_and_goes(world: World) -> None:
    """Four at once of three tenants, at every moment of two openings and a reset."""
    await with_breaker_over_all(world, max_active=4)
    for turn in range(60):
        await created(world, turn, f"t{turn % 3}")
        held = sorted((job_id for ids in active_jobs(world).values() for job_id in ids), key=lambda each: int(each[4:]))
        assert len(held) <= 4
        if turn % 2 and held:
            await ends(world, held[0], good=turn > 20)
        world.clock.advance(5)
        await served(world)
        if turn == 40:
            await quotas.reset_breaker(world.context, world.orchestrations, OCR_OF_ALL, OPERATOR)
        assert sum(count(world).values()) <= 4
    assert (await logged_over_all(world)).count("BREAKER_OPENED") >= 1


async def test_what_was_published_too_late_is_made_good(world: World) -> None:
    """The directory lacks entries of the admission state of `*`: the next division publishes them, with its rule."""
    await opened(world)
    rows = await world.context.admissions.directory()
    state, since = rows.over_all[OCR_OF_ALL.id]
    await ruled(world, OCR_OF_ALL, max_active=7)
    await world.context.admissions.put_over_all(OCR_OF_ALL, replace(state, breaker=None), since)
    world.clock.advance(12)
    await allocate(world.context, OCR_OF_ALL)
    stored = world.index.admissions.admissions[EVERY]
    assert (await world.context.admissions.directory()).over_all[OCR_OF_ALL.id][0] == stored.admission.state(OCR_OF_ALL)
    assert stored.admission.state(OCR_OF_ALL).rule == Rule(max_active=7, breaker=state.rule and state.rule.breaker)


async def test_the_gate_shows_its_breaker(world: World) -> None:
    """For an operator and for others: as the last division left it."""
    await opened(world)
    for by_operator in (True, False):
        state = await read_platform_state(world.context, OCR_OF_ALL, by_operator=by_operator)
        shown = quota_over_all(
            await admission_turns.read_directory(world.context), state, world.clock.now(), [], shows_reasons=True
        ).breaker
        assert shown is not None
        assert (shown.state, shown.bad, shown.calls) == ("OPEN", 2, 2)
    await cooled_down(world)
    world.clock.advance(COOLDOWN)
    await served(world)
    state = await read_platform_state(world.context, OCR_OF_ALL, by_operator=True)
    shown = quota_over_all(
        await admission_turns.read_directory(world.context), state, world.clock.now(), [], shows_reasons=True
    ).breaker
    assert shown is not None
    assert (shown.state, shown.allow) == ("HALF_OPEN", 2)


async def test_without_a_breaker_no_write_is_more(world: World) -> None:
    """For a limit over all tenants the ends send no request, and write nothing to the admission state."""
    await ruled(world, OCR_OF_ALL, max_active=9)
    jobs = [await created(world, number, "t0") for number in range(3)]
    asked = noted(world.context.allocations, "ask")
    await fail(world, jobs[0])
    await ends(world, jobs[1], good=True)
    assert asked == []
    stored = world.index.admissions.admissions["t0"]
    assert (stored.admission.share(OCR_OF_ALL).breaker.ring, stored.admission.share(OCR_OF_ALL).breaker.epoch) == (
        (),
        0,
    )
