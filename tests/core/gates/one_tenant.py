"""One admission state as arithmetic, with the rows that its transactions would write (R48, R49)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.core.gates.admission import AdmissionResult, AdmissionRound, QueuedJob
from shared.core.gates.admission_state import AdmissionState, Candidate, compute_rank
from shared.core.gates.places import (
    Place,
    PlaceState,
    admit_or_queue,
    apply_count,
    decide_arrival,
    release,
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


class OneTenant:
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
            rank=compute_rank(self.now, priority),
        )

    def posts(self, job_id: str, **of: str) -> PlaceState:
        self.lets_in()
        decision = decide_arrival(self.admission, self.directory, self.candidate(job_id, **of), self.now)
        self.admission, place = decision.admission, decision.place
        if place.state is PlaceState.ARRIVING:
            self.admission, place = admit_or_queue(self.admission, self.directory, place, self.now)
        self.places[job_id] = place
        if place.state is PlaceState.ADMITTED:
            self.began.append((job_id, self.now))
        return place.state

    def ends(self, job_id: str) -> None:
        self.admission = release(self.admission, self.places.pop(job_id))
        self.lets_in()

    def lets_in(self, room: int = 20) -> AdmissionResult:
        letting = AdmissionRound(self.admission, self.directory, self.now, room=room)
        while (line := letting.next_queue()) is not None:
            self.reads += 1
            letting.add_rows(line, self.rows(line)[: letting.room + 2])
        let = letting.result
        self.admission = let.admission
        for waiting, target in let.requeued:
            self.places[waiting.candidate.job_id] = replace(self.places[waiting.candidate.job_id], queue=target)
        for waiting in let.admitted:
            job_id = waiting.candidate.job_id
            self.places[job_id] = replace(self.places[job_id], state=PlaceState.ADMITTED, queue=None)
            self.began.append((job_id, self.now))
        return let

    def rows(self, line: int) -> list[QueuedJob]:
        waiting = [place.candidate for place in self.places.values() if place.queue == line]
        ordered = sorted(waiting, key=lambda each: (each.rank, each.job_id))
        return [QueuedJob(each, line, "claim", START) for each in ordered]

    @property
    def inside(self) -> list[str]:
        return [job_id for job_id, place in self.places.items() if not place.is_staged]

    def sets(self, state: GateState) -> None:
        """Creates or changes a rule: the rows count active jobs."""
        self.admission = apply_count(self.admission.with_state(state), list(self.places.values()), self.now)


def limited(most: int, **rule: int) -> OneTenant:
    return OneTenant(GateState(gate=TENANT, rule=Rule(max_active=most, **rule)))
