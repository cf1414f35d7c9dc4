"""Converts a received Service Bus message to the function's `func.ServiceBusMessage`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from azure.functions.meta import Datum
from azure.functions.servicebus import ServiceBusMessage
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType

from functions_emulator.host import json_net
from functions_emulator.host.functions import Binding


class UnreadableBatchError(Exception):
    """A batch whose function cannot run, since the type that the host requests does not match one body."""


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    """Returns the bytes of the body. An AMQP value becomes its text."""
    if message.body_type is AmqpMessageBodyType.DATA:
        return b"".join(message.body)
    value = message.body
    if message.body_type is AmqpMessageBodyType.VALUE:
        if isinstance(value, bytes):
            return value
        return b"" if value is None else str(value).encode()
    return b"".join(part if isinstance(part, bytes) else str(part).encode() for part in value)


def convert(message: ServiceBusReceivedMessage, trigger: Binding) -> ServiceBusMessage:
    """Returns the message with all its system and application properties.

    The extension gives a Python worker text, with U+FFFD for bytes that are not UTF-8, unless `dataType` is binary.
    Source: MessageToStringConverter.cs and MessageToByteArrayConverter.cs of azure-sdk-for-net
    (Microsoft.Azure.WebJobs.Extensions.ServiceBus).
    """
    body = body_of(message)
    if _data_type(trigger) != "binary":
        body = body.decode("utf-8", errors="replace").encode()
    return _with_metadata(message, body)


def convert_batch(messages: Sequence[ServiceBusReceivedMessage], trigger: Binding) -> list[ServiceBusMessage]:
    """Returns the messages of a trigger with cardinality many. Raises UnreadableBatchError if the function cannot run.

    Without `dataType` the host requests `object[]` (GetRequestedType in GeneralScriptBindingProvider.cs of
    azure-functions-host), so Json.NET reads each body (PocoTriggerArgumentBinding.cs of azure-webjobs-sdk). Json.NET
    rewrites dates (azure-functions-python-worker issue 1401). With `string` the host omits an empty body
    (ToRpcStringArray in GrpcMessageConversionExtensions.cs of azure-functions-host), and then the SDK's
    `_extract_messages` fails.
    """
    data_type = _data_type(trigger)
    converted = []
    for message in messages:
        body = body_of(message)
        if data_type != "binary":
            text = body.decode("utf-8", errors="replace")
            if data_type == "string" and not text:
                raise UnreadableBatchError("the batch has a message with an empty body, which data_type STRING omits")
            body = text.encode() if data_type == "string" else _through_json_net(text, message)
        converted.append(_with_metadata(message, body))
    return converted


def _data_type(trigger: Binding) -> str | None:
    """Returns `binary`, `string`, or `None` for a trigger without a data type."""
    found = (trigger.text("dataType") or "").lower()
    return found if found in ("binary", "string") else None


def _through_json_net(text: str, message: ServiceBusReceivedMessage) -> bytes:
    """Returns the text that `json.dumps` of the SDK (`_marshall_message_bodies`) makes of the host's JSON."""
    try:
        return json.dumps(json_net.read(text)).encode()
    except ValueError as error:
        raise UnreadableBatchError(
            "Binding parameters to complex objects (such as 'Object') uses Json.NET serialization: "
            f"message {message.message_id} is not JSON ({error}); a trigger with cardinality many and without "
            "data_type fails for the whole batch"
        ) from None


def _with_metadata(message: ServiceBusReceivedMessage, body: bytes) -> ServiceBusMessage:
    properties = _decoded(message.application_properties or {})
    fields: dict[str, Any] = {
        "content_type": message.content_type,
        "correlation_id": message.correlation_id,
        "dead_letter_error_description": message.dead_letter_error_description,
        "dead_letter_reason": message.dead_letter_reason,
        "dead_letter_source": message.dead_letter_source,
        # Azure's extension counts from 1; the SDK counts the deliveries before this one.
        "delivery_count": (message.delivery_count or 0) + 1,
        "enqueued_sequence_number": message.enqueued_sequence_number,
        "enqueued_time_utc": message.enqueued_time_utc,
        "expires_at_utc": message.expires_at_utc,
        "label": message.subject,
        "locked_until": message.locked_until_utc,
        "lock_token": str(message.lock_token) if message.lock_token else None,
        "message_id": message.message_id,
        "partition_key": message.partition_key,
        "reply_to": message.reply_to,
        "reply_to_session_id": message.reply_to_session_id,
        "scheduled_enqueue_time_utc": message.scheduled_enqueue_time_utc,
        "sequence_number": message.sequence_number,
        "session_id": message.session_id,
        "state": int(message.state),
        "subject": message.subject,
        "time_to_live": message.time_to_live,
        "to": message.to,
    }
    return ServiceBusMessage(
        body=body,
        trigger_metadata=_metadata(fields, properties),
        application_properties=properties,
        user_properties=properties,
        **fields,
    )


def _decoded(properties: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns the properties with texts for bytes: the SDK returns keys and texts as bytes."""
    return {_text(key): _text(value) for key, value in properties.items()}


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _metadata(fields: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Datum]:
    """Returns the raw trigger metadata behind `ServiceBusMessage.metadata`, with the names of .NET."""
    metadata = {_pascal(name): _datum(value) for name, value in fields.items() if value is not None}
    metadata["ApplicationProperties"] = metadata["UserProperties"] = Datum(dict(properties), "dict")
    return metadata


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _datum(value: Any) -> Datum:
    if isinstance(value, datetime):
        return Datum(value.isoformat(), "string")
    if isinstance(value, timedelta):
        return Datum(str(value), "string")
    return Datum(value, "int" if isinstance(value, int) else "string")
