"""Encodes values, each in the shortest encoding of its type (AMQP 1.0 part 1, 1.6)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from servicebus_emulator.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    NaiveTimestamp,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)


def encode(value: Any) -> bytes:
    """Returns the encoding of `value`. Raises KeyError for a type without an encoding, and struct.error for a number
    out of range.
    """
    return _ENCODERS[type(value)](value)


def encoder_of(kind: type) -> Callable[[Any], bytes]:
    """Returns the encoder of a type, which also accepts plain values, such as an int as uint."""
    return _ENCODERS[kind]


def encode_fields(code: int, fields: list[bytes]) -> bytes:
    """Returns a described list of encoded fields, without trailing nulls (part 1, 1.4)."""
    while fields and fields[-1] == b"\x40":
        fields.pop()
    body = b"".join(fields)
    if fields and len(body) < 255:
        return bytes((0, 0x53, code, 0xC0, len(body) + 1, len(fields))) + body
    return b"\x00\x53" + bytes((code,)) + _compound(body, len(fields), 0xC0, 0xD0, empty=0x45)


def encode_described(code: int, value: Any) -> bytes:
    """Returns a value described by a small ulong, such as a message section."""
    return b"\x00\x53" + bytes((code,)) + encode(value)


def _compound(body: bytes, count: int, short: int, long: int, empty: int | None = None) -> bytes:
    if count == 0 and empty is not None:
        return bytes((empty,))
    if len(body) < 255 and count < 256:
        return bytes((short, len(body) + 1, count)) + body
    return struct.pack(">BII", long, len(body) + 4, count) + body


def _variable(short: int, long: int) -> Callable[[bytes], bytes]:
    def write(raw: bytes) -> bytes:
        if len(raw) < 256:
            return bytes((short, len(raw))) + raw
        return struct.pack(">BI", long, len(raw)) + raw

    return write


_binary = _variable(0xA0, 0xB0)
_string_bytes = _variable(0xA1, 0xB1)
_symbol_bytes = _variable(0xA3, 0xB3)


def _string(value: str) -> bytes:
    return _string_bytes(value.encode("utf-8"))


@lru_cache(1024)  # keys of annotations and error conditions: few different ones, on every message
def _symbol(value: str) -> bytes:
    return _symbol_bytes(value.encode("ascii"))


def _fixed(code: int, layout: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(">B" + layout).pack
    return lambda value: pack(code, value)


def _unsigned(zero: int, small: int, full: int, layout: str) -> Callable[[int], bytes]:
    pack = struct.Struct(">B" + layout).pack
    short = [bytes((small, value)) for value in range(256)]
    short[0] = bytes((zero,))

    def write(value: int) -> bytes:
        return short[value] if 0 <= value < 256 else pack(full, value)

    return write


def _signed(small: int, full: int, layout: str) -> Callable[[int], bytes]:
    pack = struct.Struct(">B" + layout).pack

    def write(value: int) -> bytes:
        if -128 <= value <= 127:
            return bytes((small, value & 0xFF))
        return pack(full, value)

    return write


def _list(value: list[Any]) -> bytes:
    return _compound(b"".join([_ENCODERS[type(item)](item) for item in value]), len(value), 0xC0, 0xD0, empty=0x45)


def _map(value: dict[Any, Any]) -> bytes:
    parts = []
    for key, item in value.items():
        parts.append(_ENCODERS[type(key)](key))
        parts.append(_ENCODERS[type(item)](item))
    return _compound(b"".join(parts), len(parts), 0xC1, 0xD1)


def _array(value: Array) -> bytes:
    constructor = bytes((value.code,))
    if value.descriptor is not None:
        constructor = b"\x00" + encode(value.descriptor) + constructor
    element = _ELEMENTS[value.code]
    body = constructor + b"".join([element(item) for item in value.items])
    return _compound(body, len(value.items), 0xE0, 0xF0)


def _described(value: Described) -> bytes:
    return b"\x00" + encode(value.descriptor) + encode(value.value)


#: encoders of array elements by format code; elements have no constructor
_ELEMENTS: dict[int, Callable[[Any], bytes]] = {
    **{code: (lambda value: b"") for code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45)},
    **{code: struct.Struct(">B").pack for code in (0x50, 0x52, 0x53)},
    **{code: struct.Struct(">b").pack for code in (0x51, 0x54, 0x55)},
    0x56: struct.Struct(">?").pack,
    0x60: struct.Struct(">H").pack,
    0x61: struct.Struct(">h").pack,
    0x70: struct.Struct(">I").pack,
    0x71: struct.Struct(">i").pack,
    0x72: struct.Struct(">f").pack,
    0x73: lambda value: struct.pack(">I", ord(value)),
    0x80: struct.Struct(">Q").pack,
    0x81: struct.Struct(">q").pack,
    0x82: struct.Struct(">d").pack,
    0x83: struct.Struct(">q").pack,
    **dict.fromkeys((0x74, 0x84, 0x94), bytes),
    0x98: lambda value: value.bytes,
    0xA0: lambda value: _short(value),
    0xA1: lambda value: _short(value.encode("utf-8")),
    0xA3: lambda value: _short(value.encode("ascii")),
    0xB0: lambda value: _long(value),
    0xB1: lambda value: _long(value.encode("utf-8")),
    0xB3: lambda value: _long(value.encode("ascii")),
    0xC0: lambda value: _narrow(_parts(value), len(value)),
    0xC1: lambda value: _narrow(_parts(_flat(value)), 2 * len(value)),
    0xD0: lambda value: _wide(_parts(value), len(value)),
    0xD1: lambda value: _wide(_parts(_flat(value)), 2 * len(value)),
    0xE0: lambda value: _inner_array(value, _narrow),
    0xF0: lambda value: _inner_array(value, _wide),
}


def _short(raw: bytes) -> bytes:
    return struct.pack(">B", len(raw)) + raw


def _long(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def _narrow(body: bytes, count: int) -> bytes:
    return struct.pack(">BB", len(body) + 1, count) + body


def _wide(body: bytes, count: int) -> bytes:
    return struct.pack(">II", len(body) + 4, count) + body


def _parts(items: list[Any]) -> bytes:
    return b"".join([encode(item) for item in items])


def _flat(value: dict[Any, Any]) -> list[Any]:
    return [part for pair in value.items() for part in pair]


def _inner_array(value: Array, shape: Callable[[bytes, int], bytes]) -> bytes:
    constructor = bytes((value.code,))
    if value.descriptor is not None:
        constructor = b"\x00" + encode(value.descriptor) + constructor
    element = _ELEMENTS[value.code]
    return shape(constructor + b"".join([element(item) for item in value.items]), len(value.items))


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    Ubyte: _fixed(0x50, "B"),
    Ushort: _fixed(0x60, "H"),
    Uint: _unsigned(0x43, 0x52, 0x70, "I"),
    Ulong: _unsigned(0x44, 0x53, 0x80, "Q"),
    Byte: _fixed(0x51, "b"),
    Short: _fixed(0x61, "h"),
    Int: _signed(0x54, 0x71, "i"),
    int: _signed(0x55, 0x81, "q"),
    Float: _fixed(0x72, "f"),
    float: _fixed(0x82, "d"),
    Decimal32: lambda value: b"\x74" + bytes(value),
    Decimal64: lambda value: b"\x84" + bytes(value),
    Decimal128: lambda value: b"\x94" + bytes(value),
    Char: lambda value: struct.pack(">BI", 0x73, ord(value)),
    Timestamp: _fixed(0x83, "q"),
    NaiveTimestamp: _fixed(0x83, "q"),
    uuid.UUID: lambda value: b"\x98" + value.bytes,
    bytes: _binary,
    str: _string,
    Symbol: _symbol,
    list: _list,
    dict: _map,
    Array: _array,
    Described: _described,
}
