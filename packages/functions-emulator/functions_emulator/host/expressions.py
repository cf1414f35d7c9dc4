"""Binding expressions such as `{name}` in a path, queue name or key, replaced by values of the trigger's data.

`{rand-guid}` and `{DateTime}` are replaced by a new UUID and the current time.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from functions_emulator.host.errors import BindingError

_NAME = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")


def fill(text: str, data: Mapping[str, Any]) -> str:
    """Returns `text` with a value for each `{name}`. `{a.b}` is a value in an object. Raises `BindingError` if a value
    is missing.
    """

    def value(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        if name == "rand-guid":
            return str(uuid.uuid4())
        if name == "DateTime":
            return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        current: Any = data
        for part in name.split("."):
            if not isinstance(current, Mapping) or part not in current:
                raise BindingError(f"{text!r}: the trigger has no value {name!r}")
            current = current[part]
        return str(current)

    return _NAME.sub(value, text)


def match_path(pattern: str, path: str) -> dict[str, str] | None:
    """Returns the values of `{name}` in a pattern like `container/{name}.txt`, or `None` if the path does not match."""
    expression, position = "", 0
    for placeholder in _NAME.finditer(pattern):
        expression += re.escape(pattern[position : placeholder.start()]) + f"(?P<{placeholder[1]}>.+)"
        position = placeholder.end()
    match = re.fullmatch(expression + re.escape(pattern[position:]), path)
    return None if match is None else match.groupdict()


def data_of_body(body: bytes | str) -> dict[str, Any]:
    """Returns the properties of a JSON object in a body. The result is empty for another body."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
