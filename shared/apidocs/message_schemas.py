"""JSON Schemas of the messages, made from their models, with the fields and the required fields of each kind of
reply.

Names are those of `/v1/schemas/{name}`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from shared.apidocs.json_schema import DIALECT, JsonObject, schema
from shared.contracts.envelope import Envelope
from shared.contracts.messages import ABSENT_WHERE_NONE, RESULT_CONTENT, Directive, Reply, ReplyType

_RESULT_ONLY = ("status", "error", "result_ref", *RESULT_CONTENT)
_WORK_ONLY = ("progress", "note")
#: fields that identify the attempt of a message
IDENTITY = ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")

_TITLES = {
    "ACK": "The service has received the directive and will execute it.",
    "HEARTBEAT": "The service still executes the attempt.",
    "RESULT": "The attempt has ended.",
}


def directive() -> JsonObject:
    document = schema(Directive, "read")
    document["required"] = [name for name in Directive.model_fields if name not in ABSENT_WHERE_NONE]
    document["properties"]["type"] = {"const": "DIRECTIVE"}
    return document


def reply(kind: ReplyType) -> JsonObject:
    """Returns the JSON Schema of a reply of one kind, as a current service sends the reply."""
    document = schema(Reply, "write")
    without = _WORK_ONLY if kind == "RESULT" else _RESULT_ONLY
    document["properties"] = {name: each for name, each in document["properties"].items() if name not in without}
    document["properties"]["type"] = {"const": kind}
    document |= {"title": kind.capitalize(), "description": _TITLES[kind]}
    if kind == "RESULT":
        document["properties"]["status"] = {"enum": ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"]}
        document["required"] = [*document["required"], "status"]
    else:
        document.pop("$defs", None)
    return document


def legacy_ack() -> JsonObject:
    """Returns the JSON Schema of the older form of an ACK, without `type` and with `status` ACKED."""
    document = reply("ACK")
    del document["properties"]["type"]
    document["properties"]["status"] = {"const": "ACKED"}
    document["required"] = [*IDENTITY, "status"]
    return document | {"title": "LegacyAck", "description": "Older form of an ACK."}


def legacy_result() -> JsonObject:
    """Returns the JSON Schema of the older form of a failed RESULT, without `type`, with `status` FAILED and a
    `failure_class`.
    """
    document = reply("RESULT")
    document["properties"]["status"] = {"const": "FAILED"}
    document["properties"]["failure_class"] = {
        "description": "Only with `status` FAILED. NON_RETRYABLE ends the job. With any other value another attempt "
        "can follow.",
        "examples": ["RETRYABLE", "NON_RETRYABLE"],
    }
    del document["properties"]["type"]
    document["required"] = [*IDENTITY, "status"]
    return document | {"title": "LegacyResult", "description": "Older form of a failed RESULT."}


def callback(kind: ReplyType) -> JsonObject:
    """Returns the JSON Schema of a callback's body. The body is the reply, in which the identity fields are optional,
    since the token has these fields.
    """
    document = deepcopy(reply(kind))
    document["required"] = ["status"] if kind == "RESULT" else []
    if kind == "RESULT":
        document["properties"]["status"] = {"enum": ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL", "FAILED"]}
        document["properties"]["failure_class"] = legacy_result()["properties"]["failure_class"]
    for name in (*IDENTITY, "type"):
        document["properties"][name] = _or_null(document["properties"][name])
    document["title"] = f"{kind.capitalize()}Callback"
    document["description"] = (
        f"{_TITLES[kind]} Fields of the attempt's identity are optional, because the token has these fields."
    )
    return document


def documents() -> dict[str, JsonObject]:
    """Returns a complete JSON Schema of every message and of the job request, by name."""
    whole: dict[str, JsonObject] = {
        "envelope": schema(Envelope, "write"),
        "directive": directive(),
        "ack": reply("ACK"),
        "heartbeat": reply("HEARTBEAT"),
        "result": reply("RESULT"),
        "legacy-ack": legacy_ack(),
        "legacy-result": legacy_result(),
    }
    return {name: {"$schema": DIALECT, **each} for name, each in whole.items()}


def _or_null(given: JsonObject) -> JsonObject:
    found: dict[str, Any] = {"anyOf": [given, {"type": "null"}]}
    return found
