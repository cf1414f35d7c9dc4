"""Quotas, the jobs that wait for them, and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from shared.api.response import Cursor, Instant, JobId, Response
from shared.api.wait_reason import wait_reason
from shared.core.gates import rate
from shared.core.gates.admission import Waiting
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.breaker import Breaker, BreakerState, at
from shared.core.gates.changes import NUMBERS, plain
from shared.core.gates.log import LogEntry
from shared.core.gates.queue_position import QueuePosition, TenantPart, waiting_of
from shared.core.gates.rules import DIVIDED, EVERY, OVER_ALL, PARTS, Directory, GateKind, GateState, Rule

GateId = Annotated[str, Field(pattern="^[0-9a-f]{16}$", examples=["0f3a5b7c9d1e2f40"])]
GateKindName = Annotated[str, WithJsonSchema({"enum": list(GateKind), "type": "string"})]
ShutName = Literal["HELD", "FULL", "RATE", "BREAKER", "LINE"]


class QuotaBreakerRule(Response):
    """When a breaker opens."""

    failure_rate: float
    """Bad ends in all that count."""
    min_calls: int
    """Ends that have to count."""
    cooldown_s: int
    """Seconds that it is open the first time."""
    min_tenants: int | None = None
    """Of a gate over all tenants: tenants that the bad ends have to be of."""


class QuotaRule(Response):
    """Numbers of a gate; one that is not there limits nothing."""

    max_active: int | None = None
    """Jobs that are inside at once."""
    max_per_hour: int | None = None
    """Starts in an hour."""
    burst: int | None = None
    """Starts that may come at once."""
    max_staged: int | None = None
    """Jobs of the tenant that may wait."""
    emergency_max_active: int | None = None
    """Emergencies that pass every number and rate."""
    weight: int | None = None
    """The tenant's share of what is divided among tenants, beside others'; 1 where none is set."""
    breaker: QuotaBreakerRule | None = None
    """While too many of its jobs end badly nobody goes in, then few."""


class QuotaHold(Response):
    """Nobody passes the gate."""

    reason: str | None
    """First 200 characters; the log of the quota has the whole reason. Null: the quota is over all tenants, and the
    caller does not see all tenants."""
    actor: str | None
    """Null in the same case."""
    at: Instant
    until: Instant | None
    """Null: until somebody resumes."""


class QuotaThrottle(QuotaHold):
    """A rate for a time, beside the rule's."""

    max_per_hour: int


class QuotaShare(Response):
    """What a tenant has of a limit over all tenants."""

    tenant: str
    keep: int
    """It lets in while fewer of its jobs are inside; what others do not need is lent to it too."""
    active: int
    waiting: int


class QuotaBreaker(Response):
    """Where the breaker of a job type stands."""

    state: Literal["CLOSED", "OPEN", "HALF_OPEN"]
    """CLOSED: it limits nothing; OPEN: nobody goes in; HALF_OPEN: few do."""
    until: Instant | None
    """Of an open one: half-open from then on."""
    allow: int | None
    """Of a half-open one: so many jobs at once."""
    bad: int
    """Bad ends that count; of an open one those by which it opened."""
    calls: int
    """All ends that count, likewise."""


class QuotaLinks(Response):
    """Paths of this API about the gate."""

    self: str
    waiting: str
    log: str


class Quota(Response):
    """A gate: what is set for it, and its own numbers now."""

    id: GateId
    kind: GateKindName
    tenant: str
    """As it is compared: trimmed and lower-cased; `*`: every tenant."""
    name: str | None
    """Of a gate over all tenants: `platform`, `mode:BURST`, `type:OCR`, `service:ocr`, `lane:3`."""
    type: str | None
    """Of a gate of a job type; of tenant `*` also `*`: each type."""
    source: str | None
    """Of a gate of a source, trimmed and lower-cased."""
    etag: str
    """For `If-Match`: of rule, hold and throttle, not of the counts."""
    rule: QuotaRule | None
    """What somebody set for this very gate."""
    in_force: QuotaRule | None
    """The rule that counts; null: none does."""
    ruled_by: str | None
    """Where that comes from: `own`, `*` (the rule for every tenant) or the name of a setting."""
    hold: QuotaHold | None
    throttle: QuotaThrottle | None
    breaker: QuotaBreaker | None
    """Null: the rule in force has none."""
    active: int | None
    """Jobs inside; null for tenant `*`."""
    staged: int | None
    """Jobs that wait: of a tenant's gate all that were accepted and have not begun, else those in its lines."""
    tokens: int | None
    """Starts that its rate allows at once now; null: no rate is on."""
    next_start_at: Instant | None
    """When its rate allows the next one; null: now, or no rate is on."""
    shares: list[QuotaShare] | None
    """Of a limit over all tenants, what each of them has of it; a caller of one tenant sees that one."""
    oldest_wait_at: Instant | None
    """Since when the first in line has been there."""
    links: QuotaLinks


class QuotaPage(Response):
    """Gates, a tenant's own first."""

    quotas: list[Quota]
    next: Cursor


class QuotaChange(Response):
    """A gate before and after a change; the numbers are those of now."""

    changed: bool
    """False: it was so already, and nothing was written."""
    before: dict[str, Any]
    """`rule`, `hold` and `throttle`; null where there was none."""
    after: dict[str, Any]
    """The same now."""
    quota: Quota
    dryRun: bool = False
    released: int | None = None
    """Dry run: jobs in line that would go in at once, counted to 1,000."""
    held_back: int | None = None
    """Dry run: jobs in line for this gate that would go on waiting, counted to 1,000."""


class WaitingJob(Response):
    """A job in line."""

    jobId: JobId
    position: Annotated[int, Field(ge=1)]
    """Among those that wait for the gate."""
    request_type: str
    source: str | None
    priority: str
    created_at: Instant
    stopped_by: GateId
    """The gate that keeps it."""
    gate: str
    """The same in words."""
    why: ShutName
    """HELD: held; FULL: as many inside as may be; RATE: its rate; BREAKER: too many of its jobs ended badly; LINE:
    others are before it."""
    nextEligibleAt: Instant | None
    """Estimated start. Null: time alone does not start it. HELD: it starts after the quota is resumed; FULL: after a
    job of this quota ends, or, over all tenants, after an allocation; RATE: as the rate allows; BREAKER: after enough
    jobs have ended well; LINE: after the jobs before it."""
    waits_for: str | None = None
    """The cause in words, with actor, reason and times of a hold, and what starts the job."""


class WaitingPage(Response):
    """Who waits for a gate, in order: the first thousand."""

    waiting: list[WaitingJob]
    total: int
    """How many wait, by the counts of the lines."""
    next: Cursor


class QuotaLogEntry(Response):
    """One change of a gate: numbered without gaps, chained to the one before by its hash."""

    gate_id: GateId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RULE_SET"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    """`before` and `after`; with `breaker` where that moved. JOB_ADMITTED: `after` has the `job_id`."""
    prev_hash: str
    hash: str


class QuotaLogPage(Response):
    """The changes of a gate, in order."""

    entries: list[QuotaLogEntry]
    next: Cursor


def quota(
    admission: AdmissionState, directory: Directory, state: GateState, now: datetime, oldest: Waiting | None
) -> Quota:
    """A gate as it stands; `oldest` is the first in its lines."""
    gate, of_all = state.gate, state.gate.tenant == EVERY
    rule = directory.rule_of(state)
    credit = rate.settled(state, rule, now).credit if rate.rate_of(state, rule, now) is not None else None
    path = f"/v1/quotas/{gate.id}"
    staged = admission.staged if gate.kind is GateKind.TENANT else waiting_of(admission, gate)
    hold = state.hold if state.hold is not None and state.hold.is_on(now) else None
    throttle = state.throttle if state.throttle is not None and state.throttle.is_on(now) else None
    return Quota(
        id=gate.id,
        kind=gate.kind.value,
        tenant=gate.tenant,
        name=gate.words if gate.kind in OVER_ALL else None,
        etag=etag_of(state),
        rule=_rule(state.rule),
        in_force=_rule(rule),
        ruled_by=_ruled_by(state, rule),
        hold=QuotaHold.of(hold) if hold is not None else None,
        throttle=QuotaThrottle.of(throttle) if throttle is not None else None,
        breaker=_breaker(state.breaker, rule, now) if not of_all or gate.kind is GateKind.PLATFORM_TYPE else None,
        active=None if of_all else admission.inside_of(gate),
        staged=None if of_all else staged,
        tokens=max(0, credit // rate.START) if credit is not None and not of_all else None,
        next_start_at=None if of_all else rate.next_start(state, rule, now),
        shares=None,
        oldest_wait_at=oldest.created_at if oldest is not None else None,
        links=QuotaLinks(self=path, waiting=f"{path}/waiting", log=f"{path}/log"),
        **{kind.label: gate.name_of(kind.key) for kind in PARTS},
    )


def quota_over_all(
    directory: Directory, state: GateState, now: datetime, parts: Sequence[TenantPart], *, shows_reasons: bool
) -> Quota:
    """Returns a quota over all tenants, with the parts of the tenants that the caller sees.

    `shows_reasons`: whether a hold and a throttle have their reason and their actor, which may concern other tenants.
    """
    divided = state.gate.kind in DIVIDED
    whole = quota(AdmissionState(tenant=EVERY, counted_at=now), directory, state, now, None)
    unsaid = {} if shows_reasons else {"reason": None, "actor": None}
    oldest = [part.oldest.created_at for part in parts if part.oldest is not None]
    shares = [
        QuotaShare(tenant=each.tenant, keep=each.keep, active=each.active, waiting=each.waiting) for each in parts
    ]
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
    """Of rule, hold and throttle: 128 bits in hex in quotes, as every ETag of this API."""
    return f'"{state.rule_seq:032x}"'


def quota_change(before: GateState, after: GateState, now: Quota) -> QuotaChange:
    return QuotaChange(changed=before is not after, before=plain(before), after=plain(after), quota=now)


def waiting_job(standing: QueuePosition, position: int) -> WaitingJob:
    candidate, verdict = standing.waiting.candidate, standing.stopped_by
    assert verdict.blocked_by is not None
    return WaitingJob(
        jobId=candidate.job_id,
        position=position,
        request_type=candidate.job_type,
        source=candidate.source,
        priority=candidate.priority,
        created_at=standing.waiting.created_at,
        stopped_by=verdict.gate.id,
        gate=verdict.gate.words,
        why=verdict.blocked_by.value,
        nextEligibleAt=standing.expected_at,
        waits_for=wait_reason(verdict, position, standing.expected_at),
    )


def log_entry(entry: LogEntry) -> QuotaLogEntry:
    return QuotaLogEntry.of(entry)


def _rule(rule: Rule | None) -> QuotaRule | None:
    if rule is None:
        return None
    breaker = QuotaBreakerRule(**asdict(rule.breaker)) if rule.breaker is not None else None
    return QuotaRule(**{name: getattr(rule, name) for name in NUMBERS}, breaker=breaker)


def _breaker(breaker: Breaker | None, rule: Rule | None, now: datetime) -> QuotaBreaker | None:
    if rule is None or rule.breaker is None:
        return None
    found = at(breaker or Breaker(), now)
    return QuotaBreaker(
        state=found.state.value,
        until=found.until,
        allow=found.allow if found.state is BreakerState.HALF_OPEN else None,
        bad=found.bad,
        calls=found.calls,
    )


def _ruled_by(state: GateState, rule: Rule | None) -> str | None:
    if rule is None:
        return None
    return "own" if state.rule is not None else rule.setting or EVERY
