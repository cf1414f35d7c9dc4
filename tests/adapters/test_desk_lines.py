"""Jobs in line at a desk, and the transactions that let them in, in memory and on the real tables alike (R49)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.breaker import Breaker
from shared.core.gates.desk import Candidate, Line, stand, step_away
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.rules import GateState
from shared.core.states import JobStatus
from shared.errors import Conflict
from shared.ports.desks import ASLEEP, DeskWrite
from shared.ports.index import Clearing, EndedRow
from tests.adapters.conftest import Storage
from tests.adapters.desk_rows import (
    LATER,
    active,
    admitting,
    due,
    ended,
    in_line,
    inside,
    job,
    opened,
    stored,
    type_gate,
)
from tests.jobs import START


async def test_a_job_has_the_epoch_of_its_types_breaker(storage: Storage) -> None:
    """That in which it went in, from its line or at once; 0 before the breaker ever opened."""
    await opened(storage)
    await inside(storage, 2)
    first = await in_line(storage, 1)
    before = await stored(storage)
    state = GateState(gate=type_gate(first.candidate.job_type), breaker=Breaker(epoch=3))
    desk = before.desk.with_state(state)
    await storage.index.write_desk(replace(admitting(replace(before, desk=desk), first), before=before))
    assert (await stored(storage)).desk.state(state.gate).breaker == Breaker(epoch=3, inside=1)
    places = [(await active(storage, number)).place for number in (1, 2)]
    assert [place and (place.state, place.breaker_epoch) for place in places] == [("ADMITTED", 3), ("ADMITTED", 0)]
    before, one = await stored(storage), job(3)
    place = Place(candidate=Candidate.of(one), breaker_epoch=4)
    await storage.index.reserve(one, replacing=None, place=place, desk=DeskWrite(before=before, after=before.desk))
    assert (await active(storage, 3)).place == place


async def test_a_line_is_its_own_in_order(storage: Storage) -> None:
    """By rank, then by id; never a row of another line, whatever their numbers are."""
    await opened(storage)
    for number, (line, rank) in enumerate([(1, 30), (1, 10), (2, 5), (11, 1), (1, 20), (10, 1), (9, 1), (1, 10)]):
        await in_line(storage, number, line, rank)
    found = await storage.desks.first_waiting("tenant_a", 1, 10)
    assert [(row.candidate.job_id, row.line) for row in found] == [
        ("job_001", 1),
        ("job_007", 1),
        ("job_004", 1),
        ("job_000", 1),
    ]
    assert len(await storage.desks.first_waiting("tenant_a", 1, 2)) == 2
    assert await storage.desks.first_waiting("tenant_a", 3, 10) == []
    assert await storage.desks.first_waiting("tenant_b", 1, 10) == []
    [row] = await storage.desks.first_waiting("tenant_a", 2, 10)
    assert (row.claim, row.created_at) == (job(2).idempotency_hash, START)
    assert await due(storage, START + timedelta(days=365)) == []


async def test_an_end_lets_in_as_many_as_a_transaction_takes(storage: Storage) -> None:
    """Twenty, with the end's own rows and relocated clearings: all of it or nothing, and each is due for a look."""
    await opened(storage)
    first = await inside(storage, 0)
    rows = [await in_line(storage, number) for number in range(1, 22)]
    purged = []
    for number in range(90, 92):
        gone = await inside(storage, number)
        await storage.index.close_at_desk(
            ended(gone), None, admitting(await stored(storage), leaving=Candidate.of(gone)), claim_expires_at=LATER
        )
        row = EndedRow(job_id=gone.job_id, tenant="tenant_a", clear_at=START + timedelta(hours=1))
        purged.append(Clearing(row, LATER + timedelta(days=1)))
    before = await stored(storage)
    write = admitting(before, *rows[:20], leaving=Candidate.of(first))
    await storage.index.close_at_desk(ended(first), None, write, claim_expires_at=LATER, purged=purged)
    after = (await stored(storage)).desk
    assert (after.active, after.staged, after.waiting) == (20, 1, 1)
    assert [row.candidate.job_id for row in await storage.desks.first_waiting("tenant_a", 0, 30)] == ["job_021"]
    assert await due(storage, LATER - timedelta(seconds=1)) == []
    assert await due(storage, LATER) == [row.candidate.job_id for row in rows[:20]]
    one = await active(storage, 1)
    assert one.place is not None
    assert (one.place.state, one.place.line, one.check_at) == (PlaceState.ADMITTED, None, LATER)
    assert await storage.index.read_active("tenant_a", first.job_id) is None
    with pytest.raises(Conflict):
        # the answer was lost, and it is sent again
        await storage.index.close_at_desk(ended(first), None, write, claim_expires_at=LATER)
    assert (await stored(storage)).desk == after


async def test_what_lost_the_race_changes_nothing(storage: Storage) -> None:
    """Each of the writes from an older reading of the desk, or of the DUE row: no row of it is there."""
    await opened(storage)
    first, second = await inside(storage, 0), await in_line(storage, 1)
    old = await stored(storage)
    await storage.index.write_desk(DeskWrite(before=old, after=replace(old.desk, emergencies=3)))
    current = await stored(storage)
    row, waits = await active(storage, 0), await active(storage, 1)
    relocated = replace(row, check_at=LATER)
    stale = admitting(old, second, leaving=Candidate.of(first))
    off = Place(state=PlaceState.OFF, candidate=second.candidate)
    writes = [
        storage.index.close_at_desk(ended(first), row, stale, claim_expires_at=LATER),
        storage.index.close_at_desk(ended(first), relocated, admitting(current, second), claim_expires_at=LATER),
        storage.index.withdraw(row, stale),
        storage.index.withdraw(relocated, admitting(current, second)),
        storage.index.move_place(waits, off, ASLEEP, admitting(old)),
        storage.index.reserve(job(5), replacing=None, place=off, desk=admitting(old)),
        storage.index.write_desk(admitting(old, second)),
    ]
    for write in writes:
        with pytest.raises(Conflict):
            await write
    assert (await stored(storage)) == current
    assert (await active(storage, 0), await active(storage, 1)) == (row, waits)
    assert await storage.index.read_active("tenant_a", "job_005") is None
    assert len(await storage.desks.first_waiting("tenant_a", 0, 5)) == 1


async def test_a_staged_job_leaves_its_line_by_its_end_a_withdrawal_or_a_pause(storage: Storage) -> None:
    """Its WAIT row goes with the transaction, and nobody is let in instead of it."""
    await opened(storage)
    rows = [await in_line(storage, number) for number in range(3)]
    before = await stored(storage)
    gone = DeskWrite(before=before, after=replace(step_away(before.desk, 0), staged=2))
    await storage.index.close_at_desk(ended(job(0)), await active(storage, 0), gone, claim_expires_at=LATER)
    before = await stored(storage)
    gone = DeskWrite(before=before, after=replace(step_away(before.desk, 0), staged=1))
    await storage.index.withdraw(await active(storage, 1), gone)
    assert await storage.index.read_claim("tenant_a", job(1).idempotency_hash) is None
    before = await stored(storage)
    off = Place(state=PlaceState.OFF, initial_status=JobStatus.THROTTLED, candidate=rows[2].candidate)
    left = DeskWrite(before=before, after=step_away(before.desk, 0))
    await storage.index.move_place(await active(storage, 2), off, ASLEEP, left)
    assert (await active(storage, 2)).place == off
    assert await storage.desks.first_waiting("tenant_a", 0, 5) == []
    assert ((await stored(storage)).desk.lines, (await stored(storage)).desk.staged) == ({}, 1)


async def test_jobs_move_to_another_line(storage: Storage) -> None:
    """With their rank; they stay asleep, and are let in from there."""
    await opened(storage)
    [first, second] = [await in_line(storage, number) for number in range(2)]
    before = await stored(storage)
    line = Line(job_type="T", mode="DEFAULT", source="scanner", emergency=False)
    after = stand(step_away(before.desk, 0), 7, line, second.candidate.rank)
    await storage.index.write_desk(DeskWrite(before=before, after=after, relined=((second, 7),)))
    assert [row.candidate for row in await storage.desks.first_waiting("tenant_a", 0, 5)] == [first.candidate]
    [relocated] = await storage.desks.first_waiting("tenant_a", 7, 5)
    assert relocated == replace(second, line=7)
    row = await active(storage, 1)
    assert row.place is not None
    assert (row.place.line, row.check_at) == (7, ASLEEP)
    await storage.index.write_desk(admitting(await stored(storage), relocated))
    assert await storage.desks.first_waiting("tenant_a", 7, 5) == []


@pytest.mark.parametrize("rank", [1, 9])
async def test_a_job_moves_within_its_line(storage: Storage, rank: int) -> None:
    """With another priority and rank, or with the rank that it had; where its DUE row stands goes with it (R67)."""
    await opened(storage)
    [first, second] = [await in_line(storage, number, rank=number) for number in (1, 2)]
    before, row = await stored(storage), await active(storage, 1)
    changed = replace(first.candidate, priority="low", rank=rank)
    after = stand(step_away(before.desk, 0), 0, before.desk.lines[0], rank)
    place = replace(row.place or Place(candidate=changed), candidate=changed)
    await storage.index.move_place(row, place, LATER, DeskWrite(before=before, after=after))
    found = await storage.desks.first_waiting("tenant_a", 0, 5)
    expected = [replace(first, candidate=changed, due_at=LATER), second]
    assert found == sorted(expected, key=lambda each: each.candidate.rank)
    assert (await active(storage, 1)).place == place
    assert await due(storage, LATER) == ["job_001"]
    write = replace(admitting(await stored(storage), *found), check_at=LATER + timedelta(hours=1))
    await storage.index.write_desk(write)
    assert await due(storage, LATER) == []


async def test_who_is_not_asleep_is_not_let_in(storage: Storage) -> None:
    """A transaction that would leave a DUE row behind is a Conflict."""
    await opened(storage)
    row = await in_line(storage, 1)
    # a DUE row does not say where the job stands
    await storage.index.reschedule_check(replace(await active(storage, 1), place=None), LATER)
    with pytest.raises(Conflict):
        await storage.index.write_desk(admitting(await stored(storage), row))


async def test_a_look_at_a_job_in_line_can_be_postponed(storage: Storage) -> None:
    """Its WAIT row says where the DUE row is then: it is let in all the same, and leaves no DUE row behind."""
    await opened(storage)
    await in_line(storage, 1)
    await storage.index.reschedule_check(await active(storage, 1), LATER)
    [row] = await storage.desks.first_waiting("tenant_a", 0, 5)
    assert row.due_at == LATER
    write = replace(admitting(await stored(storage), row), check_at=LATER + timedelta(hours=1))
    await storage.index.write_desk(write)
    assert await due(storage, LATER) == []
    assert await due(storage, LATER + timedelta(hours=1)) == ["job_001"]
