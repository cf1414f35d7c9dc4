"""Every metric: name, kind, unit, attributes and meaning. Source of the table of docs/reference/observability.md.

No attribute is an id of a job, a step or a message. `tenant` is an attribute of two metrics only, and its number of
values is bounded like that of every other attribute.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """How values add up."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    #: the value at the last look
    GAUGE = "gauge"


class Metric(NamedTuple):
    """One instrument; `unit` is UCUM."""

    name: str
    kind: Kind
    unit: str
    attributes: tuple[str, ...]
    meaning: str


_C, _H, _G = Kind.COUNTER, Kind.HISTOGRAM, Kind.GAUGE

METRICS: tuple[Metric, ...] = (
    Metric("job_started_total", _C, "{job}", ("jobType", "mode"), "Jobs created, redrives among them"),
    Metric("job_completed_total", _C, "{job}", ("jobType", "status"), "Jobs that ended, by how"),
    Metric("job_failures_total", _C, "{job}", ("jobType", "reason"), "Jobs FAILED_FINAL, by `error_code`"),
    Metric(
        "job_retry_total",
        _C,
        "{attempt}",
        ("jobType", "stepType", "cause"),
        "Attempts that came to nothing and are followed by another",
    ),
    Metric(
        "job_latency_seconds",
        _H,
        "s",
        ("jobType", "phase"),
        "`queued`: POST to the first ACK; `running`: first ACK to the end; `total`: POST to the end",
    ),
    Metric(
        "job_queue_depth",
        _G,
        "{job}",
        ("jobType", "tenant"),
        "Jobs that no service has taken up yet: QUEUED, THROTTLED and WAITING_FOR_JOBS",
    ),
    Metric("job_queue_oldest_seconds", _G, "s", (), "Age of the oldest QUEUED job since its POST, pauses included"),
    Metric("job_wait_oldest_seconds", _G, "s", (), "Age of the oldest job that waits for its gates (THROTTLED)"),
    Metric(
        "circuit_breaker_state",
        _G,
        "{state}",
        ("jobType",),
        "Of the breakers of a job type the worst: 0 closed, 1 half open, 2 open",
    ),
    Metric("job_active", _G, "{job}", ("status",), "Jobs that have not ended"),
    Metric(
        "step_latency_seconds",
        _H,
        "s",
        ("stepType", "phase"),
        "`ack`: attempt recorded to its ACK; `result`: attempt recorded to its RESULT",
    ),
    Metric(
        "step_timeouts_total",
        _C,
        "{attempt}",
        ("stepType", "cause"),
        "Attempts ended by a clock: ACK_TIMEOUT, LEASE_EXPIRED or TIME_EXCEEDED",
    ),
    Metric(
        "dispatch_lag_seconds",
        _H,
        "s",
        ("stepType",),
        "From when an attempt could begin (POST, the step before, the end of the backoff) to its record by `dispatch`",
    ),
    Metric("outbox_backlog", _G, "{attempt}", (), "Attempts INITIATED and not yet ACKed"),
    Metric("outbox_oldest_seconds", _G, "s", (), "Age of the oldest of them"),
    Metric("publish_failures_total", _C, "{directive}", ("stepType",), "Directives that the bus did not take"),
    Metric(
        "lane_backlog_total",
        _C,
        "{attempt}",
        ("lane",),
        "Time-outs put off because replies or directives still waited on the lane",
    ),
    Metric("steps_gated_total", _C, "{attempt}", ("guard",), "Attempts that a guard of a service or lane kept back"),
    Metric("lease_extensions_total", _C, "{lease}", ("jobType",), "Leases that a heartbeat moved on"),
    Metric(
        "replies_total",
        _C,
        "{reply}",
        ("type", "outcome"),
        "Replies that were committed: `APPLIED`, or why not (LATE, DUPLICATE, STALE_ATTEMPT ...)",
    ),
    Metric("reply_lag_seconds", _H, "s", (), "From when the bus took a reply to its commit"),
    Metric("rejected_messages_total", _C, "{message}", ("reason",), "Messages that no job could take"),
    Metric("dead_replies_total", _C, "{message}", (), "Replies that the sweeper took from dead-letter queues"),
    Metric(
        "clock_skew_total", _C, "{reply}", ("stepType",), "Replies whose `timestamp` is over 60 s from the bus's clock"
    ),
    Metric("quota_exceeded_total", _C, "{request}", ("tenant", "limit"), "Requests refused with 429, by limit"),
    Metric(
        "sweeper_passes_total",
        _C,
        "{pass}",
        ("outcome",),
        "Passes of the sweeper: `done`, `more` (a bound was reached) or `failed`",
    ),
    Metric("sweeper_pass_seconds", _H, "s", (), "How long a pass took"),
    Metric(
        "sweeper_actions_total",
        _C,
        "{action}",
        ("action",),
        "What passes did: `start, restart, replace, raise, end, withdraw, close`, in clearing "
        "`purge, drop, archive, remove`; `failed`: the next one tries again",
    ),
    Metric("events_unsent", _G, "{event}", (), "Public events that the topic `lucius-events` has not taken yet"),
    Metric("events_unsent_oldest_seconds", _G, "s", (), "Age of the oldest of them; 0: there is none"),
    Metric(
        "dependency_faults_total",
        _C,
        "{fault}",
        ("dependency",),
        "Calls that `ledger`, `bus`, `orchestration`, `configuration` or `issuer` did not answer",
    ),
    Metric(
        "dependency_checks_total",
        _C,
        "{check}",
        ("dependency", "outcome"),
        "Looks at `tables`, `servicebus`, `durable`, `blob`, by each pass of the sweeper and by `/v1/health/ready`: "
        "`ok` or `down`",
    ),
    Metric(
        "contention_total",
        _C,
        "{request}",
        (),
        "Writes that others overtook at every try; nothing is wrong with the tables",
    ),
    Metric("webhook_tries_total", _C, "{try}", ("outcome",), "Tries of webhooks: `delivered`, `failed` or `dead`"),
    Metric("webhooks_suspended", _G, "{hook}", (), "Webhooks whose receivers took nothing for a day, of one sweeper"),
    Metric(
        "webhook_oldest_seconds",
        _G,
        "s",
        (),
        "Age of the oldest event that a webhook which is not switched off has not got, of one sweeper",
    ),
    Metric(
        "http.server.request.duration",
        _H,
        "s",
        ("http.request.method", "http.route", "http.response.status_code"),
        "Requests, by route and status; the name is that of OpenTelemetry's semantic conventions",
    ),
)

#: names kept for subjects that are not in this version; nothing is emitted under them
RESERVED: tuple[tuple[str, str], ...] = (
    ("pack_run_logs_stream_lag_seconds", "pack runs"),
    ("pack_run_heartbeats_total", "pack runs"),
    ("pack_run_artifacts_total", "pack runs"),
    ("pack_run_duration_seconds", "pack runs"),
)
