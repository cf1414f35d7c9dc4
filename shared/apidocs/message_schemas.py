"""JSON Schemas of the messages, made from their models: what each kind of reply says, and what it need not.

Names are those of `/v1/schemas/{name}`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from shared.apidocs.json_schema import DIALECT, Json, schema
from shared.contracts.envelope import Envelope
from shared.contracts.messages import Directive, Reply, ReplyType

_RESULT_ONLY = ("status", "error", "result_ref", "metrics")
_WORK_ONLY = ("progress", "note")
#: which attempt speaks
IDENTITY = ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")

_TITLES = {
    "ACK": "The service has the directive, and works on it or will.",
    "HEARTBEAT": "The service still works on it.",
    "RESULT": "The attempt is over.",
}


def directive() -> Json:
    told = schema(Directive, "read")
    # left out where callbacks are off
    told["required"] = [name for name in Directive.model_fields if name != "callback_urls"]
    told["properties"]["type"] = {"const": "DIRECTIVE"}
    return told


def reply(kind: ReplyType) -> Json:
    """A reply of one kind, as a service of today sends it."""
    told = schema(Reply, "write")
    without = _WORK_ONLY if kind == "RESULT" else _RESULT_ONLY
    told["properties"] = {name: each for name, each in told["properties"].items() if name not in without}
    told["properties"]["type"] = {"const": kind}
    told |= {"title": kind.capitalize(), "description": _TITLES[kind]}
    if kind == "RESULT":
        told["properties"]["status"] = {"enum": ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"]}
        told["required"] = [*told["required"], "status"]
    else:
        told.pop("$defs", None)
    return told


def legacy_ack() -> Json:
    """S3 5.2: an ACK that says so by its status alone."""
    told = reply("ACK")
    del told["properties"]["type"]
    told["properties"]["status"] = {"const": "ACKED"}
    told["required"] = [*IDENTITY, "status"]
    return told | {"title": "LegacyAck", "description": "An ACK in its older form."}


def legacy_result() -> Json:
    """S3 5.3: a failure with its class."""
    told = reply("RESULT")
    told["properties"]["status"] = {"const": "FAILED"}
    told["properties"]["failure_class"] = {
        "description": "NON_RETRYABLE ends the job; anything else lets another attempt follow.",
        "examples": ["RETRYABLE", "NON_RETRYABLE"],
    }
    del told["properties"]["type"]
    told["required"] = [*IDENTITY, "status"]
    return told | {"title": "LegacyResult", "description": "A failure in its older form."}


def callback(kind: ReplyType) -> Json:
    """The body of a callback: the reply, of which the token knows the identity already."""
    told = deepcopy(reply(kind))
    told["required"] = ["status"] if kind == "RESULT" else []
    if kind == "RESULT":
        told["properties"]["status"] = {"enum": ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL", "FAILED"]}
        told["properties"]["failure_class"] = legacy_result()["properties"]["failure_class"]
    for name in (*IDENTITY, "type"):
        told["properties"][name] = _or_null(told["properties"][name])
    told["title"] = f"{kind.capitalize()}Callback"
    told["description"] = f"{_TITLES[kind]} What is left out of the attempt's identity, the token says."
    return told


def documents() -> dict[str, Json]:
    """Every message and the envelope, each a whole JSON Schema, by name."""
    whole: dict[str, Json] = {
        "envelope": schema(Envelope, "write"),
        "directive": directive(),
        "ack": reply("ACK"),
        "heartbeat": reply("HEARTBEAT"),
        "result": reply("RESULT"),
        "legacy-ack": legacy_ack(),
        "legacy-result": legacy_result(),
    }
    return {name: {"$schema": DIALECT, **each} for name, each in whole.items()}


def _or_null(given: Json) -> Json:
    found: dict[str, Any] = {"anyOf": [given, {"type": "null"}]}
    return found
