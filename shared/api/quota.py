"""Quotas, the jobs that wait for them, and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from shared.api.response import Cursor, Instant, JobId, Response
from shared.api.wait_reason import QuotaWait, quota_wait, wait_reason
from shared.core.gates import rate
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.breaker import Breaker, BreakerState, advance
from shared.core.gates.changes import NUMBERS, encode_state
from shared.core.gates.queue_position import QueuePosition, TenantPart, count_waiting
from shared.core.gates.rules import ALLOCATED, EVERY, OVER_ALL, PARTS, Directory, GateKind, GateState, Rule

GateId = Annotated[str, Field(pattern="^[0-9a-f]{16}$", examples=["0f3a5b7c9d1e2f40"])]
GateKindName = Annotated[str, WithJsonSchema({"enum": list(GateKind), "type": "string"})]
ShutName = Literal["HELD", "FULL", "RATE", "BREAKER", "LINE"]


class QuotaBreakerRule(Response):
    """Condition that opens a circuit breaker, and the time for which the breaker stays open."""

    failure_rate: float
    """Share of failed jobs among the counted jobs at which the breaker opens."""
    min_calls: int
    """Minimum number of jobs that the breaker must count before it can open."""
    cooldown_s: int
    """Seconds for which the breaker stays open. Each further opening doubles the time, up to 900 seconds, until the
    breaker stays closed for one hour."""
    min_tenants: int | None = None
    """Quotas over all tenants only. Minimum number of tenants with failed jobs."""


class QuotaRule(Response):
    """Limits of a quota. A null field is not set."""

    max_active: int | None = None
    """Maximum active jobs. For a service, maximum directives in flight on each lane. For a lane, maximum directives in
    flight."""
    max_per_hour: int | None = None
    """Rate in starts per hour. In any hour, at most `max_per_hour` plus `burst` jobs start, in addition to jobs that
    bypass the rate."""
    burst: int | None = None
    """Maximum starts at the same time."""
    max_staged: int | None = None
    """Maximum waiting jobs of the tenant."""
    emergency_max_active: int | None = None
    """Maximum active jobs of priority `emergency`. If set, these jobs bypass `max_active` and rates, but not holds and
    open circuit breakers."""
    weight: int | None = None
    """Weight of the tenant in allocations among tenants. Default 1."""
    breaker: QuotaBreakerRule | None = None
    """Circuit breaker, which stops admission when `failure_rate` is reached. After `cooldown_s`, LUCIUS admits one
    job, then more, at most 32 at a time, until the breaker closes."""


class QuotaHold(Response):
    """Hold of a quota, which stops admission or, for a service or lane, new attempts."""

    reason: str | None
    """First 200 characters of the reason. The quota's log has the whole reason. Null if the quota is over all
    tenants, and the caller does not see all tenants."""
    actor: str | None
    """Actor that set the hold or throttle. Null in the same case as `reason`."""
    at: Instant
    until: Instant | None
    """Time when the hold or throttle ends. Null if only a resume ends the hold or throttle."""


class QuotaThrottle(QuotaHold):
    """Throttle of a quota: a temporary rate, in addition to the limits."""

    max_per_hour: int


class QuotaShare(Response):
    """A tenant's share of a limit over all tenants."""

    tenant: str
    keep: int
    """Number of active jobs up to which the tenant's jobs are admitted. The next allocation can raise the number by
    slots that other tenants do not need."""
    active: int
    waiting: int


class QuotaBreaker(Response):
    """State of a circuit breaker, with the jobs that it counts."""

    state: Literal["CLOSED", "OPEN", "HALF_OPEN"]
    """CLOSED: no limit. OPEN: no job is admitted. HALF_OPEN: jobs are admitted up to the limit in `allow`."""
    until: Instant | None
    """OPEN only. Time when the breaker becomes half-open."""
    allow: int | None
    """HALF_OPEN only. Maximum active jobs that were admitted since the breaker opened. Earlier jobs do not count."""
    bad: int
    """Number of failed jobs among `calls`. While the breaker is OPEN, the number when the breaker opened."""
    calls: int
    """Number of jobs that the breaker counts. While the breaker is OPEN, the number when the breaker opened."""


class QuotaLinks(Response):
    """Paths of the quota."""

    self: str
    waiting: str
    log: str


class Quota(Response):
    """A quota with its settings and its current counts."""

    id: GateId
    kind: GateKindName
    tenant: str
    """Tenant, trimmed and lower-cased. `*`: every tenant."""
    name: str | None
    """Quotas over all tenants only. Name: `platform`, `mode:BURST`, `type:OCR`, `service:ocr` or `lane:3`."""
    type: str | None
    """Job type of the quota. `*` for each job type, with tenant `*` only."""
    source: str | None
    """Source of the quota, trimmed and lower-cased."""
    etag: str
    """Value for `If-Match`. Changes with limits, hold, throttle and resets of the breaker, but not with the counts."""
    rule: QuotaRule | None
    """Limits set for this quota."""
    in_force: QuotaRule | None
    """Limits in effect. Null if no limits are in effect."""
    ruled_by: str | None
    """Source of the limits in effect: `own`, `*` (limits for every tenant) or the name of a setting."""
    hold: QuotaHold | None
    throttle: QuotaThrottle | None
    breaker: QuotaBreaker | None
    """State of the circuit breaker. Null for limits for every tenant, or if the limits in effect have no circuit
    breaker."""
    active: int | None
    """Number of active jobs that the caller can see. For a quota over all tenants, the sum of `shares`. Null for limits
    for every tenant, and for a service or lane."""
    staged: int | None
    """Number of waiting jobs. Null in the same cases as `active`. A tenant's quota counts all accepted jobs that have
    not started. Other quotas count the jobs in their waiting queues, and a quota over all tenants only those of tenants
    in `shares`."""
    tokens: int | None
    """Number of starts that the rate allows now. Null for tenant `*`, or if no rate is in effect."""
    next_start_at: Instant | None
    """Time when the rate allows the next start. Null for tenant `*`, if a job can start now, or if no rate is in
    effect."""
    shares: list[QuotaShare] | None
    """Share of each tenant of the last allocation, and of each tenant that requested slots since. A caller of one
    tenant gets the share of this tenant only. Null for a tenant's quota, for limits for every tenant, and for a service
    or lane."""
    oldest_wait_at: Instant | None
    """Creation time of the first job in the waiting queue. Null if no job waits."""
    links: QuotaLinks


class QuotaPage(Response):
    """Quotas. Each tenant's own quota precedes the tenant's other quotas."""

    quotas: list[Quota]
    next: Cursor


class QuotaChange(Response):
    """A quota before and after a change. The counts are current."""

    changed: bool
    """`false` if the quota already had these settings, so that LUCIUS wrote nothing."""
    before: dict[str, Any]
    """`rule`, `hold` and `throttle` before the change. A value that was not set is null."""
    after: dict[str, Any]
    """`rule`, `hold` and `throttle` after the change."""
    quota: Quota
    dryRun: bool = False
    released: int | None = None
    """Dry run only. Number of waiting jobs that the change admits immediately, counted to 1,000. Null for limits for
    every tenant, and for a quota over all tenants."""
    held_back: int | None = None
    """Dry run only. Number of jobs that continue to wait for this quota, counted to 1,000. Null in the same cases as
    `released`."""


class WaitingJob(Response):
    """A job that waits for a quota, with the position and the reason."""

    jobId: JobId
    position: Annotated[int, Field(ge=1)]
    """Position in the waiting queue of the quota."""
    request_type: str
    source: str | None
    priority: str
    created_at: Instant
    stopped_by: GateId
    """Id of the quota that the job waits for."""
    gate: str
    """Description of the quota that the job waits for."""
    why: ShutName
    """Reason for the wait.

    - HELD: the quota is held.
    - FULL: the limit of active jobs is reached.
    - RATE: the rate is reached.
    - BREAKER: the circuit breaker is open or half-open.
    - LINE: other jobs are ahead in the waiting queue.
    """
    nextEligibleAt: Instant | None
    """Estimated start. Null if time alone does not start the job.

    Condition of the start, by `why`:

    - HELD: at the end of the hold, or after a resume of the quota.
    - FULL: after a job of this quota ends, or after an allocation over all tenants.
    - RATE: when the rate allows the start, or after an allocation over all tenants.
    - BREAKER: when the circuit breaker allows the start.
    - LINE: after the jobs ahead have started.
    """
    waits_for: str | None = None
    """`quota_wait` and the position, in one sentence."""
    quota_wait: QuotaWait | None = None


class WaitingPage(Response):
    """First 1,000 jobs that wait for a quota, by position."""

    waiting: list[WaitingJob]
    total: int
    """Number of waiting jobs, by the counts of the waiting queues."""
    next: Cursor


class QuotaLogEntry(Response):
    """Entry of a quota's log. Entries are numbered without gaps, and each entry has the hash of the previous entry."""

    gate_id: GateId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RULE_SET"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    """States `before` and `after`. Each has `breaker` if the state of the breaker changed. JOB_ADMITTED: `after` has
    the `job_id`."""
    prev_hash: str
    hash: str


class QuotaLogPage(Response):
    """Changes of a quota, in order."""

    entries: list[QuotaLogEntry]
    next: Cursor


def quota(
    admission: AdmissionState, directory: Directory, state: GateState, now: datetime, oldest: QueuedJob | None
) -> Quota:
    """Makes the quota's state. `oldest` is the first job of the quota's waiting queues."""
    gate, of_all = state.gate, state.gate.tenant == EVERY
    rule = directory.find_rule(state)
    # the published state of a quota over all tenants has the limits of the settings
    own = state.rule if state.rule is not None and state.rule.setting is None else None
    credit = rate.accrue(state, rule, now).credit if rate.find_rate(state, rule, now) is not None else None
    path = f"/v1/quotas/{gate.id}"
    staged = admission.staged if gate.kind is GateKind.TENANT else count_waiting(admission, gate)
    hold = state.hold if state.hold is not None and state.hold.is_on(now) else None
    throttle = state.throttle if state.throttle is not None and state.throttle.is_on(now) else None
    return Quota(
        id=gate.id,
        kind=gate.kind.value,
        tenant=gate.tenant,
        name=gate.display_name if gate.kind in OVER_ALL else None,
        etag=etag_of(state),
        rule=_rule(own),
        in_force=_rule(rule),
        ruled_by=_ruled_by(own, rule),
        hold=QuotaHold.of(hold) if hold is not None else None,
        throttle=QuotaThrottle.of(throttle) if throttle is not None else None,
        breaker=_breaker(state.breaker, rule, now) if not of_all or gate.kind is GateKind.PLATFORM_TYPE else None,
        active=None if of_all else admission.count_active(gate),
        staged=None if of_all else staged,
        tokens=max(0, credit // rate.START) if credit is not None and not of_all else None,
        next_start_at=None if of_all else rate.find_next_start(state, rule, now),
        shares=None,
        oldest_wait_at=oldest.created_at if oldest is not None else None,
        links=QuotaLinks(self=path, waiting=f"{path}/waiting", log=f"{path}/log"),
        **{kind.label: gate.name_of(kind.key) for kind in PARTS},
    )


def quota_over_all(
    directory: Directory, state: GateState, now: datetime, parts: Sequence[TenantPart], *, shows_reasons: bool
) -> Quota:
    """Makes the state of a quota over all tenants, with the parts of the tenants that the caller sees.

    With `shows_reasons` the state includes the reasons and actors of hold and throttle, which may concern other
    tenants.
    """
    divided = state.gate.kind in ALLOCATED
    whole = quota(AdmissionState(tenant=EVERY, counted_at=now), directory, state, now, None)
    unsaid = {} if shows_reasons else {"reason": None, "actor": None}
    oldest = [part.oldest.created_at for part in parts if part.oldest is not None]
    shares = [QuotaShare.of(each, keep=each.slots) for each in parts]
    return whole.model_copy(
        update={
            "hold": whole.hold.model_copy(update=unsaid) if whole.hold is not None else None,
            "throttle": whole.throttle.model_copy(update=unsaid) if whole.throttle is not None else None,
            "active": sum(part.active for part in parts) if divided else None,
            "staged": sum(part.waiting for part in parts) if divided else None,
            "shares": shares if divided else None,
            "oldest_wait_at": min(oldest, default=None),
        }
    )


def etag_of(state: GateState) -> str:
    """Returns the ETag, which changes with limits, hold, throttle and resets of the breaker. The ETag has 128 bits in
    hex, in quotes like every ETag of this API.
    """
    return f'"{state.rule_seq:032x}"'


def quota_change(before: GateState, after: GateState, now: Quota) -> QuotaChange:
    return QuotaChange(changed=before is not after, before=encode_state(before), after=encode_state(after), quota=now)


def waiting_job(standing: QueuePosition, position: int) -> WaitingJob:
    candidate, verdict = standing.waiting.candidate, standing.stopped_by
    assert verdict.blocked_by is not None
    wait = quota_wait(verdict, standing.expected_at)
    return WaitingJob.of(
        candidate,
        jobId=candidate.job_id,
        position=position,
        request_type=candidate.job_type,
        created_at=standing.waiting.created_at,
        stopped_by=verdict.gate.id,
        gate=verdict.gate.display_name,
        why=verdict.blocked_by.value,
        nextEligibleAt=standing.expected_at,
        waits_for=wait_reason(wait, position),
        quota_wait=wait,
    )


def _rule(rule: Rule | None) -> QuotaRule | None:
    if rule is None:
        return None
    breaker = QuotaBreakerRule(**asdict(rule.breaker)) if rule.breaker is not None else None
    return QuotaRule(**{name: getattr(rule, name) for name in NUMBERS}, breaker=breaker)


def _breaker(breaker: Breaker | None, rule: Rule | None, now: datetime) -> QuotaBreaker | None:
    if rule is None or rule.breaker is None:
        return None
    found = advance(breaker or Breaker(), now)
    allow = found.allow if found.state is BreakerState.HALF_OPEN else None
    return QuotaBreaker.of(found, state=found.state.value, allow=allow)


def _ruled_by(own: Rule | None, rule: Rule | None) -> str | None:
    if rule is None:
        return None
    return "own" if own is not None else rule.setting or EVERY
