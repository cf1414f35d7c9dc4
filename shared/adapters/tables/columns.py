"""JSON in columns: a value in as many of them as it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

#: characters of a column: it holds 32,768 UTF-16 units, and a character is two at the most
_PIECE = 16_000
#: what the decoder of a row raises if a later release wrote it, or if it is broken
UNDECODABLE = (KeyError, TypeError, ValueError)


def parts(name: str, value: Any) -> dict[str, str]:
    """The JSON of `value` in as many columns as it takes: `name`, `name_1`, ..."""
    text = json_text(value)
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return {f"{name}_{number}" if number else name: piece for number, piece in enumerate(pieces)}


def whole(name: str, entity: Mapping[str, Any]) -> Any:
    text, number = entity[name], 1
    while (piece := entity.get(f"{name}_{number}")) is not None:
        text, number = text + piece, number + 1
    return json.loads(text)


def known_members(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are fields of the dataclass; a later release may have written more."""
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"{type(value).__name__} is no JSON")
