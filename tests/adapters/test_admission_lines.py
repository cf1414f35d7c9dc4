"""Waiting jobs at an admission state, and the transactions that admit them, in memory and on the real tables (R49)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.keys import wait_row
from shared.adapters.tables.table import delete_row, merge_row, upsert_row
from shared.core.gates.admission_state import Candidate, WaitingQueue
from shared.core.gates.breaker import Breaker
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.queues import add_waiting, remove_waiting
from shared.core.gates.rules import EVERY, Gate, GateKind, GateState, Rule
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, Conflict, Undecodable
from shared.ports.admissions import ASLEEP, AdmissionWrite
from shared.ports.index import Clearing, EndedRow, PlaceMove, Reservation
from tests.adapters.admission_rows import (
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
from tests.adapters.conftest import Storage
from tests.jobs import START


async def test_a_job_has_the_epoch_of_its_types_breaker(storage: Storage) -> None:
    """The epoch of its admission, from the queue or at once; 0 before the breaker ever opened."""
    await opened(storage)
    await inside(storage, 2)
    first = await in_line(storage, 1)
    before = await stored(storage)
    state = GateState(gate=type_gate(first.candidate.job_type), breaker=Breaker(epoch=3))
    admission = before.admission.with_state(state)
    await storage.index.write_admission(replace(admitting(replace(before, admission=admission), first), before=before))
    assert (await stored(storage)).admission.state(state.gate).breaker == Breaker(epoch=3, active=1)
    places = [(await active(storage, number)).place for number in (1, 2)]
    assert [place and (place.state, place.breaker_epoch) for place in places] == [("ADMITTED", 3), ("ADMITTED", 0)]
    before, one = await stored(storage), job(3)
    place = Place(candidate=Candidate.of(one), breaker_epoch=4)
    await storage.index.reserve(
        one, replacing=None, place=place, admission=AdmissionWrite(before=before, after=before.admission)
    )
    assert (await active(storage, 3)).place == place


async def test_a_line_is_its_own_in_order(storage: Storage) -> None:
    """By rank, then by id; never a row of another queue, with any numbers."""
    await opened(storage)
    for number, (line, rank) in enumerate([(1, 30), (1, 10), (2, 5), (11, 1), (1, 20), (10, 1), (9, 1), (1, 10)]):
        await in_line(storage, number, line, rank)
    found = await storage.admissions.first_waiting("tenant_a", 1, 10)
    assert [(row.candidate.job_id, row.queue) for row in found] == [
        ("job_001", 1),
        ("job_007", 1),
        ("job_004", 1),
        ("job_000", 1),
    ]
    assert len(await storage.admissions.first_waiting("tenant_a", 1, 2)) == 2
    assert await storage.admissions.first_waiting("tenant_a", 3, 10) == []
    assert await storage.admissions.first_waiting("tenant_b", 1, 10) == []
    [row] = await storage.admissions.first_waiting("tenant_a", 2, 10)
    assert (row.claim, row.created_at) == (job(2).idempotency_hash, START)
    assert await due(storage, START + timedelta(days=365)) == []


async def freed(storage: Storage) -> list[str]:
    return [each.job_id for each in await storage.admissions.list_freed("tenant_a", limit=100)]


async def test_an_end_leaves_a_row_for_the_counts(storage: Storage) -> None:
    """The same transaction deletes its ACTIVE row, once; the admission state does not change."""
    await opened(storage)
    first, before = await inside(storage, 0), await stored(storage)
    purged = []
    for number in range(90, 92):
        gone = await inside(storage, number)
        await storage.index.close(ended(gone), claim_expires_at=LATER)
        row = EndedRow(job_id=gone.job_id, tenant="tenant_a", clear_at=START + timedelta(hours=1))
        purged.append(Clearing(row, LATER + timedelta(days=1)))
    done = replace(ended(first), status=JobStatus.SUCCEEDED)
    before = await stored(storage)
    assert await storage.index.close(done, claim_expires_at=LATER, purged=purged, counted=True)
    assert await storage.index.read_active("tenant_a", first.job_id) is None
    [row] = await storage.admissions.list_freed("tenant_a", limit=10)
    assert (row.job_id, row.place.candidate.job_type, row.good) == (first.job_id, first.request_type, True)
    assert row.place.state is PlaceState.ADMITTED
    # the answer was lost, and it is sent again
    assert not await storage.index.close(done, claim_expires_at=LATER, counted=True)
    assert await freed(storage) == [first.job_id]
    assert (await stored(storage)) == before
    assert await storage.admissions.list_freed("tenant_a", after=row, limit=10) == []
    assert await storage.admissions.list_freed("tenant_b", limit=10) == []


async def test_a_turn_takes_rows_and_admits_jobs(storage: Storage) -> None:
    """Forty rows and twelve jobs in one transaction: all or nothing, and each job is due for a check."""
    await opened(storage)
    for number in range(40, 80):
        await storage.index.close(ended(await inside(storage, number)), claim_expires_at=LATER, counted=True)
    rows = [await in_line(storage, number) for number in range(12)]
    taken = tuple(await storage.admissions.list_freed("tenant_a", limit=40))
    write = replace(admitting(await stored(storage), *rows), freed=taken)
    await storage.index.write_admission(write)
    assert await freed(storage) == []
    assert await due(storage, LATER) == [row.candidate.job_id for row in rows]
    one = await active(storage, 1)
    assert one.place is not None
    assert (one.place.state, one.place.queue, one.check_at) == (PlaceState.ADMITTED, None, LATER)
    current = await stored(storage)
    with pytest.raises(Conflict):
        # another turn has taken them
        await storage.index.write_admission(AdmissionWrite(before=current, after=current.admission, freed=taken[:1]))
    assert (await stored(storage)) == current


async def test_jobs_join_the_queue_in_one_transaction(storage: Storage) -> None:
    """Each has its WAIT row and its DUE row; where one of them has moved since it was read, none has."""
    await opened(storage)
    rows = []
    for number in (1, 2):
        before, one = await stored(storage), replace(job(number), status=JobStatus.THROTTLED)
        place = Place(state=PlaceState.ARRIVING, candidate=replace(Candidate.of(one), rank=number))
        after = replace(before.admission, staged=number)
        await storage.index.reserve(
            one, replacing=None, place=place, admission=AdmissionWrite(before=before, after=after)
        )
        rows.append(await active(storage, number))
    before = await stored(storage)
    requested = WaitingQueue(job_type="T0", mode="DEFAULT", source=None, emergency=False)
    queued = add_waiting(add_waiting(before.admission, 0, requested, 1), 0, replace(requested, count=1, head=1), 2)
    write = AdmissionWrite(before=before, after=queued)
    moves = [PlaceMove(row, replace(row.place, state=PlaceState.WAITING, queue=0), ASLEEP) for row in rows if row.place]
    late = replace(moves[1], active=replace(rows[1], check_at=LATER))
    with pytest.raises(Conflict):
        await storage.index.move_places([moves[0], late], write)
    assert await storage.admissions.first_waiting("tenant_a", 0, 10) == []
    await storage.index.move_places(moves, write)
    assert [row.candidate.job_id for row in await storage.admissions.first_waiting("tenant_a", 0, 10)] == [
        row.job_id for row in rows
    ]
    assert [(await active(storage, number)).check_at for number in (1, 2)] == [ASLEEP, ASLEEP]
    assert (await stored(storage)).admission.waiting == 2


async def test_what_lost_the_race_changes_nothing(storage: Storage) -> None:
    """Each of the writes from an older reading of the admission state, or of the DUE row: no row of it is there."""
    await opened(storage)
    await inside(storage, 0)
    second = await in_line(storage, 1)
    old = await stored(storage)
    await storage.index.write_admission(AdmissionWrite(before=old, after=replace(old.admission, emergencies=3)))
    current = await stored(storage)
    row, waits = await active(storage, 0), await active(storage, 1)
    off = Place(state=PlaceState.OFF, candidate=second.candidate)
    writes = [
        storage.index.move_place(waits, off, ASLEEP, admitting(old)),
        storage.index.move_places([PlaceMove(waits, off, ASLEEP)], admitting(old)),
        storage.index.reserve(job(5), replacing=None, place=off, admission=admitting(old)),
        storage.index.reserve_together(
            [Reservation(job(5), place=off), Reservation(job(6), place=off)], admitting(old)
        ),
        storage.index.write_admission(admitting(old, second)),
    ]
    for write in writes:
        with pytest.raises(Conflict):
            await write
    assert (await stored(storage)) == current
    assert (await active(storage, 0), await active(storage, 1)) == (row, waits)
    assert await storage.index.read_active("tenant_a", "job_005") is None
    assert len(await storage.admissions.first_waiting("tenant_a", 0, 5)) == 1


async def test_creations_share_a_transaction(storage: Storage) -> None:
    """All of them are reserved, or none where one claim is taken."""
    await opened(storage)
    one, two, taken = job(1), job(2), replace(job(3), idempotency_hash=job(2).idempotency_hash)
    before = await stored(storage)
    write = AdmissionWrite(before=before, after=replace(before.admission, emergencies=2))
    places = {each.job_id: Place(candidate=Candidate.of(each)) for each in (one, two, taken)}
    await storage.index.reserve_together([Reservation(each, place=places[each.job_id]) for each in (one, two)], write)
    assert [(await active(storage, number)).place for number in (1, 2)] == [places["job_001"], places["job_002"]]
    before = await stored(storage)
    write = AdmissionWrite(before=before, after=replace(before.admission, emergencies=4))
    with pytest.raises(AlreadyExists):
        await storage.index.reserve_together([Reservation(job(4)), Reservation(taken)], write)
    assert await storage.index.read_active("tenant_a", "job_004") is None
    assert (await stored(storage)) == before


async def test_a_staged_job_leaves_its_line_by_its_end_a_withdrawal_or_a_pause(storage: Storage) -> None:
    """The transaction deletes its WAIT row; a turn subtracts the job after an end or a withdrawal."""
    await opened(storage)
    rows = [await in_line(storage, number) for number in range(3)]
    assert await storage.index.close(ended(job(0)), claim_expires_at=LATER, counted=True)
    assert await storage.index.withdraw(await active(storage, 1), counted=True)
    assert await storage.index.read_claim("tenant_a", job(1).idempotency_hash) is None
    taken = await storage.admissions.list_freed("tenant_a", limit=9)
    assert [(each.job_id, each.place.state, each.place.queue) for each in taken] == [
        ("job_000", PlaceState.WAITING, 0),
        ("job_001", PlaceState.WAITING, 0),
    ]
    with pytest.raises(Conflict):
        # it has ended, and its WAIT row is gone
        await storage.index.write_admission(admitting(await stored(storage), rows[0]))
    before = await stored(storage)
    off = Place(state=PlaceState.OFF, initial_status=JobStatus.THROTTLED, candidate=rows[2].candidate)
    left = AdmissionWrite(before=before, after=remove_waiting(before.admission, 0))
    await storage.index.move_place(await active(storage, 2), off, ASLEEP, left)
    assert (await active(storage, 2)).place == off
    assert await storage.admissions.first_waiting("tenant_a", 0, 5) == []


async def test_an_ended_job_may_stay_without_its_slot(storage: Storage) -> None:
    """It stays until its dependants are notified; its deletion frees nothing."""
    await opened(storage)
    first = await inside(storage, 0)
    row = await active(storage, 0)
    place = replace(row.counted_place, state=PlaceState.ENDED)
    await storage.index.move_place(row, place, LATER, freed=row.make_freed(LATER, good=False))
    assert await freed(storage) == [first.job_id]
    assert not await storage.index.close(ended(first), claim_expires_at=LATER, counted=True)
    assert await storage.index.read_active("tenant_a", first.job_id) is None
    assert await freed(storage) == [first.job_id]


async def test_a_job_that_came_during_a_count_is_in_none(storage: Storage) -> None:
    """Its row has the mark until it moves; it frees nothing."""
    await opened(storage)
    one = job(1)
    place = Place(state=PlaceState.ARRIVING, candidate=Candidate.of(one), uncounted=True)
    await storage.index.reserve_together([Reservation(one, place=place)])
    row = await active(storage, 1)
    assert row.place == place
    before = await stored(storage)
    changed = replace(place, state=PlaceState.OFF, uncounted=False)
    await storage.index.move_place(row, changed, ASLEEP, AdmissionWrite(before=before, after=before.admission))
    assert (await active(storage, 1)).place == changed
    two = job(2)
    uncounted = Place(state=PlaceState.ARRIVING, candidate=Candidate.of(two), uncounted=True)
    await storage.index.reserve_together([Reservation(two, place=uncounted)])
    assert not await storage.index.close(ended(two), claim_expires_at=LATER, counted=True)
    assert await freed(storage) == []


async def test_jobs_move_to_another_line(storage: Storage) -> None:
    """They keep their rank and stay asleep, and the new queue admits them."""
    await opened(storage)
    [first, second] = [await in_line(storage, number) for number in range(2)]
    before = await stored(storage)
    line = WaitingQueue(job_type="T", mode="DEFAULT", source="scanner", emergency=False)
    after = add_waiting(remove_waiting(before.admission, 0), 7, line, second.candidate.rank)
    await storage.index.write_admission(AdmissionWrite(before=before, after=after, requeued=((second, 7),)))
    assert [row.candidate for row in await storage.admissions.first_waiting("tenant_a", 0, 5)] == [first.candidate]
    [relocated] = await storage.admissions.first_waiting("tenant_a", 7, 5)
    assert relocated == replace(second, queue=7)
    row = await active(storage, 1)
    assert row.place is not None
    assert (row.place.queue, row.check_at) == (7, ASLEEP)
    await storage.index.write_admission(admitting(await stored(storage), relocated))
    assert await storage.admissions.first_waiting("tenant_a", 7, 5) == []


@pytest.mark.parametrize("rank", [1, 9])
async def test_a_job_moves_within_its_line(storage: Storage, rank: int) -> None:
    """With a new priority and rank, or with the old rank; the key of its DUE row changes with it (R67)."""
    await opened(storage)
    [first, second] = [await in_line(storage, number, rank=number) for number in (1, 2)]
    before, row = await stored(storage), await active(storage, 1)
    changed = replace(first.candidate, priority="low", rank=rank)
    after = add_waiting(remove_waiting(before.admission, 0), 0, before.admission.queues[0], rank)
    place = replace(row.place or Place(candidate=changed), candidate=changed)
    await storage.index.move_place(row, place, LATER, AdmissionWrite(before=before, after=after))
    found = await storage.admissions.first_waiting("tenant_a", 0, 5)
    expected = [replace(first, candidate=changed, due_at=LATER), second]
    assert found == sorted(expected, key=lambda each: each.candidate.rank)
    assert (await active(storage, 1)).place == place
    assert await due(storage, LATER) == ["job_001"]
    write = replace(admitting(await stored(storage), *found), check_at=LATER + timedelta(hours=1))
    await storage.index.write_admission(write)
    assert await due(storage, LATER) == []


async def test_who_is_not_asleep_is_not_let_in(storage: Storage) -> None:
    """A transaction that would leave a DUE row behind is a Conflict."""
    await opened(storage)
    row = await in_line(storage, 1)
    # a DUE row does not have the job's place
    await storage.index.reschedule_check(replace(await active(storage, 1), place=None), LATER)
    with pytest.raises(Conflict):
        await storage.index.write_admission(admitting(await stored(storage), row))


@pytest.mark.parametrize("later", [timedelta(hours=1), timedelta()])
async def test_a_look_at_a_job_in_line_can_be_postponed(storage: Storage, later: timedelta) -> None:
    """Its WAIT row has the key of the DUE row: it is admitted nevertheless, and leaves no DUE row.

    If its next check is in the same millisecond, the DUE row keeps its key.
    """
    await opened(storage)
    await in_line(storage, 1)
    await storage.index.reschedule_check(await active(storage, 1), LATER)
    [row] = await storage.admissions.first_waiting("tenant_a", 0, 5)
    assert row.due_at == LATER
    write = replace(admitting(await stored(storage), row), check_at=LATER + later)
    await storage.index.write_admission(write)
    assert await due(storage, LATER + later) == ["job_001"]
    assert not later or await due(storage, LATER) == []


async def test_a_lost_row_of_the_waiting_queue_is_restored(storage: Storage) -> None:
    """From ACTIVE, as it was; not if the job has moved since, by an admission too."""
    assert isinstance(storage.admissions, TablesAdmissions)
    await opened(storage)
    [first, second] = [await in_line(storage, number) for number in range(2)]
    row = await active(storage, 0)
    assert not await storage.index.restore_waiting(row)
    index = await storage.admissions._index.account.table(storage.admissions._index.name)
    await index.write(delete_row("tenant_a", wait_row(0, first.candidate.rank, row.job_id)))
    assert not await storage.index.restore_waiting(replace(row, etag=(await active(storage, 1)).etag))
    assert await storage.admissions.first_waiting("tenant_a", 0, 5) == [second]
    assert await storage.index.restore_waiting(row)
    assert await storage.admissions.first_waiting("tenant_a", 0, 5) == [first, second]
    row = await active(storage, 0)
    await storage.index.write_admission(admitting(await stored(storage), first))
    assert not await storage.index.restore_waiting(row)
    assert await storage.admissions.first_waiting("tenant_a", 0, 5) == [second]


async def test_rows_of_a_later_release(storage: Storage) -> None:
    """A member too many is ignored, and a quota of another kind; of the directory a row that cannot be decoded is, and
    its key is reported; an admission state that cannot be is an error with its key."""
    assert isinstance(storage.admissions, TablesAdmissions)
    await opened(storage)
    type_one = Gate(GateKind.TYPE, EVERY, "OCR")
    await storage.admissions.put_default(type_one, Rule(max_active=3), START)
    account, own = storage.admissions._index.account, storage.admissions
    gates, index = await account.table(own._gates.name), await account.table(own._index.name)
    row = await gates.get_entity("directory", f"DEFAULT:{type_one.id}")
    later = json.dumps({**json.loads(row["rule"]), "max_pages": 7})
    await gates.write(merge_row({**row, "rule": later}))
    await gates.write(upsert_row({**row, "RowKey": "DEFAULT:later", "kind": "REGION"}))
    rows = await own.directory()
    assert (rows.defaults[GateKind.TYPE, "OCR"][0], rows.unread) == (Rule(max_active=3), ("DEFAULT:later",))
    admission = await stored(storage)
    state = GateState(gate=type_gate("T"), rule=Rule(max_active=1))
    await storage.index.write_admission(AdmissionWrite(before=admission, after=admission.admission.with_state(state)))
    row = await index.get_entity("tenant_a", "GATES")
    column = f"gate_{state.gate.id}"
    values = json.loads(row[column])
    values["rule"]["max_pages"] = 7
    await index.write(merge_row({**row, column: json.dumps(values)}))
    await index.write(merge_row({"PartitionKey": "tenant_a", "RowKey": "GATES", "later": (2**40, "Edm.Int64")}))
    before = await stored(storage)
    assert before.admission.state(state.gate).rule == Rule(max_active=1)
    after = before.admission.with_state(replace(before.admission.state(state.gate), credit=1))
    await storage.index.write_admission(AdmissionWrite(before=before, after=after))
    kept = await index.get_entity("tenant_a", "GATES")
    assert (json.loads(kept[column])["rule"]["max_pages"], json.loads(kept[column])["credit"]) == (7, 1)
    assert (kept["later"], list(kept.int64)) == (2**40, ["later"])
    values["gate"]["kind"] = "REGION"
    await index.write(merge_row({**row, column: json.dumps(values)}))
    assert (await stored(storage)).admission.gates == {}
    await index.write(merge_row({**row, column: "{"}))
    with pytest.raises(Undecodable, match="tenant_a GATES"):
        await stored(storage)
