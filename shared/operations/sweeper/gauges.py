"""Gauges of work in progress, from the counts of the sweeps, since a counter could drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from shared import telemetry
from shared.core.gates.breaker import BreakerState
from shared.core.gates.breaker import advance as breaker_at
from shared.core.gates.rules import GateState
from shared.core.jobs.states import JobStatus
from shared.ports.sweeps import SweeperShare, WorkCounts


def set_queue_gauges(tenant: str, queued: Counter[str]) -> None:
    """Sets a tenant's queue lengths by job type. A queue that is empty now is set to 0."""
    shown = _shown_queues.get(tenant, frozenset())
    for job_type in shown | set(queued):
        telemetry.set_gauge("job_queue_depth", queued[job_type], jobType=job_type, tenant=tenant)
    _shown_queues[tenant] = frozenset(queued)
    if not queued:
        del _shown_queues[tenant]


_STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


def breaker_state(state: GateState, now: datetime) -> int:
    """Returns the state of a quota's breaker as a number: 0 closed or none, 1 half open, 2 open."""
    return _STATES[breaker_at(state.breaker, now).state] if state.breaker is not None else 0


def set_breaker_gauges(share: SweeperShare, gates: Iterable[GateState], now: datetime) -> None:
    """Sets the worst breaker state of the share's quotas for each job type, or 0 if a type no longer has a breaker."""
    worst: dict[str, int] = {}
    for state in gates:
        if "breaker" in state.gate.kind.limits:
            worst[state.gate.name] = max(worst.get(state.gate.name, 0), breaker_state(state, now))
    shown = _shown_breakers.get(share, set())
    for job_type, number in {**dict.fromkeys(shown, 0), **worst}.items():
        telemetry.set_gauge("circuit_breaker_state", number, jobType=job_type)
    _shown_breakers[share] = set(worst)


def set_work_gauges(counts: WorkCounts, now: datetime) -> None:
    """Sets the gauges of work in progress over all shares. A state without jobs is set to 0."""
    for status in JobStatus:
        if not status.terminal:
            telemetry.set_gauge("job_active", counts.active[status.value], status=status.value)
    telemetry.set_gauge("job_queue_oldest_seconds", age_s(counts.queued_since, now))
    telemetry.set_gauge("job_wait_oldest_seconds", age_s(counts.waiting_since, now))
    telemetry.set_gauge("outbox_backlog", counts.unacked)
    telemetry.set_gauge("outbox_oldest_seconds", age_s(counts.unacked_since, now))


def age_s(since: datetime | None, now: datetime) -> float:
    """Returns the age in seconds, or 0 if nothing waits."""
    return max((now - since).total_seconds(), 0.0) if since is not None else 0.0


#: job types of the queues that this process last showed, by tenant
_shown_queues: dict[str, frozenset[str]] = {}
#: job types whose breakers this process last showed, by share
_shown_breakers: dict[SweeperShare, set[str]] = {}
