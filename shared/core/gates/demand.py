"""A tenant's demand for a quota over all tenants, computed from its admission state (R54)."""

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
from shared.core.gates.rules import ALLOCATED, Directory, Gate, GateKind, QuotaShare

#: maximum number of waiting jobs that an allocation counts for one tenant; the next allocation counts again
MAX_REQUESTED = 100
_MILLISECOND = timedelta(milliseconds=1)
#: higher than any limit
_UNLIMITED = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A tenant's active jobs, requested starts, share and weight at one quota, as an allocation reads them."""

    tenant: str
    #: active jobs that use slots of its share; once a breaker has opened or was reset, only those of its epoch
    active: int
    #: number of waiting jobs that can start when this quota admits them, up to `MAX_REQUESTED`
    requested: int
    share: QuotaShare
    #: slot time up to the allocation, in milliseconds
    slot_ms: int
    weight: int
    #: active jobs of an earlier epoch
    earlier: int = 0
    #: `True` if a job waits for the quota
    has_waiting: bool = False
    #: `True` if the tenant's admission state has an earlier epoch
    is_behind: bool = False

    @property
    def needed(self) -> int:
        return self.active + self.requested


def measure_demand(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, new_job: Candidate | None = None
) -> Demand:
    """Returns the tenant's demand. `new_job` is a job that is not in a queue yet."""
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
    """Returns the demand that the tenant has after its admission state receives the breaker's epoch."""
    if demand.share.breaker.epoch >= breaker.epoch:
        return demand
    share = type_breaker.start_epoch(demand.share, breaker, demand.active)
    return replace(demand, share=share, active=0, earlier=demand.earlier + demand.active, is_behind=True)


def count_requested(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, new_job: Candidate | None = None
) -> int:
    """Returns the number of waiting jobs that can start if this quota, and broader quotas over all tenants, have room.
    The maximum is `MAX_REQUESTED`.

    So an allocation grants a slot of a broad quota only to a job that the narrow quotas admit, and no slot stays idle.
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
                verdict.blocks for verdict in evaluate_queue(admission, directory, queue, now)
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
    """Returns the admission state after a change, with the slot time of its active jobs until now."""
    shares = {
        # the clock of another process may have been ahead
        id_: replace(
            share, slot_ms=_compute_slot_ms(share, before.count_active(share.gate), now), at=max(now, share.at or now)
        )
        for id_, share in after.shares.items()
    }
    return replace(after, shares=shares) if shares else after


def find_due_allocations(
    before: AdmissionState, after: AdmissionState, directory: Directory, now: datetime
) -> list[tuple[Gate, bool]]:
    """Returns the quotas that need an allocation after a change, each with `True` if the tenant needs more slots.

    A tenant that requested before is already in the allocation record. A tenant that uses all its slots or more reports
    each ended job. A tenant whose requests ended reports once, because the allocation then takes its free slots.
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
            # an emergency, or a job that an operator admitted: the other tenants get fewer slots
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
    """Returns `True` if an allocation of the quota can admit a waiting job."""
    return any(
        find_blocking_gate(evaluate_queue(admission, directory, queue, now)) == gate
        for queue in admission.queues.values()
    )


def _has_waiting(admission: AdmissionState, gate: Gate) -> bool:
    return bool(find_queues(admission, gate))


def _compute_slot_ms(share: QuotaShare, active: int, now: datetime) -> int:
    since = share.at or now
    return share.slot_ms + active * max(0, (now - since) // _MILLISECOND)


def find_blocking_gate(found: Sequence[GateVerdict]) -> Gate | None:
    """Returns the narrowest quota that stops the job, if an allocation can open each quota that stops the job. Returns
    None otherwise.
    """
    blocked = [verdict for verdict in found if verdict.blocks]
    return blocked[0].gate if blocked and all(verdict.needs_allocation for verdict in blocked) else None
