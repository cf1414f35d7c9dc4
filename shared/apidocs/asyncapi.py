"""The AsyncAPI 3 document of the bus: channels, messages and senders.

The document is made from the models of the messages and the names of the topics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from shared.apidocs import event_schemas, message_schemas
from shared.apidocs.json_schema import JsonObject
from shared.apidocs.version import version_text
from shared.core.events.event_types import PublicType
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX, EVENTS_TOPIC

_EXAMPLE: JsonObject = {
    "jobId": "job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65",
    "stepId": "ocr",
    "tenant_id": "tenant_a",
    "attempt_no": 1,
    "lease_id": "lease_0b7f2c6d1e4a4f0c9f6a1b2c3d4e5f60",
    "timestamp": "2026-01-27T10:02:00Z",
    "correlation_id": "corr-1",
}
_ACCOUNT = "https://account.blob.core.windows.net"
_WORKSPACE = f"{_ACCOUNT}/workspace/lucius/tenant_a/{_EXAMPLE['jobId']}/OCR/1/"
_RESULT_REF = {"uri": f"{_WORKSPACE}result.json"}
_CONTENT_EXAMPLE: JsonObject = {
    "output_ref": {"uri": f"{_ACCOUNT}/results/{_EXAMPLE['jobId']}/result.json"},
    "artifacts": [{"name": "output.txt", "uri": f"{_WORKSPACE}output.txt", "media_type": "text/plain", "size": 1204}],
    "digests": {"result.json": f"sha256:{'0b7f2c6d' * 8}"},
    "metrics": {"pages": 5},
}

_DIRECTIVE_EXAMPLE: JsonObject = {
    "type": "DIRECTIVE",
    "jobId": _EXAMPLE["jobId"],
    "tenant_id": "tenant_a",
    "stepId": "ocr",
    "protocol_id": "ocr_embedding_sis",
    "step_type": "OCR",
    "attempt_no": 1,
    "lease_id": _EXAMPLE["lease_id"],
    "input_ref": {"uri": f"{_ACCOUNT}/documents/lease.pdf"},
    "workspace_ref": {"uri": _WORKSPACE},
    "output_ref": {"uri": f"{_ACCOUNT}/results/lease.json"},
    "final": False,
    "payload": {"dpi": 200},
    "mode": "DEFAULT",
    "lane": 15,
    "routing_key_used": "tenant_a",
    "correlation_id": "corr-1",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


@dataclass(frozen=True, kw_only=True)
class BusNames:
    """The number of lanes, and the names of the reply topics and of their subscription."""

    lanes: int = 16
    reply_prefix: str = "global-bus-replies-p"
    reply_subscription: str = "lucius-invoker"


def document(names: BusNames, build: str | None = None) -> JsonObject:
    """Makes the AsyncAPI 3.0.0 document from the view of LUCIUS, which sends directives and receives replies.

    The document shows `build` with the version.
    """
    replies = ["ack", "heartbeat", "result", "legacyAck", "legacyResult"]
    return {
        "asyncapi": "3.0.0",
        "id": "urn:lucius:bus",
        "info": {
            "title": "LUCIUS on Service Bus",
            "version": version_text(build),
            "description": (
                "LUCIUS sends a directive for each attempt of a step to the topic of the job's lane. The step's "
                "platform service replies on the reply topic of the same lane with ACK, HEARTBEAT and RESULT.\n\n"
                "Service Bus can deliver a message more than once. Both sides ignore unknown fields. LUCIUS stores an "
                "unreadable message, and a message that no job accepts, with the reason (`GET /v1/rejected`)."
            ),
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "servicebus": {
                "host": "{namespace}.servicebus.windows.net",
                "protocol": "amqps",
                "protocolVersion": "1.0",
                "description": "An Azure Service Bus namespace, Standard or Premium.",
                "variables": {"namespace": {"description": "Name of the namespace.", "default": "lucius"}},
                "security": [{"$ref": "#/components/securitySchemes/entra"}],
                "bindings": {"amqp1": {}},
            },
            "laptop": {
                "host": "127.0.0.1:5672",
                "protocol": "amqp",
                "protocolVersion": "1.0",
                "description": "The emulator that `make up` starts.",
                "bindings": {"amqp1": {}},
            },
            "api": {
                "host": "{app}.azurewebsites.net",
                "protocol": "https",
                "description": "The API, which serves a tenant's feed of public events.",
                "variables": {"app": {"description": "Name of the app.", "default": "lucius"}},
            },
        },
        "channels": {
            "directives": _channel(
                DIRECTIVE_TOPIC_PREFIX,
                names.lanes,
                "Directives of one lane. Each platform service has its own subscription, with the name of the "
                "service. The rule of the subscription is a correlation filter on `step_type`.",
                ["directive"],
                {
                    "subscription": "the service's name, for example `ocr`",
                    "rule": {"name": "$Default", "correlationFilter": {"step_type": "OCR"}},
                    "duplicateDetectionWindow": "PT30M",
                    "lockDuration": "PT5M",
                    "maxDeliveryCount": 10,
                },
            ),
            "replies": _channel(
                names.reply_prefix,
                names.lanes,
                "Replies of one lane. LUCIUS reads only the JSON body. Application properties and message id can have "
                "any value.",
                replies,
                {"subscription": names.reply_subscription, "lockDuration": "PT1M", "maxDeliveryCount": 10},
            ),
            "events": {
                "address": "/v1/events",
                "title": "Public events",
                "description": "Feed of a tenant: exactly once, ordered per job, quota, incident or webhook, "
                "numbered without gaps. `GET /v1/events` returns pages with these messages as `events`. With "
                "`LUCIUS_EVENTS=off` there is no feed.",
                "servers": [{"$ref": "#/servers/api"}],
                "messages": {type_: {"$ref": f"#/components/messages/{type_}"} for type_ in PublicType},
            },
            "eventsTopic": {
                "address": EVENTS_TOPIC,
                "title": EVENTS_TOPIC,
                "description": "Feeds of all tenants, at least once, ordered per feed. Requires "
                "`LUCIUS_EVENTS=topic`. Each consumer needs its own subscription.",
                "servers": [{"$ref": "#/servers/servicebus"}, {"$ref": "#/servers/laptop"}],
                "messages": {type_: {"$ref": f"#/components/messages/{type_}"} for type_ in PublicType},
                "bindings": {"amqp1": {}},
                "x-servicebus": {
                    "messageId": "{id}",
                    "properties": ["tenant", "type", "jobType"],
                    "duplicateDetectionWindow": "PT5M",
                },
            },
        },
        "operations": {
            "sendDirective": {
                "action": "send",
                "channel": {"$ref": "#/channels/directives"},
                "summary": "Sends the directive of one attempt to a platform service. Without a fault, LUCIUS "
                "publishes each directive exactly once.",
                "messages": [{"$ref": "#/channels/directives/messages/directive"}],
                "reply": {
                    "channel": {"$ref": "#/channels/replies"},
                    "messages": [{"$ref": f"#/channels/replies/messages/{name}"} for name in replies],
                },
                "bindings": {"amqp1": {}},
            },
            "receiveReply": {
                "action": "receive",
                "channel": {"$ref": "#/channels/replies"},
                "summary": (
                    "A reply changes its job only with the tenant, attempt and lease of the step's current attempt. "
                    "LUCIUS records late, stale and repeated replies, at most 20 of a job. Send the ACK on receipt, "
                    "before the service queues the work. Send heartbeats while the work waits or runs."
                ),
                "messages": [{"$ref": f"#/channels/replies/messages/{name}"} for name in replies],
                "bindings": {"amqp1": {}},
            },
            "showEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/events"},
                "summary": "Returns the changes of the tenant's jobs, quotas, incidents and webhooks.",
                "messages": [{"$ref": f"#/channels/events/messages/{type_}"} for type_ in PublicType],
                "bindings": {"http": {"method": "GET"}},
            },
            "passOnEvents": {
                "action": "send",
                "channel": {"$ref": "#/channels/eventsTopic"},
                "summary": "Sends the events of all feeds to Service Bus.",
                "messages": [{"$ref": f"#/channels/eventsTopic/messages/{type_}"} for type_ in PublicType],
                "bindings": {"amqp1": {}},
            },
        },
        "components": _components(),
    }


def _channel(prefix: str, lanes: int, description: str, messages: list[str], servicebus: JsonObject) -> JsonObject:
    return {
        "address": f"{prefix}{{lane}}",
        "title": f"{prefix}0 to {prefix}{lanes - 1}",
        "description": description,
        "parameters": {
            "lane": {
                "description": "CRC32 of the UTF-8 bytes of the directive's `routing_key_used`, modulo the number of "
                "lanes.",
                "enum": [str(lane) for lane in range(lanes)],
            }
        },
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        "bindings": {"amqp1": {}},
        "x-servicebus": servicebus,
    }


def _components() -> JsonObject:
    whole = message_schemas.documents()
    reply = _EXAMPLE
    error = {"code": "PDF_ENCRYPTED", "message": "the document is locked"}
    messages = {
        "directive": _message("DIRECTIVE", "directive", [_DIRECTIVE_EXAMPLE]),
        "ack": _message("ACK", "ack", [{"type": "ACK", **reply}]),
        "heartbeat": _message(
            "HEARTBEAT", "heartbeat", [{"type": "HEARTBEAT", **reply, "progress": 0.4, "note": "page 2 of 5"}]
        ),
        "result": _message(
            "RESULT",
            "result",
            [
                {"type": "RESULT", **reply, "status": "SUCCEEDED", "result_ref": _RESULT_REF, **_CONTENT_EXAMPLE},
                {"type": "RESULT", **reply, "status": "FAILED_FINAL", "error": error},
            ],
        ),
        "legacyAck": _message("ACK, older form", "legacy-ack", [{**reply, "status": "ACKED"}]),
        "legacyResult": _message(
            "RESULT, older form",
            "legacy-result",
            [{**reply, "status": "FAILED", "failure_class": "RETRYABLE", "error": error}],
        ),
    }
    messages["directive"] |= {
        "headers": _properties(),
        "x-servicebus": {"messageId": "{jobId}:{stepId}:{attempt_no}", "correlationId": "{correlation_id}"},
    }
    schemas: JsonObject = {}
    for type_, event in event_schemas.documents().items():
        schemas[type_] = {key: each for key, each in event.items() if key not in ("$schema", "examples")}
        messages[type_] = {
            "name": type_,
            "title": type_,
            "summary": event["description"],
            "contentType": "application/cloudevents+json",
            "correlationId": {"$ref": "#/components/correlationIds/event"},
            "payload": {"$ref": f"#/components/schemas/{type_}"},
            "examples": [{"payload": each} for each in event["examples"]],
        }
    for name in ("directive", "ack", "heartbeat", "result", "legacy-ack", "legacy-result"):
        schemas |= whole[name].get("$defs", {})
        schemas[name] = {key: each for key, each in whole[name].items() if key not in ("$defs", "$schema")}
    # references in a complete schema point into itself; here they must point into the components
    found: JsonObject = json.loads(json.dumps(schemas).replace('"#/$defs/', '"#/components/schemas/'))
    return {
        "messages": messages,
        "schemas": found,
        "correlationIds": {
            "job": {
                "description": "Correlation id of the job, the same in every message about the job.",
                "location": "$message.payload#/correlation_id",
            },
            "event": {
                "description": "Correlation id of the job, in an event about the job.",
                "location": "$message.payload#/data/correlationId",
            },
        },
        "securitySchemes": {
            "entra": {
                "type": "openIdConnect",
                "openIdConnectUrl": "https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration",
                "description": "Managed identity with the role Azure Service Bus Data Sender or Data Receiver.",
            }
        },
    }


def _message(name: str, schema: str, examples: list[JsonObject]) -> JsonObject:
    return {
        "name": name,
        "title": name,
        "contentType": "application/json",
        "correlationId": {"$ref": "#/components/correlationIds/job"},
        "payload": {"$ref": f"#/components/schemas/{schema}"},
        "bindings": {"amqp1": {}},
        "examples": [{"payload": example} for example in examples],
    }


def _properties() -> JsonObject:
    """Returns the JSON Schema of a directive's application properties, by which the subscriptions' rules filter."""
    text, whole = {"type": "string"}, {"type": "integer"}
    found = {
        "type": {"const": "DIRECTIVE"},
        "mode": {"enum": ["DEFAULT", "BURST"]},
        "tenant_id": text,
        "step_type": text,
        "job_id": text,
        "step_id": text,
        "attempt_no": whole,
        "lane": whole,
    }
    trace = {"traceparent": text, "Diagnostic-Id": text}
    return {"type": "object", "properties": found | trace, "required": list(found)}
