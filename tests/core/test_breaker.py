"""The life of a breaker over virtual time, and what a desk makes of it (R61, R62)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.quotas import MAX_COOLDOWN_S, RING
from shared.core.chained_log import entry_hash
from shared.core.gates.breaker import (
    Breaker,
    BreakerRule,
    BreakerState,
    End,
    at,
    counted,
    folded,
    limit,
    merged,
    next_change,
    reset,
)
from shared.core.gates.desk import Candidate, Desk, Line, Shut, enter, words
from shared.core.gates.ends import GOOD_ENDS, MAX_SETTLED, is_good, judged, settled
from shared.core.gates.places import Place, PlaceState, arrive, give_back, line_up, recounted
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Hold, Rule
from shared.core.reasons import Reason
from shared.core.states import JobStatus
from tests.jobs import START, planned

RULE = BreakerRule()
CLOSED, OPEN, HALF_OPEN = BreakerState
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OCR = Gate(GateKind.TYPE, "tenant_a", "OCR")


@dataclass
class Life:
    """One breaker, and a clock."""

    breaker: Breaker = field(default_factory=Breaker)
    rule: BreakerRule = RULE
    now: datetime = START

    def ends(self, *goods: bool, has_line: bool = True, epoch: int | None = None) -> Breaker:
        for good in goods:
            end = End(self.now, self.breaker.epoch if epoch is None else epoch, good)
            self.breaker = counted(self.breaker, self.rule, end, self.now, has_line=has_line)
        return self.breaker

    def passes(self, span: timedelta) -> Breaker:
        self.now += span
        self.breaker = at(self.breaker, self.now)
        return self.breaker


def opened(rule: BreakerRule = RULE) -> Life:
    life = Life(rule=rule)
    life.ends(*[False] * rule.min_calls)
    assert life.breaker.state is OPEN
    return life


def half_open(rule: BreakerRule = RULE) -> Life:
    life = opened(rule)
    life.passes(timedelta(seconds=rule.cooldown_s))
    assert life.breaker.state is HALF_OPEN
    return life


# --- opening


@pytest.mark.parametrize(
    ("bad", "good", "rule", "expected"),
    [
        (9, 0, RULE, CLOSED),
        (5, 5, RULE, OPEN),
        (4, 6, RULE, CLOSED),
        (3, 27, BreakerRule(failure_rate=0.1), OPEN),
        (3, 0, BreakerRule(min_calls=3), OPEN),
        (49, 1, BreakerRule(failure_rate=1.0, min_calls=50), CLOSED),
        (50, 0, BreakerRule(failure_rate=1.0, min_calls=50), OPEN),
    ],
)
def test_it_opens_at_the_rate_of_enough_ends(bad: int, good: int, rule: BreakerRule, expected: BreakerState) -> None:
    """Neither before `min_calls`, nor below `failure_rate`; at it, to the job."""
    life = Life(rule=rule)
    assert life.ends(*[True] * good, *[False] * bad).state is expected
    assert limit(life.breaker, life.now) == (0 if expected is OPEN else None)


def test_jobs_that_are_rare_open_it_too_and_old_ends_do_not_count() -> None:
    """Three an hour make ten within six hours; one an hour never does, however long it goes on."""
    often, rare = Life(), Life()
    for _ in range(10):
        often.passes(20 * MINUTE)
        often.ends(False)
    assert often.breaker.state is OPEN
    for _ in range(100):
        rare.passes(60 * MINUTE)
        rare.ends(False)
    assert (rare.breaker.state, rare.breaker.calls) == (CLOSED, 6)


def test_the_last_fifty_ends_count() -> None:
    life = Life()
    life.ends(*[True] * 200)
    assert life.ends(*[False] * 24).state is CLOSED
    assert life.breaker.calls == RING
    assert life.ends(False).state is OPEN
    assert life.breaker.opened_by == (25, RING)


# --- while it is open, and after


def test_only_ends_of_its_own_epoch_count() -> None:
    """What was inside when it opened says nothing: neither good nor bad, neither open nor half-open."""
    life = half_open()
    before = life.breaker
    assert life.ends(*[False] * 100, epoch=0) is before
    assert life.ends(*[True] * 100, epoch=0) is before
    assert life.ends(False).state is OPEN
    assert life.ends(True, epoch=1).epoch == 2


def test_an_end_while_it_is_open_moves_nothing() -> None:
    """Of a job that somebody let in past its gates."""
    life = opened()
    until = life.breaker.until
    assert (life.ends(False, True).state, life.breaker.until) == (OPEN, until)


def test_it_doubles_after_as_many_good_ends_and_closes_past_thirty_two() -> None:
    """1, 2, 4 ... 32 jobs at once: closed by the sixty-third good end in a row."""
    life, seen = half_open(), []
    for _ in range(63):
        seen.append(limit(life.breaker, life.now))
        life.passes(SECOND)
        life.ends(True)
    assert [seen.count(each) for each in (1, 2, 4, 8, 16, 32)] == [1, 2, 4, 8, 16, 32]
    assert (life.breaker.state, life.breaker.closed_at) == (CLOSED, life.now)
    # the good ends that closed it count on
    assert life.ends(*[False] * 24).state is CLOSED


def test_it_closes_where_nobody_waits() -> None:
    assert half_open().ends(True, has_line=False).state is CLOSED


def test_the_cool_down_doubles_and_comes_back_after_an_hour_closed() -> None:
    """60 s, 120 s ... 15 min; opened again within an hour it goes on doubling, later it is the rule's."""
    life, spans = opened(), []
    for _ in range(6):
        assert life.breaker.until is not None
        spans.append((life.breaker.until - life.now) // SECOND)
        life.now = life.breaker.until
        life.ends(False)
    assert spans == [60, 120, 240, 480, 900, 900]
    for closed_for, expected in ((59 * MINUTE, MAX_COOLDOWN_S), (60 * MINUTE, 60)):
        life = Life(life.breaker)
        life.passes(timedelta(seconds=MAX_COOLDOWN_S))
        life.now = max(life.now, life.breaker.until or life.now)
        life.ends(True, has_line=False)
        life.passes(closed_for)
        assert life.ends(*[False] * 20).cooldown_s == expected


def test_time_alone_is_what_looks_at_each_moment_make_of_it() -> None:
    """Whoever looks once after a long time sees what one who looked all the time saw."""
    often, once = opened(BreakerRule(cooldown_s=7)), opened(BreakerRule(cooldown_s=7))
    for _ in range(400):
        often.passes(SECOND)
        assert at(once.breaker, often.now) == often.breaker
    # 33 cool-downs after it was half-open
    assert often.breaker.closed_at == START + 7 * SECOND + 32 * 7 * SECOND


def test_next_change_is_when_the_limit_changes() -> None:
    life = opened()
    for _ in range(33):
        moment = next_change(life.breaker, life.now)
        assert moment is not None
        assert limit(life.breaker, moment - timedelta(microseconds=1)) == limit(life.breaker, life.now)
        assert limit(life.breaker, moment) != limit(life.breaker, life.now)
        life.now = moment
    assert (limit(life.breaker, life.now), next_change(life.breaker, life.now)) == (None, None)


def test_a_clock_behind_anothers_changes_nothing() -> None:
    life = half_open()
    assert at(life.breaker, life.now - 60 * MINUTE) is life.breaker
    assert limit(life.breaker, life.now - 60 * MINUTE) == 1


steps = st.lists(
    st.tuples(
        st.sampled_from(["good", "bad", "old", "look", "reset"]),
        st.booleans(),
        st.integers(min_value=0, max_value=2000),
    ),
    max_size=120,
)


@given(steps, st.integers(min_value=1, max_value=900), st.integers(min_value=1, max_value=50))
def test_nothing_holds_it_shut_for_ever(moves: list[tuple[str, bool, int]], cooldown_s: int, min_calls: int) -> None:
    """Whatever happened: without a bad end it lets one more in with each cool-down, until it limits nothing."""
    life = Life(rule=BreakerRule(cooldown_s=cooldown_s, min_calls=min_calls))
    for what, has_line, seconds in moves:
        life.passes(seconds * SECOND)
        epoch = life.breaker.epoch
        match what:
            case "good" | "bad":
                life.ends(what == "good", has_line=has_line)
            case "old" if epoch:
                assert life.ends(False, True, epoch=epoch - 1) is at(life.breaker, life.now)
            case "reset":
                life.breaker = reset(life.breaker)
        assert life.breaker.epoch - epoch in (0, 1)
        assert life.breaker.calls <= RING
        assert {end.epoch for end in life.breaker.ring} <= {life.breaker.epoch}
    stuck, cooldown = limit(life.breaker, life.now), timedelta(seconds=life.breaker.cooldown_s)
    for _ in range(34):
        if stuck is None:
            break
        life.passes(cooldown)
        later = limit(life.breaker, life.now)
        assert later is None or later > stuck
        stuck = later
    assert stuck is None


def test_a_reset_closes_it_and_leaves_nothing() -> None:
    """A new epoch: jobs of before count no more, and the first cool-down is the rule's; again it changes nothing."""
    life = opened()
    fresh = reset(life.breaker)
    assert fresh == Breaker(epoch=life.breaker.epoch + 1)
    assert reset(fresh) is fresh


# --- over all tenants


def ring(good: int, bad: int, *, epoch: int = 0, after: int = 0) -> list[End]:
    goods = [True] * good + [False] * bad
    return [End(START + (after + number) * SECOND, epoch, each) for number, each in enumerate(goods)]


@pytest.mark.parametrize(
    ("rings", "opens"),
    [
        ({"a": ring(0, 26), "b": ring(0, 24)}, True),
        ({"a": ring(0, 50)}, False),
        ({"a": ring(0, 40), "b": ring(9, 1)}, False),
        ({"a": ring(0, 40), "b": ring(0, 10)}, True),
        ({"a": ring(0, 40), "b": ring(0, 3)}, False),
        ({"a": ring(42, 3), "b": ring(2, 3)}, False),
        ({"a": ring(3, 3), "b": ring(3, 3), "c": ring(3, 3)}, True),
        ({"a": ring(0, 9)}, False),
    ],
)
def test_no_tenant_decides_for_all(rings: dict[str, list[End]], opens: bool) -> None:
    """One that sends broken documents, or is most of the jobs, counts for half; a dead service stops all the same."""
    now = START + MINUTE
    assert (folded(Breaker(), RULE, rings, now, has_line=True).state is OPEN) is opens


def test_rings_are_folded_once() -> None:
    """The same rings again change nothing; what is new in them counts, also where it comes late."""
    rings = {"a": ring(2, 2), "b": ring(2, 2)}
    now = START + MINUTE
    once = folded(Breaker(), RULE, rings, now, has_line=True)
    assert (once.calls, once.bad) == (8, 4)
    assert folded(once, RULE, rings, now, has_line=True) == once
    rings["b"] = [*rings["b"], End(START, 0, False)]
    twice = folded(once, RULE, rings, now, has_line=True)
    assert (twice.calls, twice.bad, [end.tenant for end in twice.ring[:3]]) == (9, 5, ["a", "b", "b"])
    more = {**rings, "a": [*rings["a"], *ring(0, 1, after=9)]}
    assert folded(twice, RULE, more, now, has_line=True).state is OPEN
    assert len(merged({"a": ring(40, 0), "b": ring(40, 0)}, now)) == RING


# --- at a desk


def job(status: JobStatus, code: str | None = None):  # type: ignore[no-untyped-def]
    return replace(planned("job_1").job, status=status, error_code=code)


def test_which_ends_count() -> None:
    """A document's own fault, a cancel, a fault of LUCIUS's own and one of another job say nothing."""
    bad = {Reason.ATTEMPTS_EXHAUSTED, Reason.DISPATCH_FAILED, Reason.TIME_EXCEEDED}
    for reason in (*Reason, "PDF_ENCRYPTED"):
        assert is_good(job(JobStatus.FAILED_FINAL, reason)) == (False if reason in bad else None)
    assert (is_good(job(JobStatus.SUCCEEDED)), is_good(job(JobStatus.CANCELLED))) == (True, None)
    assert len(GOOD_ENDS) == 4


class Type:
    """The desk of a tenant whose OCR jobs have a breaker, and the jobs at it."""

    def __init__(self, **numbers: int) -> None:
        rule = Rule(breaker=BreakerRule(min_calls=2), **numbers)
        self.desk = Desk(tenant="tenant_a", gates={OCR.id: GateState(gate=OCR, rule=rule)}, counted_at=START)
        self.directory = Directory(tenants={"tenant_a": START})
        self.now = START
        self.places: dict[str, Place] = {}

    def candidate(self, job_id: str, priority: str = "normal") -> Candidate:
        return Candidate(job_id=job_id, job_type="OCR", mode="DEFAULT", source=None, priority=priority, rank=0)

    def posts(self, job_id: str) -> PlaceState:
        decision = arrive(self.desk, self.directory, self.candidate(job_id), self.now, may_stage=True)
        self.desk, place = decision.desk, decision.place
        if place.state is PlaceState.ARRIVING:
            self.desk, place = line_up(self.desk, self.directory, place, self.now)
        self.places[job_id] = place
        return place.state

    def ends(self, job_id: str, status: JobStatus = JobStatus.FAILED_FINAL, code: str = Reason.TIME_EXCEEDED) -> None:
        place = self.places.pop(job_id)
        ended = job(status, code if status is JobStatus.FAILED_FINAL else None)
        found = judged(give_back(self.desk, place), self.directory, ended, place, self.now)
        self.desk, self.opened = found.desk, found.opened

    @property
    def breaker(self) -> Breaker:
        found = self.desk.state(OCR).breaker
        assert found is not None
        return found

    def shut(self, *, emergency: bool = False) -> Shut | None:
        found = words(self.desk, self.directory, like("OCR"), self.now, emergency=emergency)
        return next((word.shut for word in found if word.shut is not None), None)


def like(job_type: str) -> Line:
    return Line(job_type=job_type, mode="DEFAULT", source=None, emergency=False)


def two_failed() -> Type:
    one = Type()
    for number in range(4):
        assert one.posts(f"early-{number}") is PlaceState.ADMITTED
    one.ends("early-0")
    one.ends("early-1")
    assert [state.gate for state in one.opened] == [OCR]
    return one


def test_an_open_breaker_stops_everybody_and_half_open_so_many_of_this_epoch() -> None:
    """Emergencies too while it is open; half-open jobs of before take none of its places, and one probe goes in."""
    one = two_failed()
    assert (one.shut(), one.shut(emergency=True)) == (Shut.BREAKER, Shut.BREAKER)
    assert one.posts("waits") is PlaceState.WAITING
    one.now += MINUTE
    assert (one.shut(), one.desk.inside_of(OCR)) == (None, 2)
    one.desk = enter(one.desk, one.directory, one.candidate("probe"), one.now)
    one.places["probe"] = Place(candidate=one.candidate("probe"), breaker_epoch=1)
    assert (one.shut(), one.shut(emergency=True), one.breaker.inside) == (Shut.BREAKER, None, 1)
    one.ends("early-2")
    assert (one.shut(), one.breaker.inside) == (Shut.BREAKER, 1)
    assert recounted(one.desk, list(one.places.values()), one.now).state(OCR).breaker == one.breaker
    one.ends("probe", JobStatus.SUCCEEDED)
    assert (one.shut(), one.breaker.inside, one.breaker.allow) == (None, 0, 2)


@pytest.mark.parametrize("lost", ["cancelled", "own fault", "never"])
def test_a_probe_that_does_not_count_does_not_hold_it_shut(lost: str) -> None:
    """One that was cancelled makes room at once; one that never ends, after a cool-down."""
    one = two_failed()
    one.posts("line")
    one.now += MINUTE
    one.desk = enter(one.desk, one.directory, one.candidate("probe"), one.now)
    one.places["probe"] = Place(candidate=one.candidate("probe"), breaker_epoch=1)
    assert one.shut() is Shut.BREAKER
    if lost == "never":
        one.now += MINUTE
    else:
        status = JobStatus.CANCELLED if lost == "cancelled" else JobStatus.FAILED_FINAL
        one.ends("probe", status, "PDF_ENCRYPTED")
    assert one.shut() is None


def test_a_job_that_was_not_inside_does_not_count() -> None:
    """One that expired in its line ends for TIME_EXCEEDED, and feeds no breaker; nor one whose place was given back."""
    one = Type()
    one.posts("a")
    for state in (PlaceState.WAITING, PlaceState.OFF, PlaceState.ARRIVING, PlaceState.ENDED):
        place = Place(state=state, candidate=one.candidate("a"), line=0)
        found = judged(one.desk, one.directory, job(JobStatus.FAILED_FINAL, Reason.TIME_EXCEEDED), place, one.now)
        assert found.desk is one.desk


def test_each_move_is_an_entry_of_the_log() -> None:
    """By an end, and by time: numbered, chained, by `system`, with before and after."""
    one = Type()
    entries = []
    for number in range(2):
        one.posts(f"j{number}")
        place = one.places.pop(f"j{number}")
        found = judged(
            give_back(one.desk, place), one.directory, job(JobStatus.FAILED_FINAL, "TIME_EXCEEDED"), place, one.now
        )
        one.desk, entries = found.desk, [*entries, *found.log]
    assert settled(one.desk, one.directory, one.now) == (one.desk, ())
    one.now += MINUTE
    one.desk, log = settled(one.desk, one.directory, one.now)
    one.now += 33 * MINUTE
    one.desk, last = settled(one.desk, one.directory, one.now)
    entries += [*log, *last]
    assert [(each.seq, each.type, each.actor) for each in entries] == [
        (1, "BREAKER_OPENED", "system"),
        (2, "BREAKER_HALF_OPEN", "system"),
        (3, "BREAKER_CLOSED", "system"),
    ]
    assert (entries[0].reason, entries[0].data["after"]["breaker"]["state"]) == ("2 of 2 jobs ended badly", "OPEN")
    assert [each.prev_hash for each in entries[1:]] == [each.hash for each in entries[:-1]]
    for each in entries:
        assert each.hash == entry_hash(vars(each))


def test_time_moves_a_few_breakers_in_one_transaction() -> None:
    """The rest with the next one; what each of them lets in does not wait for its entry."""
    gates = [Gate(GateKind.TYPE, "tenant_a", f"T{number}") for number in range(7)]
    rule, breaker = Rule(breaker=RULE), opened().breaker
    states = {gate.id: GateState(gate=gate, rule=rule, breaker=breaker) for gate in gates}
    desk, known = Desk(tenant="tenant_a", gates=states, counted_at=START), Directory()
    now = START + MINUTE
    assert all(words(desk, known, like(gate.name), now, emergency=False)[1].shut is None for gate in gates)
    desk, first = settled(desk, known, now)
    desk, second = settled(desk, known, now)
    assert (len(first), len(second), settled(desk, known, now)) == (MAX_SETTLED, 3, (desk, ()))


def test_a_breaker_that_is_taken_away_begins_again() -> None:
    """Ends meanwhile count for nothing, and a hold of the gate comes first."""
    one = two_failed()
    state = one.desk.state(OCR)
    one.desk = one.desk.with_state(replace(state, rule=Rule(max_active=9)))
    assert one.shut() is None
    one.ends("early-2")
    assert one.breaker == Breaker(epoch=2)
    held = replace(state, hold=Hold(reason="audit", actor="op", at=START))
    one.desk = one.desk.with_state(held)
    assert one.shut() is Shut.HELD
