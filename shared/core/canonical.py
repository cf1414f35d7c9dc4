"""Canonical JSON of two kinds, the digests made of it, and keys made of any text (R32, R35)."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

import rfc8785

#: what a key may hold as it is; Azure forbids / \ # ? and control characters, and % and ' are trouble
_PLAIN = re.compile(r"[A-Za-z0-9_.~@ -]")
#: of a key in Azure Tables: 1 KiB of UTF-16 (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)
MAX_KEY = 512
#: integers past this are read as doubles by JSON parsers of other languages (RFC 7493, section 2.2)
_EXACT = 2**53 - 1
#: fractions between these, in size, are written alike by Python and by the RFC
_FRACTIONS = (1e-4, 1e16)
#: writes, in C, what RFC 8785 writes of a `_plain` value whose text `_UNORDERED` does not match
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
#: the RFC sorts keys by UTF-16 units: past these, Python's order of code points is another
_UNORDERED = re.compile("[\ud800-\U0010ffff]")


def jcs(value: Any) -> bytes:
    """Encodes canonical JSON (RFC 8785), over which histories are hashed. An integer past 2^53 counts as a double.

    Raises ValueError for a value that JSON does not have.
    """
    try:
        text = _ENCODER.encode(_plain(value))
    except _WrittenOtherwise:
        return rfc8785.dumps(_with_doubles(value))
    if text.isascii() or _UNORDERED.search(text) is None:
        return text.encode()
    return rfc8785.dumps(_with_doubles(value))


def jcs_digest(value: Any) -> str:
    """Returns the SHA-256 of `jcs`, in hex."""
    return hashlib.sha256(jcs(value)).hexdigest()


class _WrittenOtherwise(Exception):
    """The C encoder does not write this value as the RFC does."""


def _plain(value: Any) -> Any:
    """The same value for the C encoder, with whole floats as integers.

    Raises _WrittenOtherwise for integers past 2^53, very large and very small floats, and keys that are no text.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int and -_EXACT <= value <= _EXACT:
        return value
    if kind is float:
        if value.is_integer():
            if -_EXACT <= value <= _EXACT:
                return int(value)
        elif _FRACTIONS[0] <= abs(value) < _FRACTIONS[1]:
            return value
    elif kind is dict:
        if all(type(key) is str for key in value):
            return {key: _plain(item) for key, item in value.items()}
    elif kind is list or kind is tuple:
        return [_plain(item) for item in value]
    elif isinstance(value, str):
        return value
    raise _WrittenOtherwise


def _with_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_doubles(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return float(value)
    return value


def canonical_json(value: Any) -> str:
    """Encodes the text whose digest decides whether two requests are the same: keys sorted, `1.0` as `1`, nulls in
    objects omitted.
    """
    return json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Returns the SHA-256 of the UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _canonical(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@lru_cache(maxsize=10_000)
def encode_key(text: str) -> str:
    """Encodes `text` as a key: every other character becomes `=XX` for each of its UTF-8 bytes."""
    return "".join(
        char if _PLAIN.match(char) else "".join(f"={byte:02X}" for byte in char.encode("utf-8")) for char in text
    )
