"""The breaker of a job type over all tenants, in admission states and in allocations (R61).

An admission state has the results of its own ended jobs, and the breaker state that it last received. An allocation
counts the results in all admission states and grants the slots that the breaker allows. The breaker state is published,
so tenants without an allocation receive it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from shared.core.gates.admission_state import AdmissionState, find_epoch
from shared.core.gates.breaker import (
    MAX_AGE,
    MAX_ENDS,
    Breaker,
    BreakerRule,
    BreakerState,
    JobEnd,
    advance,
    count_ends,
)
from shared.core.gates.places import Place
from shared.core.gates.rules import AdmissionBreaker, Directory, Gate, GateKind, QuotaShare


def sync_breakers(admission: AdmissionState, directory: Directory) -> AdmissionState:
    """Returns the admission state with the published state of each breaker. The next write of the admission state
    stores these states.
    """
    for state in directory.over_all.values():
        if state.breaker is not None and state.gate.kind is GateKind.PLATFORM_TYPE:
            admission = sync_breaker(admission, state.gate, state.breaker)
    return admission


def sync_breaker(admission: AdmissionState, gate: Gate, breaker: Breaker) -> AdmissionState:
    """Returns the admission state with the breaker's state, or the same object if nothing changes."""
    share = admission.share(gate)
    if breaker.epoch > share.breaker.epoch:
        share = start_epoch(share, breaker, admission.count_used(gate))
        since = find_epoch(admission, gate.name) + 1
        return admission.with_share(replace(share, breaker=replace(share.breaker, since=since)))
    return admission if (after := close_epoch(share, breaker)) is share else admission.with_share(after)


def start_epoch(share: QuotaShare, breaker: Breaker, counted: int) -> QuotaShare:
    """Returns the share in the epoch of `breaker`, without active jobs of that epoch.

    An open or half-open breaker takes all slots. A closed breaker leaves the slots that the `counted` jobs do not use.
    """
    limited = breaker.state is not BreakerState.CLOSED
    known = AdmissionBreaker(epoch=breaker.epoch, limited=limited, until=breaker.until)
    return replace(share, slots=0 if limited else max(0, share.slots - counted), breaker=known)


def close_epoch(share: QuotaShare, breaker: Breaker) -> QuotaShare:
    """Returns the share without the limit of a breaker that has closed. The limit does not return within the epoch."""
    known = share.breaker
    is_over = known.limited and known.epoch == breaker.epoch and breaker.state is BreakerState.CLOSED
    return replace(share, breaker=replace(known, limited=False, until=None)) if is_over else share


def record_end(
    admission: AdmissionState, directory: Directory, place: Place, now: datetime, *, good: bool
) -> tuple[AdmissionState, Gate | None]:
    """Records that an active job ended. Returns the admission state, and the quota if an allocation must count the job.

    An allocation must count a bad end, each end while the breaker is open or half-open, and the tenant's first end in
    six hours. A bad end while the breaker is open or half-open takes all slots of the tenant. No other job of the
    tenant and type then starts until the next allocation.
    """
    gate = Gate.over_all(GateKind.PLATFORM_TYPE, place.candidate.job_type)
    state = directory.over_all.get(gate.id)
    share = admission.share(gate)
    known = share.breaker
    if state is None or state.rule is None or state.rule.breaker is None or place.breaker_epoch < known.since:
        return admission, None
    ring = tuple(end for end in known.ring if is_recent(end, now))
    after = replace(known, ring=(*ring, JobEnd(now, known.epoch, good))[-MAX_ENDS:])
    is_relevant = not good or known.limited or not ring
    slots = share.slots if good or not known.limited else 0
    return admission.with_share(replace(share, slots=slots, breaker=after)), gate if is_relevant else None


def is_recent(end: JobEnd, now: datetime) -> bool:
    """Returns `True` if the job ended less than `MAX_AGE` ago, so that the breaker counts it."""
    return end.at > now - MAX_AGE


def apply_ends(
    breaker: Breaker,
    rule: BreakerRule | None,
    rings: Mapping[str, Iterable[JobEnd]],
    now: datetime,
    *,
    has_waiting: bool,
) -> tuple[Breaker, ...]:
    """Returns the breaker after the elapsed time, and the breaker after the ended jobs of its epoch in all admission
    states. Without a rule, returns only the unchanged breaker.
    """
    if rule is None:
        return (breaker,)
    by_time = advance(breaker, now)
    known = {tenant: [end for end in ring if end.epoch == breaker.epoch] for tenant, ring in rings.items()}
    return by_time, count_ends(by_time, rule, known, now, has_waiting=has_waiting)
