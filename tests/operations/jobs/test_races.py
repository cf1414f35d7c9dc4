"""A test for each race that the code names: `Race NAME` in its comment, and in the docstring of the test.

`tests.operations.test_race_names` holds the two lists against each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import CreationWithdrawn
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.creation import Created
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.sweeper.sweep import sweep
from shared.refusals import LimitReached
from tests.contexts import changed
from tests.fake_tables import compare_no_etag
from tests.jobs import envelope, reply
from tests.model.invariants import rows_of
from tests.operations.conftest import World
from tests.operations.interleave import Meeting, Work, every_order, process_of, serializable
from tests.operations.support import arrives, dispatch, limited, submitted
from tests.worlds.jobs import (
    JOB,
    ONE,
    Prepare,
    asks,
    dispatches,
    first_of_two,
    in_flight,
    in_service,
    over,
    posts,
    queued,
    sends,
    settles,
    then,
    timed_out,
)

# --- creation


def test_two_creators_of_one_job() -> None:
    """Race claim: the slower creator finds the claim taken, and both return the one job."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        ended = await meeting.at_once(a=posts()(world), b=posts()(world))
        created = [ended.value for ended in ended.values()]
        assert all(isinstance(one, Created) for one in created), ended
        assert len({one.stored.record.job.job_id for one in created}) == 1
        assert sum(not one.replayed for one in created) == 1
        assert len(world.ledger.records) == len(world.index.active) == 1
        assert set(world.orchestrations.started) == set(world.ledger.records)

    assert every_order(scenario, alike=True) > 10


@pytest.mark.parametrize("taken", [True, False])
async def test_a_write_that_went_through_unseen(world: World, taken: bool) -> None:
    """Race own-claim: the SDK repeats a write that went through and gets "exists": the claim is this creator's."""
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
    """Race tombstone: either the job is there with all its rows, or its creator gets an error and may post again."""

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

        ended = await meeting.at_once(a=slow(world), b=sweeper(world))
        assert ended["b"].error is None
        [record] = world.ledger.records.values()
        withdrawn = record.job.error_code == "WITHDRAWN"
        assert withdrawn == isinstance(ended["a"].error, CreationWithdrawn), ended
        if withdrawn:
            world.clock.advance(301)
            await sweep(world.context, world.orchestrations)
            assert (world.index.active, world.index.claims) == ({}, {})
            assert not (await posts()(world)).replayed
        else:
            assert ended["a"].value.stored.record.job.status is JobStatus.QUEUED
            assert len(world.index.active) == len(world.index.claims) == 1

    assert every_order(scenario, interruptions=1) >= 10


def test_creators_at_a_limit() -> None:
    """Race admission: two different requests, room for one: one gets in, the other is refused."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        world = limited(world, max_inflight_per_tenant=1)
        other = replace(world, context=changed(world.context, gate_directory=GateDirectory()))
        ended = await meeting.at_once(a=posts(doc_id="a")(world), b=posts(doc_id="b")(other))
        assert [type(one.error) for one in ended.values() if one.error is not None] == [LimitReached]
        admission = await world.index.admissions.read("tenant_a")
        assert (len(world.index.active), admission and admission.admission.active) == (1, 1)

    assert every_order(scenario, alike=True) > 3


@pytest.mark.parametrize("limit", ["max_inflight_per_tenant", "max_inflight"])
def test_a_duplicate_at_a_limit(limit: str) -> None:
    """Race duplicate: the same request twice, room for one: both are answered with the one job, none is refused."""

    async def scenario(meeting: Meeting) -> None:
        world = limited(meeting.world, **{limit: 1})
        ended = await meeting.at_once(a=posts()(world), b=posts()(world))
        assert [one.error for one in ended.values()] == [None, None]
        assert len(world.index.active) == 1

    assert every_order(scenario, alike=True) > 10


# --- one job, two functions


@pytest.mark.parametrize("kind", list(ControlKind))
@pytest.mark.parametrize(
    ("prepare", "other"),
    [
        (in_flight, sends("ACK")),
        (in_flight, sends("RESULT")),
        (first_of_two, sends("RESULT")),
        (in_service, sends("RESULT", status="FAILED_RETRY")),
        (in_service, sends("RESULT", status="FAILED_FINAL")),
        (in_service, sends("HEARTBEAT")),
        (queued, dispatches()),
        (timed_out, dispatches()),
        (over, settles()),
        (timed_out, sends("RESULT")),
        (then(first_of_two, asks(ControlKind.PAUSE, "0")), sends("RESULT")),
        (then(queued, asks(ControlKind.PAUSE, "0")), asks(ControlKind.RESUME, "2")),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_a_control_and_something_else_at_once(kind: ControlKind, prepare: Prepare, other: Work) -> None:
    """Race conflict: the slower one decides again on the rows that it finds; a control and a RESULT in any order."""
    assert serializable(prepare, asks(kind), other) >= 2


@pytest.mark.parametrize("kind", list(ControlKind))
def test_a_control_twice_at_once(kind: ControlKind) -> None:
    """Race conflict: the same control from two people moves the job once, and both are answered."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_service(world)
        ended = await meeting.at_once(a=asks(kind, "a")(world), b=asks(kind, "b")(world))
        assert [one.error for one in ended.values()] == [None, None]
        asked = [event for event in await world.ledger.events(JOB) if event.type.endswith("_REQUESTED")]
        assert len(asked) == (kind is not ControlKind.RESUME)

    every_order(scenario, alike=True)


@pytest.mark.parametrize("type_", ["ACK", "HEARTBEAT", "RESULT"])
def test_one_message_in_two_hands(type_: str) -> None:
    """Race redelivery: its lock was lost, so two take the same message: one EVENT, and the event is raised."""

    async def scenario(meeting: Meeting) -> None:
        world = meeting.world
        await in_flight(world)
        message = reply(await world.job(JOB), type_).model_dump_json(exclude_none=True).encode()
        hands = (process_of(world), process_of(world))
        ended = await meeting.at_once(
            a=arrives(hands[0], message, 7), b=arrives(hands[1], message, 7, delivery_count=2)
        )
        assert [one.error for one in ended.values()] == [None, None]
        causes = [event.cause_id for event in await world.ledger.events(JOB)]
        assert len(causes) == len(set(causes)) == 3
        names = {name for name, _ in world.orchestrations.raised}
        assert names == {"result:ocr:1" if type_ == "RESULT" else "ack:ocr:1"}

    assert every_order(scenario) > 5


@pytest.mark.parametrize(
    "results", [("SUCCEEDED", "FAILED_FINAL"), ("SUCCEEDED", "FAILED_RETRY"), ("FAILED_RETRY",) * 2]
)
def test_two_results_of_one_attempt(results: tuple[str, str]) -> None:
    """Race conflict: a service sends two results at once: the first RESULT decides, the other is a row."""
    first, second = (sends("RESULT", number, status=status) for number, status in enumerate(results, 1))
    assert serializable(in_service, first, second) > 5


@pytest.mark.parametrize("prepare", [queued, timed_out, over])
def test_a_dispatch_runs_twice_at_once(prepare: Prepare) -> None:
    """Race dispatch: one attempt is recorded, and each published directive has its message id."""
    assert serializable(prepare, dispatches(), dispatches(), alike=True) > 3


def test_a_dispatch_and_a_late_reply() -> None:
    """Race revived: the attempt that had timed out is revived, or its reply is too late for the next one."""

    def late(type_: str, **fields: Any) -> Work:
        async def work(world: World) -> None:
            lease_id = world.publisher.sent[0].lease_id
            await sends(type_, attempt_no=1, lease_id=lease_id, **fields)(world)

        return work

    for work in (late("ACK"), late("RESULT"), late("RESULT", status="FAILED_RETRY")):
        assert serializable(timed_out, dispatches(), work) > 3


@pytest.mark.parametrize("work", [sends("ACK"), sends("HEARTBEAT"), sends("RESULT"), settles(), dispatches()])
def test_a_timer_and_something_else_at_once(work: Work) -> None:
    """Race settle: a lease that is over ends the attempt, unless a reply is first."""
    assert serializable(over, settles(), work) > 3


def test_siblings_end_at_once() -> None:
    """Race siblings: two steps of a group succeed at the same time: one of them sees that it was the last."""

    async def group(world: World) -> None:
        await submitted(world, **ONE | {"request_type": "OCR_EMBEDDING"})
        stored = world.ledger.jobs[JOB]
        grouped = Record(stored.record.job, tuple(replace(step, group=0) for step in stored.record.steps))
        world.ledger.put(grouped)
        world.ledger._folded[JOB] = rows_of(grouped)  # type: ignore[attr-defined]
        for step_id in ("ocr", "embedding"):
            await dispatch(world, JOB, step_id)

    for status in ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"):
        one, other = sends("RESULT", 1, status=status), sends("RESULT", 2, "embedding")
        assert serializable(group, one, other) > 5


# --- the tests are able to fail


def test_a_ledger_that_takes_stale_writes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the ETag some order of a control and a RESULT leaves a state that neither order alone leaves."""
    compare_no_etag(monkeypatch, "ledger")
    with pytest.raises(AssertionError):
        serializable(in_service, asks(ControlKind.CANCEL), sends("RESULT"))
