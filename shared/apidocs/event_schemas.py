"""The JSON Schema (draft 2020-12) and an example of each public event, by type, from the one table of types.

Names are those of `/v1/schemas/events/{type}`. Members may be added to events; what stands here stays.
"""

from __future__ import annotations

from types import ModuleType

from shared.apidocs import event_schemas_of_hooks, event_schemas_of_logs
from shared.apidocs.event_schemas_of_logs import AT, INSTANT, OMITTED, TEXT
from shared.apidocs.json_schema import DIALECT, JsonObject
from shared.core.events.public_events import MEANINGS, OF_HOOKS, OF_LOGS, PublicType
from shared.core.jobs.states import JobStatus

_STATUS: JsonObject = {"enum": [status.value for status in JobStatus]}
_REFERENCE: JsonObject = {"type": "object", "properties": {"uri": TEXT}, "required": ["uri"]}
_ERROR: JsonObject = {"type": "object", "properties": {"code": TEXT, "message": TEXT}}

#: members of `payload` beside `status` and `from`
_PAYLOAD: dict[str, JsonObject] = {
    "duration": {"type": "number", "minimum": 0, "description": "Seconds from the job's creation to its end."},
    "progress": {"description": "As the service reported it, where it changed.", "anyOf": [{}, OMITTED]},
    "result": {"description": "The reference to what was made.", "anyOf": [_REFERENCE, OMITTED]},
    "error": {"anyOf": [_ERROR, OMITTED]},
    "nextEligibleAt": {**INSTANT, "description": "When the next attempt may be recorded."},
    "redriveOf": {**TEXT, "description": "The job that this one takes up again."},
    "redrivenBy": {**TEXT, "description": "The job that takes this one up again."},
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

_JOB = "job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"
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


#: modules of the types that are no job's
_OTHERS: dict[PublicType, ModuleType] = {
    **dict.fromkeys(OF_LOGS, event_schemas_of_logs),
    **dict.fromkeys(OF_HOOKS, event_schemas_of_hooks),
}


def documents() -> dict[str, JsonObject]:
    """Each a whole JSON Schema with its example, by type."""
    return {type_.value: _document(type_) for type_ in PublicType}


def example(type_: PublicType) -> JsonObject:
    """An event as the feed has it."""
    data = _OTHERS[type_].example(type_) if type_ in _OTHERS else _job_example(type_)
    subject = data["eventId"].split(":")[0]
    return {
        "specversion": "1.0",
        "id": data["eventId"],
        "source": f"/lucius/prod/{data['tenant']}",
        "type": type_.value,
        "subject": subject,
        "time": data["timestamp"],
        "datacontenttype": "application/json",
        "dataschema": f"https://lucius.example.com/v1/schemas/events/{type_.value}",
        "tenant": data["tenant"],
        "sequence": f"{1042:020d}",
        "jobseq": int(data["eventId"].split(":")[1]),
        "data": data,
    }


def _job_example(type_: PublicType) -> JsonObject:
    step = {"stepId": "ocr", "attemptNo": 1} if type_ in _WITH_STEP else {}
    service = {"workerId": "ocr-2", "leaseId": f"sha256:{'0b7f2c6d' * 8}"} if type_ in _WITH_STEP else {}
    return {
        "eventId": f"{_JOB}:7:0",
        "eventType": type_.value,
        "timestamp": AT,
        "tenant": "acme",
        "jobId": _JOB,
        "jobType": "OCR",
        "correlationId": "corr-1",
        "idempotencyKey": "scan-0001",
        "labels": {"team": "leases"},
        **step,
        "payload": _EXAMPLES[type_],
        "provenance": {"actor": "service:ocr", "source": "bus", **service},
    }


def _document(type_: PublicType) -> JsonObject:
    attributes: JsonObject = {
        "specversion": {"const": "1.0"},
        "id": {**TEXT, "description": "`{subject}:{jobseq}:{n}`, the same however often the event comes."},
        "source": {**TEXT, "format": "uri-reference", "description": "`/lucius/{environment}/{tenant}`."},
        "type": {"const": type_.value},
        "subject": {**TEXT, "description": "The id of the job, the gate, the incident or the webhook."},
        "time": INSTANT,
        "datacontenttype": {"const": "application/json"},
        "dataschema": {**TEXT, "format": "uri"},
        "tenant": TEXT,
        "sequence": {
            **TEXT,
            "pattern": "^[0-9]{20}$",
            "description": "The event's number in its tenant's feed: 20 digits, without gaps.",
        },
        "jobseq": {"type": "integer", "minimum": 1, "description": "The row of its subject that means this event."},
        **({} if type_ in _OTHERS else {"traceparent": TEXT}),
        "data": _OTHERS[type_].data(type_) if type_ in _OTHERS else _data(type_),
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
        "eventId": TEXT,
        "eventType": {"const": type_.value},
        "timestamp": INSTANT,
        "tenant": TEXT,
        "jobId": TEXT,
        "jobType": TEXT,
        "correlationId": TEXT,
        "idempotencyKey": TEXT,
        "labels": {"anyOf": [{"type": "object", "additionalProperties": TEXT}, OMITTED]},
        "stepId": TEXT,
        "attemptNo": {"type": "integer", "minimum": 1},
        "payload": {"type": "object", "properties": payload, "required": ["status"]},
        "provenance": {
            "type": "object",
            "properties": {
                "actor": {**TEXT, "description": "`system`, `service:{name}`, or who asked."},
                "source": TEXT,
                "workerId": TEXT,
                "leaseId": {**TEXT, "description": "`sha256:` and the digest of the attempt's lease."},
                "taskRunnerId": TEXT,
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
