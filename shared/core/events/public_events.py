"""The public events of a job's EVENT rows (R70).

Literal tables decide: `ROWS` has the public types that an EVENT row type can produce, in order. `ARRIVALS` and `MOVES`
have the public type of the job's own transition. A test checks that each EVENT type and each transition has an entry.

The events depend on the row and on unchanging JOB columns only, so every process makes the same events.

`number_event` adds the deployment and the position in the feed. A public event is a CloudEvent 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from shared.core.events.event_types import PublicType
from shared.core.jobs.history import EventType
from shared.core.jobs.job import Event, Job, JsonValue
from shared.core.jobs.states import JobStatus, StepStatus

#: maximum size of an event as JSON, in bytes of UTF-8: it must fit into one column of a table
MAX_EVENT_BYTES = 24 * 1024
#: maximum size of one value in `payload`, and of `labels`; a larger value is left out, and `href` leads to it
MAX_VALUE_BYTES = 2 * 1024
#: maximum length of a name that a service chooses; a longer one is left out
_MAX_NAME = 256

#: a CloudEvent without its `source`, `sequence` and `dataschema`
PublicEvent = Mapping[str, JsonValue]

_E, _P, _J = EventType, PublicType, JobStatus

#: public types that a row can produce, before the type of the job's own transition, in order; None for no public event
ROWS: Mapping[str, tuple[PublicType, ...] | None] = {
    _E.JOB_CREATED: (),
    # no caller was promised that job
    _E.JOB_WITHDRAWN: None,
    _E.JOB_REDRIVEN: (_P.REDRIVEN,),
    _E.JOB_REPLAYED: (_P.REPLAYED,),
    _E.ADMITTED: (),
    _E.AWAITED: None,
    _E.DEPENDENCIES_SETTLED: (),
    _E.DEPENDENCY_FAILED: (),
    _E.ATTEMPT_RECORDED: (_P.LEASED,),
    _E.LEASE_RENEWED: None,
    _E.PUBLISH_FAILED: (),
    _E.ACK: (_P.STARTED,),
    _E.HEARTBEAT: (_P.STARTED, _P.PROGRESS),
    _E.RESULT: (_P.STARTED, _P.STEP_COMPLETED, _P.RETRYING),
    _E.REPLY_IGNORED: None,
    _E.ACK_TIMEOUT: (_P.RETRYING,),
    _E.LEASE_EXPIRED: (_P.RETRYING,),
    _E.TIME_EXCEEDED: (),
    _E.LANE_BACKLOG: None,
    _E.GATED: None,
    _E.PRIORITY_CHANGED: None,
    _E.CANCEL_REQUESTED: (),
    _E.PAUSE_REQUESTED: (),
    _E.RESUME_REQUESTED: (),
    _E.ORCHESTRATION_RESTARTED: None,
    _E.ORCHESTRATION_FAILED: (),
    _E.REPAIRED: None,
}

#: public type of the arrival in a status, from any status
ARRIVALS: Mapping[str, PublicType] = {
    _J.PAUSED: _P.PAUSED,
    _J.SUCCEEDED: _P.COMPLETED,
    _J.FAILED_FINAL: _P.FAILED,
    _J.CANCELLED: _P.CANCELED,
}
#: public type of every other transition of a job; from None at its creation; None means only the row's types
MOVES: Mapping[tuple[str | None, str], PublicType | None] = {
    (None, _J.WAITING_FOR_JOBS): _P.WAITING,
    (None, _J.THROTTLED): _P.THROTTLED,
    (None, _J.QUEUED): _P.QUEUED,
    (_J.WAITING_FOR_JOBS, _J.THROTTLED): _P.THROTTLED,
    (_J.THROTTLED, _J.QUEUED): _P.ADMITTED,
    (_J.QUEUED, _J.IN_PROGRESS): None,
    (_J.QUEUED, _J.PAUSING): None,
    (_J.QUEUED, _J.CANCELLING): None,
    (_J.IN_PROGRESS, _J.PAUSING): None,
    (_J.IN_PROGRESS, _J.CANCELLING): None,
    (_J.PAUSING, _J.CANCELLING): None,
    (_J.PAUSING, _J.QUEUED): _P.RESUMED,
    (_J.PAUSING, _J.IN_PROGRESS): _P.RESUMED,
    (_J.PAUSED, _J.QUEUED): _P.RESUMED,
    (_J.PAUSED, _J.IN_PROGRESS): _P.RESUMED,
    (_J.PAUSED, _J.THROTTLED): _P.RESUMED,
    (_J.PAUSED, _J.WAITING_FOR_JOBS): _P.RESUMED,
}

#: conditions on the row for types in `ROWS` that not every such row produces
_HOLDS: Mapping[PublicType, Callable[[Event], bool]] = {
    _P.STARTED: lambda event: _read_job_changes(event).get("first_ack_at") is not None,
    _P.STEP_COMPLETED: lambda event: event.to_status == StepStatus.SUCCEEDED,
    _P.RETRYING: lambda event: event.to_status == StepStatus.FAILED_RETRY,
}


@dataclass(frozen=True)
class Issuer:
    """The deployment that issues public events."""

    environment: str
    #: URL of the app for callers; None if not configured; then events have no `dataschema`
    public_url: str | None = None

    def source(self, tenant: str) -> str:
        """Returns the `source` of a tenant's events."""
        return f"/lucius/{quote(self.environment, safe='')}/{quote(tenant, safe='')}"


def find_public_types(event: Event) -> tuple[PublicType, ...]:
    """Returns the types of the public events that the EVENT row produces, in order. Returns an empty tuple for a row
    type of a later release.
    """
    allowed = ROWS.get(event.type)
    if allowed is None:
        return ()
    found = [each for each in allowed if each not in _HOLDS or _HOLDS[each](event)]
    if event.job_from != event.job_to:
        of_move = ARRIVALS.get(event.job_to) or MOVES.get((event.job_from, event.job_to))
        found += [of_move] if of_move is not None else []
    return tuple(found)


def make_public_events(event: Event, job: Job) -> tuple[PublicEvent, ...]:
    """Returns the public events of the EVENT row, in order. `job` may be in any state.

    The id is `{job_id}:{seq}:{n}`. `n` is the position among the events of the row, from 0.
    """
    return tuple(_make_event(event, job, type_, n) for n, type_ in enumerate(find_public_types(event)))


def _make_event(event: Event, job: Job, type_: PublicType, n: int) -> PublicEvent:
    href = f"/v1/jobs/{quote(event.job_id, safe='')}?asOf={event.seq}"
    data: dict[str, JsonValue] = {
        "jobId": event.job_id,
        "jobType": job.request_type,
        "correlationId": job.correlation_id,
        "idempotencyKey": job.idempotency_key,
        "labels": omit_if_large(dict(job.labels), href) if job.labels else None,
        "stepId": event.step_id,
        "attemptNo": event.attempt_no,
        "payload": {name: omit_if_large(value, href) for name, value in _make_payload(event, job, type_).items()},
        "provenance": _make_provenance(event),
    }
    id_ = f"{event.job_id}:{event.seq}:{n}"
    trace = {"traceparent": job.traceparent} if job.traceparent is not None else {}
    return make_cloud_event(type_, id_, event.job_id, event.at, job.tenant, data, jobseq=event.seq, **trace)


def make_cloud_event(
    type_: str,
    id_: str,
    subject: str,
    at: datetime,
    tenant: str,
    data: Mapping[str, JsonValue],
    **attributes: JsonValue,
) -> dict[str, JsonValue]:
    """Returns a CloudEvent without the attributes that `number_event` adds.

    `attributes` has additional attributes of the event. `data` has additional fields of the event's `data`. Fields
    that are None are left out.
    """
    type_, when = str(type_), format_instant(at)
    return {
        "specversion": "1.0",
        "id": id_,
        "type": type_,
        "subject": subject,
        "time": when,
        "datacontenttype": "application/json",
        "tenant": tenant,
        **attributes,
        "data": {"eventId": id_, "eventType": type_, "timestamp": when, "tenant": tenant, **remove_none(data)},
    }


def number_event(event: PublicEvent, number: int, issuer: Issuer) -> dict[str, JsonValue]:
    """Makes the complete CloudEvent, with its deployment and its number in the tenant's feed."""
    whole = {**event, "source": issuer.source(event["tenant"]), "sequence": f"{number:020d}"}
    if issuer.public_url is not None:
        whole["dataschema"] = f"{issuer.public_url}/v1/schemas/events/{event['type']}"
    return whole


def _make_payload(event: Event, job: Job, type_: PublicType) -> dict[str, JsonValue]:
    """Returns the fields of the payload that have a value."""
    of_job, of_step = _read_job_changes(event), _read_step_changes(event)
    payload: dict[str, JsonValue] = {"status": event.job_to, "from": event.job_from}
    match type_:
        case _P.QUEUED | _P.THROTTLED | _P.WAITING:
            if event.job_from is None:
                payload |= {"redriveOf": job.redrive_of, "replayOf": job.replay_of}
        case _P.PROGRESS:
            payload["progress"] = of_step.get("progress")
        case _P.STEP_COMPLETED:
            payload["result"] = of_step.get("result_ref")
        case _P.RETRYING:
            payload["error"] = _make_attempt_error(event)
            due_at = of_step.get("due_at")
            payload["nextEligibleAt"] = format_instant(datetime.fromisoformat(due_at)) if due_at is not None else None
        case _P.COMPLETED | _P.FAILED | _P.CANCELED:
            payload["duration"] = (event.at - job.created_at).total_seconds()
            payload |= {"redriveOf": job.redrive_of, "replayOf": job.replay_of}
            payload["result"] = of_job.get("final_output")
            payload["error"] = _make_error(of_job.get("error_code"), of_job.get("error_message"))
        case _P.REDRIVEN:
            payload["redrivenBy"] = of_job.get("redriven_by")
        case _P.REPLAYED:
            data = event.data if isinstance(event.data, Mapping) else {}
            payload |= {"replayedBy": data.get("replayed_by"), "mode": data.get("mode")}
        case _:
            pass
    return remove_none(payload)


def _make_error(code: JsonValue, message: JsonValue) -> JsonValue:
    return remove_none({"code": code, "message": message}) or None


def _make_attempt_error(event: Event) -> JsonValue:
    """Returns the error of the attempt.

    If an attempt has the same error as the attempt before, `changes` omits the error. The row still has the error of a
    reply, or the code of a timeout.
    """
    of_step = _read_step_changes(event)
    error = (event.data.get("error") or {}) if isinstance(event.data, Mapping) else {}
    if event.type == _E.RESULT:
        reason = (of_step.get("result") or {}).get("reason")
        return _make_error(error.get("code"), error.get("message") or reason)
    return _make_error(
        of_step.get("last_error_code") or error.get("code") or event.type, of_step.get("last_error_message")
    )


def _make_provenance(event: Event) -> dict[str, JsonValue]:
    """Returns the actor and the source of the event. The result has only the digest of the lease (R5)."""
    data = event.data if isinstance(event.data, Mapping) else {}
    found = {
        "actor": event.actor,
        "source": event.source,
        "workerId": _shorten(data.get("worker_id")),
        "leaseId": event.lease_digest,
        "taskRunnerId": _shorten(data.get("task_runner_id")),
    }
    return remove_none(found)


def _shorten(name: JsonValue) -> JsonValue:
    """Returns the name, or None for more than `_MAX_NAME` characters, since a service can send a name of any length."""
    return name if isinstance(name, str) and len(name) <= _MAX_NAME else None


def omit_if_large(value: JsonValue, href: str) -> JsonValue:
    """Returns the value. For more than `MAX_VALUE_BYTES` bytes of JSON, returns the size and the path instead."""
    size = len(encode_json(value))
    return value if size <= MAX_VALUE_BYTES else {"omitted": size, "href": href}


def encode_json(value: JsonValue) -> bytes:
    """Encodes JSON without spaces, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _read_job_changes(event: Event) -> Mapping[str, Any]:
    return _read_changes(event).get("job") or {}


def _read_step_changes(event: Event) -> Mapping[str, Any]:
    return (_read_changes(event).get("steps") or {}).get(event.step_id) or {}


def _read_changes(event: Event) -> Mapping[str, Any]:
    """Returns the row's changes, or an empty mapping if its `data` was withheld or erased."""
    return (event.data.get("changes") or {}) if isinstance(event.data, Mapping) else {}


def remove_none(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns the fields whose value is not None."""
    return {name: value for name, value in values.items() if value is not None}


def format_instant(at: datetime) -> str:
    """Returns a timestamp of RFC 3339 in UTC, with six decimals of the second."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
