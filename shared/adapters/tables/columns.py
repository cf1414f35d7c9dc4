"""Splits JSON values into columns of at most 16,000 characters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from shared.errors import Undecodable

#: maximum characters of a column: it has at most 32,768 UTF-16 units, and a character at most two
_PIECE = 16_000
#: errors of a decoder for a row of a later release or a broken row
UNDECODABLE = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    Undecodable,
)


def split_json(name: str, value: Any) -> dict[str, str]:
    """Splits the JSON of `value` into columns: `name`, `name_1`, and so on."""
    return split_text(name, json_text(value))


def split_text(name: str, text: str) -> dict[str, str]:
    """Splits the text into columns of at most 16,000 characters. An empty text has no column."""
    found = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return {f"{name}_{number}" if number else name: piece for number, piece in enumerate(found)}


def join_text(name: str, entity: Mapping[str, Any]) -> str:
    """Returns the text of a column and its continuations. Raises UNDECODABLE."""
    text, number = entity[name], 1
    while (piece := entity.get(f"{name}_{number}")) is not None:
        text, number = text + piece, number + 1
    return str(text)


def join_json(name: str, entity: Mapping[str, Any]) -> Any:
    """Returns the value that `split_json` wrote. Raises UNDECODABLE."""
    return json.loads(join_text(name, entity))


def select_known(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that are fields of the dataclass. Leaves out values of a later release."""
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def json_text(value: Any) -> str:
    return _ENCODER.encode(value)


def _encode_instant(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"{type(value).__name__} is not JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_encode_instant)
