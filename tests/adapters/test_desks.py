"""Desks, lines and the directory of gates, in memory and on the real tables alike (R48, R49)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.contracts.quotas import RING
from shared.core.chained_log import entry_hash
from shared.core.gates.breaker import Breaker, BreakerRule, BreakerState, End, at, counted
from shared.core.gates.desk import (
    MAX_LINES,
    Candidate,
    Desk,
    Line,
    enter,
    leave,
    stand,
    step_away,
)
from shared.core.gates.letting import Waiting
from shared.core.gates.log import logged
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.rules import DeskBreaker, Directory, Gate, GateKind, GateState, Hold, Rule, Share, Throttle
from shared.core.job import Job
from shared.core.states import JobStatus
from shared.errors import AlreadyExists, Conflict
from shared.ports.desks import ASLEEP, DeskWrite, StoredDesk
from shared.ports.index import FIRST_CHECK, ActiveRow, Clearing, EndedRow
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

TENANT = Gate(GateKind.TENANT, "tenant_a")
NOWHERE = Directory()
LATER, HOUR = START + timedelta(minutes=7), timedelta(hours=1)


def job(number: int, **changes: object) -> Job:
    return replace(planned(f"job_{number:03d}", doc_id=f"doc-{number}", **changes).job, created_at=START)


async def stored(storage: Storage) -> StoredDesk:
    found = await storage.desks.read("tenant_a")
    assert found is not None
    return found


async def opened(storage: Storage) -> StoredDesk:
    await storage.index.write_desk(DeskWrite(before=None, after=Desk(tenant="tenant_a", counted_at=START)))
    return await stored(storage)


async def inside(storage: Storage, number: int) -> Job:
    """A job that its gates let in at once."""
    before, one = await stored(storage), job(number)
    place = Place(candidate=Candidate.of(one))
    after = enter(before.desk, NOWHERE, place.candidate, START)
    await storage.index.reserve(one, replacing=None, place=place, desk=DeskWrite(before=before, after=after))
    return one


async def in_line(storage: Storage, number: int, line: int = 0, rank: int | None = None) -> Waiting:
    """A job that arrived, and then lined up."""
    before, one = await stored(storage), replace(job(number), status=JobStatus.THROTTLED)
    candidate = replace(Candidate.of(one), rank=number if rank is None else rank)
    place = Place(state=PlaceState.ARRIVING, initial_status=JobStatus.THROTTLED, candidate=candidate)
    write = DeskWrite(before=before, after=replace(before.desk, staged=before.desk.staged + 1))
    await storage.index.reserve(one, replacing=None, place=place, desk=write)
    arrived = await active(storage, number)
    assert (arrived.place, arrived.check_at) == (place, START + FIRST_CHECK)
    before = await stored(storage)
    requested = before.desk.lines.get(line) or Line(job_type=f"T{line}", mode="DEFAULT", source=None, emergency=False)
    after = stand(before.desk, line, requested, candidate.rank)
    waits = replace(place, state=PlaceState.WAITING, line=line)
    await storage.index.move_place(arrived, waits, ASLEEP, DeskWrite(before=before, after=after))
    return Waiting(candidate, line, one.idempotency_hash, START)


async def active(storage: Storage, number: int) -> ActiveRow:
    found = await storage.index.read_active("tenant_a", f"job_{number:03d}")
    assert found is not None
    return found


def admitting(before: StoredDesk, *rows: Waiting, leaving: Candidate | None = None) -> DeskWrite:
    desk = leave(before.desk, leaving, 0) if leaving is not None else before.desk
    for row in rows:
        desk = enter(step_away(desk, row.line), NOWHERE, row.candidate, START)
    desk = replace(desk, staged=desk.staged - len(rows))
    return DeskWrite(before=before, after=desk, let_in=rows, check_at=LATER)


async def due(storage: Storage, at: datetime) -> list[str]:
    return [row.job_id for row in await storage.index.due("tenant_a", now=at, limit=500)]


def ended(one: Job) -> Job:
    return replace(one, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START)


def type_gate(name: str) -> Gate:
    return Gate(GateKind.TYPE, "tenant_a", name)


def counted_once(breaker: Breaker) -> Breaker:
    """With the end of a job that somebody let in past its gates."""
    at_once = START + timedelta(microseconds=1)
    return counted(breaker, BreakerRule(), End(at_once, breaker.epoch, True), at_once, has_line=True)


# --- the desk


async def test_a_desk_is_read_as_it_was_written(storage: Storage) -> None:
    """Rules, holds, throttles, credits to the unit, breakers in each state; counts, sources in any script, lines."""
    throttle = Throttle(max_per_hour=7, reason="r", actor="ö", at=START, until=LATER)
    opened = counted(Breaker(), BreakerRule(min_calls=1), End(START, 0, False), START, has_line=True)
    hold = Hold(reason="audit", actor="op", at=START + timedelta(microseconds=1))
    rule = Rule(max_active=3, max_per_hour=10**6, burst=10**6, max_staged=9, emergency_max_active=1)
    states = [
        GateState(gate=TENANT, rule=rule, rule_seq=4, hold=hold, throttle=throttle),
        GateState(
            gate=Gate(GateKind.SOURCE, "tenant_a", "büro 7/№"), credit=3_600_000_000 * 10**6 - 1, credit_at=START
        ),
        GateState(gate=type_gate("OCR"), rule=Rule(breaker=BreakerRule(failure_rate=0.1)), breaker=Breaker()),
        GateState(gate=type_gate("B"), rule=Rule(), breaker=opened),
        GateState(gate=type_gate("C"), breaker=at(counted_once(replace(opened, inside=2)), START + HOUR / 60)),
        GateState(gate=type_gate("D"), breaker=at(counted_once(opened), START + HOUR * 9)),
    ]
    line = Line(job_type="OCR", mode="BURST", source="büro 7/№", emergency=True, count=2, head=1_769_508_000_001)
    known = DeskBreaker(epoch=2, since=5, inside=1, limited=True, until=START, ring=(End(START, 2, False),))
    share = Share(gate=Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), keep=1, epoch=4, at=START, breaker=known)
    plain_share = Share(gate=Gate.over_all(GateKind.PLATFORM), keep=3)
    desk = Desk(
        tenant="tenant_a",
        shares={each.gate.id: each for each in (share, plain_share)},
        gates={state.gate.id: state for state in states},
        inside={("OCR", "DEFAULT"): 2, ("OCR", "BURST"): 1},
        inside_by_source={"büro 7/№": 1},
        emergencies=1,
        staged=3,
        lines={0: line, 311: replace(line, source=None, emergency=False)},
        counted_at=START,
        counting_until=LATER,
    )
    assert await storage.desks.read("tenant_a") is None
    await storage.index.write_desk(DeskWrite(before=None, after=desk))
    found = await stored(storage)
    assert found.desk == desk
    plain = replace(desk, gates={}, inside={}, inside_by_source={}, lines={}, counting_until=None)
    await storage.index.write_desk(DeskWrite(before=found, after=plain))
    assert (await stored(storage)).desk == plain


async def test_a_desk_is_written_once_from_each_reading(storage: Storage) -> None:
    """The second writer of a new desk meets AlreadyExists, of a known one Conflict, a repeated write too."""
    before = await opened(storage)
    with pytest.raises(AlreadyExists):
        await opened(storage)
    write = DeskWrite(before=before, after=replace(before.desk, staged=1))
    await storage.index.write_desk(write)
    with pytest.raises(Conflict):
        await storage.index.write_desk(write)
    assert (await stored(storage)).desk.staged == 1


async def test_the_largest_desk_is_one_row(storage: Storage) -> None:
    """Every line and rule there may be, with the longest names, in characters that take two units each."""
    long = "\N{GRINNING FACE}" * 256
    lines = {
        number: Line(job_type="T" * 128, mode="DEFAULT", source=f"{number:03d}{long[3:]}", emergency=False, count=1)
        for number in range(MAX_LINES)
    }
    states = [
        GateState(gate=Gate(GateKind.SOURCE, "tenant_a", line.source or ""), rule=Rule(max_active=1))
        for line in list(lines.values())[:99]
    ]
    ring = tuple(End(START + timedelta(microseconds=number), 10**6, False) for number in range(RING))
    breaker = Breaker(epoch=10**6, inside=10**6, ring=ring)
    states.append(GateState(gate=type_gate("T" * 128), rule=Rule(breaker=BreakerRule()), breaker=breaker))
    desk = Desk(
        tenant="tenant_a",
        gates={state.gate.id: state for state in states},
        inside_by_source={state.gate.name: 1 for state in states},
        lines=lines,
        counted_at=START,
    )
    await storage.index.write_desk(DeskWrite(before=None, after=desk))
    found = await stored(storage)
    assert found.desk == desk
    if found.etag.startswith("W/"):
        # no column is longer than Azure's 32,768 units, which Azurite may not check
        from shared.adapters.tables.desks import _desk_columns

        texts = [value for value in _desk_columns(desk).values() if isinstance(value, str)]
        assert max(len(text.encode("utf-16-le")) // 2 for text in texts) <= 32_768


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


# --- lines


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


# --- the log and the directory


async def test_a_log_is_numbered_and_chained(storage: Storage) -> None:
    """Its entries go with the desk that they changed."""
    before = await opened(storage)
    state, entries = GateState(gate=TENANT), []
    for number in range(3):
        state, entry = logged(state, "HELD", actor="op", reason=f"no {number}", at=START, data={"after": number})
        entries.append(entry)
    write = DeskWrite(before=before, after=before.desk.with_state(state), log=tuple(entries))
    await storage.index.write_desk(write)
    found = await storage.desks.log("tenant_a", TENANT.id, after=0, limit=10)
    assert found == entries
    assert [entry.hash for entry in found] == [entry_hash(vars(entry)) for entry in found]
    assert await storage.desks.log("tenant_a", TENANT.id, after=1, limit=1) == entries[1:2]
    assert (await stored(storage)).desk.state(TENANT).log_hash == entries[-1].hash


async def test_the_directory(storage: Storage) -> None:
    """Tenants since they entered first, rules for all, and the settings' limit; each again and away."""
    await storage.desks.enter_tenant("tenant_a", START)
    await storage.desks.enter_tenant("tenant_a", LATER)
    await storage.desks.enter_tenant("b/ü", LATER)
    every = Gate(GateKind.TYPE, "*", "*")
    rule = Rule(max_active=3, breaker=BreakerRule(failure_rate=1 / 3, cooldown_s=7))
    await storage.desks.put_default(every, rule, START)
    await storage.desks.note_settings(LATER)
    platform = GateState(
        gate=Gate.over_all(GateKind.PLATFORM),
        rule=Rule(max_active=500),
        rule_seq=3,
        hold=Hold(reason="r", actor="a", at=START, until=LATER),
    )
    await storage.desks.put_over_all(platform.gate, platform, START)
    opened = Breaker(state=BreakerState.OPEN, epoch=1, cooldown_s=60, opened_at=START, opened_by=(5, 9), until=LATER)
    of_type = GateState(gate=Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), rule=rule, breaker=opened)
    await storage.desks.put_over_all(of_type.gate, of_type, START)
    rows = await storage.desks.directory()
    assert rows.over_all == {state.gate.id: (state, START) for state in (platform, of_type)}
    assert rows.tenants == {"tenant_a": START, "b/ü": LATER}
    assert rows.defaults == {(GateKind.TYPE, "*"): (rule, START)}
    assert rows.settings_since == LATER
    for _ in range(2):
        await storage.desks.remove_tenant("b/ü")
        await storage.desks.put_default(every, None, START)
        await storage.desks.put_over_all(platform.gate, None, START)
        await storage.desks.put_over_all(of_type.gate, None, START)
        await storage.desks.note_settings(None)
    rows = await storage.desks.directory()
    assert rows.over_all == {}
    assert (rows.tenants, rows.defaults, rows.settings_since) == ({"tenant_a": START}, {}, None)
