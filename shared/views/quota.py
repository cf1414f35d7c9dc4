"""The response models of a gate and of who waits at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from shared.core.gates import rate
from shared.core.gates.admission import Waiting
from shared.core.gates.breaker import Breaker, BreakerState, at
from shared.core.gates.changes import NUMBERS, plain
from shared.core.gates.desk import Desk
from shared.core.gates.log import LogEntry
from shared.core.gates.queue_position import QueuePosition, TenantPart, waiting_of
from shared.core.gates.rules import DIVIDED, EVERY, OVER_ALL, Directory, GateKind, GateState, Rule
from shared.responses.quota import (
    Quota,
    QuotaBreaker,
    QuotaBreakerRule,
    QuotaChange,
    QuotaHold,
    QuotaLinks,
    QuotaLogEntry,
    QuotaRule,
    QuotaShare,
    QuotaThrottle,
    WaitingJob,
)


def quota(desk: Desk, directory: Directory, state: GateState, now: datetime, oldest: Waiting | None) -> Quota:
    """A gate as it stands; `oldest` is the first in its lines."""
    gate, of_all = state.gate, state.gate.tenant == EVERY
    rule = directory.rule_of(state)
    credit = rate.settled(state, rule, now).credit if rate.rate_of(state, rule, now) is not None else None
    path = f"/v1/quotas/{gate.id}"
    staged = desk.staged if gate.kind is GateKind.TENANT else waiting_of(desk, gate)
    hold = state.hold if state.hold is not None and state.hold.is_on(now) else None
    throttle = state.throttle if state.throttle is not None and state.throttle.is_on(now) else None
    return Quota(
        id=gate.id,
        kind=gate.kind.value,
        tenant=gate.tenant,
        name=gate.words if gate.kind in OVER_ALL else None,
        type=gate.name if gate.kind in (GateKind.TYPE, GateKind.PLATFORM_TYPE) else None,
        source=gate.name if gate.kind is GateKind.SOURCE else None,
        etag=etag_of(state),
        rule=_rule(state.rule),
        in_force=_rule(rule),
        ruled_by=_ruled_by(state, rule),
        hold=QuotaHold.of(hold) if hold is not None else None,
        throttle=QuotaThrottle.of(throttle) if throttle is not None else None,
        breaker=_breaker(state.breaker, rule, now) if not of_all or gate.kind is GateKind.PLATFORM_TYPE else None,
        active=None if of_all else desk.inside_of(gate),
        staged=None if of_all else staged,
        tokens=max(0, credit // rate.START) if credit is not None and not of_all else None,
        next_start_at=None if of_all else rate.next_start(state, rule, now),
        shares=None,
        oldest_wait_at=oldest.created_at if oldest is not None else None,
        links=QuotaLinks(self=path, waiting=f"{path}/waiting", log=f"{path}/log"),
    )


def quota_over_all(
    directory: Directory, state: GateState, now: datetime, parts: Sequence[TenantPart], *, shows_reasons: bool
) -> Quota:
    """Returns a quota over all tenants, with the parts of the tenants that the caller sees.

    `shows_reasons`: whether a hold and a throttle have their reason and their actor, which may concern other tenants.
    """
    divided = state.gate.kind in DIVIDED
    whole = quota(Desk(tenant=EVERY, counted_at=now), directory, state, now, None)
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
