"""Quotas as arithmetic: order, emergencies, queues and counts (R48, R49)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.gates.admission import QueuedJob, find_next_wake_up, is_open
from shared.core.gates.admission_state import BlockReason, compute_rank
from shared.core.gates.places import (
    Place,
    PlaceState,
    QueueFull,
    QuotaRejects,
    admit_or_queue,
    apply_count,
    decide_arrival,
    release,
    set_aside,
)
from shared.core.gates.queue_position import find_position
from shared.core.gates.rules import GateKind, GateState, Rule
from tests.core.gates.one_tenant import TENANT, OneTenant, hold, limited, source_gate, type_gate
from tests.jobs import START

# --- order


@pytest.mark.parametrize(("priority", "minutes"), [("high", -30), ("emergency", -30), ("normal", 0), ("low", 30)])
def test_a_priority_is_worth_half_an_hour(priority: str, minutes: int) -> None:
    assert compute_rank(START, priority) - compute_rank(START, "normal") == minutes * 60_000


def test_priority_orders_and_nobody_waits_behind_later_jobs_for_an_hour() -> None:
    """One slot, a stream of high ones and an old low one: it starts before any that arrived an hour after it."""
    tenant = limited(1)
    tenant.posts("first")
    tenant.posts("low", priority="low")
    previous = "first"
    for minute in range(1, 150):
        tenant.now = START + timedelta(minutes=minute)
        tenant.posts(f"high-{minute}", priority="high")
        if minute % 2 == 0:
            tenant.ends(previous)
            previous = tenant.inside[0]
            if previous == "low":
                break
    order = [job_id for job_id, _ in tenant.began]
    assert order[-1] == "low"
    came = [int(each.split("-")[1]) for each in order if each.startswith("high")]
    assert came == sorted(came)
    assert max(came) <= 60
    tenant.posts("normal")
    tenant.posts("urgent", priority="high")
    assert tenant.rows(0)[0].candidate.job_id.startswith("high")


def test_the_oldest_of_all_lines_goes_first_whatever_a_line_remembers() -> None:
    """Queues of two types, one of which lost its first job: the rows decide on the next one."""
    tenant = limited(1)
    tenant.posts("inside")
    for second, (job_id, job_type) in enumerate([("a1", "A"), ("b1", "B"), ("a2", "A"), ("b2", "B")], 1):
        tenant.now = START + timedelta(seconds=second)
        tenant.posts(job_id, job_type=job_type)
    # cancelled while it waits
    tenant.ends("a1")
    for expected in ("b1", "a2", "b2"):
        tenant.ends(tenant.inside[0])
        assert tenant.inside == [expected]


def test_a_newcomer_does_not_take_what_time_has_opened() -> None:
    """A token that was earned between checks belongs to the first waiting job, also if the new job's own queue is
    empty.
    """
    tenant = OneTenant(GateState(gate=TENANT, rule=Rule(max_per_hour=60, burst=1)))
    tenant.posts("a", job_type="A")
    tenant.now += timedelta(seconds=1)
    tenant.posts("old", job_type="A")
    for minute in range(1, 4):
        tenant.now = START + timedelta(minutes=minute)
        tenant.posts(f"new-{minute}", job_type=f"B{minute}")
    assert [job_id for job_id, _ in tenant.began] == ["a", "old", "new-1", "new-2"]


def test_a_held_type_stops_no_other() -> None:
    """Jobs behind a closed quota of their own are skipped, and hold no slot."""
    tenant = OneTenant(
        GateState(gate=TENANT, rule=Rule(max_active=2)), GateState(gate=type_gate("A"), rule_seq=1, hold=hold())
    )
    assert [tenant.posts(f"a{number}", job_type="A") for number in range(3)] == [PlaceState.WAITING] * 3
    assert [tenant.posts(f"b{number}", job_type="B") for number in range(3)][:2] == [PlaceState.ADMITTED] * 2
    assert (tenant.admission.active, tenant.admission.staged, tenant.admission.waiting) == (2, 4, 4)
    tenant.sets(GateState(gate=type_gate("A"), rule_seq=2))
    tenant.ends("b0")
    assert sorted(tenant.inside) == ["a0", "b1"]


# --- emergencies


def test_an_emergency_passes_numbers_and_rates_up_to_its_own() -> None:
    """It counts in `active`; past its number it waits in a queue that is read first; a hold stops it."""
    rule = Rule(max_active=1, max_per_hour=1, burst=1, emergency_max_active=1)
    tenant = OneTenant(GateState(gate=TENANT, rule=rule))
    assert tenant.posts("one") is PlaceState.ADMITTED
    assert tenant.posts("two") is PlaceState.WAITING
    assert tenant.posts("fire", priority="emergency") is PlaceState.ADMITTED
    tenant.now += timedelta(hours=2)
    assert tenant.posts("fire 2", priority="emergency") is PlaceState.WAITING
    assert (tenant.admission.active, tenant.admission.emergencies) == (2, 1)
    tenant.ends("fire")
    assert tenant.inside == ["one", "fire 2"]
    tenant.sets(GateState(gate=TENANT, rule=rule, hold=hold()))
    tenant.ends("fire 2")
    assert tenant.posts("fire 3", priority="emergency") is PlaceState.WAITING


@pytest.mark.parametrize("rule", [Rule(max_active=1), None])
def test_emergencies_in_line_outlive_the_rule_that_let_them_pass(rule: Rule | None) -> None:
    """With the number for emergencies gone they are jobs of high priority: they pass no limit, and are not stuck."""
    with_number = Rule(max_active=1, emergency_max_active=1)
    tenant = OneTenant(GateState(gate=TENANT, rule=with_number))
    tenant.posts("fire 1", priority="emergency")
    tenant.posts("fire 2", priority="emergency")
    assert tenant.places["fire 2"].state is PlaceState.WAITING
    tenant.sets(GateState(gate=TENANT, rule=rule, rule_seq=2))
    tenant.lets_in()
    assert tenant.inside == (["fire 1"] if rule is not None else ["fire 1", "fire 2"])
    tenant.ends("fire 1")
    assert tenant.inside == ["fire 2"]


def test_the_reason_of_an_emergency_is_that_of_an_ordinary_job_without_a_number_for_emergencies() -> None:
    """Here the next turn admits it, so no quota stops it."""
    tenant = OneTenant(GateState(gate=TENANT, rule=Rule(max_active=1, emergency_max_active=1)))
    tenant.posts("fire 1", priority="emergency")
    tenant.posts("fire 2", priority="emergency")
    [number] = tenant.admission.queues
    waiting = QueuedJob(tenant.candidate("fire 2", priority="emergency"), number, "", START)
    reasons = []
    for seq, rule in enumerate((Rule(max_active=2, emergency_max_active=1), Rule(max_active=2)), start=2):
        tenant.sets(GateState(gate=TENANT, rule=rule, rule_seq=seq))
        found = find_position(tenant.admission, tenant.directory, waiting, 1, tenant.now)
        reasons.append((found.stopped_by.blocked_by, found.stopped_by.allowed))
    assert reasons == [(BlockReason.FULL, 1), (BlockReason.LINE, None)]


@pytest.mark.parametrize(
    ("states", "stops"),
    [
        ([{"rule": Rule(max_per_hour=1)}, {"rule": Rule(max_active=1)}], GateKind.TYPE),
        ([{"rule": Rule(max_active=1)}, {"rule": Rule(max_per_hour=1)}], GateKind.TENANT),
        ([{"rule": Rule(max_per_hour=60)}, {"rule": Rule(max_per_hour=6)}], GateKind.TYPE),
        ([{"rule": Rule(max_per_hour=6)}, {"rule": Rule(max_per_hour=60)}], GateKind.TENANT),
        ([{"rule": Rule(max_active=1)}, {"rule": Rule(max_active=1)}], GateKind.TENANT),
    ],
)
def test_the_quota_that_opens_last_is_shown(states: list[dict[str, Rule]], stops: GateKind) -> None:
    """So that the shown quota agrees with the estimated start, at the creation and later."""
    tenant = OneTenant(
        *(GateState(gate=gate, **state) for gate, state in zip((TENANT, type_gate("OCR")), states, strict=True))
    )
    tenant.posts("one")
    candidate = tenant.candidate("two")
    decision = decide_arrival(tenant.admission, tenant.directory, candidate, tenant.now)
    assert decision.stopped_by is not None
    tenant.posts("two")
    [number] = tenant.admission.queues
    waiting = QueuedJob(candidate, number, "", START)
    found = find_position(tenant.admission, tenant.directory, waiting, 1, tenant.now)
    assert [decision.stopped_by.gate.kind, found.stopped_by.gate.kind] == [stops, stops]
    times = [verdict.opens_at for verdict in decision.verdicts if verdict.blocks]
    assert found.expected_at == (None if None in times else max(at for at in times if at))


# --- waiting queues


def test_jobs_of_a_source_that_gets_a_gate_move_to_a_line_of_their_own() -> None:
    """When they come to the head; then they stop no other job, and start by their own quota."""
    tenant = limited(1)
    tenant.posts("inside")
    for second, source in enumerate(["scanner", "mail", "scanner", "mail"], 1):
        tenant.now = START + timedelta(seconds=second)
        tenant.posts(f"{source}-{second}", source=source)
    tenant.sets(GateState(gate=source_gate("scanner"), rule_seq=1, hold=hold()))
    for expected in ("mail-2", "mail-4"):
        tenant.ends(tenant.inside[0])
        assert tenant.inside == [expected]
    tenant.ends("mail-4")
    assert (tenant.inside, tenant.admission.waiting, tenant.admission.staged) == ([], 2, 2)
    assert {line.source for line in tenant.admission.queues.values()} == {"scanner"}
    tenant.sets(GateState(gate=source_gate("scanner"), rule_seq=2))
    tenant.lets_in()
    assert tenant.inside == ["scanner-1"]


def test_who_changed_lines_is_looked_at_again() -> None:
    """The transaction that moves a job to a queue with open quotas reports that there is more to do."""
    tenant = limited(3)
    for number in range(3):
        tenant.posts(f"in-{number}")
    tenant.posts("scanned", source="scanner")
    tenant.sets(GateState(gate=source_gate("scanner"), rule=Rule(max_active=1), rule_seq=1))
    tenant.admission = release(tenant.admission, tenant.places.pop("in-0"))
    let = tenant.lets_in()
    assert ([len(let.requeued), len(let.admitted)], let.more) == ([1, 0], True)
    assert [len(tenant.lets_in().admitted), tenant.lets_in().more] == [1, False]


def test_more_kinds_than_lines_are_refused_and_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A combination past the last queue is a full queue; a job that would have to move to one stays."""
    most = 30
    monkeypatch.setattr("shared.core.gates.queues.MAX_QUEUES", most)
    tenant = OneTenant(GateState(gate=TENANT, rule=Rule(max_active=1), hold=hold()))
    for number in range(most):
        tenant.posts(f"job-{number}", job_type=f"T{number}")
    with pytest.raises(QueueFull):
        tenant.posts("one more", job_type="another")
    place = Place(state=PlaceState.OFF, candidate=tenant.candidate("back", job_type="another"))
    with pytest.raises(QueueFull):
        admit_or_queue(tenant.admission, tenant.directory, place, tenant.now)
    tenant.posts("of a source", job_type="T0", source="scanner")
    tenant.ends("job-0")
    tenant.sets(GateState(gate=source_gate("scanner"), rule_seq=1))
    tenant.posts("again", job_type="T0")
    tenant.sets(GateState(gate=TENANT, rule=Rule(max_active=most + 5), rule_seq=2))
    let = tenant.lets_in()
    assert (len(let.admitted) + len(let.requeued), let.more) == (20, True)
    while tenant.lets_in().more:
        pass
    assert (tenant.admission.waiting, tenant.admission.staged, tenant.admission.active) == (0, 0, most + 1)


def test_the_end_of_every_line() -> None:
    """`max_staged` jobs of all queues, then LineFull, without a change; without a rule a thousand."""
    tenant = limited(1, max_staged=2)
    tenant.posts("inside")
    tenant.posts("one")
    tenant.posts("two", job_type="B")
    before = tenant.admission
    with pytest.raises(QueueFull) as full:
        tenant.posts("three", job_type="C")
    assert (full.value.limit, tenant.admission) == (2, before)
    tenant.ends("two")
    assert tenant.posts("three", job_type="C") is PlaceState.WAITING


def test_a_limit_of_the_settings_refuses_and_a_line_alone_does_not() -> None:
    """The closed quota refuses it: if the quotas are open and others wait, a rejecting rule is not the reason."""
    rejecting = Rule(max_active=2, rejects=True)
    tenant = OneTenant(
        GateState(gate=type_gate("A"), rule=Rule(max_active=1)), defaults={(GateKind.TENANT, ""): rejecting}
    )
    assert tenant.posts("a1", job_type="A") is PlaceState.ADMITTED
    assert tenant.posts("a2", job_type="A") is PlaceState.WAITING
    assert tenant.posts("b1", job_type="B") is PlaceState.ADMITTED
    with pytest.raises(QuotaRejects) as refused:
        tenant.posts("b2", job_type="B")
    assert refused.value.verdict.blocked_by is BlockReason.FULL
    with pytest.raises(QuotaRejects):
        # full, and its own queue is not empty: the tenant's limit stops it too
        tenant.posts("a3", job_type="A")
    tenant.admission = release(release(tenant.admission, tenant.places.pop("a1")), tenant.places.pop("b1"))
    decision = decide_arrival(tenant.admission, tenant.directory, tenant.candidate("a3", job_type="A"), tenant.now)
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
    """After any acts the counts are those of the rows, no gate exceeds its limit, no queue is lost, and no job waits at
    open gates after a look.
    """
    rule = Rule(max_active=most, max_per_hour=per_hour, emergency_max_active=1)
    tenant = OneTenant(GateState(gate=TENANT, rule=rule), GateState(gate=type_gate("T1"), rule=Rule(max_active=1)))
    for number, (act, which, priority, source) in enumerate(acts):
        ordered = sorted(tenant.places)
        job_id = ordered[which % len(ordered)] if ordered else None
        place = tenant.places[job_id] if job_id is not None else None
        if act == "post":
            of = {"source": source} if source is not None else {}
            tenant.posts(f"{number:03d}", priority=priority, job_type=f"T{which % 3}", **of)
        elif act == "tick":
            tenant.now += timedelta(seconds=10 ** (which % 5))
        elif act == "look":
            tenant.lets_in()
        elif act == "gate":
            tenant.sets(GateState(gate=source_gate("s1"), rule=Rule(max_active=1), rule_seq=number))
        elif job_id is not None and place is not None:
            if act == "end":
                tenant.ends(job_id)
            elif act == "aside" and place.state is PlaceState.WAITING:
                tenant.admission, tenant.places[job_id] = set_aside(tenant.admission, place)
            elif act == "back" and place.state is PlaceState.OFF:
                tenant.lets_in()
                tenant.admission, tenant.places[job_id] = admit_or_queue(
                    tenant.admission, tenant.directory, place, tenant.now
                )
        again = apply_count(tenant.admission, list(tenant.places.values()), tenant.now)
        assert (again.active_by_kind, again.active_by_source, again.emergencies, again.staged) == (
            tenant.admission.active_by_kind,
            tenant.admission.active_by_source,
            tenant.admission.emergencies,
            tenant.admission.staged,
        )
        lines = Counter(place.queue for place in tenant.places.values() if place.queue is not None)
        assert lines == {number: line.count for number, line in tenant.admission.queues.items()}
        assert again.queues.keys() == tenant.admission.queues.keys()
        common = tenant.admission.active - tenant.admission.emergencies
        assert common <= most
        assert tenant.admission.emergencies <= 1 + most
    while tenant.lets_in().more:
        pass
    assert not any(is_open(tenant.admission, tenant.directory, line, tenant.now) for line in tenant.admission.queues)
    if tenant.admission.queues and per_hour is None:
        assert find_next_wake_up(tenant.admission, tenant.directory, tenant.now) is None


def test_a_line_that_the_admission_forgot_is_found_by_its_rows() -> None:
    """And one that it remembers without rows admits no job; the next count forgets it."""
    tenant = limited(1)
    tenant.posts("inside")
    tenant.posts("waits")
    [(number, line)] = tenant.admission.queues.items()
    forgot = apply_count(replace(tenant.admission, queues={}), list(tenant.places.values()), tenant.now)
    assert forgot.queues == {number: line}
    tenant.admission = replace(
        tenant.admission, queues={**tenant.admission.queues, 7: replace(line, job_type="gone", count=3)}
    )
    tenant.ends("inside")
    tenant.ends("waits")
    assert (tenant.inside, tenant.admission.queues.keys()) == ([], {7})
    assert apply_count(tenant.admission, list(tenant.places.values()), tenant.now).queues == {}
