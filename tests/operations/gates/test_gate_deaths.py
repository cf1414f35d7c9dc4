"""A process dies or is unreachable while a job is at its quotas: no slot is lost, and the queue moves on (R48, R49)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.occurrences import ControlKind
from shared.errors import CreationWithdrawn, DataLost, LedgerUnavailable, OrchestrationUnavailable
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import control, dispatch, service_sends, swept
from tests.worlds.gates import admission_of, ended, held_state, killed_at, posted, staging, states_written, statuses

__all__ = ["staging"]  # a fixture


async def test_a_creation_that_died_is_withdrawn_and_gives_back_what_it_held(staging: World) -> None:
    """Before its rows, admitted and staged: after five minutes neither counts, and the next job is admitted."""
    for number in (1, 2):
        with pytest.raises(LedgerUnavailable):
            await posted(killed_at(staging, "ledger", "create"), number)
    [third] = await posted(staging, 3)
    admission = await admission_of(staging)
    assert (admission.active, admission.staged, admission.waiting) == (1, 2, 1)
    staging.clock.advance(301)
    assert sorted(await swept(staging))[:2] == ["withdraw", "withdraw"]
    assert await statuses(staging, [third]) == ["QUEUED"]
    admission = await admission_of(staging)
    assert (admission.active, admission.staged) == (1, 0)


@pytest.mark.parametrize("after", [False, True])
async def test_a_creation_that_died_on_its_way_into_line_is_finished(staging: World, after: bool) -> None:
    """The sweeper finishes it a minute later, or the same request does: it is in the queue once."""
    await posted(staging, 1)
    for number in (2, 3):
        with pytest.raises(LedgerUnavailable):
            await posted(killed_at(staging, "index", "move_places", after=after), number)
    [second] = await posted(staging, 2)
    staging.clock.advance(61)
    await swept(staging)
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting, admission.staged) == (1, 2, 2)
    assert await statuses(staging, [second]) == ["THROTTLED"]


async def test_a_late_creator_of_a_withdrawn_job_holds_nothing(staging: World) -> None:
    """Race admission: its claim is withdrawn with its slot; a late writer of its rows finds the tombstone."""
    await posted(staging, 1)

    async def withdrawn() -> None:
        staging.clock.advance(301)
        await swept(staging)

    meanwhile(staging.ledger, "create", withdrawn)
    with pytest.raises(CreationWithdrawn):
        await posted(staging, 2)
    admission = await admission_of(staging)
    assert (admission.active, admission.staged) == (1, 0)


async def test_a_lost_answer_takes_one_place(staging: World) -> None:
    """The index has the reservation, and the SDK's second request finds it: the job has one slot, as written."""
    real = staging.index.reserve

    async def answer_lost(*args: Any, **fields: Any) -> None:
        await real(*args, **fields)
        await real(*args, **fields)

    staging.index.reserve = answer_lost  # type: ignore[method-assign]
    first, second = await posted(staging, 1, 2)
    assert await statuses(staging, [first, second]) == ["QUEUED", "THROTTLED"]
    admission = await admission_of(staging)
    assert (admission.active, admission.waiting) == (1, 1)


async def test_a_line_moves_by_the_sweeps_alone(staging: World) -> None:
    """The process that ended the first job died before it notified the next: a minute later it is notified, with one
    start.
    """
    first, second = await posted(staging, 1, 2)
    with failing(staging.ledger, "read", only=lambda job_id: job_id == second):
        await ended(staging, first)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "THROTTLED"]
    assert (await admission_of(staging)).active == 1
    staging.clock.advance(61)
    assert await swept(staging) == ["admit"]
    assert await statuses(staging, [second]) == ["QUEUED"]
    assert staging.orchestrations.started == [first, second]


async def test_an_engine_that_is_away_fails_nobody_elses_end(staging: World) -> None:
    """The start of the next one fails: the reply that ended the first is taken, and the sweeper starts the next."""
    first, second = await posted(staging, 1, 2)
    await dispatch(staging, first)
    with failing(staging.orchestrations, "start", error=OrchestrationUnavailable("away")):
        await service_sends(staging, first, "RESULT", 1)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "QUEUED"]
    staging.clock.advance(61)
    assert await swept(staging) == ["start"]
    assert staging.orchestrations.started == [first, second]


async def test_a_hold_that_ends_by_time_moves_the_line_in_a_sweep(world: World) -> None:
    """No process acts at that time: one sweep admits more than a transaction can, in their order."""
    until = START + timedelta(hours=1)
    await states_written(world, held_state(until))
    waiting = await posted(world, *range(45))
    assert world.orchestrations.started == []
    world.clock.advance(3600)
    await swept(world)
    assert sorted(world.orchestrations.started) == sorted(waiting)
    assert world.orchestrations.started[:3] != waiting[-3:]
    assert (await admission_of(world)).waiting == 0


@pytest.mark.parametrize("kind", list(ControlKind))
async def test_a_control_that_died_before_the_admission_is_found(staging: World, kind: ControlKind) -> None:
    """The job changed, its admission did not: a resumed job is queued in the next sweep, the others within the hour."""
    _, second = await posted(staging, 1, 2)
    if kind is ControlKind.RESUME:
        await control(staging, second, ControlKind.PAUSE)
    calls = {ControlKind.CANCEL: "close", ControlKind.PAUSE: "move_place", ControlKind.RESUME: "move_places"}
    dying = killed_at(staging, "index", calls[kind])
    with pytest.raises(LedgerUnavailable):
        await control(dying, second, kind)
    staging.clock.advance(61 if kind is ControlKind.RESUME else 3600)
    await swept(staging)
    admission = await admission_of(staging)
    expected = {ControlKind.RESUME: (1, 1), ControlKind.PAUSE: (0, 1), ControlKind.CANCEL: (0, 0)}[kind]
    assert (admission.waiting, admission.staged) == expected
    assert (await staging.index.read_active("tenant_a", second) is None) is (kind is ControlKind.CANCEL)


async def test_a_job_paused_at_its_admission_gives_its_place_to_the_next(staging: World) -> None:
    """It was admitted while it was paused: the sweeper sets it aside."""
    first, second, third = await posted(staging, 1, 2, 3)
    with pytest.raises(LedgerUnavailable):
        await control(killed_at(staging, "index", "move_place"), second, ControlKind.PAUSE)
    await ended(staging, first)
    assert await statuses(staging, [second, third]) == ["PAUSED", "THROTTLED"]
    staging.clock.advance(61)
    await swept(staging)
    assert await statuses(staging, [second, third]) == ["PAUSED", "QUEUED"]
    admission = await admission_of(staging)
    assert (admission.active, admission.staged) == (1, 1)


@pytest.mark.parametrize("fault", [DataLost("gone"), LedgerUnavailable("away")])
async def test_a_job_in_line_that_cannot_be_read_stops_nobody(staging: World, fault: Exception) -> None:
    """Its total time is over and the sweeper fails to read it: the next end admits it, and no end fails."""
    soon = START + timedelta(minutes=5)
    first, second = [(await posted(staging, number, expires_at=soon))[0] for number in (1, 2)]
    staging.clock.advance(400)
    with failing(staging.ledger, "read", error=fault, only=lambda job_id: job_id == second):
        assert "failed, retried by a later sweep" in await swept(staging)
        await dispatch(staging, first)
        await service_sends(staging, first, "RESULT", 1)
    assert await statuses(staging, [first]) == ["SUCCEEDED"]
    stored = staging.index.admissions.admissions["tenant_a"]
    assert (stored.admission.active, stored.admission.waiting) == (1, 0)
