"""Compares public events with their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from shared.apidocs import event_schemas


def check_event(event: Mapping[str, Any]) -> None:
    """Fails where `event`, a CloudEvent as the feed has it, breaks its schema or has a member that the schema lacks."""
    schema = event_schemas.documents()[event["type"]]
    Draft202012Validator(_closed(schema), format_checker=FormatChecker()).validate(event)


def payload_schema(type_: str) -> Mapping[str, Any]:
    """The JSON Schema of each member of the payload, by its name."""
    members: Mapping[str, Any] = event_schemas.documents()[type_]["properties"]["data"]["properties"]["payload"]
    return members["properties"]


def _closed(node: Any) -> Any:
    """The schema without room for members that it does not name."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {name: _closed(each) for name, each in node.items()}
    return {"additionalProperties": False, **found} if "properties" in node and "type" in node else found
