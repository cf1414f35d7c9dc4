"""Incidents in their lists: found while they are open, filtered and paged, and gone with their jobs (R63, R64)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.filters import IncidentFilter
from shared.core.incidents import MAX_DETAIL, Incident, IncidentState, Settlement
from shared.errors import LedgerUnavailable
from shared.operations.incidents import incidents
from shared.operations.jobs import list_jobs as lists
from shared.operations.jobs.dead_letters import dismiss_dead_letter
from shared.operations.sweeper.logs import compare_incidents
from shared.operations.sweeper.sweep import sweep
from shared.refusals import IncidentNotFound
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.support import by, cancelled, redrive
from tests.worlds.incidents import BREAKER, EXHAUSTED, OPEN, an_incident, dismiss, failed, given, listed, raised


async def test_a_breaker_of_a_tenant_is_in_its_list(world: World) -> None:
    """With those of its jobs, in the order of time; those of other tenants and of no tenant are not in it."""
    jobs = await failed(world, *await given(world, 2))
    world.clock.advance(5)
    whose = ("tenant_a", "tenant_b", None)
    own, foreign, nobodys = [(await raised(world, f"{tenant}", tenant)).id for tenant in whose]
    jobs += await failed(world, *await given(world))
    requested = IncidentFilter(tenant_id="tenant_a")
    assert await listed(world, requested, limit=1) == [jobs[2], own, jobs[1], jobs[0]]
    assert set(await listed(world, IncidentFilter(), limit=2)) == {*jobs, own, foreign, nobodys}
    await dismiss(world, own)
    assert await listed(world, replace(requested, states=OPEN.states)) == [jobs[2], jobs[1], jobs[0]]
    assert await listed(world, replace(requested, kinds=frozenset({BREAKER}))) == [own]


async def test_lists_are_filtered_and_paged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By type and time over all tenants; few are read more than are shown, and none is left out."""
    monkeypatch.setattr(lists, "MAX_READ_MORE", 4)
    monkeypatch.setattr(lists, "_LEAST_LOOK", 1)
    ocr = await failed(world, *await given(world, request_type="OCR", payload={}))
    ids = ocr + [
        each for number in range(9) for each in await failed(world, *await given(world, tenant_id=f"t_{number % 3}"))
    ]
    assert await listed(world, limit=4) == ids[::-1]
    for requested in (replace(OPEN, request_type="OCR"), IncidentFilter(request_type="OCR")):
        assert await listed(world, requested, limit=2) == ocr
    middle = (await incidents.read_incident(world.context, ids[5])).opened_at
    for requested in (OPEN, IncidentFilter()):
        assert await listed(world, replace(requested, since=middle), limit=2) == ids[:4:-1]
        assert await listed(world, replace(requested, until=middle), limit=2) == ids[4::-1]


async def test_what_settled_unseen_leaves_the_list_of_open_ones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reader sees it meanwhile; the hourly sweep removes it, and keeps an incident that may be about to open."""
    kept, gone = await failed(world, *await given(world, 2))
    with monkeypatch.context() as patched:
        patched.setattr(world.index.incidents, "leave_open", _away)
        await dismiss_dead_letter(world.context, gone.removeprefix("inc_"), by("known"))
    now = world.clock.now()
    opening = replace(await incidents.read_incident(world.context, kept), id="inc_job_9", subject="job_9")
    await world.context.incidents.enter_open(opening, now)
    assert len(await world.index.incidents.list_open(after=None, limit=10)) == 3
    assert await listed(world) == [kept]
    world.clock.advance(300)
    assert await compare_incidents(world.context, lambda: False, whole=True) == 0
    hour = now.replace(minute=0) + timedelta(hours=2)
    world.clock.advance((hour - world.clock.now()).total_seconds())
    await sweep(world.context, world.orchestrations)
    assert [row.incident.id for row in await world.index.incidents.list_open(after=None, limit=10)] == [kept]


async def test_an_incident_that_is_entered_again_stays_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race incident: its end is handled between the sweeper's read of the list and of the incident."""
    incident_id = await an_incident(world)
    rows, [found] = world.index.incidents.rows_of_jobs, world.index.incidents.all
    [stored] = [each for each in rows.all_rows if each["RowKey"].startswith("INCIDENT:")]
    rows.remove(stored["PartitionKey"], stored["RowKey"])
    world.clock.advance(3600)
    read = world.index.incidents.read

    async def slow(*args: Any) -> Incident | None:
        before = await read(*args)
        monkeypatch.undo()
        await world.index.incidents.enter_open(found, world.clock.now())
        rows.put(stored)
        return before

    monkeypatch.setattr(world.index.incidents, "read", slow)
    await compare_incidents(world.context, lambda: False, whole=True)
    assert await listed(world) == [incident_id]


async def test_the_clearing_settles_what_a_redrive_that_died_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new job was cancelled before the sweeper could finish its redrive: the clearing of the old job does."""
    [job_id] = await given(world)
    [incident_id] = await failed(world, job_id)
    with monkeypatch.context() as patched:
        patched.setattr(world.index, "end_dead_letter", _away)
        with pytest.raises(LedgerUnavailable):
            await redrive(world, job_id)
    new_id = (await world.job(job_id)).job.redriven_by
    assert new_id is not None
    await cancelled(world, new_id)
    assert (await incidents.read_incident(world.context, incident_id)).is_open
    world.clock.advance(90)
    await sweep(world.context, world.orchestrations)
    found = await incidents.read_incident(world.context, incident_id)
    assert (found.state, found.retried_by) == (IncidentState.RETRIED, new_id)
    assert await world.index.dead_letters("tenant_a", after=None, limit=10) == []


async def test_an_end_that_is_written_after_the_redrive_opens_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job failed, its end in the index was lost, and it was redriven: there is nothing to act on."""
    [job_id] = await given(world)
    with monkeypatch.context() as patched:
        patched.setattr(world.index, "close", _away)
        with pytest.raises(LedgerUnavailable):
            await failed(world, job_id)
    await redrive(world, job_id)
    world.clock.advance(90)
    await sweep(world.context, world.orchestrations)
    assert (await listed(world), await listed(world, IncidentFilter())) == ([], [])


async def test_the_archive_takes_it_with_its_job(world: World) -> None:
    """Retention leaves no row of it."""
    incident_id = await an_incident(world)
    job = (await world.job(incident_id.removeprefix("inc_"))).job
    await world.index.delete_listing(job)
    assert await listed(world) == []
    with pytest.raises(IncidentNotFound):
        await incidents.read_incident(world.context, incident_id)


async def test_a_long_message_is_cut(world: World) -> None:
    """The job has all of it; the list does not carry it."""
    [incident_id] = await failed(world, *await given(world), error={**EXHAUSTED, "message": "x" * 1500})
    found = await incidents.read_incident(world.context, incident_id)
    assert found.detail == "x" * (MAX_DETAIL - 3) + "..."


async def test_a_settlement_that_loses_changes_nothing(world: World) -> None:
    """The second of two actions finds the entry of the first."""
    incident = await incidents.read_incident(world.context, await an_incident(world))
    at = START + timedelta(days=1)
    first = Settlement(state=IncidentState.RESOLVED, actor="a", reason="r", at=at)
    second = Settlement(state=IncidentState.DISMISSED, actor="b", reason="s", at=at)
    assert (await world.index.incidents.settle(incident, first)).settled_by == "a"
    assert (await world.index.incidents.settle(incident, second)).settled_by == "a"


async def _away(*_: Any, **__: Any) -> None:
    raise LedgerUnavailable("killed here")
