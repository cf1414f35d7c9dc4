"""Structured log records, one JSON object per line. Each record about a job has the job's ids."""

from __future__ import annotations

import json
import logging
from typing import Any, NamedTuple

from opentelemetry import trace

_logger = logging.getLogger("lucius")


def log(level: int, message: str, **fields: Any) -> None:
    """Writes a record as one line of ASCII JSON, with control characters escaped. Omits fields that are None.

    An exception is written as its type and text. Never pass a payload, a reference or a secret.
    """
    if not _logger.isEnabledFor(level):
        return
    line = {"event": message, **{name: value for name, value in fields.items() if value is not None}}
    here = trace.get_current_span().get_span_context()
    if here.is_valid:
        line |= {"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"}
    _logger.log(level, _ENCODER.encode(line))


def _text(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else str(value)


_ENCODER = json.JSONEncoder(default=_text)


def info(message: str, **fields: Any) -> None:
    log(logging.INFO, message, **fields)


def warn(message: str, **fields: Any) -> None:
    log(logging.WARNING, message, **fields)


class Line(NamedTuple):
    """A log event: a value of `event`, with its level and text."""

    event: str
    level: str
    meaning: str


_I, _W = "INFO", "WARNING"

LINES: tuple[Line, ...] = (
    Line("JOB_CREATED", _I, "Created a job"),
    Line("PRIORITY_CHANGED", _I, "A caller changed the priority of a waiting job"),
    Line("ATTEMPT_RECORDED", _I, "A step became INITIATED with a new attempt and lease"),
    Line("LEASE_RENEWED", _I, "The lease of an attempt was renewed, because the app sends the directive late or again"),
    Line("PUBLISH_FAILED", _I, "Could not send a directive to Service Bus; a WARNING has the error"),
    Line("ACK", _I, "A service acknowledged an attempt"),
    Line("HEARTBEAT", _I, "A heartbeat started or extended a lease, or changed the progress"),
    Line("RESULT", _I, "The result of an attempt was applied"),
    Line("REPLY_IGNORED", _I, "Ignored a late, stale, repeated or foreign reply; `reason` has the code"),
    Line("ACK_TIMEOUT", _I, "No ACK arrived in time, so the attempt failed"),
    Line(
        "LEASE_EXPIRED",
        _I,
        "No RESULT and no heartbeat arrived in time, or the attempt reached its maximum time, so the attempt failed",
    ),
    Line(
        "TIME_EXCEEDED",
        _I,
        "A job or a step exceeded its time limit, or a job did not start before `expires_at`. The job is "
        "FAILED_FINAL, or CANCELLED after a cancel request",
    ),
    Line(
        "LANE_BACKLOG",
        _I,
        "A timeout was postponed because replies or directives still waited on the lane, or the bus did not respond",
    ),
    Line("GATED", _I, "A dispatch limit of the service or lane delayed the next attempt; `reason` has the limit"),
    Line("CANCEL_REQUESTED", _I, "A caller requested to cancel a job"),
    Line("PAUSE_REQUESTED", _I, "A caller requested to pause a job"),
    Line("RESUME_REQUESTED", _I, "A caller requested to resume a job"),
    Line("ORCHESTRATION_RESTARTED", _I, "The sweeper restarted the orchestration of a job that had not ended"),
    Line(
        "ORCHESTRATION_FAILED",
        _I,
        "The orchestration ended after five restarts; the job is FAILED_FINAL, or CANCELLED after a cancel request",
    ),
    Line(
        "REPAIRED",
        _I,
        "The sweeper repaired a job; `reason` has the repair: `start`, `close`, or the name of a wake-up event",
    ),
    Line("JOB_REDRIVEN", _I, "A redrive created a new job from this job"),
    Line("JOB_REPLAYED", _I, "A replay created a new job from this job"),
    Line("DEAD_LETTER_DISMISSED", _I, "A caller dismissed the dead letter of a job"),
    Line(
        "INCIDENT_OPENED",
        _W,
        "Opened an incident of a breaker, a silent service or a row that LUCIUS cannot process; needs an operator. "
        "`reason` has the code",
    ),
    Line(
        "INCIDENT_LATE",
        _W,
        "Could not open or close the incident of a breaker or of a row that LUCIUS cannot process; retried by the next "
        "sweep",
    ),
    Line(
        "INCIDENT_SETTLED",
        _I,
        "A caller resolved or dismissed an incident; `status` has the new state",
    ),
    Line("SWEPT", _I, "A sweep ended; the record has the counts of the sweep"),
    Line(
        "SWEEP_FAILED",
        _W,
        "Could not repair a job, list a tenant's jobs, or read or write the position of the sweeper; retried by a "
        "later sweep",
    ),
    Line("STOCK_UNKNOWN", _W, "Could not write the time or the gauges of a completed sweep; retried by the next sweep"),
    Line(
        "SERVICE_SILENT",
        _W,
        "A service sent no reply for five minutes while a directive waited; LUCIUS opens an incident",
    ),
    Line("SERVICE_ANSWERS", _I, "A silent service replied again; the sweeper resolves the incident of the service"),
    Line(
        "DEAD_REPLIES",
        _W,
        "The sweeper found replies in dead-letter queues, or replies that a change of `LUCIUS_REPLIES` left in a "
        "queue. The sweeper received the replies unless `dry_run` is true",
    ),
    Line(
        "DEAD_REPLIES_UNFINISHED",
        _W,
        "Could not apply all replies of a dead-letter queue, or of a queue after a change of `LUCIUS_REPLIES`; retried "
        "by the next sweep",
    ),
    Line(
        "HISTORY_KEPT",
        _W,
        "Orchestrations of an ended job did not end within two days; the histories stay until an operator purges them",
    ),
    Line("JOB_ARCHIVED", _I, "The rows of an ended job moved to the archive"),
    Line(
        "ARCHIVE_INVALID",
        _W,
        "The audit bundle of an archived job differed from the bundle that was archived; the job cannot be read "
        "until an operator restores the bundle",
    ),
    Line(
        "RELIST_FAILED",
        _W,
        "Could not check all active jobs, idle tenants or silent services; retried by the next sweep",
    ),
    Line("CLEAR_FAILED", _W, "Could not archive or clear an ended job; retried by a later sweep"),
    Line("MESSAGE_REJECTED", _W, "A message that no job can accept was moved to the rejected messages"),
    Line("REJECTED_REMOVED", _I, "Removed rejected messages that were older than 90 days"),
    Line("REJECTED_KEPT", _W, "Could not remove old rejected messages; retried by the next sweep"),
    Line("REJECTED_REDRIVEN", _I, "A caller redrove a rejected message; `outcome` has the result"),
    Line(
        "REPLY_RETRIED",
        _W,
        "A dependency did not respond, or concurrent writes changed the same rows, while a reply was applied; retried "
        "by the same process",
    ),
    Line(
        "ORCHESTRATION_NOT_FOUND", _W, "The job of a reply had no orchestration; the sweeper starts the orchestration"
    ),
    Line(
        "ORCHESTRATION_GONE",
        _I,
        "The orchestration of a job that was paused had ended or was missing; restarted by the sweeper if the job "
        "continues",
    ),
    Line(
        "TELEMETRY_FAILED",
        _W,
        "Could not report a committed transition; the job continues, and metrics lack the transition",
    ),
    Line("DEPENDANTS_UNTOLD", _W, "Could not notify the jobs that wait for an ended job; retried by the next sweep"),
    Line("ADMISSION_UNTOLD", _W, "Could not start an admitted job; the sweeper starts the job"),
    Line(
        "MINUTES_UNWRITTEN",
        _W,
        "Could not write or read counts of the overview, so its numbers can be too low for an hour; jobs continue",
    ),
    Line("USAGE_UNFOLDED", _W, "Could not write the hourly rollup of a tenant's usage; retried by a later sweep"),
    Line(
        "USAGE_UNWRITTEN",
        _W,
        "Could not write refused requests, sources or peaks of a tenant; the tenant's usage can be too low",
    ),
    Line("DESK_UNSEEN", _W, "Could not admit waiting jobs or check job counts of a tenant; retried by the next sweep"),
    Line(
        "TENANT_UNCOUNTED",
        _W,
        "Could not count a tenant's jobs for a quota over all tenants. The tenant's slots, or all free slots of a new "
        "quota, stay reserved until an allocation counts the jobs",
    ),
    Line("GATE_UNDIVIDED", _W, "Could not allocate a quota over all tenants; retried by the next sweep"),
    Line(
        "DIRECTORY_UNREAD",
        _W,
        "Could not read the list of tenants with quotas; retried in seconds, and the last copy is in use for 5 minutes",
    ),
    Line(
        "LOG_UNPRUNED",
        _W,
        "Could not remove old log entries, incidents or usage counters, or schedule the clearing of ended jobs; "
        "retried on the next day by the timer `prune`",
    ),
    Line(
        "LOGS_PRUNED",
        _I,
        "Removed old incidents with their logs, and old entries of the logs of quotas; `count` has the number of "
        "incidents and entries",
    ),
    Line("ROW_UNDECODABLE", _W, "Could not decode a row, so lists and sweeps ignore the row; `row` has the key"),
    Line(
        "ROW_REFUSED",
        _W,
        "The Table service rejected a row of a job, so LUCIUS continued without the row; `row` has the key",
    ),
    Line("WAITING_RESTORED", _W, "The sweeper restored a waiting job that was missing from its waiting queue"),
    Line(
        "DESK_COUNTED_ANEW",
        _W,
        "Corrected a tenant's job counts that differed from the tenant's rows, or requested a count of 1,000 or more "
        "jobs",
    ),
    Line("DEPENDENCIES_COUNTED_ANEW", _W, "Corrected the count of open dependencies of a waiting job"),
    Line("DESK_CALL_UNKNOWN", _W, "Unrecognized message on queue lucius-admission"),
    Line(
        "BREAKER_OPENED",
        _W,
        "A circuit breaker opened after failed jobs; the quota admits no job until the breaker is half-open or reset",
    ),
    Line("BULK_STARTED", _I, "A caller started a bulk operation; `action` names the action on each job"),
    Line(
        "BULK_ENDED",
        _I,
        "A bulk operation ended; `state` is DONE, or CANCELLED, which can leave jobs OPEN. A cancellation between two "
        "steps of the operation writes no record",
    ),
    Line(
        "BULK_ITEM_BROKEN",
        _W,
        "A bulk operation's action on one job failed with an unexpected error; the item is REFUSED with code INTERNAL",
    ),
    Line("BULK_UNSEEN", _W, "Could not check a bulk operation; retried by the next sweep"),
    Line("HINTS_LOST", _W, "Could not send to queue lucius-hints; the sweeper will write the events"),
    Line("HINT_UNKNOWN", _W, "Unrecognized message on queue lucius-hints"),
    Line(
        "JOB_UNREAD",
        _W,
        "Could not read the public events of a job, quota or incident; retried from queue lucius-hints, then by the "
        "sweeper",
    ),
    Line(
        "WAIT_ABANDONED",
        _W,
        "Could not wait until a submitted job ended (`Prefer: wait`); the caller got 202 early",
    ),
    Line(
        "LOG_UNCOMPARED",
        _W,
        "Could not compare the logs of quotas or incidents with the feeds; retried by the next sweep",
    ),
    Line("FEED_UNWRITTEN", _W, "Could not write a tenant's feed; retried from queue lucius-hints, then by the sweeper"),
    Line(
        "EVENTS_UNSENT",
        _W,
        "Could not read events or send them to topic lucius-events; the outbox relay retries",
    ),
    Line(
        "EVENTS_NEVER_SENT",
        _W,
        "`count` events expired before they were sent to topic lucius-events; subscribers never receive these events",
    ),
    Line(
        "HEADS_UNCHECKED",
        _W,
        "Could not check that all heads of a job or tenant are recorded; retried by the timer `prune` and by the next "
        "request for heads",
    ),
    Line(
        "SIGNING_FAILED",
        _W,
        "The key `LUCIUS_AUDIT_KEY` was missing or did not sign; jobs continue, but heads and anchors wait until the "
        "key signs",
    ),
    Line("ANCHORED", _I, "Wrote the anchor of a day; `count` has the number of tenants"),
    Line(
        "ANCHOR_WAITS",
        _I,
        "Postponed a day's anchor, because heads of `count` tenants were missing or the time limit was reached; "
        "retried by the hourly timer `prune`",
    ),
    Line(
        "ANCHOR_INCOMPLETE",
        _W,
        "Wrote a day's anchor, which permanently marks the heads of `count` tenants as incomplete; "
        "`HEADS_UNCHECKED`, `JOB_UNREAD` and `FEED_UNWRITTEN` have the causes",
    ),
    Line("ANCHOR_FAILED", _W, "Could not write a day's anchor; retried by the hourly timer `prune`"),
    Line(
        "TABLES_EXPORTED",
        _I,
        "Completed the daily export of the tables; the record has the name of the export and the number of rows",
    ),
    Line(
        "EXPORT_FAILED",
        _W,
        "Could not export the tables or remove old exports; retried by the timer `prune`. Needs an operator if the "
        "warning repeats",
    ),
    Line("FEEDS_PRUNED", _I, "Removed expired events from the feeds; the record has the number of events"),
    Line(
        "FEED_UNPRUNED",
        _W,
        "Could not remove a tenant's expired events, deliveries, heads or log entries of webhooks. The hourly timer "
        "`prune` retries, for heads and log entries on the next day",
    ),
    Line("DELIVERIES_LOST", _W, "Could not send to queue lucius-webhooks; retried by the sweeper"),
    Line("DELIVERY_UNKNOWN", _W, "Unrecognized message on queue lucius-webhooks"),
    Line("DELIVERY_PUT_OFF", _W, "Could not read or write a delivery; retried by the sweeper"),
    Line("DELIVERY_DEAD", _W, "A webhook delivery failed permanently; `reason` has the cause"),
    Line("HOOK_DISABLED", _W, "A webhook's endpoint returned 410; the webhook is disabled"),
    Line(
        "HOOK_SUSPENDED",
        _W,
        "Deliveries to a webhook failed for 24 hours without a success; the webhook's deliveries wait until a caller "
        "resumes the webhook",
    ),
    Line("HOOKS_UNSEEN", _W, "Could not read a tenant's webhooks; retried by the next sweep"),
    Line("LIMIT_REACHED", _W, "The creation of a job was refused with `LIMIT_REACHED`; `limit` names the limit"),
    Line(
        "LEDGER_REFUSED",
        _W,
        "The Table service rejected a value of a request (the request got 400), or a stored row or blob is missing or "
        "invalid (needs an operator)",
    ),
    Line(
        "DEPENDENCY_UNAVAILABLE",
        _W,
        "A dependency did not respond, or concurrent writes changed the same rows, so a request got 503",
    ),
    Line(
        "DEPENDENCY_DOWN",
        _W,
        "A dependency did not respond to a health check; `/v1/health/ready` returns 503 until the dependency responds",
    ),
    Line("DEPENDENCY_BACK", _I, "A dependency responded to a health check again"),
    Line("AUTH_NONE", _W, "The app started with `LUCIUS_AUTH_MODE=none`, which disables the check of tokens"),
    Line(
        "SETTINGS_NOT_READ",
        _W,
        "The app started with settings that it does not read; `replaced_by` has the replacement of each setting",
    ),
    Line(
        "ACCESS",
        _I,
        "A request got its response. The record has `correlation_id`, `method`, `route`, `status`, `duration_ms`, "
        "the error code as `reason`, the caller's `actor` and `tenant_id`, and the required `scope`. The record "
        "has `all_tenants` if the request had access to all tenants, and `jobId` if the path has a job id. "
        "Probes are logged at DEBUG",
    ),
    Line(
        "TOKEN_REFUSED",
        _I,
        "A request with an invalid token or ticket got 401; `reason` has the cause. `kid` and `iss` are shortened, "
        "unverified claims of the token. The request's ACCESS record has the same `correlation_id`",
    ),
    Line(
        "KEYS_UNAVAILABLE",
        _W,
        "Could not fetch the issuer's keys; keys that were fetched stay in use for a day after their fetch",
    ),
    Line(
        "CONFIGURATION_READ",
        _W,
        "The list of invalid values in App Configuration changed; invalid values have no effect",
    ),
    Line("CONFIGURATION_UNAVAILABLE", _W, "Could not read App Configuration; the last valid values stay in effect"),
    Line(
        "PROTOCOL_VERSION_REFUSED",
        _W,
        "Refused a protocol version whose job type, steps, groups or payload schemas differ from its first loaded "
        "definition. The first definition stays in effect if this release can load it",
    ),
    Line(
        "PROTOCOL_VERSIONS_UNREAD",
        _W,
        "Could not compare the protocols with the versions that were loaded first; retried at the next refresh",
    ),
)
