"""A tenant's admission state: its active jobs, its waiting queues, and the verdict of each quota (R48, R49).

Pure: a change takes the state that was read and returns the state to write under its ETag. All quotas of a job admit it
together, or none does. A waiting job holds no slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from shared.core.gates import breaker as breakers
from shared.core.gates import rate
from shared.core.gates.breaker import Breaker
from shared.core.gates.rules import (
    ALLOCATED,
    PARTS,
    Directory,
    Gate,
    GateKind,
    GateState,
    Hold,
    QuotaShare,
    Rule,
)
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise

#: job fields by which `AdmissionState.active_by_kind` counts
_COUNTED_BY = ("job_type", "mode")
EMERGENCY = "emergency"
_EPOCH, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
#: time that a priority adds to a job's age
_AGE = {"high": timedelta(minutes=30), EMERGENCY: timedelta(minutes=30), "low": timedelta(minutes=-30)}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The fields of a job that the job's quotas use."""

    job_id: str
    job_type: str
    mode: str
    #: normalised source; None if the request names none
    source: str | None
    priority: str
    #: order among the tenant's jobs; a high priority is worth half an hour of age, so that a job of low priority is
    #: not blocked permanently (R49)
    rank: int

    @classmethod
    def of(cls, job: Job) -> Candidate:
        return cls(
            job_id=job.job_id,
            job_type=job.request_type,
            mode=job.mode,
            source=(normalise(job.source) or None) if job.source else None,
            priority=job.current_priority,
            rank=compute_rank(job.created_at, job.current_priority),
        )


def compute_rank(created_at: datetime, priority: str) -> int:
    """Returns the creation time in milliseconds since 1970, as the position in a waiting queue.

    The priorities high and emergency make the rank 30 minutes earlier. Low priority makes the rank 30 minutes later.
    """
    at = created_at - _AGE.get(priority, timedelta())
    return max(0, (at - _EPOCH) // timedelta(milliseconds=1))


class BlockReason(StrEnum):
    """The reason why a quota stops a job."""

    HELD = "HELD"
    FULL = "FULL"
    RATE = "RATE"
    #: too many jobs of the type ended badly
    BREAKER = "BREAKER"
    #: the quotas are open, but other jobs wait ahead of this one
    LINE = "LINE"


@dataclass(frozen=True)
class GateVerdict:
    """The decision of one quota on one job."""

    gate: Gate
    #: None if the job may pass
    blocked_by: BlockReason | None = None
    #: time at which the quota opens by itself; None if a resume, the end of a job or an allocation must open it
    opens_at: datetime | None = None
    rule: Rule | None = None
    #: limit of a breaker: maximum number of active jobs; 0 if the breaker is open; None if the allocation decides. At a
    #: full quota: maximum number of active emergencies; None if `max_active` of the quota stops the job
    allowed: int | None = None
    #: the hold that stops the job, if any
    hold: Hold | None = None

    @property
    def blocks(self) -> bool:
        """Returns `True` if the quota stops the job."""
        return self.blocked_by is not None

    @property
    def needs_allocation(self) -> bool:
        """Returns `True` if an allocation can open the quota. An allocation does not close an open breaker."""
        by_time = self.blocked_by is BlockReason.BREAKER and self.opens_at is not None
        return (
            self.gate.kind in ALLOCATED
            and self.blocked_by in (BlockReason.FULL, BlockReason.RATE, BlockReason.BREAKER)
            and not by_time
        )


def find_last_to_open(verdicts: Iterable[GateVerdict]) -> GateVerdict | None:
    """Returns the quota that stops the job longest, for people. Returns None if no quota stops the job.

    This is the first quota that time alone does not open, else the quota with the latest `opens_at`.
    """
    blocking = (verdict for verdict in verdicts if verdict.blocks)
    return max(blocking, key=lambda verdict: verdict.opens_at or _NEVER, default=None)


@dataclass(frozen=True, kw_only=True)
class WaitingQueue:
    """Waiting jobs with the same verdict of every quota. If the first job must wait, all must wait."""

    job_type: str
    mode: str
    #: source with a quota of its own; None means all other sources
    source: str | None
    emergency: bool
    count: int = 0
    #: rank of the first job, or of a job that was first and has left
    head: int = 0


@dataclass(frozen=True, kw_only=True)
class AdmissionState:
    """The GATES row of a tenant."""

    tenant: str
    #: states of quotas that have a setting, a rate or a breaker, by quota id
    gates: Mapping[str, GateState] = field(default_factory=dict)
    #: active jobs, by (type, mode)
    active_by_kind: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: active jobs by source, for sources with a quota
    active_by_source: Mapping[str, int] = field(default_factory=dict)
    emergencies: int = 0
    #: accepted jobs that are not active: in a waiting queue, about to join one, or set aside
    staged: int = 0
    #: waiting queues, by number
    queues: Mapping[int, WaitingQueue] = field(default_factory=dict)
    #: shares of quotas over all tenants, by quota id; a missing one is empty
    shares: Mapping[str, QuotaShare] = field(default_factory=dict)
    #: time of the last count of the tenant's rows; every later change updates the counts
    counted_at: datetime
    #: end of the time that one process has to count the rows; other writers wait until then
    counting_until: datetime | None = None
    #: time of the scheduled wake-up, at which a quota may open; None or past: none is scheduled
    wake_at: datetime | None = None

    @property
    def active(self) -> int:
        return sum(self.active_by_kind.values())

    @property
    def waiting(self) -> int:
        return sum(queue.count for queue in self.queues.values())

    def state(self, gate: Gate) -> GateState:
        return self.gates.get(gate.id) or GateState(gate=gate)

    def with_state(self, state: GateState) -> AdmissionState:
        return replace(self, gates={**self.gates, state.gate.id: state})

    def share(self, gate: Gate) -> QuotaShare:
        return self.shares.get(gate.id) or QuotaShare(gate=gate)

    def with_share(self, share: QuotaShare) -> AdmissionState:
        return replace(self, shares={**self.shares, share.gate.id: share})

    def count_active(self, gate: Gate) -> int:
        """Returns the number of active jobs of the quota. For a dispatch limit returns 0, since the bus counts its
        steps.
        """
        key = gate.kind.key
        if not key:
            return self.active
        if key in _COUNTED_BY:
            place = _COUNTED_BY.index(key)
            return sum(count for counted, count in self.active_by_kind.items() if counted[place] == gate.name)
        return self.active_by_source.get(gate.name, 0) if key == "source" else 0

    def count_used(self, gate: Gate) -> int:
        """Returns the number of jobs that use slots of the tenant's share.

        After the breaker opened or was reset, only jobs admitted since then are counted. Earlier jobs continue
        and do not use the slots of a half-open breaker.
        """
        breaker = self.share(gate).breaker
        return breaker.active if breaker.since else self.count_active(gate)

    def has_source(self, source: str | None) -> bool:
        """Returns `True` if the source has a quota, so that its jobs wait in a queue of their own."""
        return source is not None and Gate(GateKind.SOURCE, self.tenant, source).id in self.gates


def list_gates(admission: AdmissionState, directory: Directory, job: Candidate | WaitingQueue) -> Iterator[Gate]:
    """Yields the quotas that a job must pass: of the tenant, of its job type, and of its source. Then yields those over
    all tenants, from narrow to broad.
    """
    yield Gate(GateKind.TENANT, admission.tenant)
    for kind in PARTS:
        if (name := getattr(job, kind.key)) is not None:
            yield Gate(kind, admission.tenant, name)
    yield from directory.list_platform_gates(job)


def is_emergency(admission: AdmissionState, directory: Directory, priority: str) -> bool:
    """Returns `True` if a job of this priority bypasses limits and rates and waits in an emergency queue."""
    rule = directory.find_rule(admission.state(Gate(GateKind.TENANT, admission.tenant)))
    return priority == EMERGENCY and rule is not None and rule.emergency_max_active is not None


def evaluate_gates(
    admission: AdmissionState, directory: Directory, like: Candidate | WaitingQueue, now: datetime, *, emergency: bool
) -> list[GateVerdict]:
    """Returns the verdict of each quota on a job of this type, mode and source."""
    return [
        _evaluate(admission, directory, gate, now, emergency=emergency)
        for gate in list_gates(admission, directory, like)
    ]


def _evaluate(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, *, emergency: bool
) -> GateVerdict:
    if gate.kind in ALLOCATED:
        return _evaluate_platform(admission, directory.over_all[gate.id], now, emergency=emergency)
    state = admission.state(gate)
    rule = directory.find_rule(state)
    if state.hold is not None and state.hold.is_on(now):
        return GateVerdict(gate, BlockReason.HELD, state.hold.until, rule, hold=state.hold)
    breaker = state.breaker if rule is not None and rule.breaker is not None else None
    if breaker is not None and (allowed := _find_reached_limit(breaker, now, emergency=emergency)) is not None:
        return GateVerdict(gate, BlockReason.BREAKER, breakers.find_next_change(breaker, now), rule, allowed)
    if emergency:
        if (
            gate.kind is GateKind.TENANT
            and rule is not None
            and admission.emergencies >= (rule.emergency_max_active or 0)
        ):
            return GateVerdict(gate, BlockReason.FULL, None, rule, rule.emergency_max_active)
        return GateVerdict(gate, rule=rule)
    if rule is not None and rule.max_active is not None and admission.count_active(gate) >= rule.max_active:
        return GateVerdict(gate, BlockReason.FULL, None, rule)
    if (at := rate.find_next_start(state, rule, now)) is not None:
        return GateVerdict(gate, BlockReason.RATE, at, rule)
    return GateVerdict(gate, rule=rule)


def _evaluate_platform(admission: AdmissionState, state: GateState, now: datetime, *, emergency: bool) -> GateVerdict:
    """Returns the verdict of a quota over all tenants by the tenant's share. Only an allocation can find more free
    slots.
    """
    gate, rule = state.gate, state.rule
    if state.hold is not None and state.hold.is_on(now):
        return GateVerdict(gate, BlockReason.HELD, state.hold.until, rule, hold=state.hold)
    share = admission.share(gate)
    is_used_up = not emergency and admission.count_used(gate) >= share.slots
    if rule is not None and rule.breaker is not None and share.breaker.limited:
        if (until := share.breaker.until) is not None and until > now:
            return GateVerdict(gate, BlockReason.BREAKER, until, rule, 0)
        if is_used_up:
            return GateVerdict(gate, BlockReason.BREAKER, None, rule)
    if is_used_up and rule is not None and rule.max_active is not None:
        return GateVerdict(gate, BlockReason.FULL, None, rule)
    if not emergency and share.tokens < 1 and rate.find_rate(state, rule, now) is not None:
        return GateVerdict(gate, BlockReason.RATE, None, rule)
    return GateVerdict(gate, rule=rule)


def _find_reached_limit(breaker: Breaker, now: datetime, *, emergency: bool) -> int | None:
    """Returns the limit of the breaker if that limit is reached, else None. A half-open breaker stops no emergency."""
    allowed = breakers.find_limit(breaker, now)
    is_reached = allowed is not None and breaker.active >= allowed and not (emergency and allowed)
    return allowed if is_reached else None


def evaluate_candidate(
    admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime
) -> list[GateVerdict]:
    """Returns the verdict of each quota on this job."""
    emergency = is_emergency(admission, directory, candidate.priority)
    return evaluate_gates(admission, directory, candidate, now, emergency=emergency)


def find_epoch(admission: AdmissionState, job_type: str) -> int:
    """Returns the last epoch of the type's breakers: the epoch of a job that starts now.

    The breakers of the tenant and of all tenants share one sequence of numbers. So one number per job identifies the
    epoch of both breakers (R61).
    """
    breaker = admission.state(Gate(GateKind.TYPE, admission.tenant, job_type)).breaker
    over_all = admission.share(Gate.over_all(GateKind.PLATFORM_TYPE, job_type)).breaker
    return max(breaker.epoch if breaker is not None else 0, over_all.since)


def _count_probe(admission: AdmissionState, candidate: Candidate, epoch: int, step: int) -> AdmissionState:
    """Returns the admission state after adding `step` to the active jobs of each breaker whose epoch includes a job
    that started in `epoch`.
    """
    state = admission.state(Gate(GateKind.TYPE, admission.tenant, candidate.job_type))
    if (own := state.breaker) is not None and 0 < own.epoch <= epoch:
        admission = admission.with_state(replace(state, breaker=replace(own, active=max(0, own.active + step))))
    share = admission.share(Gate.over_all(GateKind.PLATFORM_TYPE, candidate.job_type))
    if 0 < share.breaker.since <= epoch:
        probes = max(0, share.breaker.active + step)
        admission = admission.with_share(replace(share, breaker=replace(share.breaker, active=probes)))
    return admission


def add_active(admission: AdmissionState, candidate: Candidate, epoch: int) -> AdmissionState:
    """Returns the admission state after adding an active job that started in `epoch` of the type's breakers."""
    admission = _count_probe(admission, candidate, epoch, 1)
    key, by_source = (candidate.job_type, candidate.mode), dict(admission.active_by_source)
    if candidate.source is not None and admission.has_source(candidate.source):
        by_source[candidate.source] = by_source.get(candidate.source, 0) + 1
    return replace(
        admission,
        active_by_kind={**admission.active_by_kind, key: admission.active_by_kind.get(key, 0) + 1},
        active_by_source=by_source,
        emergencies=admission.emergencies + (candidate.priority == EMERGENCY),
    )


def admit_candidate(
    admission: AdmissionState, directory: Directory, candidate: Candidate, now: datetime
) -> AdmissionState:
    """Returns the admission state after adding an active job that starts now. Counts the start against each rate,
    except for an emergency job.
    """
    after = add_active(admission, candidate, find_epoch(admission, candidate.job_type))
    if not is_emergency(admission, directory, candidate.priority):
        for gate in list_gates(admission, directory, candidate):
            if gate.kind in ALLOCATED:
                state, share = directory.over_all[gate.id], admission.share(gate)
                if rate.find_rate(state, state.rule, now) is not None:
                    after = after.with_share(replace(share, tokens=share.tokens - 1))
                continue
            state = after.state(gate)
            used = rate.spend(state, directory.find_rule(state), now)
            if used is not state:
                after = after.with_state(used)
    return after


def remove_active(admission: AdmissionState, candidate: Candidate, epoch: int) -> AdmissionState:
    """Returns the admission state after removing an active job that started in `epoch` of the type's breakers."""
    admission = _count_probe(admission, candidate, epoch, -1)
    key = (candidate.job_type, candidate.mode)
    active = {**admission.active_by_kind, key: max(0, admission.active_by_kind.get(key, 0) - 1)}
    by_source = dict(admission.active_by_source)
    if candidate.source is not None and candidate.source in by_source:
        by_source[candidate.source] = max(0, by_source[candidate.source] - 1)
    return replace(
        admission,
        active_by_kind={each: count for each, count in active.items() if count},
        active_by_source={each: count for each, count in by_source.items() if count},
        emergencies=max(0, admission.emergencies - (candidate.priority == EMERGENCY)),
    )
