"""Breakers of a tenant's types, from the ends of jobs to the next ones in (R61, R62)."""

from __future__ import annotations

import asyncio

import pytest

from shared.api.explain import explain
from shared.api.quota import quota
from shared.core.gates.admission_state import BlockReason
from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.operations.gates.waiting import read_admission, read_position
from shared.operations.quotas import quotas
from shared.refusals import NoBreaker
from tests.operations.conftest import World
from tests.operations.support import swept
from tests.worlds.gates import (
    MINUTE,
    OCR,
    OPERATOR,
    TENANT,
    breaker_of,
    ends,
    entries,
    held,
    inside,
    killed_at,
    later,
    opened,
    posted,
    ruled,
    statuses,
    with_breaker,
    world,
)

__all__ = ["world"]  # a fixture


async def test_a_failing_service_opens_it_and_a_probe_closes_it(world: World) -> None:
    """No job starts while it is open; then one does; its good end admits two, and so on, until it closes."""
    waiting = await opened(world, waiting=8)
    assert set(await statuses(world, waiting)) == {JobStatus.THROTTLED}
    calls = world.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    breaker = await breaker_of(world)
    assert (calls[-1][0], calls[-1][-1]) == ("tenant_a", breaker.until)
    await later(world, MINUTE - 9)
    assert set(await statuses(world, waiting)) == {JobStatus.THROTTLED}
    await later(world, 1)
    assert await inside(world, waiting) == waiting[:1]
    for number, count in ((0, 2), (1, 2), (2, 4)):
        await ends(world, waiting[number], good=True)
        assert len(await inside(world, waiting)) == count
    for job_id in waiting[3:]:
        await ends(world, job_id, good=True)
    assert (await breaker_of(world)).state is BreakerState.CLOSED
    log = [(each.type, each.actor) for each in await entries(world, OCR)]
    assert log == [
        ("RULE_SET", OPERATOR.actor),
        ("BREAKER_OPENED", "system"),
        ("BREAKER_HALF_OPEN", "system"),
        ("BREAKER_CLOSED", "system"),
    ]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("turn", range(1, 6))
async def test_a_crash_counts_an_end_once(world: World, turn: int, *, after: bool) -> None:
    """A process dies at a call to the index before the end's transaction, or after: the sweeper's end counts once."""
    await with_breaker(world, min_calls=3)
    first, second = await posted(world, 1, 2)
    await ends(world, first)
    assert (await breaker_of(world)).calls == 1
    for name in ("close", "read_active", "write_admission"):
        dying = killed_at(world, "index", name, after=after, turn=turn)
        if (await world.job(second)).job.status.terminal:
            break
        try:
            await ends(dying, second)
        except LedgerUnavailable:
            break
    world.clock.advance(700)
    await swept(world)
    await swept(world)
    assert await world.index.read_active("tenant_a", second) is None
    assert ((await breaker_of(world)).calls, (await breaker_of(world)).bad) == (2, 2)


async def test_an_end_that_others_wait_for_counts_once(world: World) -> None:
    """It returns its slot before its dependants are notified, and its row is deleted later."""
    await with_breaker(world)
    first, second = await posted(world, 1, 2)
    await posted(world, 3, dependencies=[first])
    await ends(world, first)
    assert (await breaker_of(world)).calls == 1
    world.clock.advance(700)
    await swept(world)
    assert (await breaker_of(world)).calls == 1
    await ends(world, second)
    assert (await breaker_of(world)).state is BreakerState.OPEN


async def test_two_ends_at_once_open_it_once(world: World) -> None:
    """They race for the admission state: one opens it, the other was of before; the log has one entry."""
    await with_breaker(world)
    jobs = await posted(world, 1, 2, 3)
    await ends(world, jobs[0])
    await asyncio.gather(ends(world, jobs[1]), ends(world, jobs[2]))
    assert (await breaker_of(world)).epoch == 1
    assert [each.type for each in await entries(world, OCR)].count("BREAKER_OPENED") == 1


async def test_a_breaker_of_the_rule_for_every_tenant(world: World) -> None:
    """Each tenant's type has its own breaker; where no other value is set its epoch stays."""
    world.context.process.gate_directory.forget()
    await with_breaker(world, Gate(GateKind.TYPE, EVERY, EVERY))
    jobs = await posted(world, 1, 2)
    for job_id in jobs:
        await ends(world, job_id)
    assert (await breaker_of(world)).state is BreakerState.OPEN
    await held(world, OCR)
    await quotas.resume(world.context, world.orchestrations, OCR, OPERATOR)
    assert (await breaker_of(world)).epoch == 1
    with pytest.raises(NoBreaker):
        await quotas.reset_breaker(world.context, world.orchestrations, Gate(GateKind.TYPE, EVERY, EVERY), OPERATOR)


async def test_a_reset_lets_them_in(world: World) -> None:
    """It closes at once and logs operator and reason; a repetition changes nothing; without a breaker it is refused."""
    waiting = await opened(world)
    changed = await quotas.reset_breaker(world.context, world.orchestrations, OCR, OPERATOR)
    assert changed.after is not changed.before
    assert await inside(world, waiting) == waiting
    breaker = await breaker_of(world)
    assert (breaker.state, breaker.epoch, breaker.active) == (BreakerState.CLOSED, 2, 3)
    again = await quotas.reset_breaker(world.context, world.orchestrations, OCR, OPERATOR)
    assert again.after is again.before
    entry = (await entries(world, OCR))[-1]
    assert (entry.type, entry.reason, entry.data["before"]["breaker"]["state"]) == (
        "BREAKER_RESET",
        "month end",
        "OPEN",
    )
    with pytest.raises(NoBreaker):
        await quotas.reset_breaker(world.context, world.orchestrations, TENANT, OPERATOR)
    with pytest.raises(NoBreaker):
        await quotas.reset_breaker(
            world.context, world.orchestrations, Gate(GateKind.TYPE, "tenant_a", "EMBEDDING"), OPERATOR
        )


async def test_a_breaker_that_is_taken_away_lets_them_in(world: World) -> None:
    """A breaker that is set again starts in another epoch."""
    waiting = await opened(world)
    await ruled(world, OCR, breaker=None, max_active=50)
    assert await inside(world, waiting) == waiting
    await with_breaker(world)
    breaker = await breaker_of(world)
    assert (breaker.state, breaker.calls, breaker.epoch) == (BreakerState.CLOSED, 0, 2)


async def test_who_waits_at_a_breaker_sees_it(world: World) -> None:
    """`explain` and the view have the end or the number of probes; the first job's time is the end of the cool-down."""
    waiting = await opened(world)
    breaker = await breaker_of(world)
    standings = [await read_position(world.context, (await world.job(job_id)).job) for job_id in waiting]
    first, second = standings[:2]
    assert first is not None
    assert second is not None
    assert (first.stopped_by.blocked_by, first.expected_at, second.expected_at) == (
        BlockReason.BREAKER,
        breaker.until,
        None,
    )
    now = world.clock.now()
    record = await world.job(waiting[0])
    text = explain(record, now, None, standing=first).text
    assert "the breaker of type OCR of tenant tenant_a, which is open until" in text
    admission, known = await read_admission(world.context, "tenant_a")
    shown = quota(admission, known, admission.state(OCR), now, None).breaker
    assert shown is not None
    assert (shown.state, shown.until, shown.allow, shown.bad, shown.calls) == ("OPEN", breaker.until, None, 2, 2)
    await later(world, MINUTE)
    admission, known = await read_admission(world.context, "tenant_a")
    shown = quota(admission, known, admission.state(OCR), world.clock.now(), None).breaker
    assert shown is not None
    assert (shown.state, shown.until, shown.allow) == ("HALF_OPEN", None, 1)
    standing = await read_position(world.context, (await world.job(waiting[1])).job)
    text = explain(await world.job(waiting[1]), world.clock.now(), None, standing=standing).text
    assert "which is half-open and admits 1 at a time" in text
