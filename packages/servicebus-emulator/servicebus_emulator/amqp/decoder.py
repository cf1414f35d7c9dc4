"""Decodes values: `decode(data, pos) -> (value, next_pos)` (AMQP 1.0 part 1, 1.6). Raises `DecodeError` only."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from servicebus_emulator.amqp.errors import DecodeError
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
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)

#: maximum elements without bytes of their own (null, true, 0), which a peer sends at no cost
MAX_EMPTY_ELEMENTS = 65_536

_Decoder = Callable[[bytes, int], tuple[Any, int]]


def decode(data: bytes, pos: int = 0) -> tuple[Any, int]:
    """Returns the value at `pos`, and the position after it."""
    try:
        return _DECODERS[data[pos]](data, pos + 1)
    except (IndexError, struct.error) as error:
        raise DecodeError("the data ends within a value") from error
    except KeyError as error:
        raise DecodeError(f"unknown format code {error}") from error
    except (UnicodeDecodeError, ValueError, OverflowError) as error:
        raise DecodeError(f"a value that cannot be decoded: {error}") from error
    except RecursionError as error:
        raise DecodeError("values nested more deeply than the recursion limit") from error
    except TypeError as error:
        raise DecodeError(f"a value that cannot be a map key: {error}") from error


def skip(data: bytes, pos: int) -> int:
    """Returns the position after the value at `pos`. The high half of the format code determines the width (part 1,
    1.6).
    """
    try:
        code = data[pos]
        if code == 0:
            return skip(data, skip(data, pos + 1))
        width = code >> 4
        if width in _FIXED_WIDTHS:
            end = pos + 1 + _FIXED_WIDTHS[width]
        elif width in (0xA, 0xC, 0xE):
            end = pos + 2 + data[pos + 1]
        elif width in (0xB, 0xD, 0xF):
            end = pos + 5 + _UINT32(data, pos + 1)[0]
        else:
            raise DecodeError(f"unknown format code {code:#x}")
    except (IndexError, struct.error) as error:
        raise DecodeError("the data ends within a value") from error
    except RecursionError as error:
        raise DecodeError("values nested more deeply than the recursion limit") from error
    if end > len(data):
        raise DecodeError("the data ends within a value")
    return end


def _value(data: bytes, pos: int) -> tuple[Any, int]:
    return _DECODERS[data[pos]](data, pos + 1)


def _constant(value: Any) -> _Decoder:
    return lambda data, pos: (value, pos)


def _fixed(layout: str, kind: Callable[[Any], Any] | None = None) -> _Decoder:
    unpack_from = struct.Struct(layout).unpack_from
    size = struct.calcsize(layout)
    if kind is None:
        return lambda data, pos: (unpack_from(data, pos)[0], pos + size)
    return lambda data, pos: (kind(unpack_from(data, pos)[0]), pos + size)


def _raw(size: int, kind: Callable[[bytes], Any]) -> _Decoder:
    def read(data: bytes, pos: int) -> tuple[Any, int]:
        end = pos + size
        return kind(_slice(data, pos, end)), end

    return read


def _slice(data: bytes, pos: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError(end)
    return data[pos:end]


def _variable(width: int, kind: Callable[[bytes], Any]) -> _Decoder:
    if width == 1:

        def read8(data: bytes, pos: int) -> tuple[Any, int]:
            end = pos + 1 + data[pos]
            return kind(_slice(data, pos + 1, end)), end

        return read8

    def read32(data: bytes, pos: int) -> tuple[Any, int]:
        end = pos + 4 + _UINT32(data, pos)[0]
        return kind(_slice(data, pos + 4, end)), end

    return read32


_UINT32 = struct.Struct(">I").unpack_from


def _text(raw: bytes) -> str:
    return raw.decode("utf-8")


def _symbol(raw: bytes) -> Symbol:
    return Symbol(raw.decode("ascii"))


def _char(code: int) -> Char:
    return Char(chr(code))


def _boolean(data: bytes, pos: int) -> tuple[bool, int]:
    if data[pos] > 1:
        raise DecodeError("a boolean must be 0 or 1")
    return data[pos] == 1, pos + 1


def _header(data: bytes, pos: int, width: int) -> tuple[int, int, int]:
    """Returns the count of a list, map or array, the position of its first element, and the position after it."""
    if width == 1:
        end = pos + 1 + data[pos]
        count, start = data[pos + 1], pos + 2
    else:
        end = pos + 4 + _UINT32(data, pos)[0]
        count, start = _UINT32(data, pos + 4)[0], pos + 8
    if end > len(data) or start > end:
        raise IndexError(end)
    return count, start, end


def _elements(data: bytes, pos: int, width: int) -> tuple[list[Any], int]:
    count, pos, end = _header(data, pos, width)
    if count > end - pos:
        raise DecodeError("a compound value counts more elements than it has bytes")
    decoders = _DECODERS
    items = []
    for _ in range(count):
        value, pos = decoders[data[pos]](data, pos + 1)
        items.append(value)
    if pos != end:
        raise DecodeError("the size of a compound value does not match its elements")
    return items, end


def _list(width: int) -> _Decoder:
    return lambda data, pos: _elements(data, pos, width)


def _map(width: int) -> _Decoder:
    def read(data: bytes, pos: int) -> tuple[dict[Any, Any], int]:
        items, end = _elements(data, pos, width)
        if len(items) % 2:
            raise DecodeError("a map has a key without a value")
        return dict(zip(items[::2], items[1::2], strict=True)), end

    return read


def _array(width: int) -> _Decoder:
    def read(data: bytes, pos: int) -> tuple[Array, int]:
        count, pos, end = _header(data, pos, width)
        descriptor = None
        if data[pos] == 0:
            descriptor, pos = _value(data, pos + 1)
        code = data[pos]
        pos += 1
        if count > max(end - pos, 0) and (code not in _EMPTY or count > MAX_EMPTY_ELEMENTS):
            raise DecodeError("an array counts more elements than it has bytes")
        element = _DECODERS[code]
        items = []
        for _ in range(count):
            value, pos = element(data, pos)
            items.append(value)
        if pos != end:
            raise DecodeError("the size of an array does not match its elements")
        return Array(code, tuple(items), descriptor), end

    return read


def _described(data: bytes, pos: int) -> tuple[Described, int]:
    descriptor, pos = _value(data, pos)
    value, pos = _value(data, pos)
    return Described(descriptor, value), pos


_FIXED_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: format codes of constructors whose elements take no bytes
_EMPTY = frozenset({0x40, 0x41, 0x42, 0x43, 0x44, 0x45})

_DECODERS: dict[int, _Decoder] = {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(Uint(0)),
    0x44: _constant(Ulong(0)),
    0x45: lambda data, pos: ([], pos),
    0x50: _fixed(">B", Ubyte),
    0x51: _fixed(">b", Byte),
    0x52: _fixed(">B", Uint),
    0x53: _fixed(">B", Ulong),
    0x54: _fixed(">b", Int),
    0x55: _fixed(">b"),
    0x56: _boolean,
    0x60: _fixed(">H", Ushort),
    0x61: _fixed(">h", Short),
    0x70: _fixed(">I", Uint),
    0x71: _fixed(">i", Int),
    0x72: _fixed(">f", Float),
    0x73: _fixed(">I", _char),
    0x74: _raw(4, Decimal32),
    0x80: _fixed(">Q", Ulong),
    0x81: _fixed(">q"),
    0x82: _fixed(">d"),
    0x83: _fixed(">q", Timestamp),
    0x84: _raw(8, Decimal64),
    0x94: _raw(16, Decimal128),
    0x98: _raw(16, lambda raw: uuid.UUID(bytes=raw)),
    0xA0: _variable(1, bytes),
    0xA1: _variable(1, _text),
    0xA3: _variable(1, _symbol),
    0xB0: _variable(4, bytes),
    0xB1: _variable(4, _text),
    0xB3: _variable(4, _symbol),
    0xC0: _list(1),
    0xC1: _map(1),
    0xD0: _list(4),
    0xD1: _map(4),
    0xE0: _array(1),
    0xF0: _array(4),
}
