"""The overview in the dashboard and in `lucius status`, and the lane of a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from shared.api.health import DependencyState
from shared.api.incident import Incident, incident
from shared.api.quota import GateId, GateKindName
from shared.api.response import Instant, Response
from shared.core.gates.tight_quotas import TightQuota
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX, LaneDecision
from shared.core.jobs.states import JobStatus
from shared.core.overview.minutes import ACK, RESULT, MinuteCounts, percentile_ms
from shared.core.overview.overview import HealthProblem, Overview, Service, health_of, problems_of
from shared.ports.sweeps import Backlog, SweepMark, WorkCounts


class OverviewSubject(Response):
    """Kind and id of a problem's subject."""

    kind: Literal["dependency", "sweeper", "service", "quota", "incident", "failures", "rejected", "webhook"]
    id: str
    """Name of the dependency or service, id of the quota or incident, or `sweeper`. For failures and rejected messages,
    the most frequent reason. For suspended webhooks, the tenant with the most suspended webhooks."""


class OverviewProblem(Response):
    """Problem that needs an operator."""

    level: Literal["critical", "warning"]
    """Severity. `critical`: a fault prevents jobs from starting or continuing, or the last sweep is late. `warning`:
    another problem, for example a hold."""
    sentence: str
    """Problem in one sentence."""
    consequence: str | None
    """Consequence if no operator acts."""
    since: Instant | None
    subject: OverviewSubject
    command: str | None
    """Next `lucius` command to run."""


class OverviewHealth(Response):
    """Worst problem, or the statement that no problem exists."""

    level: Literal["critical", "warning", "ok"]
    sentence: str
    since: Instant | None
    subject: OverviewSubject | None
    """Subject of the worst problem. Null if there is no problem."""
    command: str | None


class OverviewJobs(Response):
    """Jobs that have not ended."""

    active: dict[str, int]
    """Number of jobs by status. A status without jobs is absent."""
    at_least: bool
    """`true` if the overview is of one tenant, and the tenant has at least 1,000 of these jobs. `active` then counts
    1,000 jobs."""
    counted_at: Instant | None
    """End of the last sweep. The statuses are as of this time or, if many jobs have not ended, some sweeps older. Null
    before the first sweep."""


class OverviewLatency(Response):
    """Latency in milliseconds, from the record of the attempt to its ACK or RESULT. A percentile is the upper bound of
    its bucket."""

    count: int
    p50_ms: int
    p95_ms: int


class OverviewMinute(Response):
    """Counts of one minute. Approximate: the counts of a process that is killed are lost."""

    minute: Instant
    active: dict[str, int] | None
    """Number of jobs that had not ended, by status. Null in the overview of one tenant, or if no sweep counted the
    jobs in this minute."""
    ended: dict[str, int]
    """Number of jobs that ended, by status."""
    reasons: dict[str, int]
    """Number of jobs that ended without success, by error code or, without an error code, by status."""
    ack: OverviewLatency | None
    """Latency of the minute's ACKs. Null if this minute has no ACK, or in the overview of one tenant."""
    result: OverviewLatency | None
    """Latency of the minute's RESULTs. Null if this minute has no RESULT, or in the overview of one tenant."""


class OverviewLane(Response):
    """Directives of one lane that no service has acknowledged, by the sweeper's last complete count."""

    lane: Annotated[int, Field(ge=0)]
    topic: Annotated[str, Field(examples=["global-bus-p3"])]
    waiting: int
    oldest_seconds: float
    """Age of the oldest directive in seconds. 0 if no directive waits."""
    services: dict[str, int]
    """Number of directives by service."""


class OverviewService(Response):
    """Platform service. In the overview of one tenant all fields but `service` and `silent_since` are null."""

    service: str
    answered_at: Instant | None
    """Time of the service's last reply, accurate to about one minute."""
    silent_since: Instant | None
    """Time when the sweeper found the service silent. Null if the service replies."""
    waiting: int | None
    """Number of directives that the service has not acknowledged, by the sweeper's last complete count."""
    oldest_seconds: float | None
    in_flight: int | None
    """Number of attempts that the service has acknowledged and has not ended, by the sweeper's last complete
    count."""
    ack: OverviewLatency | None
    """Latency of the ACKs of the last hour. Null if the last hour has no ACK."""
    result: OverviewLatency | None
    """Latency of the RESULTs of the last hour. Null if the last hour has no RESULT."""


class OverviewQuota(Response):
    """Quota that is held or throttled, has an open or half-open circuit breaker, or uses at least 90 % of its limit of
    active jobs.
    """

    id: GateId
    kind: GateKindName
    tenant: str
    """Tenant id. `*` for a quota over all tenants."""
    name: str
    """Name of the quota in words."""
    active: int
    max_active: int | None
    waiting: int
    oldest_wait_seconds: float | None
    held: bool
    throttled: bool
    breaker: Literal["OPEN", "HALF_OPEN"] | None


class OverviewIncidents(Response):
    """Number of open incidents, and the newest open incident."""

    open: int
    at_least: bool
    """`true` if there may be more open incidents. `open` is then a minimum, and at most 50."""
    newest: Incident | None


class OverviewSweeper(Response):
    """The last sweep in any process. If several sweepers share the tenants, the fields combine their last sweeps, and
    `last_pass_at` is the earliest end.
    """

    last_pass_at: Instant | None
    """End of the last sweep. Null before the first sweep."""
    late: bool
    more: bool | None
    """`true` if the sweep left checks or clearings of jobs, admissions, or expired rejected messages to the next
    sweep."""


class DashboardMetrics(Response):
    """Overview of one tenant or of all tenants."""

    at: Instant
    tenant: str | None
    """Tenant id. Null for all tenants."""
    health: OverviewHealth
    problems: list[OverviewProblem]
    """Problems, worst first, at most 20."""
    jobs: OverviewJobs
    last_hour: list[OverviewMinute]
    """Counts by minute, oldest first. A minute without counts is absent."""
    lanes: list[OverviewLane] | None
    """Waiting directives by lane. Null in the overview of one tenant."""
    services: list[OverviewService]
    quotas: list[OverviewQuota]
    """Quotas that are held or throttled, have an open or half-open breaker, or use at least 90% of their limit of
    active jobs. At most 20."""
    incidents: OverviewIncidents
    sweeper: OverviewSweeper
    dependencies: dict[str, DependencyState]


class Routing(Response):
    """Lane of a job that is created now."""

    tenant: str
    doc_id: str | None
    mode: Literal["DEFAULT", "BURST"]
    lane: Annotated[int, Field(ge=0)]
    topic: str
    """Topic of the directives."""
    replies_topic: str
    routing_key_used: str
    decision_source: Literal["REQUEST", "TENANT_CONFIG", "GLOBAL_CONFIG"]
    decision_reason: str


def dashboard_metrics(
    overview: Overview, mark: SweepMark | None, dependencies: Mapping[str, DependencyState], lanes: int
) -> DashboardMetrics:
    """Makes the response of an overview. `lanes` is the number of lanes."""
    problems, of_all = problems_of(overview), overview.tenant is None
    worst = health_of(overview, problems)
    hour = sum(overview.minutes.values(), MinuteCounts())
    counts = mark.counts if mark is not None else WorkCounts()
    return DashboardMetrics(
        at=overview.at,
        tenant=overview.tenant,
        health=OverviewHealth.of(worst, level=worst.level.value, subject=_subject(worst)),
        problems=[OverviewProblem.of(each, level=each.level.value, subject=_subject(each)) for each in problems],
        jobs=OverviewJobs(
            active=dict(overview.active), at_least=overview.active_at_least, counted_at=overview.swept_at
        ),
        last_hour=[_minute(minute, each) for minute, each in sorted(overview.minutes.items())],
        lanes=[_lane(number, counts, overview.at) for number in range(lanes)] if of_all else None,
        services=[_service(each, hour, overview) for each in overview.services],
        quotas=[_quota(each, overview.at) for each in overview.quotas],
        incidents=OverviewIncidents(
            open=len(overview.incidents),
            at_least=overview.incidents_at_least,
            newest=incident(overview.incidents[0]) if overview.incidents else None,
        ),
        sweeper=OverviewSweeper(
            last_pass_at=overview.swept_at, late=overview.sweeper_late, more=mark.more if mark is not None else None
        ),
        dependencies=dict(dependencies),
    )


def routing(tenant: str, doc_id: str | None, decision: LaneDecision, reply_prefix: str) -> Routing:
    """Makes the response of a lane decision for a tenant's document."""
    return Routing.of(
        decision,
        tenant=tenant,
        doc_id=doc_id,
        mode=decision.resolved_mode,
        topic=f"{DIRECTIVE_TOPIC_PREFIX}{decision.lane}",
        replies_topic=f"{reply_prefix}{decision.lane}",
    )


def _subject(problem: HealthProblem) -> OverviewSubject | None:
    if problem.kind is None or problem.subject is None:
        return None
    return OverviewSubject(kind=problem.kind.value, id=problem.subject)


def _minute(minute: datetime, counts: MinuteCounts) -> OverviewMinute:
    ended: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for (_, status, reason), number in counts.ends.items():
        ended[status] += number
        if status != JobStatus.SUCCEEDED:
            reasons[reason or status] += number
    return OverviewMinute(
        minute=minute,
        active=dict(counts.active) if counts.active is not None else None,
        ended=dict(ended),
        reasons=dict(reasons),
        ack=_latency(counts.latency(ACK)),
        result=_latency(counts.latency(RESULT)),
    )


def _latency(buckets: Counter[int]) -> OverviewLatency | None:
    p50, p95 = percentile_ms(buckets, 0.5), percentile_ms(buckets, 0.95)
    if p50 is None or p95 is None:
        return None
    return OverviewLatency(count=buckets.total(), p50_ms=p50, p95_ms=p95)


def _lane(number: int, counts: WorkCounts, now: datetime) -> OverviewLane:
    here = {service: each for (service, lane), each in counts.backlogs.items() if lane == number and each.count}
    whole = sum(here.values(), Backlog())
    return OverviewLane(
        lane=number,
        topic=f"{DIRECTIVE_TOPIC_PREFIX}{number}",
        waiting=whole.count,
        oldest_seconds=_age(whole.since, now) or 0.0,
        services={service: each.count for service, each in sorted(here.items())},
    )


def _service(service: Service, hour: MinuteCounts, overview: Overview) -> OverviewService:
    of_all = overview.tenant is None
    return OverviewService.of(
        service,
        service=service.name,
        oldest_seconds=(_age(service.waiting_since, overview.at) or 0.0) if of_all else None,
        ack=_latency(hour.latency(ACK, service.name)),
        result=_latency(hour.latency(RESULT, service.name)),
    )


def _quota(quota: TightQuota, now: datetime) -> OverviewQuota:
    gate = quota.gate
    return OverviewQuota.of(
        quota,
        id=gate.id,
        kind=gate.kind.value,
        tenant=gate.tenant,
        name=gate.display_name,
        oldest_wait_seconds=_age(quota.oldest_at, now),
        breaker=quota.breaker.value if quota.breaker is not None else None,
    )


def _age(since: datetime | None, now: datetime) -> float | None:
    return max(0.0, (now - since).total_seconds()) if since is not None else None
