"""Gates as arithmetic: order, emergencies, lines and counts (R48, R49)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.gates.admission import AdmissionResult, AdmissionRound, Waiting, is_open, next_wake_up
from shared.core.gates.admission_state import AdmissionState, BlockReason, Candidate, rank
from shared.core.gates.places import (
    LineFull,
    Place,
    PlaceState,
    Rejects,
    arrive,
    give_back,
    line_up,
    recounted,
    set_aside,
)
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Hold, Rule
from tests.jobs import START

TENANT = Gate(GateKind.TENANT, "tenant_a")


def type_gate(name: str) -> Gate:
    return Gate(GateKind.TYPE, "tenant_a", name)


def source_gate(name: str) -> Gate:
    return Gate(GateKind.SOURCE, "tenant_a", name)


def hold() -> Hold:
    return Hold(reason="audit", actor="op", at=START)


class AllocationRecord:
    """One admission state, with the rows that its transactions would write."""

    def __init__(self, *states: GateState, defaults: dict[tuple[GateKind, str], Rule] | None = None) -> None:
        self.admission = AdmissionState(
            tenant="tenant_a", gates={each.gate.id: each for each in states}, counted_at=START
        )
        self.directory = Directory(tenants={"tenant_a": START}, defaults=defaults or {})
        self.now = START
        self.places: dict[str, Place] = {}
        self.began: list[tuple[str, datetime]] = []
        self.reads = 0

    def candidate(
        self, job_id: str, priority: str = "normal", job_type: str = "OCR", source: str | None = None
    ) -> Candidate:
        return Candidate(
            job_id=job_id,
            job_type=job_type,
            mode="DEFAULT",
            source=source,
            priority=priority,
            rank=rank(self.now, priority),
        )

    def posts(self, job_id: str, **of: str) -> PlaceState:
        self.lets_in()
        decision = arrive(self.admission, self.directory, self.candidate(job_id, **of), self.now)
        self.admission, place = decision.admission, decision.place
        if place.state is PlaceState.ARRIVING:
            self.admission, place = line_up(self.admission, self.directory, place, self.now)
        self.places[job_id] = place
        if place.state is PlaceState.ADMITTED:
            self.began.append((job_id, self.now))
        return place.state

    def ends(self, job_id: str) -> None:
        self.admission = give_back(self.admission, self.places.pop(job_id))
        self.lets_in()

    def lets_in(self, room: int = 20) -> AdmissionResult:
        letting = AdmissionRound(self.admission, self.directory, self.now, room=room)
        while (line := letting.wants()) is not None:
            self.reads += 1
            letting.load(line, self.rows(line)[: letting.room + 2])
        let = letting.result
        self.admission = let.admission
        for waiting, target in let.relined:
            self.places[waiting.candidate.job_id] = replace(self.places[waiting.candidate.job_id], line=target)
        for waiting in let.admitted:
            job_id = waiting.candidate.job_id
            self.places[job_id] = replace(self.places[job_id], state=PlaceState.ADMITTED, line=None)
            self.began.append((job_id, self.now))
        return let

    def rows(self, line: int) -> list[Waiting]:
        waiting = [place.candidate for place in self.places.values() if place.line == line]
        ordered = sorted(waiting, key=lambda each: (each.rank, each.job_id))
        return [Waiting(each, line, "claim", START) for each in ordered]

    @property
    def inside(self) -> list[str]:
        return [job_id for job_id, place in self.places.items() if not place.is_staged]

    def sets(self, state: GateState) -> None:
        """Made, or changed: what is inside is counted by the rows."""
        self.admission = recounted(self.admission.with_state(state), list(self.places.values()), self.now)


def limited(most: int, **rule: int) -> AllocationRecord:
    return AllocationRecord(GateState(gate=TENANT, rule=Rule(max_active=most, **rule)))


# --- order


def test_priority_orders_and_nobody_waits_behind_later_jobs_for_an_hour() -> None:
    """One place, a stream of high ones and an old low one: it goes in before any that came an hour after it."""
    allocation_record = limited(1)
    allocation_record.posts("first")
    allocation_record.posts("low", priority="low")
    previous = "first"
    for minute in range(1, 150):
        allocation_record.now = START + timedelta(minutes=minute)
        allocation_record.posts(f"high-{minute}", priority="high")
        if minute % 2 == 0:
            allocation_record.ends(previous)
            previous = allocation_record.inside[0]
            if previous == "low":
                break
    order = [job_id for job_id, _ in allocation_record.began]
    assert order[-1] == "low"
    came = [int(each.split("-")[1]) for each in order if each.startswith("high")]
    assert came == sorted(came)
    assert max(came) <= 60
    allocation_record.posts("normal")
    allocation_record.posts("urgent", priority="high")
    assert allocation_record.rows(0)[0].candidate.job_id.startswith("high")


def test_the_oldest_of_all_lines_goes_first_whatever_a_line_remembers() -> None:
    """Lines of two types, one of which lost its head: the rows say whose turn it is."""
    allocation_record = limited(1)
    allocation_record.posts("inside")
    for second, (job_id, job_type) in enumerate([("a1", "A"), ("b1", "B"), ("a2", "A"), ("b2", "B")], 1):
        allocation_record.now = START + timedelta(seconds=second)
        allocation_record.posts(job_id, job_type=job_type)
    # cancelled while it waits
    allocation_record.ends("a1")
    for expected in ("b1", "a2", "b2"):
        allocation_record.ends(allocation_record.inside[0])
        assert allocation_record.inside == [expected]


def test_a_newcomer_does_not_take_what_time_has_opened() -> None:
    """A token that came while nobody looked is the first one's in line, also where the newcomer's own line is empty."""
    allocation_record = AllocationRecord(GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1)))
    allocation_record.posts("a", job_type="A")
    allocation_record.now += timedelta(seconds=1)
    allocation_record.posts("old", job_type="A")
    for minute in range(1, 4):
        allocation_record.now = START + timedelta(minutes=minute)
        allocation_record.posts(f"new-{minute}", job_type=f"B{minute}")
    assert [job_id for job_id, _ in allocation_record.began] == ["a", "old", "new-1", "new-2"]


def test_a_held_type_stops_no_other() -> None:
    """Those behind a shut gate of their own are passed by, and hold no place."""
    allocation_record = AllocationRecord(
        GateState(gate=TENANT, rule=Rule(max_active=2)), GateState(gate=type_gate("A"), rule_seq=1, hold=hold())
    )
    assert [allocation_record.posts(f"a{number}", job_type="A") for number in range(3)] == [PlaceState.WAITING] * 3
    assert [allocation_record.posts(f"b{number}", job_type="B") for number in range(3)][:2] == [PlaceState.ADMITTED] * 2
    assert (
        allocation_record.admission.active,
        allocation_record.admission.staged,
        allocation_record.admission.waiting,
    ) == (2, 4, 4)
    allocation_record.sets(GateState(gate=type_gate("A"), rule_seq=2))
    allocation_record.ends("b0")
    assert sorted(allocation_record.inside) == ["a0", "b1"]


# --- emergencies


def test_an_emergency_passes_numbers_and_rates_up_to_its_own() -> None:
    """It counts in `active`; past its number it waits in a line that is looked at first; a hold stops it."""
    rule = Rule(max_active=1, max_per_hour=1, burst=1, emergency_max_active=1)
    allocation_record = AllocationRecord(GateState(gate=TENANT, rule=rule))
    assert allocation_record.posts("one") is PlaceState.ADMITTED
    assert allocation_record.posts("two") is PlaceState.WAITING
    assert allocation_record.posts("fire", priority="emergency") is PlaceState.ADMITTED
    allocation_record.now += timedelta(hours=2)
    assert allocation_record.posts("fire 2", priority="emergency") is PlaceState.WAITING
    assert (allocation_record.admission.active, allocation_record.admission.emergencies) == (2, 1)
    allocation_record.ends("fire")
    assert allocation_record.inside == ["one", "fire 2"]
    allocation_record.sets(GateState(gate=TENANT, rule=rule, hold=hold()))
    allocation_record.ends("fire 2")
    assert allocation_record.posts("fire 3", priority="emergency") is PlaceState.WAITING


@pytest.mark.parametrize("rule", [Rule(max_active=1), None])
def test_emergencies_in_line_outlive_the_rule_that_let_them_pass(rule: Rule | None) -> None:
    """With the number for emergencies gone they are jobs of high priority: they pass no limit, and are not stuck."""
    with_number = Rule(max_active=1, emergency_max_active=1)
    allocation_record = AllocationRecord(GateState(gate=TENANT, rule=with_number))
    allocation_record.posts("fire 1", priority="emergency")
    allocation_record.posts("fire 2", priority="emergency")
    assert allocation_record.places["fire 2"].state is PlaceState.WAITING
    allocation_record.sets(GateState(gate=TENANT, rule=rule, rule_seq=2))
    allocation_record.lets_in()
    assert allocation_record.inside == (["fire 1"] if rule is not None else ["fire 1", "fire 2"])
    allocation_record.ends("fire 1")
    assert allocation_record.inside == ["fire 2"]


# --- lines


def test_jobs_of_a_source_that_gets_a_gate_move_to_a_line_of_their_own() -> None:
    """As they come to the head; then they stop nobody else, and go in as their own gate says."""
    allocation_record = limited(1)
    allocation_record.posts("inside")
    for second, source in enumerate(["scanner", "mail", "scanner", "mail"], 1):
        allocation_record.now = START + timedelta(seconds=second)
        allocation_record.posts(f"{source}-{second}", source=source)
    allocation_record.sets(GateState(gate=source_gate("scanner"), rule_seq=1, hold=hold()))
    for expected in ("mail-2", "mail-4"):
        allocation_record.ends(allocation_record.inside[0])
        assert allocation_record.inside == [expected]
    allocation_record.ends("mail-4")
    assert (allocation_record.inside, allocation_record.admission.waiting, allocation_record.admission.staged) == (
        [],
        2,
        2,
    )
    assert {line.source for line in allocation_record.admission.lines.values()} == {"scanner"}
    allocation_record.sets(GateState(gate=source_gate("scanner"), rule_seq=2))
    allocation_record.lets_in()
    assert allocation_record.inside == ["scanner-1"]


def test_who_changed_lines_is_looked_at_again() -> None:
    """The transaction that moves a job to a line whose gates are open says that there is more to do."""
    allocation_record = limited(3)
    for number in range(3):
        allocation_record.posts(f"in-{number}")
    allocation_record.posts("scanned", source="scanner")
    allocation_record.sets(GateState(gate=source_gate("scanner"), rule=Rule(max_active=1), rule_seq=1))
    allocation_record.admission = give_back(allocation_record.admission, allocation_record.places.pop("in-0"))
    let = allocation_record.lets_in()
    assert ([len(let.relined), len(let.admitted)], let.more) == ([1, 0], True)
    assert [len(allocation_record.lets_in().admitted), allocation_record.lets_in().more] == [1, False]


def test_more_kinds_than_lines_are_refused_and_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind past the last line is a full line; a job that would have to change to one waits where it is."""
    most = 30
    monkeypatch.setattr("shared.core.gates.admission_state.MAX_LINES", most)
    allocation_record = AllocationRecord(GateState(gate=TENANT, rule=Rule(max_active=1), hold=hold()))
    for number in range(most):
        allocation_record.posts(f"job-{number}", job_type=f"T{number}")
    with pytest.raises(LineFull):
        allocation_record.posts("one more", job_type="another")
    place = Place(state=PlaceState.OFF, candidate=allocation_record.candidate("back", job_type="another"))
    with pytest.raises(LineFull):
        line_up(allocation_record.admission, allocation_record.directory, place, allocation_record.now)
    allocation_record.posts("of a source", job_type="T0", source="scanner")
    allocation_record.ends("job-0")
    allocation_record.sets(GateState(gate=source_gate("scanner"), rule_seq=1))
    allocation_record.posts("again", job_type="T0")
    allocation_record.sets(GateState(gate=TENANT, rule=Rule(max_active=most + 5), rule_seq=2))
    let = allocation_record.lets_in()
    assert (len(let.admitted) + len(let.relined), let.more) == (20, True)
    while allocation_record.lets_in().more:
        pass
    assert (
        allocation_record.admission.waiting,
        allocation_record.admission.staged,
        allocation_record.admission.active,
    ) == (0, 0, most + 1)


def test_the_end_of_every_line() -> None:
    """`max_staged` jobs of all lines, then LineFull, and nothing has changed; without a rule a thousand."""
    allocation_record = limited(1, max_staged=2)
    allocation_record.posts("inside")
    allocation_record.posts("one")
    allocation_record.posts("two", job_type="B")
    before = allocation_record.admission
    with pytest.raises(LineFull) as full:
        allocation_record.posts("three", job_type="C")
    assert (full.value.limit, allocation_record.admission) == (2, before)
    allocation_record.ends("two")
    assert allocation_record.posts("three", job_type="C") is PlaceState.WAITING


def test_a_limit_of_the_settings_refuses_and_a_line_alone_does_not() -> None:
    """It is refused by what is shut: where the gates are open and others wait, a rejecting rule is not why."""
    rejecting = Rule(max_active=2, rejects=True)
    allocation_record = AllocationRecord(
        GateState(gate=type_gate("A"), rule=Rule(max_active=1)), defaults={(GateKind.TENANT, ""): rejecting}
    )
    assert allocation_record.posts("a1", job_type="A") is PlaceState.ADMITTED
    assert allocation_record.posts("a2", job_type="A") is PlaceState.WAITING
    assert allocation_record.posts("b1", job_type="B") is PlaceState.ADMITTED
    with pytest.raises(Rejects) as refused:
        allocation_record.posts("b2", job_type="B")
    assert refused.value.verdict.blocked_by is BlockReason.FULL
    with pytest.raises(Rejects):
        # full, and its own line is not empty: the tenant's limit stops it as well
        allocation_record.posts("a3", job_type="A")
    allocation_record.admission = give_back(
        give_back(allocation_record.admission, allocation_record.places.pop("a1")), allocation_record.places.pop("b1")
    )
    decision = arrive(
        allocation_record.admission,
        allocation_record.directory,
        allocation_record.candidate("a3", job_type="A"),
        allocation_record.now,
    )
    assert decision.stopped_by is not None
    assert (decision.stopped_by.blocked_by, decision.place.state) == (BlockReason.LINE, PlaceState.ARRIVING)


# --- counts


_ACTS = st.lists(
    st.tuples(
        st.sampled_from(["post", "post", "post", "end", "aside", "back", "tick", "look", "gate"]),
        st.integers(0, 5),
        st.sampled_from(["normal", "high", "low", "emergency"]),
        st.sampled_from([None, "s1", "s2"]),
    ),
    max_size=60,
)


@given(acts=_ACTS, most=st.integers(1, 3), per_hour=st.none() | st.integers(1, 600))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_recount_gives_what_the_transactions_gave(
    acts: list[tuple[str, int, str, str | None]], most: int, per_hour: int | None
) -> None:
    """Whatever happened: the counts are those of the rows, no gate has more inside than it may, no line is forgotten,
    and nobody waits whose gates are open once somebody has looked."""
    rule = Rule(max_active=most, max_per_hour=per_hour, emergency_max_active=1)
    allocation_record = AllocationRecord(
        GateState(gate=TENANT, rule=rule), GateState(gate=type_gate("T1"), rule=Rule(max_active=1))
    )
    for number, (act, which, priority, source) in enumerate(acts):
        ordered = sorted(allocation_record.places)
        job_id = ordered[which % len(ordered)] if ordered else None
        place = allocation_record.places[job_id] if job_id is not None else None
        if act == "post":
            of = {"source": source} if source is not None else {}
            allocation_record.posts(f"{number:03d}", priority=priority, job_type=f"T{which % 3}", **of)
        elif act == "tick":
            allocation_record.now += timedelta(seconds=10 ** (which % 5))
        elif act == "look":
            allocation_record.lets_in()
        elif act == "gate":
            allocation_record.sets(GateState(gate=source_gate("s1"), rule=Rule(max_active=1), rule_seq=number))
        elif job_id is not None and place is not None:
            if act == "end":
                allocation_record.ends(job_id)
            elif act == "aside" and place.state is PlaceState.WAITING:
                allocation_record.admission, allocation_record.places[job_id] = set_aside(
                    allocation_record.admission, place
                )
            elif act == "back" and place.state is PlaceState.OFF:
                allocation_record.lets_in()
                allocation_record.admission, allocation_record.places[job_id] = line_up(
                    allocation_record.admission, allocation_record.directory, place, allocation_record.now
                )
        again = recounted(allocation_record.admission, list(allocation_record.places.values()), allocation_record.now)
        assert (again.inside, again.inside_by_source, again.emergencies, again.staged) == (
            allocation_record.admission.inside,
            allocation_record.admission.inside_by_source,
            allocation_record.admission.emergencies,
            allocation_record.admission.staged,
        )
        lines = Counter(place.line for place in allocation_record.places.values() if place.line is not None)
        assert lines == {number: line.count for number, line in allocation_record.admission.lines.items()}
        assert again.lines.keys() == allocation_record.admission.lines.keys()
        common = allocation_record.admission.active - allocation_record.admission.emergencies
        assert common <= most
        assert allocation_record.admission.emergencies <= 1 + most
    while allocation_record.lets_in().more:
        pass
    assert not any(
        is_open(allocation_record.admission, allocation_record.directory, line, allocation_record.now)
        for line in allocation_record.admission.lines
    )
    if allocation_record.admission.lines and per_hour is None:
        assert next_wake_up(allocation_record.admission, allocation_record.directory, allocation_record.now) is None


def test_a_line_that_the_admission_forgot_is_found_by_its_rows() -> None:
    """And one that it remembers without rows admits no job; the next count forgets it."""
    allocation_record = limited(1)
    allocation_record.posts("inside")
    allocation_record.posts("waits")
    [(number, line)] = allocation_record.admission.lines.items()
    forgot = recounted(
        replace(allocation_record.admission, lines={}), list(allocation_record.places.values()), allocation_record.now
    )
    assert forgot.lines == {number: line}
    allocation_record.admission = replace(
        allocation_record.admission,
        lines={**allocation_record.admission.lines, 7: replace(line, job_type="gone", count=3)},
    )
    allocation_record.ends("inside")
    allocation_record.ends("waits")
    assert (allocation_record.inside, allocation_record.admission.lines.keys()) == ([], {7})
    assert (
        recounted(allocation_record.admission, list(allocation_record.places.values()), allocation_record.now).lines
        == {}
    )
