"""The JSON Schema (draft 2020-12) and an example of each public event, by type, from the one table of types.

Names are those of `/v1/schemas/events/{type}`. Members may be added to events; what stands here stays.
"""

from __future__ import annotations

from shared.apidocs.json_schema import DIALECT, JsonObject
from shared.core.public_events import MEANINGS, PublicType
from shared.core.states import JobStatus

_TEXT: JsonObject = {"type": "string"}
_INSTANT: JsonObject = {"type": "string", "format": "date-time"}
_OMITTED: JsonObject = {
    "description": "Stands for a value of more than 2 KiB: its size in bytes, and where the job has it.",
    "type": "object",
    "properties": {"omitted": {"type": "integer", "minimum": 1}, "href": _TEXT},
    "required": ["omitted", "href"],
}
_STATUS: JsonObject = {"enum": [status.value for status in JobStatus]}
_REFERENCE: JsonObject = {"type": "object", "properties": {"uri": _TEXT}, "required": ["uri"]}
_ERROR: JsonObject = {"type": "object", "properties": {"code": _TEXT, "message": _TEXT}}

#: members of `payload` beside `status` and `from`
_PAYLOAD: dict[str, JsonObject] = {
    "duration": {"type": "number", "minimum": 0, "description": "Seconds from the job's creation to its end."},
    "progress": {"description": "As the service reported it, where it changed.", "anyOf": [{}, _OMITTED]},
    "result": {"description": "The reference to what was made.", "anyOf": [_REFERENCE, _OMITTED]},
    "error": {"anyOf": [_ERROR, _OMITTED]},
    "nextEligibleAt": {**_INSTANT, "description": "When the next attempt may be recorded."},
    "redriveOf": {**_TEXT, "description": "The job that this one takes up again."},
    "redrivenBy": {**_TEXT, "description": "The job that takes this one up again."},
}
_END = ("duration", "result", "error", "redriveOf")
_MEMBERS: dict[PublicType, tuple[str, ...]] = {
    PublicType.WAITING: ("redriveOf",),
    PublicType.THROTTLED: ("redriveOf",),
    PublicType.QUEUED: ("redriveOf",),
    PublicType.PROGRESS: ("progress",),
    PublicType.STEP_COMPLETED: ("result",),
    PublicType.RETRYING: ("error", "nextEligibleAt"),
    PublicType.COMPLETED: _END,
    PublicType.FAILED: _END,
    PublicType.CANCELED: _END,
    PublicType.REDRIVEN: ("redrivenBy",),
}
_WITH_STEP = (
    *(PublicType.LEASED, PublicType.STARTED, PublicType.PROGRESS),
    *(PublicType.STEP_COMPLETED, PublicType.RETRYING),
)

_JOB, _AT = "job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65", "2026-01-27T10:02:00.000000Z"
_EXAMPLES: dict[PublicType, JsonObject] = {
    PublicType.WAITING: {"status": "WAITING_FOR_JOBS"},
    PublicType.THROTTLED: {"status": "THROTTLED"},
    PublicType.ADMITTED: {"status": "QUEUED", "from": "THROTTLED"},
    PublicType.QUEUED: {"status": "QUEUED"},
    PublicType.LEASED: {"status": "QUEUED", "from": "QUEUED"},
    PublicType.STARTED: {"status": "IN_PROGRESS", "from": "QUEUED"},
    PublicType.PROGRESS: {"status": "IN_PROGRESS", "from": "IN_PROGRESS", "progress": 0.4},
    PublicType.STEP_COMPLETED: {
        "status": "IN_PROGRESS",
        "from": "IN_PROGRESS",
        "result": {"uri": f"https://account.blob.core.windows.net/workspace/lucius/acme/{_JOB}/OCR/1/result.json"},
    },
    PublicType.RETRYING: {
        "status": "IN_PROGRESS",
        "from": "IN_PROGRESS",
        "error": {"code": "LEASE_EXPIRED"},
        "nextEligibleAt": "2026-01-27T10:02:05.000000Z",
    },
    PublicType.PAUSED: {"status": "PAUSED", "from": "QUEUED"},
    PublicType.RESUMED: {"status": "QUEUED", "from": "PAUSED"},
    PublicType.COMPLETED: {
        "status": "SUCCEEDED",
        "from": "IN_PROGRESS",
        "duration": 45.2,
        "result": {"uri": "https://account.blob.core.windows.net/results/lease.json"},
    },
    PublicType.FAILED: {
        "status": "FAILED_FINAL",
        "from": "IN_PROGRESS",
        "duration": 12.5,
        "error": {"code": "PDF_ENCRYPTED", "message": "the document is locked"},
    },
    PublicType.CANCELED: {"status": "CANCELLED", "from": "CANCELLING", "duration": 12.5},
    PublicType.REDRIVEN: {"status": "FAILED_FINAL", "from": "FAILED_FINAL", "redrivenBy": "job_" + "0" * 32},
}


def documents() -> dict[str, JsonObject]:
    """Each a whole JSON Schema with its example, by type."""
    return {type_.value: _document(type_) for type_ in PublicType}


def example(type_: PublicType) -> JsonObject:
    """An event as the feed has it."""
    id_ = f"{_JOB}:7:0"
    step = {"stepId": "ocr", "attemptNo": 1} if type_ in _WITH_STEP else {}
    service = {"workerId": "ocr-2", "leaseId": f"sha256:{'0b7f2c6d' * 8}"} if type_ in _WITH_STEP else {}
    return {
        "specversion": "1.0",
        "id": id_,
        "source": "/lucius/prod/acme",
        "type": type_.value,
        "subject": _JOB,
        "time": _AT,
        "datacontenttype": "application/json",
        "dataschema": f"https://lucius.example.com/v1/schemas/events/{type_.value}",
        "tenant": "acme",
        "sequence": f"{1042:020d}",
        "jobseq": 7,
        "data": {
            "eventId": id_,
            "eventType": type_.value,
            "timestamp": _AT,
            "tenant": "acme",
            "jobId": _JOB,
            "jobType": "OCR",
            "correlationId": "corr-1",
            "idempotencyKey": "scan-0001",
            "labels": {"team": "leases"},
            **step,
            "payload": _EXAMPLES[type_],
            "provenance": {"actor": "service:ocr", "source": "bus", **service},
        },
    }


def _document(type_: PublicType) -> JsonObject:
    attributes: JsonObject = {
        "specversion": {"const": "1.0"},
        "id": {**_TEXT, "description": "`{job id}:{jobseq}:{n}`, the same however often the event comes."},
        "source": {**_TEXT, "format": "uri-reference", "description": "`/lucius/{environment}/{tenant}`."},
        "type": {"const": type_.value},
        "subject": {**_TEXT, "description": "The job's id."},
        "time": _INSTANT,
        "datacontenttype": {"const": "application/json"},
        "dataschema": {**_TEXT, "format": "uri"},
        "tenant": _TEXT,
        "sequence": {
            **_TEXT,
            "pattern": "^[0-9]{20}$",
            "description": "The event's number in its tenant's feed: 20 digits, without gaps.",
        },
        "jobseq": {"type": "integer", "minimum": 1, "description": "The job's EVENT row that means this event."},
        "traceparent": _TEXT,
        "data": _data(type_),
    }
    optional = {"dataschema", "traceparent"}
    return {
        "$schema": DIALECT,
        "title": type_.value,
        "description": MEANINGS[type_],
        "type": "object",
        "properties": attributes,
        "required": [name for name in attributes if name not in optional],
        "examples": [example(type_)],
    }


def _data(type_: PublicType) -> JsonObject:
    payload: JsonObject = {
        "status": {**_STATUS, "description": "The job's status after what happened."},
        "from": {**_STATUS, "description": "The one before; of a creation there is none."},
        **{name: _PAYLOAD[name] for name in _MEMBERS.get(type_, ())},
    }
    members: JsonObject = {
        "eventId": _TEXT,
        "eventType": {"const": type_.value},
        "timestamp": _INSTANT,
        "tenant": _TEXT,
        "jobId": _TEXT,
        "jobType": _TEXT,
        "correlationId": _TEXT,
        "idempotencyKey": _TEXT,
        "labels": {"anyOf": [{"type": "object", "additionalProperties": _TEXT}, _OMITTED]},
        "stepId": _TEXT,
        "attemptNo": {"type": "integer", "minimum": 1},
        "payload": {"type": "object", "properties": payload, "required": ["status"]},
        "provenance": {
            "type": "object",
            "properties": {
                "actor": {**_TEXT, "description": "`system`, `service:{name}`, or who asked."},
                "source": _TEXT,
                "workerId": _TEXT,
                "leaseId": {**_TEXT, "description": "`sha256:` and the digest of the attempt's lease."},
                "taskRunnerId": _TEXT,
            },
            "required": ["actor", "source"],
        },
    }
    optional = {"idempotencyKey", "labels"} | (set() if type_ in _WITH_STEP else {"stepId", "attemptNo"})
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
    }
