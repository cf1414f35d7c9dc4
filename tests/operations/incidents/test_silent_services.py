"""A service without replies while directives wait for it (R57)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.incidents import IncidentKind
from shared.errors import LedgerUnavailable
from shared.ports.sweeps import Answers, Heard
from tests.jobs import START
from tests.memory_stores import MemoryAnswers
from tests.operations.conftest import World
from tests.operations.support import create_numbered, dispatch, service_sends, submitted, swept


class CountingAnswers(MemoryAnswers):
    def __init__(self) -> None:
        super().__init__()
        self.notes = 0
        self.away = False

    async def note(self, service: str, at: object) -> None:
        self.notes += 1
        if self.away:
            raise LedgerUnavailable
        await super().note(service, at)  # type: ignore[arg-type]


def listening(world: World) -> tuple[World, CountingAnswers]:
    answers = CountingAnswers()
    return replace(world, context=replace(world.context, answers=answers)), answers


async def waiting(world: World, number: int = 0) -> str:
    """Returns a job whose directive waits on the lane."""
    job_id = (await create_numbered(world, number)).stored.record.job.job_id
    await dispatch(world, job_id)
    world.lanes.waiting_directives.append((f"{job_id}:ocr:1", world.clock.now()))
    return job_id


async def silent_since(answers: Answers) -> object:
    return (await answers.read()).get("ocr", Heard()).silent_since


async def test_a_service_that_nobody_answers_for_is_silent_until_it_answers(world: World) -> None:
    """From five minutes on, in one event; its first reply ends the silence."""
    world, answers = listening(world)
    job_id = await waiting(world)
    world.clock.advance(299)
    await swept(world)
    assert await silent_since(answers) is None
    world.clock.advance(1)
    await swept(world)
    marked = await silent_since(answers)
    assert marked == START + timedelta(minutes=5)
    incident = await world.context.incidents.find_open(IncidentKind.SERVICE, "ocr")
    assert incident is not None
    assert (incident.code, incident.tenant) == ("SERVICE_SILENT", None)
    world.clock.advance(600)
    await swept(world)
    assert await silent_since(answers) == marked
    await service_sends(world, job_id, "ACK", 1)
    await swept(world)
    assert await silent_since(answers) is None
    assert await world.context.incidents.find_open(IncidentKind.SERVICE, "ocr") is None


async def test_a_long_queue_is_no_silence(world: World) -> None:
    """A directive waits for half an hour while the service works through the others."""
    world, answers = listening(world)
    last = await waiting(world, 99)
    for number in range(12):
        job_id = await waiting(world, number)
        world.clock.advance(150)
        await service_sends(world, job_id, "ACK", number)
        world.lanes.waiting_directives = [each for each in world.lanes.waiting_directives if job_id not in each[0]]
        await swept(world)
        assert await silent_since(answers) is None
    assert world.lanes.waiting_directives[0][0] == f"{last}:ocr:1"
    # then it stops: the note may be a minute older than its last reply
    world.clock.advance(300)
    await swept(world)
    assert await silent_since(answers) is None
    world.clock.advance(60)
    await swept(world)
    assert await silent_since(answers) is not None


@pytest.mark.parametrize("away", [False, True])
async def test_only_a_directive_that_lies_there_counts(world: World, away: bool) -> None:
    """A directive that a service received, and a bus that cannot be read, are no silence."""
    world, answers = listening(world)
    await waiting(world)
    world.lanes.away = away
    if not away:
        world.lanes.waiting_directives.clear()
    world.clock.advance(600)
    await swept(world)
    assert await silent_since(answers) is None


async def test_an_attempt_that_was_sent_late_is_no_silence(world: World) -> None:
    """A RESULT recorded it, the engine was late, and the directive came to the lane after the sweep read the job."""
    world, answers = listening(world)
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    world.clock.advance(600)
    world.lanes.waiting_directives.append((f"{job_id}:embedding:1", world.clock.now()))
    await swept(world)
    assert "embedding" not in await answers.read()


async def test_answers_are_noted_once_a_minute(world: World) -> None:
    """Per process; an unavailable table delays no reply. A reply without a valid lease does not count."""
    world, answers = listening(world)
    job_id = await waiting(world)
    await service_sends(world, job_id, "ACK", 1, lease_id="0" * 32)
    assert answers.notes == 0
    answers.away = True
    for number in range(2, 60):
        await service_sends(world, job_id, "HEARTBEAT", number)
        world.clock.advance(1)
    assert answers.notes == 1
    answers.away = False
    world.clock.advance(2)
    await service_sends(world, job_id, "RESULT", 60)
    assert answers.notes == 2
    assert (await answers.read())["ocr"].answered_at == world.clock.now()


async def test_a_dry_run_marks_nothing(world: World) -> None:
    """It shows the effects of a sweep on jobs only."""
    world, answers = listening(world)
    await waiting(world)
    world.clock.advance(900)
    await swept(world, dry_run=True)
    assert await answers.read() == {}
