"""Models held against the bodies that the app really makes."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from pydantic import BaseModel

from shared.apidocs.json_schema import schema


def misfits(model: type[BaseModel], body: Any) -> list[str]:
    """Returns the positions at which the JSON of `body` does not match `model`, including unknown members."""
    closed = _closed(schema(model, "read"))
    validator = Draft202012Validator(closed, format_checker=FormatChecker())
    errors = validator.iter_errors(json.loads(json.dumps(body)))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def _closed(node: Any) -> Any:
    """The schema with every object closed that is not open on purpose."""
    if isinstance(node, dict):
        closed = {name: _closed(each) for name, each in node.items()}
        if "properties" in node and node.get("type") == "object":
            closed.setdefault("additionalProperties", False)
        return closed
    return [_closed(each) for each in node] if isinstance(node, list) else node
