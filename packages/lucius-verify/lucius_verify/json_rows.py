"""JSON of a stranger: strict, bounded in depth and size; and its canonical form (RFC 8785)."""

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
#: integers past this are doubles in JSON parsers of other languages (RFC 7493, section 2.2)
_EXACT = 2**53 - 1
#: digits of an integer; Python's own bound is higher, and no double is
_MAX_DIGITS = 308
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def parse(text: bytes, file: str, row: int | None = None) -> Json:
    """The value of a JSON text in UTF-8. Raises Unreadable: what another parser could read in another way, too."""
    try:
        if text.count(b"{") + text.count(b"[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise ValueError(f"it nests deeper than {MAX_DEPTH}")
        return json.loads(
            text.decode("utf-8"), parse_constant=_no_constant, parse_int=_integer, object_pairs_hook=_once
        )
    except (ValueError, RecursionError) as wrong:
        raise Unreadable(f"it is not valid JSON: {wrong}", file, row) from None


def parse_object(text: bytes, file: str, row: int | None = None) -> Row:
    """A JSON object. Raises Unreadable."""
    value = parse(text, file, row)
    if not isinstance(value, dict):
        raise Unreadable("it is not a JSON object", file, row)
    return value


def canonical(value: Json) -> bytes:
    """RFC 8785; an integer past 2^53 counts as the double next to it."""
    return rfc8785.dumps(_with_doubles(value))


def digest(value: Json) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def line(value: Json) -> bytes:
    """A row of a JSON Lines file."""
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
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError("a number is out of range")
    return int(text)


def _once(pairs: list[tuple[str, Json]]) -> Row:
    """One reader takes the first of two fields of the same name, another the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has two fields of the same name")
    return found
