"""The response model of a protocol."""

from __future__ import annotations

from shared.core import registry
from shared.responses.protocol import Protocol


def protocol_response(protocol: registry.Protocol) -> Protocol:
    """The definition, with the JSON Schema of each step's payload; what is at its default is left out."""
    shown = protocol.definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for step in shown["steps"]:
        if (schema := protocol.schemas.get(step["step_id"])) is not None:
            step["payload_schema"] = schema
    return Protocol.model_validate({**shown, "digest": protocol.digest})
