"""Strict JSON for outside input, without cases in which two parsers disagree (R38)."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_DEPTH = 64
#: maximum length of a key or number in a message
MAX_QUOTED = 40
#: an integer with at most this number of digits is within the range of a double
_MAX_DIGITS = 308
#: a string, possibly without its closing quote, or a bracket
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def parse_json(body: bytes) -> Any:
    """Parses a JSON text in UTF-8, in linear time. Raises ValueError with a message of one line."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the body is not UTF-8") from None
    if _measure_depth(text) > MAX_DEPTH:
        raise ValueError(f"the JSON has more than {MAX_DEPTH} nested levels")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
            parse_int=_parse_integer,
            object_pairs_hook=_check_duplicates,
        )
    except json.JSONDecodeError as wrong:
        raise ValueError(f"the body is not JSON: {wrong.msg} at line {wrong.lineno}, column {wrong.colno}") from None
    _check_surrogates(text, value)
    return value


def _measure_depth(text: str) -> int:
    """Returns the nesting depth of brackets outside strings. Does not parse the text, since the parser recurses."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        match found[0]:
            case "[" | "{":
                depth += 1
                deepest = max(deepest, depth)
            case "]" | "}":
                depth -= 1
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:MAX_QUOTED]} is out of range")
    return number


def _parse_integer(text: str) -> int:
    """Parses an integer exactly, while other parsers use a double. Raises ValueError if the integer exceeds every
    double.
    """
    if len(text) > _MAX_DIGITS:
        _parse_finite(text)
    return int(text)


def _check_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:MAX_QUOTED]!r} occurs twice in one object")
        found[name] = value
    return found


def _check_surrogates(text: str, value: Any) -> None:
    """Raises ValueError for a lone surrogate, which is not a character and cannot be stored."""
    if "\\u" not in text and "\\U" not in text:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the JSON contains a lone surrogate") from None
