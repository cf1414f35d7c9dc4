"""Admission states, their logs and the directory of quotas, in memory and on the real tables (R48, R52)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.admission_state import AdmissionState, WaitingQueue
from shared.core.gates.breaker import MAX_ENDS, Breaker, BreakerRule, BreakerState, JobEnd, advance, count_end
from shared.core.gates.log import append_entry
from shared.core.gates.queues import MAX_QUEUES
from shared.core.gates.rules import AdmissionBreaker, Gate, GateKind, GateState, Hold, QuotaShare, Rule, Throttle
from shared.core.records.chained_log import entry_hash
from shared.errors import AlreadyExists, Conflict
from shared.ports.admissions import AdmissionWrite, LogPlace
from tests.adapters.admission_rows import HOUR, LATER, opened, stored, type_gate
from tests.adapters.conftest import Storage
from tests.jobs import START

TENANT = Gate(GateKind.TENANT, "tenant_a")


def counted_once(breaker: Breaker) -> Breaker:
    """Returns counts with the end of a job that an operator admitted past its quotas."""
    at_once = START + timedelta(microseconds=1)
    return count_end(breaker, BreakerRule(), JobEnd(at_once, breaker.epoch, True), at_once, has_waiting=True)


# --- the admission state


async def test_a_admission_is_read_as_it_was_written(storage: Storage) -> None:
    """Rules, holds, throttles, credits to the unit, breakers in each state; counts, sources in any script, queues."""
    throttle = Throttle(max_per_hour=7, reason="r", actor="ö", at=START, until=LATER)
    opened = count_end(Breaker(), BreakerRule(min_calls=1), JobEnd(START, 0, False), START, has_waiting=True)
    hold = Hold(reason="audit", actor="op", at=START + timedelta(microseconds=1))
    rule = Rule(max_active=3, max_per_hour=10**6, burst=10**6, max_staged=9, emergency_max_active=1)
    states = [
        GateState(gate=TENANT, rule=rule, rule_seq=4, hold=hold, throttle=throttle),
        GateState(
            gate=Gate(GateKind.SOURCE, "tenant_a", "büro 7/№"), credit=3_600_000_000 * 10**6 - 1, credit_at=START
        ),
        GateState(gate=type_gate("OCR"), rule=Rule(breaker=BreakerRule(failure_rate=0.1)), breaker=Breaker()),
        GateState(gate=type_gate("B"), rule=Rule(), breaker=opened),
        GateState(gate=type_gate("C"), breaker=advance(counted_once(replace(opened, active=2)), START + HOUR / 60)),
        GateState(gate=type_gate("D"), breaker=advance(counted_once(opened), START + HOUR * 9)),
    ]
    line = WaitingQueue(
        job_type="OCR", mode="BURST", source="büro 7/№", emergency=True, count=2, head=1_769_508_000_001
    )
    known = AdmissionBreaker(epoch=2, since=5, active=1, limited=True, until=START, ring=(JobEnd(START, 2, False),))
    share = QuotaShare(gate=Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), slots=1, epoch=4, at=START, breaker=known)
    plain_share = QuotaShare(gate=Gate.over_all(GateKind.PLATFORM), slots=3)
    admission = AdmissionState(
        tenant="tenant_a",
        shares={each.gate.id: each for each in (share, plain_share)},
        gates={state.gate.id: state for state in states},
        active_by_kind={("OCR", "DEFAULT"): 2, ("OCR", "BURST"): 1},
        active_by_source={"büro 7/№": 1},
        emergencies=1,
        staged=3,
        queues={0: line, 311: replace(line, source=None, emergency=False)},
        counted_at=START,
        counting_until=LATER,
    )
    assert await storage.admissions.read("tenant_a") is None
    await storage.index.write_admission(AdmissionWrite(before=None, after=admission))
    found = await stored(storage)
    assert found.admission == admission
    plain = replace(admission, gates={}, active_by_kind={}, active_by_source={}, queues={}, counting_until=None)
    await storage.index.write_admission(AdmissionWrite(before=found, after=plain))
    assert (await stored(storage)).admission == plain


async def test_a_admission_is_written_once_from_each_reading(storage: Storage) -> None:
    """The second writer of a new admission state gets AlreadyExists, of a known one Conflict; a repeated write too."""
    before = await opened(storage)
    with pytest.raises(AlreadyExists):
        await opened(storage)
    write = AdmissionWrite(before=before, after=replace(before.admission, staged=1))
    await storage.index.write_admission(write)
    with pytest.raises(Conflict):
        await storage.index.write_admission(write)
    assert (await stored(storage)).admission.staged == 1


async def test_the_largest_admission_is_one_row(storage: Storage) -> None:
    """The maximum of queues and rules, with the longest names, in characters that take two units each."""
    long = "\N{GRINNING FACE}" * 256
    lines = {
        number: WaitingQueue(
            job_type="T" * 128, mode="DEFAULT", source=f"{number:03d}{long[3:]}", emergency=False, count=1
        )
        for number in range(MAX_QUEUES)
    }
    states = [
        GateState(gate=Gate(GateKind.SOURCE, "tenant_a", line.source or ""), rule=Rule(max_active=1))
        for line in list(lines.values())[:99]
    ]
    ring = tuple(JobEnd(START + timedelta(microseconds=number), 10**6, False) for number in range(MAX_ENDS))
    breaker = Breaker(epoch=10**6, active=10**6, ring=ring)
    states.append(GateState(gate=type_gate("T" * 128), rule=Rule(breaker=BreakerRule()), breaker=breaker))
    admission = AdmissionState(
        tenant="tenant_a",
        gates={state.gate.id: state for state in states},
        active_by_source={state.gate.name: 1 for state in states},
        queues=lines,
        counted_at=START,
    )
    await storage.index.write_admission(AdmissionWrite(before=None, after=admission))
    found = await stored(storage)
    assert found.admission == admission
    if found.etag.startswith("W/"):
        # no column is longer than Azure's 32,768 units, which Azurite may not check
        from shared.adapters.tables.admissions import _admission_columns

        texts = [value for value in _admission_columns(admission).values() if isinstance(value, str)]
        assert max(len(text.encode("utf-16-le")) // 2 for text in texts) <= 32_768


# --- the log and the directory


async def test_a_log_is_numbered_and_chained(storage: Storage) -> None:
    """Its entries are written with the admission state that they changed."""
    before = await opened(storage)
    state, entries = GateState(gate=TENANT), []
    for number in range(3):
        state, entry = append_entry(state, "HELD", actor="op", reason=f"no {number}", at=START, data={"after": number})
        entries.append(entry)
    write = AdmissionWrite(before=before, after=before.admission.with_state(state), log=tuple(entries))
    await storage.index.write_admission(write)
    found = await storage.admissions.log("tenant_a", TENANT.id, after=0, limit=10)
    assert found == entries
    assert [entry.hash for entry in found] == [entry_hash(vars(entry)) for entry in found]
    assert await storage.admissions.log("tenant_a", TENANT.id, after=1, limit=1) == entries[1:2]
    assert (await stored(storage)).admission.state(TENANT).log_hash == entries[-1].hash


async def test_the_directory(storage: Storage) -> None:
    """Tenants since they entered first, rules for all, and the settings' limit; each again and away."""
    await storage.admissions.enter_tenant("tenant_a", START)
    await storage.admissions.enter_tenant("tenant_a", LATER)
    await storage.admissions.enter_tenant("b/ü", LATER)
    every = Gate(GateKind.TYPE, "*", "*")
    rule = Rule(max_active=3, breaker=BreakerRule(failure_rate=1 / 3, cooldown_s=7))
    await storage.admissions.put_default(every, rule, START)
    await storage.admissions.note_settings(LATER)
    platform = GateState(
        gate=Gate.over_all(GateKind.PLATFORM),
        rule=Rule(max_active=500),
        rule_seq=3,
        hold=Hold(reason="r", actor="a", at=START, until=LATER),
    )
    await storage.admissions.put_over_all(platform.gate, platform, START)
    opened = Breaker(state=BreakerState.OPEN, epoch=1, cooldown_s=60, opened_at=START, opened_by=(5, 9), until=LATER)
    of_type = GateState(gate=Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), rule=rule, breaker=opened)
    await storage.admissions.put_over_all(of_type.gate, of_type, START)
    rows = await storage.admissions.directory()
    assert rows.over_all == {state.gate.id: (state, START) for state in (platform, of_type)}
    assert rows.tenants == {"tenant_a": START, "b/ü": LATER}
    assert rows.defaults == {(GateKind.TYPE, "*"): (rule, START)}
    assert rows.settings_since == LATER
    for _ in range(2):
        await storage.admissions.remove_tenant("b/ü")
        await storage.admissions.put_default(every, None, START)
        await storage.admissions.put_over_all(platform.gate, None, START)
        await storage.admissions.put_over_all(of_type.gate, None, START)
        await storage.admissions.note_settings(None)
    rows = await storage.admissions.directory()
    assert rows.over_all == {}
    assert (rows.tenants, rows.defaults, rows.settings_since) == ({"tenant_a": START}, {}, None)


async def test_entries_of_all_logs_are_read_in_order_and_removed(storage: Storage) -> None:
    """By quota and number, from a place on; a removal is of all of them or of none."""
    before, gates = await opened(storage), [TENANT, *(type_gate(f"T{number}") for number in range(12))]
    # ids that begin with figures and with letters
    assert len({gate.id[0].isdigit() for gate in gates}) == 2
    admission, log = before.admission, []
    for gate in gates:
        state = GateState(gate=gate)
        for number in range(3):
            state, entry = append_entry(state, "HELD", actor="op", reason="r", at=START + number * HOUR, data={})
            log.append(entry)
        admission = admission.with_state(state)
    await storage.index.write_admission(AdmissionWrite(before=before, after=admission, log=tuple(log)))
    expected = sorted(LogPlace(entry.gate_id, entry.seq, entry.at) for entry in log)
    assert await storage.admissions.log_places("tenant_a", first=LogPlace("", 0), limit=100) == expected
    assert await storage.admissions.log_places("tenant_a", first=expected[4], limit=5) == expected[4:9]
    past = LogPlace(expected[0].gate_id, 10**10 - 1)
    assert await storage.admissions.log_places("tenant_a", first=past, limit=1) == expected[3:4]
    assert await storage.admissions.log_places("tenant_b", first=LogPlace("", 0), limit=1) == []
    await storage.admissions.drop_log("tenant_a", expected[:4])
    with pytest.raises(Conflict):
        await storage.admissions.drop_log("tenant_a", expected[3:6])
    assert await storage.admissions.log_places("tenant_a", first=LogPlace("", 0), limit=100) == expected[4:]
    assert [each.seq for each in await storage.admissions.log("tenant_a", expected[4].gate_id, after=0, limit=9)] == [
        2,
        3,
    ]
