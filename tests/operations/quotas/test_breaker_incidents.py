"""The opening of a breaker creates its incident, after any duration of the opening; no job waits for it (R63)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import EVERY, Gate
from shared.core.incidents import Incident, IncidentState
from shared.core.jobs.states import JobStatus
from shared.errors import BusUnavailable, LedgerUnavailable
from shared.operations.gates import allocations
from shared.operations.incidents.incidents import resolve_incident
from shared.operations.quotas import quotas
from shared.operations.quotas.breaker_incidents import answer_call, keep_incident
from tests.operations.conftest import World
from tests.operations.faults import Fault, failing
from tests.operations.support import by, limited, swept
from tests.worlds.gates import (
    MINUTE,
    OCR,
    OCR_OF_ALL,
    OPERATOR,
    after_a_second,
    breaker_of,
    breaker_over_all,
    created,
    ends,
    fail,
    later,
    opened,
    posted,
    with_breaker,
    with_breaker_over_all,
    world,
)

__all__ = ["world"]  # a fixture


async def called(world: World) -> None:
    """Delivers the calls to breakers, as the queue's function does."""
    calls: Any = world.context.bus.admission_calls
    while calls.breaker_calls:
        await answer_call(world.context, *calls.breaker_calls.pop(0))


async def incidents(world: World, gate: Gate = OCR) -> list[Incident]:
    """Returns those of the gate, the first opened first."""
    rows = await world.context.incidents.list_at(None, after=None, limit=99)
    return [row.incident for row in reversed(rows) if row.incident.subject == gate.id]


async def closed(world: World) -> None:
    """The breaker that is open closes by a probe, less than a minute after it opened."""
    stored = world.index.admissions.admissions["tenant_a"]
    until = stored.admission.gates[OCR.id].breaker.until  # type: ignore[union-attr]
    assert until is not None
    await later(world, max(0.0, (until - world.clock.now()).total_seconds()))
    [probe] = await posted(world, int(world.clock.now().timestamp() * 1000))
    jobs = [each.record.job for each in world.ledger.jobs.values()]
    [probe] = [each.job_id for each in jobs if each.status is JobStatus.QUEUED][:1] or [probe]
    await ends(world, probe, good=True)
    while (await breaker_of(world)).state is not BreakerState.CLOSED:
        await ends(world, await after_a_second(world, int(world.clock.now().timestamp() * 1000)), good=True)


async def test_an_opening_makes_its_incident_before_any_sweep(world: World) -> None:
    """At the time of the opening; delivered twice, and by the sweep after it, it is the same."""
    await opened(world, waiting=0)
    at = (await breaker_of(world)).opened_at
    calls: Any = world.context.bus.admission_calls
    assert calls.breaker_calls == [("tenant_a", OCR.id)]
    calls.breaker_calls *= 2
    await called(world)
    [incident] = await incidents(world)
    assert (incident.code, incident.tenant, incident.opened_at) == ("BREAKER_OPENED", "tenant_a", at)
    assert (incident.request_type, incident.detail) == ("OCR", f"{OCR.display_name}: 2 of 2 jobs failed")
    await after_a_second(world, 7)
    await swept(world)
    assert await incidents(world) == [incident]


@pytest.mark.parametrize("lost", [False, True])
async def test_a_breaker_that_closed_before_the_sweep_has_its_incident(world: World, lost: bool) -> None:
    """`lost`: its call never came; the sweep makes the incident of an opening that is over, and settles it."""
    await opened(world, waiting=0)
    opened_at = (await breaker_of(world)).opened_at
    if lost:
        world.context.bus.admission_calls.breaker_calls.clear()  # type: ignore[attr-defined]
    await called(world)
    assert len(await incidents(world)) == (not lost)
    await closed(world)
    await called(world)
    await after_a_second(world, 7)
    for _ in range(3):
        await swept(world)
        world.clock.advance(MINUTE)
    [incident] = await incidents(world)
    assert (incident.opened_at, incident.state, incident.reason) == (
        opened_at,
        IncidentState.RESOLVED,
        "the breaker has closed",
    )


@pytest.mark.parametrize("lost", [False, True])
async def test_a_breaker_that_opens_again_before_it_closed_has_one_incident(world: World, lost: bool) -> None:
    [first, *_] = await opened(world, waiting=2)
    if not lost:
        await called(world)
    await later(world, MINUTE)
    await ends(world, first)
    assert (await breaker_of(world)).epoch == 2
    await called(world)
    assert len(await incidents(world)) == 1
    await closed(world)
    await after_a_second(world, 70)
    for _ in range(3):
        await swept(world)
        world.clock.advance(MINUTE)
    assert [each.state for each in await incidents(world)] == [IncidentState.RESOLVED]


async def test_what_a_person_settled_stays_so_until_the_breaker_opens_again(world: World) -> None:
    [first, *_] = await opened(world, waiting=2)
    await called(world)
    [incident] = await incidents(world)
    await resolve_incident(world.context, incident.id, by())
    await swept(world)
    assert [each.state for each in await incidents(world)] == [IncidentState.RESOLVED]
    await later(world, MINUTE)
    await ends(world, first)
    await called(world)
    await swept(world)
    assert [each.state for each in await incidents(world)] == [IncidentState.RESOLVED, IncidentState.OPEN]


async def test_a_reset_before_the_call_leaves_a_settled_incident(world: World) -> None:
    await opened(world, waiting=0)
    await quotas.reset_breaker(world.context, world.orchestrations, OCR, OPERATOR)
    await called(world)
    [incident] = await incidents(world)
    assert (incident.state, incident.reason) == (IncidentState.RESOLVED, "reset by app:1 (ops): month end")


def without_calls_to_breakers(world: World, fault: Exception) -> Fault:
    return failing(
        world.context.bus.admission_calls, "call", error=fault, only=lambda *_, **fields: "breaker_of" in fields
    )


@pytest.mark.parametrize("fault", [BusUnavailable("away"), AttributeError("a bug in a client")])
async def test_a_call_that_fails_stops_no_end(world: World, fault: Exception) -> None:
    """The job whose end opened the breaker is closed, and the sweep creates the incident."""
    await with_breaker(world)
    with without_calls_to_breakers(world, fault):
        for job_id in await posted(world, 1, 2):
            await ends(world, job_id)
    assert (await breaker_of(world)).state is BreakerState.OPEN
    assert await world.index.list_active("tenant_a", after=None, limit=9) == []
    assert await incidents(world) == []
    await after_a_second(world, 7)
    await swept(world)
    assert [each.state for each in await incidents(world)] == [IncidentState.OPEN]


@pytest.mark.parametrize("name", ["find_open", "read", "open"])
async def test_an_incident_that_cannot_be_written_is_made_by_the_next_sweep(world: World, name: str) -> None:
    """The call is delivered again by the queue, and in the end is not: no job's state depends on it."""
    await opened(world, waiting=0)
    with failing(world.context.incidents, name), pytest.raises(LedgerUnavailable):
        await answer_call(world.context, "tenant_a", OCR.id)
    await after_a_second(world, 7)
    await swept(world)
    assert [each.state for each in await incidents(world)] == [IncidentState.OPEN]


async def test_a_log_that_is_gone_keeps_no_open_breaker_without_an_incident(world: World) -> None:
    await opened(world, waiting=0)
    world.index.admissions.clear_logs()
    await called(world)
    [incident] = await incidents(world)
    assert incident.opened_at == (await breaker_of(world)).opened_at


async def test_a_breaker_over_all_tenants_has_one_by_its_division(world: World) -> None:
    """Of no tenant; a call that fails does not delay the division that opened it."""
    await with_breaker_over_all(world)
    jobs = [await created(world, 10 * number, f"t{number}") for number in range(3)]
    await fail(world, *jobs[:2])
    gate = OCR_OF_ALL
    assert world.context.bus.admission_calls.breaker_calls == [(EVERY, gate.id)]  # type: ignore[attr-defined]
    await called(world)
    [incident] = await incidents(world, gate)
    assert (incident.tenant, incident.state) == (None, IncidentState.OPEN)
    await swept(world)
    assert await incidents(world, gate) == [incident]


async def test_a_division_that_opens_a_breaker_goes_on_without_its_call(world: World) -> None:
    without_calls_to_breakers(world, BusUnavailable("away"))
    await with_breaker_over_all(world)
    jobs = [await created(world, 10 * number, f"t{number}") for number in range(3)]
    for job_id in jobs[:2]:
        await ends(world, job_id)
    await allocations.allocate(world.context, OCR_OF_ALL)
    assert (await breaker_over_all(world)).state is BreakerState.OPEN
    await swept(world)
    assert [each.state for each in await incidents(world, OCR_OF_ALL)] == [IncidentState.OPEN]


async def test_a_gate_without_a_breaker_has_no_incident(world: World) -> None:
    """Neither has a call to an unknown gate or tenant."""
    world = limited(world, max_inflight_per_tenant=1, overflow="stage")
    await posted(world, 1)
    stored = world.index.admissions.admissions["tenant_a"]
    await keep_incident(world.context, stored.admission.state(OCR))
    await answer_call(world.context, "tenant_a", "0" * 16)
    await answer_call(world.context, "nobody", OCR.id)
    assert await incidents(world) == []
