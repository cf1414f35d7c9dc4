"""A breaker over all tenants in an admission state, and the slots that an allocation grants by it (R61)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.admission_state import (
    AdmissionState,
    BlockReason,
    Candidate,
    WaitingQueue,
    add_active,
    admit_candidate,
    evaluate_gates,
    find_epoch,
    remove_active,
)
from shared.core.gates.allocation import count_slots
from shared.core.gates.breaker import Breaker, BreakerRule, BreakerState, JobEnd, pick_later, reset
from shared.core.gates.demand import Demand, find_due_allocations, measure_demand, move_to_epoch
from shared.core.gates.places import Place, apply_count
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, QuotaShare, Rule
from shared.core.gates.type_breaker import apply_ends, record_end, sync_breaker, sync_breakers
from tests.jobs import START

OCR = Gate.over_all(GateKind.PLATFORM_TYPE, "OCR")
OWN = Gate(GateKind.TYPE, "t0", "OCR")
MINUTE = timedelta(minutes=1)
OPEN = Breaker(state=BreakerState.OPEN, epoch=1, cooldown_s=60, opened_by=(2, 2), until=START + MINUTE)
HALF_OPEN = replace(OPEN, state=BreakerState.HALF_OPEN, until=None, allow=2, waits_since=START)
CLOSED = replace(OPEN, state=BreakerState.CLOSED, until=None, closed_at=START)
ONE = Candidate(job_id="j", job_type="OCR", mode="DEFAULT", source=None, priority="normal", rank=0)
LINE = WaitingQueue(job_type="OCR", mode="DEFAULT", source=None, emergency=False)


def published(breaker: Breaker | None = None, **numbers: int) -> Directory:
    state = GateState(gate=OCR, rule=Rule(breaker=BreakerRule(min_calls=2), **numbers), breaker=breaker)
    return Directory(over_all={OCR.id: state}, since=START)


def admission(inside: int = 0, keep: int = 0) -> AdmissionState:
    found = AdmissionState(tenant="t0", counted_at=START, active_by_kind={("OCR", "DEFAULT"): inside} if inside else {})
    return found.with_share(QuotaShare(gate=OCR, slots=keep))


def shut(
    one: AdmissionState, known: Directory, *, after: timedelta = timedelta(), emergency: bool = False
) -> BlockReason | None:
    found = evaluate_gates(one, known, LINE, START + after, emergency=emergency)
    return next((verdict.blocked_by for verdict in found if verdict.blocked_by is not None), None)


def test_a_admission_that_knows_of_an_opening_is_shut_for_everybody() -> None:
    """Until its end; then by what it keeps, which stops no emergency. A second time it is the same admission state."""
    known = published(OPEN)
    one = sync_breakers(admission(inside=3, keep=5), known)
    assert sync_breakers(one, known) is one
    assert [shut(one, known), shut(one, known, emergency=True)] == [BlockReason.BREAKER, BlockReason.BREAKER]
    assert [shut(one, known, after=MINUTE), shut(one, known, after=MINUTE, emergency=True)] == [
        BlockReason.BREAKER,
        None,
    ]
    lent = one.with_share(replace(one.share(OCR), slots=1))
    assert (shut(lent, known), shut(lent, known, after=MINUTE)) == (BlockReason.BREAKER, None)
    full = admit_candidate(lent, known, ONE, START + MINUTE)
    assert (full.count_used(OCR), full.count_active(OCR), shut(full, known, after=MINUTE)) == (
        1,
        4,
        BlockReason.BREAKER,
    )


def test_it_is_open_again_where_that_is_published_or_lent() -> None:
    """An older epoch, or an older state of this one, that comes late limits nothing any more."""
    one = sync_breakers(admission(), published(OPEN))
    free = sync_breakers(one, published(CLOSED))
    assert (shut(one, published(CLOSED)), shut(free, published(CLOSED))) == (BlockReason.BREAKER, None)
    assert sync_breakers(free, published(OPEN)) is free
    assert (
        sync_breakers(sync_breakers(one, published(reset(OPEN))), published(OPEN)).share(OCR).breaker.limited is False
    )


@pytest.mark.parametrize("breaker", [OPEN, reset(OPEN)])
def test_no_epoch_lets_in_more_than_was_lent(breaker: Breaker) -> None:
    """Of five with three inside two are left, or none while it is not closed."""
    known = published(breaker, max_active=9)
    one = sync_breakers(admission(inside=3, keep=5), known)
    while shut(one, known) is None:
        one = admit_candidate(one, known, ONE, START)
    assert one.count_active(OCR) == (5 if breaker.state is BreakerState.CLOSED else 3)


def test_one_number_is_of_both_breakers_of_a_type() -> None:
    """The tenant's own opens, then that over all, then its own again: each job counts in the epochs since its own."""
    own = GateState(gate=OWN, rule=Rule(breaker=BreakerRule()), breaker=Breaker(epoch=1))
    one = admission().with_state(own)
    numbers = [find_epoch(one, "OCR")]
    one = add_active(one, ONE, numbers[-1])
    one = sync_breaker(one, OCR, OPEN)
    numbers.append(find_epoch(one, "OCR"))
    one = add_active(one, ONE, numbers[-1])
    one = one.with_state(replace(one.state(OWN), breaker=Breaker(epoch=3)))
    numbers.append(find_epoch(one, "OCR"))
    one = add_active(one, ONE, numbers[-1])
    found = one.state(OWN).breaker
    assert numbers == [1, 2, 3]
    assert (found and found.active, one.count_used(OCR), one.count_active(OCR)) == (1, 2, 3)
    rows = [Place(candidate=ONE, breaker_epoch=number) for number in numbers]
    again = apply_count(one, rows, START)
    assert (again.gates, again.shares, again.active_by_kind) == (one.gates, one.shares, one.active_by_kind)
    for number, counted in zip(numbers, (2, 1, 0), strict=True):
        one = remove_active(one, ONE, number)
        assert one.count_used(OCR) == counted


def test_which_ends_a_admission_keeps_and_a_division_has_to_see() -> None:
    """The first, each bad one, each while few may go in; none of before, and none without a breaker."""
    known, one, at = published(), admission(), START
    seen = []
    for good in (True, True, False):
        one, gate = record_end(one, known, Place(candidate=ONE), at, good=good)
        seen.append(gate)
    assert seen == [OCR, None, OCR]
    assert [end.good for end in one.share(OCR).breaker.ring] == [True, True, False]
    one = sync_breakers(one, published(HALF_OPEN))
    assert record_end(one, known, Place(candidate=ONE), at, good=False) == (one, None)
    probing = one.with_share(replace(one.share(OCR), slots=2))
    for good, keep in ((True, 2), (False, 0)):
        after, gate = record_end(probing, known, Place(candidate=ONE, breaker_epoch=1), at, good=good)
        assert (gate, after.share(OCR).slots) == (OCR, keep)
    without = Directory(over_all={OCR.id: GateState(gate=OCR, rule=Rule(max_active=1))})
    assert record_end(admission(), without, Place(candidate=ONE), at, good=False) == (admission(), None)


def test_how_many_places_there_are() -> None:
    """A job of an earlier epoch uses a slot of the number, and none of the breaker's."""
    claims = [measure_demand(admission(inside=each, keep=each), published(max_active=9), OCR, START) for each in (2, 4)]
    behind: list[Demand] = [move_to_epoch(claim, HALF_OPEN) for claim in claims]
    assert [(each.active, each.earlier, each.share.slots, each.is_behind) for each in behind] == [
        (0, 2, 0, True),
        (0, 4, 0, True),
    ]
    assert count_slots(9, None, claims, START) == 9
    assert count_slots(None, CLOSED, behind, START) is None
    assert [count_slots(number, HALF_OPEN, behind, START) for number in (None, 20, 7, 5)] == [2, 2, 1, 0]
    assert count_slots(20, OPEN, behind, START) == 0


def test_an_end_of_a_job_of_before_calls_for_a_division() -> None:
    """Its place is another's, if the gate has a number; not while the breaker is open, or nothing is lent."""
    for known, after, is_owed in (
        (published(OPEN, max_active=5), MINUTE, True),
        (published(OPEN, max_active=5), timedelta(), False),
        (published(CLOSED), timedelta(), False),
    ):
        one = sync_breakers(admission(inside=3), known)
        assert bool(find_due_allocations(one, remove_active(one, ONE, 0), known, START + after)) is is_owed


def test_two_readings_of_a_breaker() -> None:
    """The later epoch, and within one the later state."""
    order = [Breaker(), OPEN, HALF_OPEN, CLOSED, reset(OPEN), replace(OPEN, epoch=3)]
    for number, one in enumerate(order):
        for other in order[number + 1 :]:
            assert pick_later(one, other) == pick_later(other, one) == other


def test_ends_of_other_epochs_say_nothing() -> None:
    """Also fifty of them after those that count; without a rule none does."""
    old = [JobEnd(START + MINUTE, 0, False) for _ in range(60)]
    rings = {tenant: [JobEnd(START, 1, False), *old] for tenant in ("a", "b")}
    now, rule = START + MINUTE, BreakerRule(min_calls=2)
    assert apply_ends(CLOSED, rule, rings, now, has_waiting=True)[-1].state is BreakerState.OPEN
    assert apply_ends(Breaker(epoch=5), rule, rings, now, has_waiting=True)[-1].calls == 0
    assert apply_ends(CLOSED, None, rings, now, has_waiting=True) == (CLOSED,)
