"""Parses untrusted JSON, strictly and with limits of depth and of integers, and formats canonical JSON (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

import rfc8785

from lucius_verify.faults import Unreadable

Json = Any
Row = dict[str, Json]

MAX_DEPTH = 64
#: largest integer that every JSON parser reads exactly; others read a larger one as a double (RFC 7493, section 2.2)
_EXACT = 2**53 - 1
#: maximum characters of an integer, so that it is within the range of doubles; Python's own limit is higher
_MAX_DIGITS = 308
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def parse(text: bytes, file: str, row: int | None = None) -> Json:
    """Parses a JSON text in UTF-8. Raises Unreadable, also for text that another parser could read differently."""
    try:
        if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} nested levels")
        return json.loads(
            text.decode("utf-8"), parse_constant=_no_constant, parse_int=_integer, object_pairs_hook=_once
        )
    except (ValueError, RecursionError) as wrong:
        raise Unreadable(f"invalid JSON: {wrong}", file, row) from None


def parse_object(text: bytes, file: str, row: int | None = None) -> Row:
    """Parses a JSON object. Raises Unreadable."""
    value = parse(text, file, row)
    if not isinstance(value, dict):
        raise Unreadable("the content is not a JSON object", file, row)
    return value


def canonical(value: Json) -> bytes:
    """Returns the canonical JSON (RFC 8785). An integer whose magnitude exceeds 2^53 - 1 becomes the nearest double."""
    return rfc8785.dumps(_with_doubles(value))


def digest(value: Json) -> str:
    """Returns the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def line(value: Json) -> bytes:
    """Formats a row of a JSON Lines file."""
    return canonical(value) + b"\n"


def _with_doubles(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _with_doubles(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_doubles(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return float(value)
    return value


def _depth(text: bytes) -> int:
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        match found[0]:
            case b"[" | b"{":
                depth += 1
                deepest = max(deepest, depth)
            case b"]" | b"}":
                depth -= 1
    return deepest


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError("a number is out of range")
    return int(text)


def _once(pairs: list[tuple[str, Json]]) -> Row:
    """Refuses two fields with the same name, since one reader uses the first field and another reader the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has two fields of the same name")
    return found
