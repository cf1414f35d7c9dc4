"""The overview of one tenant or of all tenants: its facts, and each problem in one sentence.

`GET /v1/dashboard/metrics`, the dashboard and `lucius status` show the problems that `problems_of` finds.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import EVERY, GUARDS, OVER_ALL
from shared.core.gates.tight_quotas import MAX_TIGHT, TightQuota
from shared.core.incidents import Incident, IncidentKind
from shared.core.jobs.states import JobStatus
from shared.core.overview.minutes import MinuteCounts

MAX_PROBLEMS = 20
#: time after which an unacknowledged directive is a problem
SLOW_AFTER = timedelta(minutes=2)
#: time window of failures, which are a problem if it has `_MANY_FAILURES` failed jobs and a failed share of
#: `_FAILED_SHARE`
_FAILURES_WITHIN = timedelta(minutes=10)
_MANY_FAILURES, _FAILED_SHARE = 5, 0.2
_STAYS_OPEN = "The incident stays open until its cause ends, or until a caller resolves or dismisses the incident."
_JOB_STAYS_OPEN = (
    "An incident of a job stays open until a caller redrives the job, or resolves or dismisses the incident."
)
_KINDS = {
    IncidentKind.JOB: "job",
    IncidentKind.BREAKER: "circuit breaker of quota",
    IncidentKind.SERVICE: "service",
    IncidentKind.ROW: "row",
}


class Level(StrEnum):
    """The severity of a problem."""

    CRITICAL = "critical"
    """A fault prevents jobs from starting or continuing, or the last sweep is late."""
    WARNING = "warning"
    """An operator must check the cause."""
    OK = "ok"


class SubjectKind(StrEnum):
    """The kind of a problem's subject."""

    DEPENDENCY = "dependency"
    SWEEPER = "sweeper"
    SERVICE = "service"
    QUOTA = "quota"
    INCIDENT = "incident"
    FAILURES = "failures"
    REJECTED = "rejected"
    WEBHOOK = "webhook"


@dataclass(frozen=True, kw_only=True)
class HealthProblem:
    """A problem that needs an operator. Level OK means no problem."""

    level: Level
    sentence: str
    #: the consequence if no operator acts
    consequence: str | None = None
    since: datetime | None = None
    kind: SubjectKind | None = None
    subject: str | None = None
    #: the next `lucius` command
    command: str | None = None


@dataclass(frozen=True, kw_only=True)
class Service:
    """The state of a platform service."""

    name: str
    #: time of the last reply, accurate to about one minute; None if unknown or not shown
    answered_at: datetime | None = None
    #: time when the sweeper found the service silent; None if the service replies
    silent_since: datetime | None = None
    #: number of unacknowledged directives; None if not shown
    waiting: int | None = None
    waiting_since: datetime | None = None
    in_flight: int | None = None


@dataclass(frozen=True, kw_only=True)
class Down:
    """A dependency that does not respond."""

    name: str
    reason: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The facts from which the overview and its problems are made."""

    at: datetime
    #: tenant id; None means all tenants
    tenant: str | None
    down: Sequence[Down] = ()
    #: end of the last sweep; None means no sweep yet
    swept_at: datetime | None = None
    sweeper_late: bool = False
    #: number of living jobs by state
    active: Counter[str] = field(default_factory=Counter)
    #: `True` if there may be more living jobs
    active_at_least: bool = False
    services: Sequence[Service] = ()
    quotas: Sequence[TightQuota] = ()
    #: open incidents, most recently opened first
    incidents: Sequence[Incident] = ()
    incidents_at_least: bool = False
    #: messages of the last hour that no job accepted, by reason, without redriven ones
    rejected: Counter[str] = field(default_factory=Counter)
    rejected_at_least: bool = False
    #: receipt time of the oldest rejected message
    rejected_since: datetime | None = None
    #: number of suspended webhooks by tenant
    suspended_hooks: Counter[str] = field(default_factory=Counter)
    #: counts of `tenant` by minute
    minutes: Mapping[datetime, MinuteCounts] = field(default_factory=dict)


def health_of(overview: Overview, problems: Sequence[HealthProblem]) -> HealthProblem:
    """Returns the worst problem, or a problem of level OK if no problem exists."""
    if problems:
        return problems[0]
    more = "At least " if overview.active_at_least else ""
    sentence = f"All good. {more}{_count(overview.active.total(), 'job')} in progress, waiting or paused."
    if held := sum(quota.held for quota in overview.quotas):
        least = "At least " if held == MAX_TIGHT else ""
        sentence += f" {least}{_count(held, 'quota')} {'is' if held == 1 else 'are'} held."
    return HealthProblem(level=Level.OK, sentence=sentence)


def problems_of(overview: Overview) -> list[HealthProblem]:
    """Returns the problems, worst first, at most `MAX_PROBLEMS`."""
    found = [
        *_find_unreachable(overview),
        *_find_late_sweeper(overview),
        *(problem for service in overview.services for problem in _find_service_problems(overview, service)),
        *(problem for quota in overview.quotas for problem in _find_quota_problems(overview, quota)),
        *_find_failures(overview),
        *_find_incidents(overview),
        *_find_rejected_messages(overview),
        *_find_suspended_hooks(overview),
    ]
    return sorted(found, key=lambda problem: problem.level is not Level.CRITICAL)[:MAX_PROBLEMS]


def _find_unreachable(overview: Overview) -> Iterator[HealthProblem]:
    for down in overview.down:
        yield HealthProblem(
            level=Level.CRITICAL,
            sentence=f"{down.name}: down for {age(overview.at, down.since)} ({down.reason}).",
            consequence="Jobs that need the dependency stop until the dependency works again.",
            since=down.since,
            kind=SubjectKind.DEPENDENCY,
            subject=down.name,
            command="lucius health",
        )


def _find_late_sweeper(overview: Overview) -> Iterator[HealthProblem]:
    if overview.sweeper_late and overview.swept_at is not None:
        yield HealthProblem(
            level=Level.CRITICAL,
            sentence=f"Sweeper: the last sweep ended {age(overview.at, overview.swept_at)} ago.",
            consequence="Jobs continue, but lost messages are not detected, and the numbers are as of the last sweep.",
            since=overview.swept_at,
            kind=SubjectKind.SWEEPER,
            subject="sweeper",
            command="lucius health",
        )


def _find_service_problems(overview: Overview, service: Service) -> Iterator[HealthProblem]:
    waits = f", {_count(service.waiting, 'directive')} {_verb(service.waiting, 'wait')}" if service.waiting else ""
    about = {
        "kind": SubjectKind.SERVICE,
        "subject": service.name,
        "command": _with_tenant("lucius job list --status QUEUED,IN_PROGRESS", overview.tenant),
    }
    if service.silent_since is not None:
        since = service.answered_at or service.waiting_since or service.silent_since
        yield HealthProblem(
            level=Level.CRITICAL,
            sentence=f"{service.name}: no reply for {age(overview.at, since)}{waits}.",
            consequence="Jobs of the service wait until the service replies, or fail at their time limit.",
            since=since,
            **about,  # type: ignore[arg-type]
        )
    elif service.waiting_since is not None and overview.at - service.waiting_since >= SLOW_AFTER:
        yield HealthProblem(
            level=Level.WARNING,
            sentence=f"{service.name}: a directive has waited {age(overview.at, service.waiting_since)} for its ACK"
            f"{waits}.",
            consequence="The directives stay on their lanes until the service receives them.",
            since=service.waiting_since,
            **about,  # type: ignore[arg-type]
        )


def _find_quota_problems(overview: Overview, quota: TightQuota) -> Iterator[HealthProblem]:
    """Yields the problem of a quota, if any.

    A reached limit is not a problem, nor is a hold without waiting jobs. The steps that wait for a dispatch limit are
    not counted, therefore a hold of a dispatch limit is a problem, for one tenant only if the tenant has active jobs.
    """
    gate = quota.gate
    name = (
        gate.display_name
        if gate.kind in OVER_ALL or overview.tenant is None
        else gate.display_name.partition(", ")[2] or "tenant"
    )
    waits = f", {_count(quota.waiting, 'job')} {_verb(quota.waiting, 'wait')}" if quota.waiting else ""
    selects = f" --gate {_quote(gate.display_name)}" if gate.kind in OVER_ALL else f" --tenant {_quote(gate.tenant)}"
    if gate.kind not in OVER_ALL and gate.name:
        selects += f" --{gate.kind.label} {_quote(gate.name)}"
    about = {"kind": SubjectKind.QUOTA, "subject": gate.id, "since": quota.oldest_at}
    if quota.breaker is BreakerState.OPEN:
        yield HealthProblem(
            level=Level.CRITICAL,
            sentence=f"Quota {name}: the circuit breaker is open{waits}.",
            consequence="No job starts until the breaker is half-open. Then 1 job starts, then 2, up to 32.",
            command=f"lucius quota show{selects}",
            **about,  # type: ignore[arg-type]
        )
    sends = gate.kind in GUARDS
    concerns = overview.tenant is None or overview.active.total()
    if quota.held and (quota.waiting or (sends and concerns)):
        yield HealthProblem(
            level=Level.WARNING,
            sentence=f"Quota {name}: held{waits}.",
            consequence=f"No {'step' if sends else 'job'} starts until the quota is resumed, or the hold ends.",
            command=f"lucius quota show{selects}",
            **about,  # type: ignore[arg-type]
        )


def _find_failures(overview: Overview) -> Iterator[HealthProblem]:
    since = overview.at - _FAILURES_WITHIN
    recent = [counts for minute, counts in overview.minutes.items() if minute >= since]
    reasons: Counter[str] = Counter()
    ended = failed = 0
    for counts in recent:
        for (_, status, reason), number in counts.ends.items():
            ended += number
            if status == JobStatus.FAILED_FINAL:
                failed += number
                reasons[reason] += number
    if failed < _MANY_FAILURES or failed < _FAILED_SHARE * ended:
        return
    reason = reasons.most_common(1)[0][0] or "unknown"
    yield HealthProblem(
        level=Level.WARNING,
        sentence=f"Failures: {failed:,} of {_count(ended, 'job')} failed in the last 10 minutes, most often with "
        f"{reason}.",
        consequence="Failed jobs stay dead letters until they are redriven or dismissed.",
        since=min(minute for minute in overview.minutes if minute >= since),
        kind=SubjectKind.FAILURES,
        subject=reason,
        command=_with_tenant("lucius deadletter list", overview.tenant),
    )


def _find_incidents(overview: Overview) -> Iterator[HealthProblem]:
    """Yields the problems of open incidents. All failed jobs together are one problem."""
    failed = [each for each in overview.incidents if each.kind is IncidentKind.JOB]
    if len(failed) > 1:
        codes = Counter(each.code for each in failed)
        more = "at least " if overview.incidents_at_least else ""
        yield HealthProblem(
            level=Level.WARNING,
            sentence=f"Incidents: {more}{len(failed)} failed jobs wait for an operator, most often with "
            f"{codes.most_common(1)[0][0]}.",
            consequence=_JOB_STAYS_OPEN,
            since=failed[-1].opened_at,
            kind=SubjectKind.INCIDENT,
            subject=failed[0].id,
            command=_with_tenant("lucius incident list --kind JOB", overview.tenant),
        )
    for incident in overview.incidents:
        if (incident in failed and len(failed) > 1) or _is_named(overview, incident):
            continue
        whose = f" of tenant {incident.tenant}" if incident.tenant and overview.tenant is None else ""
        yield HealthProblem(
            level=Level.WARNING,
            sentence=f"Incident: {_KINDS[incident.kind]} {incident.subject}{whose}, {incident.code}, open for "
            f"{age(overview.at, incident.opened_at)}.",
            consequence=_JOB_STAYS_OPEN if incident.kind is IncidentKind.JOB else _STAYS_OPEN,
            since=incident.opened_at,
            kind=SubjectKind.INCIDENT,
            subject=incident.id,
            command=f"lucius incident show {incident.id}",
        )


def _find_rejected_messages(overview: Overview) -> Iterator[HealthProblem]:
    if not overview.rejected:
        return
    reason = overview.rejected.most_common(1)[0][0]
    more = "at least " if overview.rejected_at_least else ""
    yield HealthProblem(
        level=Level.WARNING,
        sentence=f"Rejected messages: no job accepted {more}{_count(overview.rejected.total(), 'message')} in the last "
        f"hour, most with reason {reason}.",
        consequence="Jobs continue without the messages. An attempt whose RESULT was rejected ends at its time limit.",
        since=overview.rejected_since,
        kind=SubjectKind.REJECTED,
        subject=reason,
        command=_with_tenant("lucius rejected list", overview.tenant),
    )


def _find_suspended_hooks(overview: Overview) -> Iterator[HealthProblem]:
    """Yields one problem for all suspended webhooks, if any."""
    if not overview.suspended_hooks:
        return
    [(tenant, _)] = overview.suspended_hooks.most_common(1)
    number, tenants = overview.suspended_hooks.total(), len(overview.suspended_hooks)
    whose = (
        "" if overview.tenant is not None else f" of tenant {tenant}" if tenants == 1 else f" of {tenants:,} tenants"
    )
    yield HealthProblem(
        level=Level.WARNING,
        sentence=f"Webhooks: {_count(number, 'webhook')}{whose} {'is' if number == 1 else 'are'} suspended.",
        consequence="Events wait until a caller resumes their webhook, at most for the retention of the feed.",
        kind=SubjectKind.WEBHOOK,
        subject=tenant,
        command=_with_tenant("lucius webhook list", tenant),
    )


def _is_named(overview: Overview, incident: Incident) -> bool:
    """Returns `True` if another problem already names the cause of the incident."""
    if incident.kind is IncidentKind.SERVICE:
        return any(each.name == incident.subject and each.silent_since for each in overview.services)
    return any(each.gate.id == incident.subject and each.breaker is BreakerState.OPEN for each in overview.quotas)


def age(now: datetime, since: datetime) -> str:
    """Formats the time since `since` in words, such as "3 minutes"."""
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return _count(seconds // size, unit)
    return _count(seconds, "second")


def _count(number: int | None, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number or 0:,} {noun}s"


def _verb(number: int | None, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _with_tenant(command: str, tenant: str | None) -> str:
    return f"{command} --tenant {_quote(tenant)}" if tenant is not None and tenant != EVERY else command


def _quote(text: str) -> str:
    """Quotes a value for a shell, on one line of a terminal. A caller may have chosen the value."""
    return shlex.quote("".join(char if char.isprintable() else "?" for char in text))
