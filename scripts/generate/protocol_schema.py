"""The JSON Schema of protocol files, for `lucius protocol lint` and for editors, made from the app's own model."""

from __future__ import annotations

import json
from pathlib import Path

from shared.contracts.protocol import ProtocolDefinition

FILE = (
    Path(__file__).resolve().parents[2]
    / "packages"
    / "lucius-client"
    / "lucius_client"
    / "cli"
    / "protocol.schema.json"
)


def text() -> str:
    schema = ProtocolDefinition.model_json_schema()
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
