"""Two kinds of canonical JSON, their digests, and the encoding of any text as a key (R32, R35)."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

import rfc8785

#: characters that a key can have unescaped; Azure forbids / \ # ? and control characters, and % and ' cause errors
_PLAIN = re.compile(r"[A-Za-z0-9_.~@ -]")
#: maximum length of a key in Azure Tables: 1 KiB of UTF-16
#: (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)
MAX_KEY = 512
#: largest integer that every JSON parser reads exactly; others read a larger one as a double (RFC 7493, section 2.2)
_EXACT = 2**53 - 1
#: range of absolute values in which Python and RFC 8785 format fractions alike
_FRACTIONS = (1e-4, 1e16)
#: C encoder; for a `_convert_floats` value whose text `_UNORDERED` does not match, its output equals RFC 8785
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
#: characters from U+D800 on: RFC 8785 sorts keys by UTF-16 units, Python by code points, and here the orders differ
_UNORDERED = re.compile("[\ud800-\U0010ffff]")


def jcs(value: Any) -> bytes:
    """Encodes canonical JSON (RFC 8785), the input of history hashes. An integer past 2^53 counts as a double.

    Raises ValueError for a value that JSON cannot represent. Raises OverflowError for an integer that exceeds every
    double.
    """
    try:
        text = _ENCODER.encode(_convert_floats(value))
    except _WrittenOtherwise:
        return rfc8785.dumps(_with_doubles(value))
    if text.isascii() or _UNORDERED.search(text) is None:
        return text.encode()
    return rfc8785.dumps(_with_doubles(value))


def jcs_digest(value: Any) -> str:
    """Returns the SHA-256 of `jcs`, in hex."""
    return hashlib.sha256(jcs(value)).hexdigest()


class _WrittenOtherwise(Exception):
    """The C encoder formats this value differently from the RFC."""


def _convert_floats(value: Any) -> Any:
    """Returns the value for the C encoder, with whole floats as integers.

    Raises _WrittenOtherwise for integers past 2^53, floats outside of `_FRACTIONS`, and keys that are not text.
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
            return {key: _convert_floats(item) for key, item in value.items()}
    elif kind is list or kind is tuple:
        return [_convert_floats(item) for item in value]
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
    """Encodes the text whose digest identifies a request: sorted keys, `1.0` as `1`, no nulls in objects."""
    return json.dumps(_convert_value(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Returns the SHA-256 of the UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _convert_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _convert_value(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_convert_value(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@lru_cache(maxsize=10_000)
def encode_key(text: str) -> str:
    """Encodes `text` as a key: each character that `_PLAIN` does not match becomes one `=XX` per UTF-8 byte."""
    return "".join(
        char if _PLAIN.match(char) else "".join(f"={byte:02X}" for byte in char.encode("utf-8")) for char in text
    )
