"""`data` of the public events of gates and incidents: its JSON Schema and an example, by type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.apidocs.json_schema import JsonObject
from shared.core.events.public_events import PublicType
from shared.core.events.public_log_events import GATE_LOG
from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import GateKind
from shared.core.incidents import IncidentKind, IncidentState

TEXT: JsonObject = {"type": "string"}
INSTANT: JsonObject = {"type": "string", "format": "date-time"}
#: when each example happened
AT = "2026-01-27T10:02:00.000000Z"


def omitted(value: JsonObject) -> JsonObject:
    """Of a member that may be too large."""
    return {"anyOf": [value, OMITTED]}


OMITTED: JsonObject = {
    "description": "Stands for a value of more than 2 KiB: its size in bytes, and where LUCIUS has it.",
    "type": "object",
    "properties": {"omitted": {"type": "integer", "minimum": 1}, "href": TEXT},
    "required": ["omitted", "href"],
}

_P = PublicType


def _gate(kinds: Iterable[GateKind]) -> JsonObject:
    return {
        "description": "The gate. `name` is its job type, source, mode, service or lane; empty of a tenant's own.",
        "type": "object",
        "properties": {"id": TEXT, "kind": {"enum": [each.value for each in kinds]}, "name": TEXT},
        "required": ["id", "kind", "name"],
    }


_INCIDENT: JsonObject = {
    "description": "`subject` is the job, the gate or the service that it is about.",
    "type": "object",
    "properties": {"id": TEXT, "kind": {"enum": [each.value for each in IncidentKind]}, "subject": TEXT, "code": TEXT},
    "required": ["id", "kind", "subject", "code"],
}
_SETTING: JsonObject = omitted(
    {"description": "`rule`, `hold` and `throttle`, null where there is none.", "type": "object"}
)
_REASON: JsonObject = {"description": "As whoever did it gave it.", **omitted(TEXT)}
_WITH_BREAKER = _gate((GateKind.TYPE, GateKind.PLATFORM_TYPE))
_COUNTS: JsonObject = {
    "bad": {"type": "integer", "minimum": 0, "description": "Bad ends by which it opened."},
    "calls": {"type": "integer", "minimum": 0, "description": "All ends that counted."},
}
_DETAIL: JsonObject = {"description": "What went wrong.", **omitted(TEXT)}
_SETTLED = [each.value for each in IncidentState if each is not IncidentState.OPEN]
_CHANGES = sorted(each for each, types in GATE_LOG.items() if types is not None and _P.QUOTA_CHANGED in types)

#: members of `payload`, and those of them that are always there
_PAYLOADS: dict[PublicType, tuple[JsonObject, tuple[str, ...]]] = {
    _P.INCIDENT_OPENED: (
        {"status": {"const": "OPEN"}, "incident": _INCIDENT, "detail": _DETAIL, "reason": _REASON},
        ("status", "incident", "reason"),
    ),
    _P.INCIDENT_RESOLVED: (
        {
            "status": {"enum": _SETTLED, "description": "What became of it."},
            "from": {"const": "OPEN"},
            "incident": _INCIDENT,
            "detail": _DETAIL,
            "reason": _REASON,
            "retriedBy": {**TEXT, "description": "The job that took the failed one's place."},
        },
        ("status", "from", "incident", "reason"),
    ),
    _P.QUOTA_CHANGED: (
        {
            "change": {"enum": _CHANGES, "description": "What somebody did."},
            "gate": _gate(GateKind),
            "before": _SETTING,
            "after": _SETTING,
            "reason": _REASON,
        },
        ("change", "gate", "before", "after", "reason"),
    ),
    _P.BREAKER_OPENED: (
        {
            "status": {"const": "OPEN"},
            "from": {"enum": [each.value for each in BreakerState], "description": "OPEN: it opened anew."},
            "until": {**INSTANT, "description": "Half-open from then on."},
            **_COUNTS,
            "gate": _WITH_BREAKER,
            "reason": _REASON,
        },
        ("status", "from", "gate", "reason"),
    ),
    _P.BREAKER_CLOSED: (
        {
            "status": {"const": "CLOSED"},
            "from": {"enum": ["OPEN", "HALF_OPEN"]},
            "gate": _WITH_BREAKER,
            "reason": _REASON,
        },
        ("status", "from", "gate", "reason"),
    ),
}

_GATE_EXAMPLE = {"id": "0f3a5b7c9d1e2f40", "kind": "tenant/type", "name": "OCR"}
_INCIDENT_EXAMPLE = {"id": "inc_job_1", "kind": "JOB", "subject": "job_1", "code": "ATTEMPTS_EXHAUSTED"}
_EXAMPLES: dict[PublicType, JsonObject] = {
    _P.INCIDENT_OPENED: {
        "status": "OPEN",
        "incident": _INCIDENT_EXAMPLE,
        "detail": "no ACK within 30 s",
        "reason": "ATTEMPTS_EXHAUSTED",
    },
    _P.INCIDENT_RESOLVED: {
        "status": "RETRIED",
        "from": "OPEN",
        "incident": _INCIDENT_EXAMPLE,
        "detail": "no ACK within 30 s",
        "reason": "the service is back",
        "retriedBy": "job_2",
    },
    _P.QUOTA_CHANGED: {
        "change": "HELD",
        "gate": _GATE_EXAMPLE,
        "before": {"rule": {"max_active": 5}, "hold": None, "throttle": None},
        "after": {
            "rule": {"max_active": 5},
            "hold": {"reason": "blank pages", "actor": "user:1", "at": AT, "own": True},
            "throttle": None,
        },
        "reason": "blank pages",
    },
    _P.BREAKER_OPENED: {
        "status": "OPEN",
        "from": "CLOSED",
        "until": "2026-01-27T10:03:00.000000Z",
        "bad": 6,
        "calls": 10,
        "gate": _GATE_EXAMPLE,
        "reason": "6 of 10 jobs ended badly",
    },
    _P.BREAKER_CLOSED: {
        "status": "CLOSED",
        "from": "HALF_OPEN",
        "gate": _GATE_EXAMPLE,
        "reason": "since it opened, jobs ended well, or none ended at all",
    },
}
_OF_INCIDENTS = (_P.INCIDENT_OPENED, _P.INCIDENT_RESOLVED)


def example(type_: PublicType) -> dict[str, Any]:
    """`data` as the feed has it."""
    payload = _EXAMPLES[type_]
    key, number = (payload["incident"]["id"], 2) if type_ in _OF_INCIDENTS else (payload["gate"]["id"], 4)
    number = 1 if type_ is _P.INCIDENT_OPENED else number
    job = {"jobId": payload["incident"]["subject"]} if type_ in _OF_INCIDENTS else {}
    people = {_P.INCIDENT_RESOLVED: "user:1", _P.QUOTA_CHANGED: "user:1"}
    return {
        "eventId": f"{key}:{number}:0",
        "eventType": type_.value,
        "timestamp": AT,
        "tenant": "acme",
        **job,
        "jobType": "OCR",
        "payload": payload,
        "provenance": {"actor": people.get(type_, "system")},
    }


def data(type_: PublicType) -> JsonObject:
    """The schema of `data`."""
    payload, required = _PAYLOADS[type_]
    about = {"jobId": {**TEXT, "description": "Of an incident of a job."}} if type_ in _OF_INCIDENTS else {}
    members: JsonObject = {
        "eventId": TEXT,
        "eventType": {"const": type_.value},
        "timestamp": INSTANT,
        "tenant": {**TEXT, "description": "`=platform`: it belongs to no tenant."},
        **about,
        "jobType": {**TEXT, "description": "Where it concerns one."},
        "payload": {"type": "object", "properties": payload, "required": list(required)},
        "provenance": {
            "type": "object",
            "properties": {"actor": {**TEXT, "description": "`system`, or who asked."}},
            "required": ["actor"],
        },
    }
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in ("jobId", "jobType")],
    }
