"""A breaker in an admission state: the jobs that it stops, the ends that count, and its log (R61, R62)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.admission_state import (
    AdmissionState,
    BlockReason,
    Candidate,
    WaitingQueue,
    admit_candidate,
    evaluate_gates,
)
from shared.core.gates.breaker import Breaker, BreakerRule
from shared.core.gates.ends import GOOD_ENDS, MAX_ADVANCED, advance_breakers, is_good, record_outcome
from shared.core.gates.places import Place, PlaceState, admit_or_queue, apply_count, decide_arrival, release
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Hold, Rule
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.core.records.chained_log import entry_hash
from tests.jobs import START, planned

MINUTE = timedelta(minutes=1)
OCR = Gate(GateKind.TYPE, "tenant_a", "OCR")


def job(status: JobStatus, code: str | None = None):  # type: ignore[no-untyped-def]
    return replace(planned("job_1").job, status=status, error_code=code)


def test_which_ends_count() -> None:
    """A faulty document, a cancellation, a fault of LUCIUS and one of another job do not count."""
    bad = {Reason.ATTEMPTS_EXHAUSTED, Reason.DISPATCH_FAILED, Reason.TIME_EXCEEDED}
    for reason in (*Reason, "PDF_ENCRYPTED"):
        assert is_good(job(JobStatus.FAILED_FINAL, reason)) == (False if reason in bad else None)
    assert (is_good(job(JobStatus.SUCCEEDED)), is_good(job(JobStatus.CANCELLED))) == (True, None)
    assert len(GOOD_ENDS) == 4


class Type:
    """The admission state of a tenant whose OCR jobs have a breaker, and its jobs."""

    def __init__(self, **numbers: int) -> None:
        rule = Rule(breaker=BreakerRule(min_calls=2), **numbers)
        self.admission = AdmissionState(
            tenant="tenant_a", gates={OCR.id: GateState(gate=OCR, rule=rule)}, counted_at=START
        )
        self.directory = Directory(tenants={"tenant_a": START})
        self.now = START
        self.places: dict[str, Place] = {}

    def candidate(self, job_id: str, priority: str = "normal") -> Candidate:
        return Candidate(job_id=job_id, job_type="OCR", mode="DEFAULT", source=None, priority=priority, rank=0)

    def posts(self, job_id: str) -> PlaceState:
        decision = decide_arrival(self.admission, self.directory, self.candidate(job_id), self.now)
        self.admission, place = decision.admission, decision.place
        if place.state is PlaceState.ARRIVING:
            self.admission, place = admit_or_queue(self.admission, self.directory, place, self.now)
        self.places[job_id] = place
        return place.state

    def ends(self, job_id: str, status: JobStatus = JobStatus.FAILED_FINAL, code: str = Reason.TIME_EXCEEDED) -> None:
        place = self.places.pop(job_id)
        ended = job(status, code if status is JobStatus.FAILED_FINAL else None)
        found = record_outcome(release(self.admission, place), self.directory, place, self.now, good=is_good(ended))
        self.admission, self.opened = found.admission, found.opened

    @property
    def breaker(self) -> Breaker:
        found = self.admission.state(OCR).breaker
        assert found is not None
        return found

    def shut(self, *, emergency: bool = False, job_type: str = "OCR") -> BlockReason | None:
        found = evaluate_gates(self.admission, self.directory, like(job_type), self.now, emergency=emergency)
        return next((verdict.blocked_by for verdict in found if verdict.blocked_by is not None), None)


def like(job_type: str) -> WaitingQueue:
    return WaitingQueue(job_type=job_type, mode="DEFAULT", source=None, emergency=False)


def two_failed() -> Type:
    one = Type()
    for number in range(4):
        assert one.posts(f"early-{number}") is PlaceState.ADMITTED
    one.ends("early-0")
    one.ends("early-1")
    assert [state.gate for state in one.opened] == [OCR]
    return one


def test_an_open_breaker_stops_its_type_and_half_open_so_many_of_this_epoch() -> None:
    """Emergencies too while it is open; in half-open, earlier jobs use none of its slots, and one probe starts."""
    one = two_failed()
    assert (one.shut(), one.shut(emergency=True)) == (BlockReason.BREAKER, BlockReason.BREAKER)
    assert one.shut(job_type="SIS") is None
    assert one.posts("waits") is PlaceState.WAITING
    one.now += MINUTE
    assert (one.shut(), one.admission.count_active(OCR)) == (None, 2)
    one.admission = admit_candidate(one.admission, one.directory, one.candidate("probe"), one.now)
    one.places["probe"] = Place(candidate=one.candidate("probe"), breaker_epoch=1)
    assert (one.shut(), one.shut(emergency=True), one.breaker.active) == (BlockReason.BREAKER, None, 1)
    one.ends("early-2")
    assert (one.shut(), one.breaker.active) == (BlockReason.BREAKER, 1)
    assert apply_count(one.admission, list(one.places.values()), one.now).state(OCR).breaker == one.breaker
    one.ends("probe", JobStatus.SUCCEEDED)
    assert (one.shut(), one.breaker.active, one.breaker.allow) == (None, 0, 2)


@pytest.mark.parametrize("lost", ["cancelled", "own fault", "never"])
def test_a_probe_that_does_not_count_does_not_hold_it_shut(lost: str) -> None:
    """One that was cancelled makes room at once; one that never ends, after a cool-down."""
    one = two_failed()
    one.posts("line")
    one.now += MINUTE
    one.admission = admit_candidate(one.admission, one.directory, one.candidate("probe"), one.now)
    one.places["probe"] = Place(candidate=one.candidate("probe"), breaker_epoch=1)
    assert one.shut() is BlockReason.BREAKER
    if lost == "never":
        one.now += MINUTE
    else:
        status = JobStatus.CANCELLED if lost == "cancelled" else JobStatus.FAILED_FINAL
        one.ends("probe", status, "PDF_ENCRYPTED")
    assert one.shut() is None


def test_a_job_that_was_not_inside_does_not_count() -> None:
    """One that expired in its queue ends with TIME_EXCEEDED, and counts for no breaker; nor one whose slot was
    returned.
    """
    one = Type()
    one.posts("a")
    for state in (PlaceState.WAITING, PlaceState.OFF, PlaceState.ARRIVING, PlaceState.ENDED):
        place = Place(state=state, candidate=one.candidate("a"), queue=0)
        found = record_outcome(one.admission, one.directory, place, one.now, good=False)
        assert found.admission is one.admission


def test_each_move_is_an_entry_of_the_log() -> None:
    """By an end, and by time: numbered, chained, by `system`, with before and after."""
    one = Type()
    entries = []
    for number in range(2):
        one.posts(f"j{number}")
        place = one.places.pop(f"j{number}")
        found = record_outcome(release(one.admission, place), one.directory, place, one.now, good=False)
        one.admission, entries = found.admission, [*entries, *found.log]
    assert advance_breakers(one.admission, one.directory, one.now) == (one.admission, ())
    one.now += MINUTE
    one.admission, log = advance_breakers(one.admission, one.directory, one.now)
    one.now += 33 * MINUTE
    one.admission, last = advance_breakers(one.admission, one.directory, one.now)
    entries += [*log, *last]
    assert [(each.seq, each.type, each.actor) for each in entries] == [
        (1, "BREAKER_OPENED", "system"),
        (2, "BREAKER_HALF_OPEN", "system"),
        (3, "BREAKER_CLOSED", "system"),
    ]
    assert (entries[0].reason, entries[0].data["after"]["breaker"]["state"]) == ("2 of 2 jobs failed", "OPEN")
    assert [each.prev_hash for each in entries[1:]] == [each.hash for each in entries[:-1]]
    for each in entries:
        assert each.hash == entry_hash(vars(each))


def test_time_moves_a_few_breakers_in_one_transaction() -> None:
    """The rest with the next one; the jobs that each admits do not wait for its entry."""
    gates = [Gate(GateKind.TYPE, "tenant_a", f"T{number}") for number in range(7)]
    rule, breaker = Rule(breaker=BreakerRule()), two_failed().breaker
    states = {gate.id: GateState(gate=gate, rule=rule, breaker=breaker) for gate in gates}
    admission, known = AdmissionState(tenant="tenant_a", gates=states, counted_at=START), Directory()
    now = START + MINUTE
    assert all(
        evaluate_gates(admission, known, like(gate.name), now, emergency=False)[1].blocked_by is None for gate in gates
    )
    admission, first = advance_breakers(admission, known, now)
    admission, second = advance_breakers(admission, known, now)
    assert (len(first), len(second), advance_breakers(admission, known, now)) == (MAX_ADVANCED, 3, (admission, ()))


def test_a_breaker_that_is_taken_away_begins_again() -> None:
    """Ends in between do not count, and a hold of the quota has precedence."""
    one = two_failed()
    state = one.admission.state(OCR)
    one.admission = one.admission.with_state(replace(state, rule=Rule(max_active=9)))
    assert one.shut() is None
    one.ends("early-2")
    assert one.breaker == Breaker(epoch=2)
    held = replace(state, hold=Hold(reason="audit", actor="op", at=START))
    one.admission = one.admission.with_state(held)
    assert one.shut() is BlockReason.HELD
