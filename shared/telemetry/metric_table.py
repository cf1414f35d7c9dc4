"""Every metric: name, kind, unit, attributes and meaning. The table in docs/reference/observability.md is generated
from this module.

No attribute is an id of a job, a step or a message. Only two metrics have the attribute `tenant`. Each attribute has
at most 100 text values in a process. Further values count as `_other`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MetricKind(StrEnum):
    """The kind of an instrument."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    #: value at the last sweep, or at the last run of another periodic task
    GAUGE = "gauge"


class Metric(NamedTuple):
    """A metric. `unit` is a UCUM unit."""

    name: str
    kind: MetricKind
    unit: str
    attributes: tuple[str, ...]
    meaning: str


_C, _H, _G = MetricKind.COUNTER, MetricKind.HISTOGRAM, MetricKind.GAUGE

METRICS: tuple[Metric, ...] = (
    Metric("job_started_total", _C, "{job}", ("jobType", "mode"), "Jobs created, including redrives and replays"),
    Metric("job_completed_total", _C, "{job}", ("jobType", "status"), "Jobs that ended, by final status"),
    Metric("job_failures_total", _C, "{job}", ("jobType", "reason"), "Jobs FAILED_FINAL, by `error_code`"),
    Metric(
        "job_retry_total",
        _C,
        "{attempt}",
        ("jobType", "stepType", "cause"),
        "Failed attempts that are retried, by cause",
    ),
    Metric(
        "job_latency_seconds",
        _H,
        "s",
        ("jobType", "phase"),
        "Time of a job. `queued`: creation to the first reply of a service. `running`: first reply to terminal state. "
        "`total`: creation to terminal state",
    ),
    Metric(
        "job_queue_depth",
        _G,
        "{job}",
        ("jobType", "tenant"),
        "Jobs that no service has acknowledged yet: QUEUED, THROTTLED and WAITING_FOR_JOBS",
    ),
    Metric(
        "job_queue_oldest_seconds", _G, "s", (), "Age of the oldest QUEUED job since its admission, including pauses"
    ),
    Metric("job_wait_oldest_seconds", _G, "s", (), "Age of the oldest job that waits for a quota (THROTTLED)"),
    Metric(
        "circuit_breaker_state",
        _G,
        "{state}",
        ("jobType",),
        "Worst state of the circuit breakers of a job type: 0 closed, 1 half-open, 2 open",
    ),
    Metric("job_active", _G, "{job}", ("status",), "Jobs that have not ended"),
    Metric(
        "step_latency_seconds",
        _H,
        "s",
        ("stepType", "phase"),
        "Time of an attempt. `ack`: from its creation to its first reply. `result`: from its creation to its RESULT",
    ),
    Metric(
        "step_timeouts_total",
        _C,
        "{attempt}",
        ("stepType", "cause"),
        "Attempts that timed out (ACK_TIMEOUT, LEASE_EXPIRED), and steps that ended by a total time (TIME_EXCEEDED)",
    ),
    Metric(
        "dispatch_lag_seconds",
        _H,
        "s",
        ("stepType",),
        "Time from the moment when an attempt could start until the activity `dispatch` recorded the attempt",
    ),
    Metric("outbox_backlog", _G, "{attempt}", (), "Attempts without an ACK (INITIATED)"),
    Metric(
        "outbox_oldest_seconds", _G, "s", (), "Age of the oldest attempt without an ACK. 0 if every attempt has an ACK"
    ),
    Metric("publish_failures_total", _C, "{directive}", ("stepType",), "Failed sends of directives to Service Bus"),
    Metric(
        "lane_backlog_total",
        _C,
        "{attempt}",
        ("lane",),
        "Attempts whose timeout was postponed because replies or directives still waited on the lane, or the bus did "
        "not respond",
    ),
    Metric(
        "steps_gated_total", _C, "{attempt}", ("guard",), "Attempts delayed by a dispatch limit of a service or lane"
    ),
    Metric("lease_extensions_total", _C, "{lease}", ("jobType",), "Lease extensions by heartbeats"),
    Metric(
        "replies_total",
        _C,
        "{reply}",
        ("type", "outcome"),
        "Recorded replies, by outcome: `APPLIED`, or the reason of an ignored reply (LATE, DUPLICATE, ...)",
    ),
    Metric(
        "reply_lag_seconds",
        _H,
        "s",
        (),
        "Time from the arrival of a reply on Service Bus until the app applied or ignored the reply. Dead replies do "
        "not count",
    ),
    Metric("rejected_messages_total", _C, "{message}", ("reason",), "Messages that no job could accept"),
    Metric(
        "dead_replies_total",
        _C,
        "{message}",
        (),
        "Replies that the sweeper received from dead-letter queues, or from a queue after a change of `LUCIUS_REPLIES`",
    ),
    Metric(
        "clock_skew_total",
        _C,
        "{reply}",
        ("stepType",),
        "Replies whose `timestamp` differs by over 60 s from the time of Service Bus",
    ),
    Metric(
        "quota_exceeded_total",
        _C,
        "{request}",
        ("tenant", "limit"),
        "Creations of jobs refused with `LIMIT_REACHED`, by tenant and limit, including each try of a bulk operation",
    ),
    Metric(
        "sweeper_passes_total",
        _C,
        "{pass}",
        ("outcome",),
        "Sweeps, by outcome: `done`, `more` (the sweep stopped at a limit) or `failed`",
    ),
    Metric("sweeper_pass_seconds", _H, "s", (), "Duration of a sweep that did not fail"),
    Metric(
        "sweeper_actions_total",
        _C,
        "{action}",
        ("action",),
        "Actions of sweeps: repairs (`start, admit, restart, replace, raise, end, withdraw, close`), clearing of "
        "ended jobs (`purge, drop, hint, archive, remove`), `skip` and `failed`. `skip` means that a later release "
        "wrote the job's status. `failed` means that the action failed, and a later sweep retries the action",
    ),
    Metric("audit_signing_failures_total", _C, "{signature}", (), "Heads and anchors that the key did not sign"),
    Metric(
        "anchor_age_seconds",
        _G,
        "s",
        (),
        "Time since the end of the last day with an anchor. Recorded once an hour",
    ),
    Metric("events_unsent", _G, "{event}", (), "Public events not yet sent to topic `lucius-events`"),
    Metric(
        "events_unsent_oldest_seconds", _G, "s", (), "Age of the oldest event not yet sent. 0 if all events are sent"
    ),
    Metric(
        "dependency_faults_total",
        _C,
        "{fault}",
        ("dependency",),
        "Failed calls to a dependency: `ledger`, `bus`, `orchestration`, `configuration` or `issuer`",
    ),
    Metric(
        "dependency_checks_total",
        _C,
        "{check}",
        ("dependency", "outcome"),
        "Health checks of `tables`, `servicebus`, `durable` and `blob`, by each timed sweep, by `/v1/health/ready` and "
        "by `/v1/dashboard/metrics`; outcome `ok` or `down`",
    ),
    Metric(
        "contention_total",
        _C,
        "{request}",
        (),
        "Writes that failed at the last try because of concurrent writes, not because of a fault of the Table service",
    ),
    Metric(
        "webhook_tries_total",
        _C,
        "{try}",
        ("outcome",),
        "Attempts of webhook deliveries, by outcome: `delivered`, `failed` or `dead`. `dead` includes attempts that "
        "sent no request, but not deliveries that the timer `prune` abandoned",
    ),
    Metric(
        "webhooks_suspended",
        _G,
        "{hook}",
        (),
        "Webhooks suspended after 24 hours of failed deliveries without a success; each sweeper counts its own tenants",
    ),
    Metric(
        "webhook_oldest_seconds",
        _G,
        "s",
        (),
        "Age of the oldest event that an enabled webhook has not received, per sweeper. A tenant that the sweep "
        "did not check counts as of its last check",
    ),
    Metric("pack_run_duration_seconds", _H, "s", ("status",), "Duration of a run's attempt, up to its RESULT"),
    Metric("pack_run_heartbeats_total", _C, "{heartbeat}", (), "Recorded heartbeats of runs"),
    Metric("pack_run_artifacts_total", _C, "{artifact}", (), "Artifacts in the RESULTs of runs"),
    Metric(
        "pack_run_logs_stream_lag_seconds",
        _H,
        "s",
        (),
        "Time from the write of a run's log to the response that a waiting reader gets",
    ),
    Metric(
        "protocol_versions_refused",
        _G,
        "{version}",
        (),
        "Protocol versions refused because their job type, steps, groups or payload schemas differ from their first "
        "loaded definition",
    ),
    Metric(
        "http.server.request.duration",
        _H,
        "s",
        ("http.request.method", "http.route", "http.response.status_code"),
        "Duration of HTTP requests, by method, route and status. OpenTelemetry's semantic conventions define the name",
    ),
    Metric(
        "ledger_exports_total",
        _C,
        "{export}",
        ("result",),
        "Exports of the tables: `completed`, or `failed` for each run that ended with an error",
    ),
)
