"""Tight quotas: held, throttled, with an open or half-open breaker, or with 90 % of `max_active` reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.core.gates import breaker as breakers
from shared.core.gates.admission_state import AdmissionState, list_gates
from shared.core.gates.breaker import BreakerState
from shared.core.gates.queue_position import count_waiting
from shared.core.gates.rules import ALLOCATED, OVER_ALL, Directory, Gate, GateKind, GateState

#: maximum number of quotas in one overview
MAX_TIGHT = 20
#: share of `max_active` at which a quota is near its limit
_NEAR = 0.9


@dataclass(frozen=True, kw_only=True)
class TightQuota:
    """A quota that is held, throttled, limited by its breaker, or at 90 % of `max_active` or more."""

    gate: Gate
    active: int
    max_active: int | None
    waiting: int
    #: creation time of the first waiting job; None if not known, or no job waits
    oldest_at: datetime | None = None
    held: bool = False
    throttled: bool = False
    #: state of the breaker; None if it is closed, or there is none
    breaker: BreakerState | None = None


def tightest(quotas: Iterable[TightQuota]) -> list[TightQuota]:
    """Returns the tightest quotas, at most `MAX_TIGHT`: first held quotas, then quotas with an open or half-open
    breaker. Within each part, quotas with more waiting jobs come first.
    """
    return sorted(quotas, key=_order)[:MAX_TIGHT]


def select_tight_quotas(admissions: Sequence[AdmissionState], directory: Directory, now: datetime) -> list[TightQuota]:
    """Returns the tight quotas of these tenants, and those over all tenants with the jobs of these tenants."""
    found = [
        _tight([admission], directory, admission.state(gate), now)
        for admission in admissions
        for gate in dict.fromkeys(_own_gates(admission, directory))
    ]
    found += [_tight(admissions, directory, state, now) for state in directory.over_all.values()]
    return tightest(each for each in found if each is not None)


def _own_gates(admission: AdmissionState, directory: Directory) -> Iterator[Gate]:
    yield Gate(GateKind.TENANT, admission.tenant)
    yield from (state.gate for state in admission.gates.values())
    # limits for every tenant have no row here
    for queue in admission.queues.values():
        yield from (gate for gate in list_gates(admission, directory, queue) if gate.kind not in OVER_ALL)


def _tight(
    admissions: Sequence[AdmissionState], directory: Directory, state: GateState, now: datetime
) -> TightQuota | None:
    gate, rule = state.gate, directory.find_rule(state)
    counted = gate.kind in ALLOCATED or gate.kind not in OVER_ALL
    active = sum(each.count_active(gate) for each in admissions) if counted else 0
    breaker = (
        breakers.advance(state.breaker, now).state if rule and rule.breaker and state.breaker else BreakerState.CLOSED
    )
    quota = TightQuota(
        gate=gate,
        active=active,
        max_active=rule.max_active if rule is not None else None,
        waiting=sum(count_waiting(each, gate) for each in admissions) if counted else 0,
        held=state.hold is not None and state.hold.is_on(now),
        throttled=state.throttle is not None and state.throttle.is_on(now),
        breaker=breaker if breaker is not BreakerState.CLOSED else None,
    )
    is_near = counted and quota.max_active is not None and active >= _NEAR * quota.max_active
    return quota if quota.held or quota.throttled or quota.breaker or is_near else None


def _order(quota: TightQuota) -> tuple[bool, bool, int, str]:
    return (not quota.held, quota.breaker is None, -quota.waiting, quota.gate.display_name)
