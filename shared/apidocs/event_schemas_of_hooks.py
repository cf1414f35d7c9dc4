"""`data` of the public events of webhooks: its JSON Schema and an example, by type."""

from __future__ import annotations

from typing import Any

from shared.apidocs.event_schemas_of_logs import AT, INSTANT, TEXT
from shared.apidocs.json_schema import JsonObject
from shared.core.events.public_events import PublicType
from shared.core.webhooks.webhooks import HookState

_P = PublicType
_HOOK = "hook_7f0e2b6c9d1a4e538c2f6a1b0d9e8c74"
_STATUS: JsonObject = {
    "enum": [each.value for each in HookState],
    "description": "The webhook's state after what happened.",
}
_REASON: JsonObject = {**TEXT, "description": "A code: `CALLER`, `GONE`, `NO_SUCCESS`, `HTTP_{status}`, `EXPIRED`, ..."}
_NUMBER: JsonObject = {"type": "integer", "minimum": 1}
_NUMBERS: JsonObject = {
    "deliveries": {**_NUMBER, "description": "How many were given up."},
    "first": {**_NUMBER, "description": "The number in the feed of the first of their events."},
    "last": {**_NUMBER, "description": "And of the last."},
}
_REASONS = {_P.WEBHOOK_SUSPENDED: "NO_SUCCESS", _P.WEBHOOK_DEAD: "HTTP_422", _P.WEBHOOK_DISABLED: "GONE"}
_STATES = {_P.WEBHOOK_SUSPENDED: HookState.SUSPENDED, _P.WEBHOOK_DISABLED: HookState.DISABLED}


def example(type_: PublicType) -> dict[str, Any]:
    """`data` as the feed has it."""
    numbers = {"deliveries": 1, "first": 1040, "last": 1040} if type_ is _P.WEBHOOK_DEAD else {}
    is_by_somebody = type_ is _P.WEBHOOK_RESUMED
    return {
        "eventId": f"{_HOOK}:2:0",
        "eventType": type_.value,
        "timestamp": AT,
        "tenant": "acme",
        "hookId": _HOOK,
        "payload": {
            "status": _STATES.get(type_, HookState.ENABLED).value,
            "reason": _REASONS.get(type_, "CALLER"),
            **numbers,
        },
        "provenance": {"actor": "user:1" if is_by_somebody else "system"},
    }


def data(type_: PublicType) -> JsonObject:
    """The schema of `data`."""
    numbers = _NUMBERS if type_ is _P.WEBHOOK_DEAD else {}
    members: JsonObject = {
        "eventId": TEXT,
        "eventType": {"const": type_.value},
        "timestamp": INSTANT,
        "tenant": TEXT,
        "hookId": {**TEXT, "description": "`default`: of the tenant's `callback_urls`."},
        "payload": {
            "type": "object",
            "properties": {"status": _STATUS, "reason": _REASON, **numbers},
            "required": ["status", "reason", *numbers],
        },
        "provenance": {
            "type": "object",
            "properties": {"actor": {**TEXT, "description": "`system`, or who asked."}},
            "required": ["actor"],
        },
    }
    return {"type": "object", "properties": members, "required": [*members]}
