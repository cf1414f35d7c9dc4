"""Every metric: its name, kind, unit, attributes and meaning (FEATURES J3). The docs take theirs from here.

Names are the sources' own where a source names one (S4 11), and in their manner elsewhere. No attribute is an id of a
job, a step or a message: `tenant` stands on two metrics only, as S4 wants it, and is bounded like every other one.
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
    source: str


_C, _H, _G = Kind.COUNTER, Kind.HISTOGRAM, Kind.GAUGE

METRICS: tuple[Metric, ...] = (
    Metric("job_started_total", _C, "{job}", ("jobType", "mode"), "Jobs created, redrives among them", "S0 20, S3 12"),
    Metric("job_completed_total", _C, "{job}", ("jobType", "status"), "Jobs that ended, by how", "S0 20, S3 12"),
    Metric(
        "job_failures_total", _C, "{job}", ("jobType", "reason"), "Jobs FAILED_FINAL, by `error_code`", "S3 12, S4 11.1"
    ),
    Metric(
        "job_retry_total",
        _C,
        "{attempt}",
        ("jobType", "stepType", "cause"),
        "Attempts that came to nothing and are followed by another",
        "S0 20, S3 12, S4 11.1",
    ),
    Metric(
        "job_latency_seconds",
        _H,
        "s",
        ("jobType", "phase"),
        "`queued`: POST to the first ACK; `running`: first ACK to the end; `total`: POST to the end",
        "S4 11.1",
    ),
    Metric(
        "job_queue_depth",
        _G,
        "{job}",
        ("jobType", "tenant"),
        "Jobs that no service has taken up yet (QUEUED)",
        "S4 11.1",
    ),
    Metric("job_active", _G, "{job}", ("status",), "Jobs that have not ended", "S3 12"),
    Metric(
        "step_latency_seconds",
        _H,
        "s",
        ("stepType", "phase"),
        "`ack`: attempt recorded to its ACK; `result`: attempt recorded to its RESULT",
        "S3 12",
    ),
    Metric(
        "step_timeouts_total",
        _C,
        "{attempt}",
        ("stepType", "cause"),
        "Attempts ended by a clock: ACK_TIMEOUT, LEASE_EXPIRED or TIME_EXCEEDED",
        "S0 20",
    ),
    Metric(
        "dispatch_lag_seconds",
        _H,
        "s",
        ("stepType",),
        "From when an attempt could begin (POST, the step before, the end of the backoff) to its record",
        "S3 12",
    ),
    Metric("outbox_backlog", _G, "{attempt}", (), "Attempts INITIATED and not yet ACKed", "S3 12, DESIGN 2"),
    Metric("outbox_oldest_seconds", _G, "s", (), "Age of the oldest of them", "S3 12"),
    Metric("publish_failures_total", _C, "{directive}", ("stepType",), "Directives that the bus did not take", "S3 12"),
    Metric(
        "lane_backlog_total",
        _C,
        "{attempt}",
        ("lane",),
        "Time-outs put off because replies or directives still waited on the lane",
        "FEATURES D20",
    ),
    Metric("lease_extensions_total", _C, "{lease}", ("jobType",), "Leases that a heartbeat moved on", "S4 11.1"),
    Metric(
        "replies_total",
        _C,
        "{reply}",
        ("type", "outcome"),
        "Replies that were committed: `APPLIED`, or why not (LATE, DUPLICATE, STALE_ATTEMPT ...)",
        "S3 12",
    ),
    Metric("reply_lag_seconds", _H, "s", (), "From when the bus took a reply to its commit", "S3 12"),
    Metric("rejected_messages_total", _C, "{message}", ("reason",), "Messages that no job could take", "S3 12"),
    Metric("dead_replies_total", _C, "{message}", (), "Replies that the sweeper took from dead-letter queues", "S3 12"),
    Metric(
        "clock_skew_total",
        _C,
        "{reply}",
        ("stepType",),
        "Replies whose `timestamp` is over 60 s from the bus's clock",
        "ours",
    ),
    Metric(
        "quota_exceeded_total", _C, "{request}", ("tenant", "limit"), "Requests refused with 429, by limit", "S4 11.1"
    ),
    Metric(
        "sweeper_passes_total",
        _C,
        "{pass}",
        ("outcome",),
        "Passes of the sweeper: `done`, `more` (a bound was reached) or `failed`",
        "S3 12",
    ),
    Metric("sweeper_pass_seconds", _H, "s", (), "How long a pass took", "S3 12"),
    Metric(
        "sweeper_actions_total",
        _C,
        "{action}",
        ("action",),
        "What passes did: `start, restart, raise, end, withdraw, close`, in clearing `purge, drop, archive, remove`; "
        "`failed`: the next one tries again",
        "S3 12",
    ),
    Metric(
        "dependency_faults_total",
        _C,
        "{fault}",
        ("dependency",),
        "Calls that `ledger`, `bus`, `orchestration`, `configuration` or `issuer` did not answer",
        "ours",
    ),
    Metric(
        "contention_total",
        _C,
        "{request}",
        (),
        "Writes that others overtook at every try; nothing is wrong with the tables",
        "ours",
    ),
    Metric(
        "http.server.request.duration",
        _H,
        "s",
        ("http.request.method", "http.route", "http.response.status_code"),
        "Requests, by route and answer (the semantic convention's own name)",
        "OpenTelemetry",
    ),
)

#: names of S4 11 whose subject is not in this version; nothing is emitted under them
RESERVED: tuple[tuple[str, str], ...] = (
    ("circuit_breaker_state{jobType}", "circuit breakers (FEATURES F4)"),
    ("pack_run_logs_stream_lag_seconds", "pack runs (FEATURES I2)"),
    ("pack_run_heartbeats_total", "pack runs (FEATURES I1)"),
    ("pack_run_artifacts_total", "pack runs (FEATURES I2)"),
    ("pack_run_duration_seconds", "pack runs (FEATURES I1)"),
)
