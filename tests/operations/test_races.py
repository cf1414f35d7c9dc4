"""A test for each race that the code names: `Race NAME` in its comment, and in the docstring of the test.

`tests.operations.test_race_names` holds the two lists against each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.attempts import lease_id
from shared.core.configured import Configured
from shared.core.history import Origin
from shared.core.job import Record
from shared.core.occurrences import ControlKind
from shared.core.states import JobStatus
from shared.core.verdict import VerdictKind
from shared.errors import InstanceEnded, LedgerUnavailable
from shared.operations.catalogue import Catalogue
from shared.operations.control_job import control_job
from shared.operations.create_job import Created, create_job
from shared.operations.dispatch_step import dispatch_step
from shared.operations.explain_job import explain_job
from shared.operations.read_history import read_history
from shared.operations.redrive_job import redrive_job
from shared.operations.rejected_messages import redrive_rejected
from shared.operations.relist import relist
from shared.operations.settle_step import settle_step
from shared.operations.sweep import sweep
from shared.ports import InstanceState
from tests.jobs import envelope, registry, reply
from tests.model.invariants import rows_of
from tests.operations.conftest import StillClock, World
from tests.operations.interleave import Meeting, Work, every_order, serializable
from tests.operations.test_limits import limited
from tests.operations.test_rejected import early
from tests.operations.test_running import arrives, dispatch, service_says, submitted

JOB = "job_2"  # the number 1 goes to the check before it
ONE = {"request_type": "OCR", "payload": {}}


def posts(**changes: Any) -> Work:
    return lambda world: create_job(world.context, world.orchestrations, envelope(**ONE | changes), correlation_id=None)


def asks(kind: ControlKind, request: str = "1", job_id: str = JOB) -> Work:
    origin = Origin(cause_id=f"request:{kind}:{request}", actor="operator", source="http")
    return lambda world: control_job(world.context, world.orchestrations, job_id, kind, origin)


def says(type_: str, number: int = 1, step_id: str = "ocr", **fields: Any) -> Work:
    async def work(world: World) -> None:
        said = reply(await world.job(JOB), type_, step_id, **fields)
        await arrives(world, said.model_dump_json(exclude_none=True).encode(), number)

    return work


def dispatches(step_id: str = "ocr") -> Work:
    return lambda world: dispatch_step(world.context, job_id=JOB, instance_id=JOB, step_id=step_id)


def settles(attempt_no: int = 1) -> Work:
    return lambda world: settle_step(world.context, job_id=JOB, instance_id=JOB, step_id="ocr", attempt_no=attempt_no)


def sweeps() -> Work:
    return lambda world: sweep(world.context, world.orchestrations)


def redrives(actor: str) -> Work:
    origin = Origin(cause_id=f"request:{actor}", actor=actor, source="http")
    return lambda world: redrive_job(world.context, world.orchestrations, JOB, origin)


Prepare = Callable[[World], Awaitable[None]]


async def nothing(world: World) -> None:
    """An empty world."""


async def queued(world: World) -> None:
    assert await submitted(world, **ONE) == JOB


async def in_flight(world: World, **changes: Any) -> None:
    await submitted(world, **ONE | changes)
    await dispatch(world, JOB)


async def first_of_two(world: World) -> None:
    await in_flight(world, request_type="OCR_EMBEDDING")


async def in_service(world: World) -> None:
    await in_flight(world)
    await service_says(world, JOB, "ACK", 90)


async def over(world: World) -> None:
    """The ACK's time is over, and nobody has settled it."""
    await in_flight(world)
    world.clock.advance(30)


async def timed_out(world: World) -> None:
    """In backoff, which is over."""
    await over(world)
    await settles()(world)
    world.clock.advance(100)


async def failed(world: World) -> None:
    await in_flight(world)
    await service_says(world, JOB, "RESULT", 90, status="FAILED_FINAL")


def then(first: Prepare, *works: Work, seconds: float = 0) -> Prepare:
    async def prepare(world: World) -> None:
        await first(world)
        for work in works:
            await work(world)
        world.clock.advance(seconds)

    return prepare


# --- creation


def test_two_creators_of_one_job() -> None:
    """Race claim: whoever is slower finds the claim taken, and both answer the same job, which one of them made."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        told = await meeting.at_once(a=posts()(world), b=posts()(world))
        created = [ended.value for ended in told.values()]
        assert all(isinstance(one, Created) for one in created), told
        assert len({one.stored.record.job.job_id for one in created}) == 1
        assert sum(not one.replayed for one in created) == 1
        assert len(world.ledger.records) == len(world.index._active) == 1
        assert set(world.orchestrations.started) == set(world.ledger.records)

    assert every_order(scenario) > 20


@pytest.mark.parametrize("taken", [True, False])
async def test_a_write_that_went_through_unseen(world: World, taken: bool) -> None:
    """Race own-claim: the store says "exists" of this very write, tried again within the SDK: the job is ours."""
    real = world.index.reserve

    async def answer_lost(*args: Any, **fields: Any) -> None:
        if taken:
            await real(*args, **fields)
        await real(*args, **fields)

    world.index.reserve = answer_lost  # type: ignore[method-assign]
    created = await create_job(world.context, world.orchestrations, envelope(), correlation_id=None)
    assert not created.replayed
    assert world.orchestrations.started == [created.stored.record.job.job_id]


def test_a_sweeper_withdraws_while_its_creator_goes_on() -> None:
    """Race tombstone: either the job is there with all its rows, or its creator hears 503 and may post again."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world

        async def slow(world: World) -> Any:
            reserve = world.index.reserve

            async def then_late(*args: Any, **fields: Any) -> None:
                await reserve(*args, **fields)
                world.clock.advance(301)

            world.index.reserve = then_late  # type: ignore[method-assign]
            return await posts()(world)

        async def sweeper(world: World) -> None:
            for _ in range(3):
                await sweep(world.context, world.orchestrations)

        told = await meeting.at_once(a=slow(world), b=sweeper(world))
        assert told["b"].error is None
        [record] = world.ledger.records.values()
        withdrawn = record.job.error_code == "WITHDRAWN"
        assert withdrawn == isinstance(told["a"].error, LedgerUnavailable), told
        if withdrawn:
            world.clock.advance(301)
            await sweep(world.context, world.orchestrations)
            assert (world.index._active, world.index._claims) == ({}, {})
            assert not (await posts()(world)).replayed
        else:
            assert told["a"].value.stored.record.job.status is JobStatus.QUEUED
            assert len(world.index._active) == len(world.index._claims) == 1

    assert every_order(scenario, interruptions=1) > 10


def test_creators_at_a_limit() -> None:
    """Race gate: two different requests, room for one: one gets in, the other hears 429."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        world = limited(world, max_inflight_per_tenant=1)
        told = await meeting.at_once(a=posts(doc_id="a")(world), b=posts(doc_id="b")(world))
        assert sorted(getattr(one.error, "status", 202) for one in told.values()) == [202, 429]
        assert (len(world.index._active), world.index._gates) == (1, {"tenant_a": 1})

    assert every_order(scenario) > 5


@pytest.mark.parametrize("limit", ["max_inflight_per_tenant", "max_inflight"])
def test_a_duplicate_at_a_limit(limit: str) -> None:
    """Race duplicate: the same request twice, room for one: both are answered with the one job, nobody with 429."""

    async def scenario(meeting: Meeting) -> None:
        world = limited(meeting.world, **{limit: 1})
        told = await meeting.at_once(a=posts()(world), b=posts()(world))
        assert [one.error for one in told.values()] == [None, None]
        assert len(world.index._active) == 1

    assert every_order(scenario) > 20


# --- one job, two functions


@pytest.mark.parametrize("kind", list(ControlKind))
@pytest.mark.parametrize(
    ("prepare", "other"),
    [
        (in_flight, says("ACK")),
        (in_flight, says("RESULT")),
        (first_of_two, says("RESULT")),
        (in_service, says("RESULT", status="FAILED_RETRY")),
        (in_service, says("RESULT", status="FAILED_FINAL")),
        (in_service, says("HEARTBEAT")),
        (queued, dispatches()),
        (timed_out, dispatches()),
        (over, settles()),
        (timed_out, says("RESULT")),
        (then(first_of_two, asks(ControlKind.PAUSE, "0")), says("RESULT")),
        (then(queued, asks(ControlKind.PAUSE, "0")), asks(ControlKind.RESUME, "2")),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_a_control_and_something_else_at_once(kind: ControlKind, prepare: Prepare, other: Work) -> None:
    """Race conflict: whoever is slower decides again on what it finds; a control and a RESULT in any order."""
    assert serializable(prepare, asks(kind), other) >= 2


@pytest.mark.parametrize("kind", list(ControlKind))
def test_a_control_twice_at_once(kind: ControlKind) -> None:
    """Race conflict: the same control from two people moves the job once, and both are answered."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        told = await meeting.at_once(a=asks(kind, "a")(world), b=asks(kind, "b")(world))
        assert [one.error for one in told.values()] == [None, None]
        asked = [event for event in await world.ledger.events(JOB) if event.type.endswith("_REQUESTED")]
        assert len(asked) == (kind is not ControlKind.RESUME)

    every_order(scenario)


@pytest.mark.parametrize("type_", ["ACK", "HEARTBEAT", "RESULT"])
def test_one_message_in_two_hands(type_: str) -> None:
    """Race redelivery: its lock was lost, so two take the same message: one EVENT, and the orchestration is told."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_flight(world)
        said = reply(await world.job(JOB), type_).model_dump_json(exclude_none=True).encode()
        told = await meeting.at_once(a=arrives(world, said, 7), b=arrives(world, said, 7, delivery_count=2))
        assert [one.error for one in told.values()] == [None, None]
        causes = [event.cause_id for event in await world.ledger.events(JOB)]
        assert len(causes) == len(set(causes)) == 3
        names = {name for name, _ in world.orchestrations.raised}
        assert names == {"result:ocr:1" if type_ == "RESULT" else "ack:ocr:1"}

    assert every_order(scenario) > 5


@pytest.mark.parametrize(
    "results", [("SUCCEEDED", "FAILED_FINAL"), ("SUCCEEDED", "FAILED_RETRY"), ("FAILED_RETRY",) * 2]
)
def test_two_results_of_one_attempt(results: tuple[str, str]) -> None:
    """Race conflict: a service that contradicts itself at once: the first RESULT stands, the other is a row."""
    first, second = (says("RESULT", number, status=status) for number, status in enumerate(results, 1))
    assert serializable(in_service, first, second) > 5


@pytest.mark.parametrize("prepare", [queued, timed_out, over])
def test_a_dispatch_runs_twice_at_once(prepare: Prepare) -> None:
    """Race dispatch: one attempt is recorded, and whatever is published has its message id."""
    assert serializable(prepare, dispatches(), dispatches()) > 3


def test_a_dispatch_and_a_late_reply() -> None:
    """Race revived: the attempt that had timed out is revived, or its reply is too late for the next one."""
    attempt = {"attempt_no": 1, "lease_id": lease_id(JOB, "ocr", 1)}
    for work in (says("ACK", **attempt), says("RESULT", **attempt), says("RESULT", status="FAILED_RETRY", **attempt)):
        assert serializable(timed_out, dispatches(), work) > 3


@pytest.mark.parametrize("work", [says("ACK"), says("HEARTBEAT"), says("RESULT"), settles(), dispatches()])
def test_a_timer_and_something_else_at_once(work: Work) -> None:
    """Race settle: a lease that is over ends the attempt, unless a reply is first."""
    assert serializable(over, settles(), work) > 3


def test_siblings_end_at_once() -> None:
    """Race siblings: two steps of a group succeed at the same time: one of them sees that it was the last."""

    async def group(world: World) -> None:
        await submitted(world, **ONE | {"request_type": "OCR_EMBEDDING"})
        stored = await world.ledger.read(JOB)
        assert stored is not None
        grouped = Record(stored.record.job, tuple(replace(step, group=0) for step in stored.record.steps))
        world.ledger._put(grouped)
        world.ledger._folded[JOB] = rows_of(grouped)  # type: ignore[attr-defined]
        for step_id in ("ocr", "embedding"):
            await dispatch(world, JOB, step_id)

    for status in ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"):
        one, other = says("RESULT", 1, status=status), says("RESULT", 2, "embedding")
        assert serializable(group, one, other) > 5


# --- the sweeper


@pytest.mark.parametrize(
    ("prepare", "seconds"),
    [(queued, 61), (in_flight, 100), (over, 61), (timed_out, 100), (failed, 3601), (then(failed), 31 * 86_400)],
)
def test_two_sweeps_at_once(prepare: Prepare, seconds: float) -> None:
    """Race sweeps: a second sweep repairs nothing twice."""
    assert serializable(then(prepare, seconds=seconds), sweeps(), sweeps(), interruptions=1) >= 2


@pytest.mark.parametrize(
    ("prepare", "work"),
    [
        (then(over, seconds=61), says("RESULT")),
        (then(over, seconds=61), settles()),
        (then(timed_out, seconds=61), dispatches()),
        (then(timed_out, seconds=61), asks(ControlKind.CANCEL)),
        (then(failed, seconds=3601), redrives("a")),
        (then(queued, seconds=61), posts()),
        (then(in_service, seconds=961), says("HEARTBEAT")),
    ],
)
def test_a_sweep_beside_normal_work(prepare: Prepare, work: Work) -> None:
    """Race sweeps: what the sweeper does, the functions themselves might do at the same moment."""
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

    assert every_order(scenario, interruptions=1) >= 2


def test_a_list_row_and_its_jobs_end() -> None:
    """Race relist: a row that is brought up to date while its job ends says how it ended, never less."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        await meeting.at_once(a=relist(world.context), b=says("RESULT")(world), c=relist(world.context))
        [[row]] = [list(rows.values()) for rows in world.index._listed.values()]
        assert (row.status, world.index._active) == ("SUCCEEDED", {})

    assert every_order(scenario) > 20


# --- what is told


def test_a_resume_before_its_parking_is_heard() -> None:
    """Race resume: whoever is told to park is woken, were it before it asked; repeated wakes change nothing."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await queued(world)
        await asks(ControlKind.PAUSE, "0")(world)
        told = await meeting.at_once(
            a=dispatches()(world), b=asks(ControlKind.RESUME, "1")(world), c=asks(ControlKind.RESUME, "2")(world)
        )
        assert [told["b"].error, told["c"].error] == [None, None]
        if told["a"].value.kind is VerdictKind.PARK:
            assert ("resume:1", {"status": JobStatus.QUEUED}) in world.orchestrations.raised
        else:
            assert told["a"].value.kind is VerdictKind.SENT

    assert every_order(scenario) > 10


async def test_an_orchestration_that_is_ahead_of_its_reply(world: World) -> None:
    """Race heard: it ended by the ledger's word before the reply function told it so: the reply is done."""
    await in_flight(world)

    async def gone(instance_id: str, name: str, data: Any) -> None:
        raise InstanceEnded(instance_id)

    world.orchestrations.raise_event = gone  # type: ignore[method-assign]
    await service_says(world, JOB, "RESULT", 1)
    assert (await world.job(JOB)).job.status is JobStatus.SUCCEEDED


def test_a_history_that_grows_while_it_is_read() -> None:
    """Race history: the rows and the events that led to them, whatever is written in between."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        reads = {name: read_history(world.context, JOB) for name in ("a", "b")}
        told = await meeting.at_once(
            **reads, c=says("RESULT")(world), d=explain_job(world.context, await world.job(JOB))
        )
        for name in ("a", "b"):
            record, events = told[name].value
            assert (events[-1].seq, events[-1].hash) == (record.job.event_seq, record.job.event_hash)
        assert told["d"].value["brought_here"]["type"] == "ACK"

    assert every_order(scenario, interruptions=1) > 10


async def test_one_look_at_the_store_of_protocols() -> None:
    """Race catalogue: tens of requests at once are one look, and nobody but the first waits for it."""
    store, looks = Configured(registry()), 0
    release = asyncio.Event()

    class Store:
        async def version(self) -> str | None:
            nonlocal looks
            looks += 1
            await release.wait()
            return "1"

        async def read(self) -> dict[str, str]:
            return {}

    catalogue = Catalogue(Store(), store, schemas={}, services={}, clock=StillClock(), refresh_s=30)
    first = asyncio.create_task(catalogue.refresh())
    await asyncio.sleep(0)
    others = [asyncio.create_task(catalogue.refresh()) for _ in range(30)]
    release.set()
    await asyncio.gather(first, *others)
    assert looks == 1
    catalogue._clock.advance(31)  # type: ignore[attr-defined]
    release.clear()
    again = asyncio.create_task(catalogue.refresh())
    await asyncio.sleep(0)
    assert await asyncio.wait_for(catalogue.refresh(), 5) is catalogue.current
    release.set()
    await again
    assert looks == 2


# --- redrives


def test_two_redrives_at_once() -> None:
    """Race redrives: two people take up the same failed job: one new job, linked both ways."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await failed(world)
        told = await meeting.at_once(a=redrives("a")(world), b=redrives("b")(world))
        assert [one.error for one in told.values()] == [None, None]
        [new_id] = {one.value.stored.record.job.job_id for one in told.values()}
        assert set(world.ledger.records) == {JOB, new_id}
        assert (await world.job(JOB)).job.redriven_by == new_id
        assert [event.type for event in await world.ledger.events(JOB)].count("JOB_REDRIVEN") == 1

    assert every_order(scenario) > 20


def test_two_redrives_of_one_rejected_message() -> None:
    """Race rejected: two people hand the same message in again: it moves its job once, and both read its mark."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        job_id, id_ = await early(world)
        told = await meeting.at_once(
            **{name: redrive_rejected(world.context, world.orchestrations, id_) for name in ("a", "b")}
        )
        assert [one.value.redriven_outcome for one in told.values()] == ["APPLIED", "APPLIED"]
        assert [event.type for event in await world.ledger.events(job_id)].count("ACK") == 1

    assert every_order(scenario) > 5
