"""A process decides on its last commit without a read, and does not rely on an outdated one."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import VerdictKind
from shared.errors import LedgerUnavailable
from shared.operations.process import recent_jobs
from shared.operations.process.recent_jobs import KEPT_FOR, RecentJobs
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.ledger import Stored
from tests.contexts import changed
from tests.jobs import START, planned
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.interleave import Meeting, every_order, process_of
from tests.operations.support import control, dispatch, service_sends, submitted
from tests.worlds.jobs import JOB, ONE, first_of_two, in_flight, in_service, queued, sends


class Counting:
    """The world's ledger; it counts the calls of each method, and refused commits."""

    def __init__(self, world: World) -> None:
        self._ledger = world.ledger
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)

        async def call(*args: Any, **fields: Any) -> Any:
            self.calls[name] += 1
            try:
                return await method(*args, **fields)
            except Exception:
                self.calls[f"{name} refused"] += 1
                raise

        return call


def counted(world: World) -> tuple[World, Counter[str]]:
    ledger = Counting(world)
    return replace(world, context=replace(world.context, ledger=ledger)), ledger.calls


async def test_a_process_decides_on_what_it_committed(world: World) -> None:
    """A job whose functions all run in one process is never read."""
    world, calls = counted(world)
    await submitted(world, **ONE)
    job_id = "job_2"
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    await service_sends(world, job_id, "RESULT", 2)
    assert calls == {"create": 1, "commit": 3}
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED


async def test_an_outcome_that_moves_nothing_is_decided_on_a_fresh_read(world: World) -> None:
    """A repeated ACK, and a reply of an attempt that another process recorded: neither write is refused."""
    await first_of_two(world)
    lanes, calls = counted(process_of(world))
    await service_sends(lanes, JOB, "ACK", 1)
    await service_sends(lanes, JOB, "ACK", 2)
    await service_sends(lanes, JOB, "RESULT", 3, status="FAILED_RETRY")
    world.clock.advance(30)
    elsewhere = replace(world, context=changed(world.context, recent_jobs=RecentJobs()))
    assert (await dispatch(elsewhere, JOB)).kind is VerdictKind.SENT
    await service_sends(lanes, JOB, "ACK", 4)
    assert (await world.job(JOB)).steps[0].status == "PROCESSING"
    assert calls["commit refused"] == 0
    assert calls["read"] == 2


async def test_functions_in_either_of_two_processes_make_no_conflict(world: World) -> None:
    """Each function of a job reads at most once, in whichever process it and the others run; no commit is refused."""
    for places in itertools.product((0, 1), repeat=6):
        worlds, calls = zip(*(counted(process_of(world)) for _ in range(2)), strict=True)
        job_id = await submitted(worlds[0], **ONE | {"request_type": "OCR_EMBEDDING", "idempotency_key": str(places)})
        for number, (place, name) in enumerate(zip(places, ("dispatch", "ACK", "RESULT") * 2, strict=True)):
            step_id = ("ocr", "embedding")[number // 3]
            if name == "dispatch":
                await dispatch(worlds[place], job_id, step_id)
            else:
                await service_sends(worlds[place], job_id, name, number, step_id=step_id)
        total = calls[0] + calls[1]
        assert (total["commit"], total["commit refused"]) == (5, 0), places
        assert total["read"] + total["find_event"] <= 6, places


@pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.CANCEL])
async def test_a_dispatch_that_is_behind_obeys_the_ledger(world: World, kind: ControlKind) -> None:
    """Race recent: a control in another process came first; a fresh read gives the verdict, and nothing is sent."""
    await queued(world)
    behind = process_of(world)
    await control(world, JOB, kind)
    verdict = await dispatch(behind, JOB)
    assert verdict.kind is (VerdictKind.PARK if kind is ControlKind.PAUSE else VerdictKind.END)
    assert world.publisher.sent == []


async def test_an_orchestration_that_was_replaced_records_nothing(world: World) -> None:
    """Race recent: the instance fences while this process does not know that another one replaced it (R13)."""
    await queued(world)
    behind, created = process_of(world), await world.ledger.read(JOB)
    world.orchestrations.states[JOB] = InstanceState.ENDED
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    assert created is not None
    behind.context.process.recent_jobs.note(created, world.clock.now())
    assert (await world.job(JOB)).job.instance_id == f"{JOB}.r1"
    assert (await dispatch(behind, JOB)).kind is VerdictKind.END
    assert world.publisher.sent == []


async def test_a_reply_that_is_behind_is_decided_again(world: World) -> None:
    """Race recent: a pause in another process changed the row; the RESULT counts once."""
    await in_service(world)
    behind, calls = counted(process_of(world))
    await control(world, JOB, ControlKind.PAUSE)
    await service_sends(behind, JOB, "RESULT", 2)
    assert (await world.job(JOB)).job.status is JobStatus.SUCCEEDED
    assert calls["commit refused"] == 1


async def test_a_commit_without_an_answer_is_not_remembered(world: World) -> None:
    """It may have been committed: the next decision is on a fresh read, and the same reply is found in it."""
    await in_flight(world)
    failing(world.ledger, "commit", at=[1], after=True)
    with pytest.raises(LedgerUnavailable):
        await service_sends(world, JOB, "ACK", 1)
    assert world.context.process.recent_jobs.recall(JOB, world.clock.now()) is None
    await service_sends(world, JOB, "RESULT", 2)
    assert [event.type for event in await world.ledger.events(JOB)][2:] == ["ACK", "RESULT"]


def test_replies_that_arrive_together_make_no_conflict() -> None:
    """In one process; the later reply is applied to the state after the earlier."""

    async def scenario(meeting: Meeting) -> None:
        await in_flight(meeting.world)
        world, calls = counted(meeting.world)
        await meeting.at_once(a=sends("ACK", 1)(world), b=sends("RESULT", 2)(world))
        assert calls["commit refused"] == 0
        assert (await world.job(JOB)).job.status is JobStatus.SUCCEEDED

    assert every_order(scenario) > 2


async def test_a_job_is_kept_for_a_minute_and_not_past_its_end(world: World) -> None:
    """Nor past its bound in characters, the oldest going first."""
    recent, stored = RecentJobs(), Stored(planned("job_1"), "1")
    recent.note(stored, START)
    assert recent.recall("job_1", START + KEPT_FOR / 2) is stored
    assert recent.recall("job_1", START + KEPT_FOR) is None
    ended = replace(stored.record, job=replace(stored.record.job, status=JobStatus.SUCCEEDED))
    recent.note(Stored(ended, "2"), START)
    assert recent.recall("job_1", START) is None
    assert (recent._kept, recent._characters) == ({}, 0)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In characters of all records together; the oldest is dropped first. Three payloads fit, with their rows."""
    monkeypatch.setattr(recent_jobs, "MAX_CHARACTERS", 350_000)
    payload = {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["x" * 100_000]}}
    recent, jobs = RecentJobs(), [f"job_{number}" for number in range(5)]
    for job_id in jobs:
        recent.note(Stored(planned(job_id, payload=payload), "1"), START)
    assert [job_id for job_id in jobs if recent.recall(job_id, START)] == ["job_2", "job_3", "job_4"]
