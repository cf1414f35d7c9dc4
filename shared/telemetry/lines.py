"""Structured log lines: one JSON object a line, with the ids that every line of a job has."""

from __future__ import annotations

import json
import logging
from typing import Any, NamedTuple

from opentelemetry import trace

_logger = logging.getLogger("lucius")


def log(level: int, message: str, **fields: Any) -> None:
    """One line of ASCII, which no text can break or colour; fields that are None are left out.

    An exception stands as its type and its text. Never hand in a payload, a reference or a secret.
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
    """One value of `event`."""

    event: str
    level: str
    meaning: str


_I, _W = "INFO", "WARNING"

LINES: tuple[Line, ...] = (
    Line("JOB_CREATED", _I, "A job's rows were written"),
    Line("PRIORITY_CHANGED", _I, "A job that waits was given another place in line"),
    Line("ATTEMPT_RECORDED", _I, "A step is INITIATED with a new attempt and lease"),
    Line("LEASE_RENEWED", _I, "The same attempt is published again"),
    Line("PUBLISH_FAILED", _I, "The bus did not take the directive; also a WARNING with the fault"),
    Line("ACK", _I, "A service took the attempt up"),
    Line("HEARTBEAT", _I, "A heartbeat moved the lease"),
    Line("RESULT", _I, "A RESULT was taken"),
    Line("REPLY_IGNORED", _I, "A late, stale, repeated or foreign reply; `reason` has the code"),
    Line("ACK_TIMEOUT", _I, "No ACK in time"),
    Line("LEASE_EXPIRED", _I, "No RESULT and no heartbeat in time"),
    Line("TIME_EXCEEDED", _I, "The total time of the step or the job is over"),
    Line("LANE_BACKLOG", _I, "A time-out was put off: the lane still holds replies or directives"),
    Line("GATED", _I, "A guard of its service or lane keeps the next attempt back; `reason` has which and why"),
    Line("CANCEL_REQUESTED", _I, "An operator asked"),
    Line("PAUSE_REQUESTED", _I, "An operator asked"),
    Line("RESUME_REQUESTED", _I, "An operator asked"),
    Line("ORCHESTRATION_RESTARTED", _I, "The sweeper found the job alive and its orchestration ended"),
    Line("ORCHESTRATION_FAILED", _I, "The fifth restart did not help: the job is FAILED_FINAL"),
    Line("REPAIRED", _I, "The sweeper raised an event again that the orchestration had missed"),
    Line("JOB_REDRIVEN", _I, "Another job takes this one up again"),
    Line("DEAD_LETTER_DISMISSED", _I, "A caller dismissed the dead letter of a job"),
    Line("INCIDENT_OPENED", _W, "A breaker, a silent service or a row is an incident; `reason` has why"),
    Line("INCIDENT_LATE", _W, "Could not open or settle the incident of a breaker or a row; retried by the next sweep"),
    Line("INCIDENT_SETTLED", _I, "A caller resolved or dismissed an incident; `status` names the act"),
    Line("SWEPT", _I, "A pass of the sweeper ended, with its counts"),
    Line("SWEEP_FAILED", _W, "A job could not be repaired, or a tenant's jobs not be listed; retried by a later sweep"),
    Line("STOCK_UNKNOWN", _W, "A pass ended, and its mark or its gauges could not be written"),
    Line("SERVICE_SILENT", _W, "A service has not answered for five minutes, and a directive waits for it"),
    Line("SERVICE_ANSWERS", _I, "A service that was silent answers again"),
    Line("DEAD_REPLIES", _W, "Replies were taken from dead-letter queues"),
    Line("DEAD_REPLIES_UNFINISHED", _W, "A lane's dead-letter queue could not be emptied"),
    Line("HISTORY_KEPT", _W, "Orchestrations of an ended job did not end in two days: their histories stay in the hub"),
    Line("JOB_ARCHIVED", _I, "An ended job's rows went to the archive"),
    Line(
        "RELIST_FAILED",
        _W,
        "A part of the survey of living jobs or dead letters failed; retried by the next sweep",
    ),
    Line("CLEAR_FAILED", _W, "An ended job could not be archived or cleared; retried by a later sweep"),
    Line("MESSAGE_REJECTED", _W, "A message that no job can take went to the rejected inbox"),
    Line("REJECTED_REMOVED", _I, "Rejected messages went, 90 days after they came"),
    Line("REJECTED_KEPT", _W, "Old rejected messages could not be removed; the next pass tries again"),
    Line("REJECTED_REDRIVEN", _I, "A rejected message was submitted again"),
    Line("REPLY_RETRIED", _W, "A reply waits inside its function for a dependency"),
    Line("ORCHESTRATION_NOT_FOUND", _W, "A reply found no orchestration; the sweeper starts it"),
    Line("ORCHESTRATION_GONE", _I, "A parked orchestration had ended already"),
    Line("TELEMETRY_FAILED", _W, "Could not report a committed transition; the job continues, and metrics lack it"),
    Line("DEPENDANTS_UNTOLD", _W, "Could not notify the jobs that wait for an ended job; retried by the next sweep"),
    Line("ADMISSION_UNTOLD", _W, "Could not start an admitted job now; the sweeper starts it"),
    Line("USAGE_UNFOLDED", _W, "Past hours of usage could not be folded; the next pass goes on"),
    Line("USAGE_UNWRITTEN", _W, "Refused requests, a source or a peak could not be written; such counts are too low"),
    Line("DESK_UNSEEN", _W, "Could not admit waiting jobs of a tenant; retried by the next sweep"),
    Line(
        "TENANT_UNCOUNTED",
        _W,
        "Could not count a tenant's jobs for a limit over all tenants; slots are reserved until a division can",
    ),
    Line("GATE_UNDIVIDED", _W, "Could not divide a limit over all tenants; retried by the next sweep"),
    Line("DIRECTORY_UNREAD", _W, "Could not read which tenants have quotas; the last copy is in effect for 5 minutes"),
    Line("LOG_UNPRUNED", _W, "Old log entries or incidents could not be removed; retried on the next day"),
    Line("LOGS_PRUNED", _I, "The daily removal of old log entries and incidents ended; `count` has the rows removed"),
    Line("ROW_UNDECODABLE", _W, "A row cannot be decoded and is left out of its list; `row` has the key"),
    Line("ROW_REFUSED", _W, "The store refused a row of an ended job; the job ended without it; `row` has the key"),
    Line("WAITING_RESTORED", _W, "A waiting job was missing in its waiting queue; the sweeper restored its row"),
    Line("DESK_COUNTED_ANEW", _W, "A tenant's admission state counted other jobs than its rows have; it was corrected"),
    Line("DEPENDENCIES_COUNTED_ANEW", _W, "A waiting job had not heard of a dependency's end; it was corrected"),
    Line("DESK_CALL_UNKNOWN", _W, "A message of the queue lucius-admission names no tenant"),
    Line(
        "BREAKER_OPENED", _W, "Too many jobs of a type, of a tenant or of all (`*`), ended badly: no more start for now"
    ),
    Line("BULK_STARTED", _I, "A caller started a bulk operation; `action` names it"),
    Line("BULK_ENDED", _I, "Every job of a bulk has its outcome, or it was cancelled"),
    Line("BULK_ITEM_BROKEN", _W, "An unexpected error in one job of a bulk; its outcome is INTERNAL"),
    Line("BULK_UNSEEN", _W, "Bulks could not be looked at; the next pass looks again"),
    Line("HINTS_LOST", _W, "The queue lucius-hints took no hints; the events come later, by the sweeper's passes"),
    Line("HINT_UNKNOWN", _W, "A message of the queue lucius-hints is no hint"),
    Line(
        "JOB_UNREAD",
        _W,
        "Public events of a job, gate or incident could not be read; it is hinted at again, at most three times",
    ),
    Line(
        "WAIT_ABANDONED",
        _W,
        "The end of a submitted job could not be waited for (`Prefer: wait`); its caller got 202 at once",
    ),
    Line("LOG_UNCOMPARED", _W, "Logs of gates or incidents could not be compared with the feeds; the next pass does"),
    Line("FEED_UNWRITTEN", _W, "A tenant's feed could not be written now; its jobs are hinted at again"),
    Line(
        "EVENTS_UNSENT",
        _W,
        "The topic lucius-events took no events, or they could not be read; it is tried again",
    ),
    Line("EVENTS_NEVER_SENT", _W, "Events left a tenant's feed before the topic had taken them; `count` has how many"),
    Line("FEEDS_PRUNED", _I, "Events whose time in the feeds was over were removed, with their count"),
    Line("FEED_UNPRUNED", _W, "Old events of a tenant could not be removed now; the next hour tries again"),
    Line("DELIVERIES_LOST", _W, "The queue lucius-webhooks took no messages; the sweeper sends them again"),
    Line("DELIVERY_UNKNOWN", _W, "A message of the queue lucius-webhooks is not a delivery"),
    Line("DELIVERY_PUT_OFF", _W, "A delivery could not be read or written now; the sweeper sends its message again"),
    Line("DELIVERY_DEAD", _W, "A delivery of a webhook was given up; `reason` says why"),
    Line("HOOK_DISABLED", _W, "The receiver of a webhook answered 410: it gets nothing more"),
    Line("HOOK_SUSPENDED", _W, "The receiver of a webhook took nothing for a day: its deliveries wait for a resume"),
    Line("HOOKS_UNSEEN", _W, "Webhooks of a tenant could not be looked at; the next pass looks again"),
    Line("LIMIT_REACHED", _W, "A request was refused with 429; `limit` names the limit"),
    Line("LEDGER_REFUSED", _W, "The tables refuse a row for good, or a blob of a job is gone"),
    Line("DEPENDENCY_UNAVAILABLE", _W, "A request was answered 503"),
    Line("DEPENDENCY_DOWN", _W, "Readiness: a dependency stopped answering"),
    Line("DEPENDENCY_BACK", _I, "Readiness: it answers again"),
    Line("AUTH_NONE", _W, "The app started with `LUCIUS_AUTH_MODE=none`: no token is looked at"),
    Line("SETTINGS_NOT_READ", _W, "The app started with settings that it does not read; `replaced_by` has what to set"),
    Line(
        "ACCESS",
        _I,
        "A request was answered: `method, route, status, duration_ms`, a problem's code as `reason`, its caller's "
        "`actor` and `tenant_id`, the `scope` that the route needs, `all_tenants` where it reached all of them, "
        "`jobId` where the path has one. Of probes at DEBUG",
    ),
    Line("TOKEN_REFUSED", _I, "A request got 401; `reason` has why; its ACCESS line has the same `correlation_id`"),
    Line("KEYS_UNAVAILABLE", _W, "The issuer's keys could not be fetched; the last ones stay good for a day"),
    Line("CONFIGURATION_READ", _W, "App Configuration holds something that cannot be used"),
    Line("CONFIGURATION_UNAVAILABLE", _W, "App Configuration does not answer; the last known good rules"),
)
