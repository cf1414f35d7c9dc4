"""The JSON Schema (draft 2020-12) and an example of each public event, by type, made from `PublicType` and `PAYLOADS`.

Names are those of `/v1/schemas/events/{type}`. Fields can be added to events, and existing fields stay.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from shared.apidocs.json_schema import DIALECT, JsonObject, inlined
from shared.core.events.event_types import JOB, OF_LOGS, OF_STEPS, PAYLOADS, Instant, Labels, PublicType
from shared.core.events.public_events import Issuer, make_cloud_event, number_event

_AT = datetime(2026, 1, 27, 10, 2, tzinfo=UTC)
_ISSUER = Issuer("prod", "https://lucius.example.com")
_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "integer", "minimum": 1}
_INSTANT = inlined(Instant)
_JOB_TYPE: JsonObject = {"jobType": {**_TEXT, "description": "Job type. Absent if the event concerns no job type."}}

#: additional fields of `data`, by the subject of the event
_ABOUT: dict[str, JsonObject] = {
    "job": {
        "jobId": _TEXT,
        "jobType": _TEXT,
        "correlationId": _TEXT,
        "idempotencyKey": _TEXT,
        "labels": inlined(Labels),
        "stepId": _TEXT,
        "attemptNo": _NUMBER,
    },
    "incident": {"jobId": {**_TEXT, "description": "Job of the incident, if any."}, **_JOB_TYPE},
    "quota": _JOB_TYPE,
    "breaker": _JOB_TYPE,
    "webhook": {"hookId": {**_TEXT, "description": "Id of the webhook. `default`: the tenant's `callback_urls`."}},
}
_PROVENANCE: JsonObject = {
    "type": "object",
    "properties": {"actor": {**_TEXT, "description": "Actor: `system`, or the caller."}},
    "required": ["actor"],
}
_JOB_PROVENANCE: JsonObject = {
    "type": "object",
    "properties": {
        "actor": {**_TEXT, "description": "Actor: `system`, `service:{name}`, or the caller."},
        "source": _TEXT,
        "workerId": _TEXT,
        "leaseId": {**_TEXT, "description": "`sha256:` and the digest of the attempt's lease."},
        "taskRunnerId": _TEXT,
    },
    "required": ["actor", "source"],
}

_HOOK = "hook_7f0e2b6c9d1a4e538c2f6a1b0d9e8c74"
#: types whose examples have a caller as the actor
_BY_CALLERS = (PublicType.INCIDENT_RESOLVED, PublicType.QUOTA_CHANGED, PublicType.WEBHOOK_RESUMED)


@cache
def documents() -> dict[str, JsonObject]:
    """Returns a complete JSON Schema with its example for each event type. The first call makes the schemas, and later
    calls return the same objects. Callers must not change the schemas.
    """
    return {type_.value: _document(type_) for type_ in PublicType}


def example(type_: PublicType) -> JsonObject:
    """Returns an example of an event of that type, in the form of the feed."""
    payload, is_of_step = PAYLOADS[type_][1], type_ in OF_STEPS
    provenance: JsonObject = {"actor": "user:1" if type_ in _BY_CALLERS else "system"}
    match _subject(type_):
        case "job":
            key, row = JOB, 7
            about: JsonObject = {"jobId": JOB, "jobType": "OCR", "correlationId": "corr-1"}
            about |= {"idempotencyKey": "scan-0001", "labels": {"team": "leases"}}
            about |= {"stepId": "ocr", "attemptNo": 1} if is_of_step else {}
            provenance = {"actor": "service:ocr", "source": "bus"}
            provenance |= {"workerId": "ocr-2", "leaseId": f"sha256:{'0b7f2c6d' * 8}"} if is_of_step else {}
        case "incident":
            key, row = payload["incident"]["id"], 1 if type_ is PublicType.INCIDENT_OPENED else 2
            about = {"jobId": payload["incident"]["subject"], "jobType": "OCR"}
        case "webhook":
            key, row, about = _HOOK, 2, {"hookId": _HOOK}
        case _:
            key, row, about = payload["gate"]["id"], 4, {"jobType": "OCR"}
    data = {**about, "payload": payload, "provenance": provenance}
    event = number_event(make_cloud_event(type_, f"{key}:{row}:0", key, _AT, "acme", data, jobseq=row), 1042, _ISSUER)
    return {name: event[name] for name in (*_attributes(type_), "data") if name in event}


def _document(type_: PublicType) -> JsonObject:
    attributes = {**_attributes(type_), "data": _data(type_)}
    optional = {"dataschema", "traceparent"}
    return {
        "$schema": DIALECT,
        "title": type_.value,
        "description": type_.meaning,
        "type": "object",
        "properties": attributes,
        "required": [name for name in attributes if name not in optional],
        "examples": [example(type_)],
    }


def _subject(type_: PublicType) -> str:
    return type_.split(".")[0]


def _digest(type_: PublicType) -> str:
    is_of_hook = _subject(type_) == "webhook"
    return " For the webhook `default`, the first part is `default_` and a digest of the tenant." if is_of_hook else ""


def _attributes(type_: PublicType) -> JsonObject:
    return {
        "specversion": {"const": "1.0"},
        "id": {**_TEXT, "description": f"`{{subject}}:{{jobseq}}:{{n}}`, the same for every delivery.{_digest(type_)}"},
        "source": {**_TEXT, "format": "uri-reference", "description": "`/lucius/{environment}/{tenant}`."},
        "type": {"const": type_.value},
        "subject": {**_TEXT, "description": "Id of the job, quota, incident or webhook."},
        "time": _INSTANT,
        "datacontenttype": {"const": "application/json"},
        "dataschema": {**_TEXT, "format": "uri"},
        "tenant": _TEXT,
        "sequence": {
            **_TEXT,
            "pattern": "^[0-9]{20}$",
            "description": "Number in the tenant's feed: 20 digits, without gaps.",
        },
        "jobseq": {
            **_NUMBER,
            "description": "Number of the entry in the job's history, or in the log of the quota, incident or webhook.",
        },
        **({"traceparent": _TEXT} if _subject(type_) == "job" else {}),
    }


def _data(type_: PublicType) -> JsonObject:
    members: JsonObject = {
        "eventId": _TEXT,
        "eventType": {"const": type_.value},
        "timestamp": _INSTANT,
        "tenant": {**_TEXT, "description": "Tenant of the event. `=platform` if the event belongs to no tenant."}
        if type_ in OF_LOGS
        else _TEXT,
        **_ABOUT[_subject(type_)],
        "payload": inlined(PAYLOADS[type_][0]),
        "provenance": _JOB_PROVENANCE if _subject(type_) == "job" else _PROVENANCE,
    }
    optional = {"jobId", "jobType"} if type_ in OF_LOGS else {"idempotencyKey", "labels"}
    optional |= set() if type_ in OF_STEPS else {"stepId", "attemptNo"}
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
    }
