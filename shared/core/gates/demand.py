"""What a tenant asks for at a limit over all tenants, by its admission state (R54). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.gates import type_breaker
from shared.core.gates.admission import evaluate_queue
from shared.core.gates.admission_state import (
    AdmissionState,
    Candidate,
    GateVerdict,
    WaitingQueue,
    admit_candidate,
    is_emergency,
)
from shared.core.gates.breaker import Breaker
from shared.core.gates.queue_position import find_queues
from shared.core.gates.rules import ALLOCATED, Directory, Gate, GateKind, Share

#: jobs of one tenant that a division counts as waiting for a slot; the next division counts anew
MAX_REQUESTED = 100
_MILLISECOND = timedelta(milliseconds=1)
#: more than any limit
_UNLIMITED = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A tenant as a division reads it."""

    tenant: str
    #: those that count against what it keeps; of a breaker that ever opened those of its epoch
    active: int
    #: how many more of its jobs would go in, up to `MAX_REQUESTED`
    requested: int
    share: Share
    #: as of the division
    slot_ms: int
    weight: int
    #: jobs inside of an older epoch, which nothing stops
    earlier: int = 0
    #: whether any job is in line
    has_waiting: bool = False
    #: its admission state knows an older epoch
    is_behind: bool = False

    @property
    def needed(self) -> int:
        return self.active + self.requested


def measure_demand(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, new_job: Candidate | None = None
) -> Demand:
    """`new_job`: a new job that asks."""
    rule = directory.find_rule(admission.state(Gate(GateKind.TENANT, admission.tenant)))
    share, active, used = admission.share(gate), admission.count_active(gate), admission.count_used(gate)
    return Demand(
        tenant=admission.tenant,
        active=used,
        requested=count_requested(admission, directory, gate, now, new_job),
        share=share,
        slot_ms=_compute_slot_ms(share, active, now),
        weight=(rule.weight if rule is not None else None) or 1,
        earlier=active - used,
        has_waiting=_has_waiting(admission, gate),
    )


def move_to_epoch(demand: Demand, breaker: Breaker) -> Demand:
    """The claim as it is once its admission state was told where the breaker stands."""
    if demand.share.breaker.epoch >= breaker.epoch:
        return demand
    share = type_breaker.start_epoch(demand.share, breaker, demand.active)
    return replace(demand, share=share, active=0, earlier=demand.earlier + demand.active, is_behind=True)


def count_requested(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, new_job: Candidate | None = None
) -> int:
    """How many jobs in line would go in if this gate, and those over all tenants that are broader, had room.

    So a place of a broad gate is lent only to a job that the narrow ones let through, and none lies idle for another.
    """
    broader = ALLOCATED[ALLOCATED.index(gate.kind) :]
    for state in directory.over_all.values():
        if state.gate.kind in broader:
            share = admission.share(state.gate)
            known = replace(share.breaker, limited=False)
            admission = admission.with_share(replace(share, slots=_UNLIMITED, tokens=_UNLIMITED, breaker=known))
    queues = sorted(find_queues(admission, gate).values(), key=lambda queue: queue.head)
    if new_job is not None and not is_emergency(admission, directory, new_job.priority):
        queue = WaitingQueue(
            job_type=new_job.job_type, mode=new_job.mode, source=new_job.source, emergency=False, count=1
        )
        queues.append(queue)
    found = 0
    for queue in queues:
        for _ in range(queue.count):
            if found == MAX_REQUESTED or any(
                verdict.blocked_by is not None for verdict in evaluate_queue(admission, directory, queue, now)
            ):
                break
            admission = admit_candidate(admission, directory, _make_candidate(queue), now)
            found += 1
    return found


def _make_candidate(queue: WaitingQueue) -> Candidate:
    return Candidate(
        job_id="", job_type=queue.job_type, mode=queue.mode, source=queue.source, priority="normal", rank=queue.head
    )


def accrue_slot_time(before: AdmissionState, after: AdmissionState, now: datetime) -> AdmissionState:
    """The admission state after a change, with the place time of what was inside until now."""
    shares = {
        # the clock of another may have been ahead
        id_: replace(
            share, slot_ms=_compute_slot_ms(share, before.count_active(share.gate), now), at=max(now, share.at or now)
        )
        for id_, share in after.shares.items()
    }
    return replace(after, shares=shares) if shares else after


def find_due_allocations(
    before: AdmissionState, after: AdmissionState, directory: Directory, now: datetime
) -> list[tuple[Gate, bool]]:
    """The gates that have to be divided after a change of the admission state; True: since the tenant wants more.

    A tenant that goes on wanting is in the allocation record as such. One that has a place too many says so at each
    end. One that stops wanting says so once: the division takes what it keeps, so that each of its next ends is such an
    end.
    """
    found = []
    for state in directory.over_all.values():
        gate = state.gate
        if gate.kind not in ALLOCATED:
            continue
        share, active, used_before = after.share(gate), after.count_used(gate), before.count_used(gate)
        is_open = share.breaker.until is not None and share.breaker.until > now
        is_lent = share.breaker.limited or state.max_active is not None
        was_blocked, is_blocked_now = is_blocked(before, directory, gate, now), is_blocked(after, directory, gate, now)
        if is_blocked_now and not was_blocked:
            found.append((gate, True))
        elif not is_lent or is_open:
            continue
        elif max(share.slots, used_before) < active:
            # an emergency, or one that somebody admitted: others get less
            found.append((gate, True))
        elif (
            share.slots <= active < used_before
            or _count_earlier(after, gate) < _count_earlier(before, gate)
            or (share.slots > active and _has_waiting(before, gate) and not _has_waiting(after, gate))
            or (was_blocked and not is_blocked_now)
        ):
            found.append((gate, False))
    return found


def _count_earlier(admission: AdmissionState, gate: Gate) -> int:
    return admission.count_active(gate) - admission.count_used(gate)


def is_blocked(admission: AdmissionState, directory: Directory, gate: Gate, now: datetime) -> bool:
    """Whether a division of the gate may let somebody in line go on."""
    return any(
        find_blocking_gate(evaluate_queue(admission, directory, queue, now)) == gate
        for queue in admission.queues.values()
    )


def _has_waiting(admission: AdmissionState, gate: Gate) -> bool:
    return bool(find_queues(admission, gate))


def _compute_slot_ms(share: Share, active: int, now: datetime) -> int:
    since = share.at or now
    return share.slot_ms + active * max(0, (now - since) // _MILLISECOND)


def find_blocking_gate(found: Sequence[GateVerdict]) -> Gate | None:
    """The narrowest gate over all tenants that stops a job which nothing else does; None: no division helps it."""
    blocked = [verdict for verdict in found if verdict.blocked_by is not None]
    return blocked[0].gate if blocked and all(verdict.needs_allocation for verdict in blocked) else None
