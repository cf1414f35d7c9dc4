"""Races of the sweeper, readers, redrives and events to orchestrations; see `tests.operations.jobs.test_races`."""

from __future__ import annotations

import asyncio

import pytest

from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import VerdictKind
from shared.errors import InstanceEnded
from shared.operations.jobs.read_history import last_transition, read_history
from shared.operations.jobs.rejected_messages import redrive_rejected
from shared.operations.protocols.catalog import Catalog
from shared.operations.protocols.overrides import CatalogState
from shared.ports.durable import InstanceState
from tests.jobs import registry
from tests.operations.conftest import StillClock, World
from tests.operations.faults import failing
from tests.operations.interleave import Meeting, Work, every_order, serializable
from tests.operations.support import early, relisted, service_sends
from tests.worlds.jobs import (
    JOB,
    Prepare,
    asks,
    dispatches,
    failed,
    in_flight,
    in_service,
    over,
    posts,
    queued,
    redrives,
    sends,
    settles,
    sweeps,
    then,
    timed_out,
)

# --- the sweeper


@pytest.mark.parametrize(
    ("prepare", "seconds"),
    [(queued, 61), (in_flight, 100), (over, 61), (timed_out, 100), (failed, 3601), (then(failed), 31 * 86_400)],
)
def test_two_sweeps_at_once(prepare: Prepare, seconds: float) -> None:
    """Race sweeps: a second sweep repairs nothing twice."""
    assert serializable(then(prepare, seconds=seconds), sweeps(), sweeps(), interruptions=1, alike=True) >= 2


@pytest.mark.parametrize(
    ("prepare", "work"),
    [
        (then(over, seconds=61), sends("RESULT")),
        (then(over, seconds=61), settles()),
        (then(timed_out, seconds=61), dispatches()),
        (then(timed_out, seconds=61), asks(ControlKind.CANCEL)),
        (then(failed, seconds=3601), redrives("a")),
        (then(queued, seconds=61), posts()),
        (then(in_service, seconds=961), sends("HEARTBEAT")),
    ],
)
def test_a_sweep_during_normal_work(prepare: Prepare, work: Work) -> None:
    """Race sweeps: the functions themselves may do the sweeper's work at the same moment."""
    assert serializable(prepare, sweeps(), work, interruptions=1) >= 2


def test_two_sweeps_restart_one_job() -> None:
    """Race restart: both find the orchestration ended: one new instance, and no attempt of its five is lost."""

    async def ended(world: World) -> None:
        await queued(world)
        world.orchestrations.states[JOB] = InstanceState.ENDED
        world.clock.advance(61)

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await ended(world)
        await meeting.at_once(a=sweeps()(world), b=sweeps()(world))
        assert (await world.job(JOB)).job.instance_id == f"{JOB}.r1"
        assert set(world.orchestrations.started) == {JOB, f"{JOB}.r1"}

    assert every_order(scenario, interruptions=1, alike=True) >= 2


def test_a_list_row_and_its_jobs_end() -> None:
    """Race relist: a row that is brought up to date while its job ends has the final status."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        await meeting.at_once(a=relisted(world), b=sends("RESULT")(world), c=relisted(world))
        [row] = world.index.listed
        assert (row.status, world.index.active) == ("SUCCEEDED", {})

    assert every_order(scenario) > 20


# --- events to orchestrations


def test_a_resume_before_its_parking_is_heard() -> None:
    """Race resume: an orchestration that parks is woken, also by an earlier resume; repeated ones change nothing."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await queued(world)
        await asks(ControlKind.PAUSE, "0")(world)
        outcomes = await meeting.at_once(
            a=dispatches()(world), b=asks(ControlKind.RESUME, "1")(world), c=asks(ControlKind.RESUME, "2")(world)
        )
        assert [outcomes["b"].error, outcomes["c"].error] == [None, None]
        if outcomes["a"].value.kind is VerdictKind.PARK:
            assert ("resume:1", {"status": JobStatus.QUEUED}) in world.orchestrations.raised
        else:
            assert outcomes["a"].value.kind is VerdictKind.SENT

    assert every_order(scenario) > 10


async def test_an_orchestration_that_is_ahead_of_its_reply(world: World) -> None:
    """Race heard: the orchestration ended by the ledger before the reply function raised its event."""
    await in_flight(world)
    failing(world.orchestrations, "raise_event", error=InstanceEnded(JOB))
    await service_sends(world, JOB, "RESULT", 1)
    assert (await world.job(JOB)).job.status is JobStatus.SUCCEEDED


def test_a_history_that_grows_while_it_is_read() -> None:
    """Race history: the rows and the events that caused them agree, with any writes in between."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        reads = {name: read_history(world.context, JOB) for name in ("a", "b")}
        outcomes = await meeting.at_once(
            **reads, c=sends("RESULT")(world), d=last_transition(world.context, await world.job(JOB))
        )
        for name in ("a", "b"):
            record, events = outcomes[name].value
            assert (events[-1].seq, events[-1].hash) == (record.job.event_seq, record.job.event_hash)
        assert outcomes["d"].value.type == "ACK"

    assert every_order(scenario, interruptions=1) > 10


async def test_one_look_at_the_store_of_protocols() -> None:
    """Race catalog: tens of requests at once are one read, and only the first waits for it."""
    store, looks = CatalogState(registry()), 0
    release = asyncio.Event()

    class Store:
        async def version(self) -> str | None:
            nonlocal looks
            looks += 1
            await release.wait()
            return "1"

        async def read(self) -> dict[str, str]:
            return {}

    catalog = Catalog(Store(), store, schemas={}, services={}, clock=StillClock(), refresh_s=30)
    first = asyncio.create_task(catalog.refresh())
    await asyncio.sleep(0)
    others = [asyncio.create_task(catalog.refresh()) for _ in range(30)]
    release.set()
    await asyncio.gather(first, *others)
    assert looks == 1
    catalog._clock.advance(31)  # type: ignore[attr-defined]
    release.clear()
    again = asyncio.create_task(catalog.refresh())
    await asyncio.sleep(0)
    assert await asyncio.wait_for(catalog.refresh(), 5) is catalog.current
    release.set()
    await again
    assert looks == 2


# --- redrives


def test_two_redrives_at_once() -> None:
    """Race redrives: two callers redrive the same failed job: one new job, linked both ways."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await failed(world)
        outcomes = await meeting.at_once(a=redrives("a")(world), b=redrives("b")(world))
        assert [one.error for one in outcomes.values()] == [None, None]
        [new_id] = {one.value.stored.record.job.job_id for one in outcomes.values()}
        assert set(world.ledger.records) == {JOB, new_id}
        assert (await world.job(JOB)).job.redriven_by == new_id
        assert [event.type for event in await world.ledger.events(JOB)].count("JOB_REDRIVEN") == 1

    assert every_order(scenario, alike=True) > 20


def test_two_redrives_of_one_rejected_message() -> None:
    """Race rejected: two people hand the same message in again: it moves its job once, and both read its mark."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        job_id, id_ = await early(world)
        outcomes = await meeting.at_once(
            **{name: redrive_rejected(world.context, world.orchestrations, id_) for name in ("a", "b")}
        )
        assert [one.value.redriven_outcome for one in outcomes.values()] == ["APPLIED", "APPLIED"]
        assert [event.type for event in await world.ledger.events(job_id)].count("ACK") == 1

    assert every_order(scenario, alike=True) > 5
