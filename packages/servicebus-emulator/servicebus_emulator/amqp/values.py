"""Python values that keep their AMQP type (AMQP 1.0 part 1, 1.6), so that a decoded value is encoded with its type.

A plain `int` is an AMQP long, `float` a double, `str` a string, and `bytes` binary. `bool`, `None`, `uuid.UUID`, `list`
and `dict` are the same types in AMQP. Every other type has a class here, whose values equal the plain values that they
carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Ubyte(int):
    """8 bits, unsigned."""


class Ushort(int):
    """16 bits, unsigned."""


class Uint(int):
    """32 bits, unsigned."""


class Ulong(int):
    """64 bits, unsigned."""


class Byte(int):
    """8 bits, signed."""


class Short(int):
    """16 bits, signed."""


class Int(int):
    """32 bits, signed."""


class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC, signed 64 bits."""


class NaiveTimestamp(Timestamp):
    """A timestamp that was written without a time zone. Such a timestamp is read as UTC, and encoded like any other
    timestamp.
    """


class Float(float):
    """IEEE 754 binary32."""


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """ASCII text from a constrained domain."""

    __slots__ = ()


class Decimal32(bytes):
    """IEEE 754 decimal32, as its 4 bytes."""


class Decimal64(bytes):
    """IEEE 754 decimal64, as its 8 bytes."""


class Decimal128(bytes):
    """IEEE 754 decimal128, as its 16 bytes."""


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor, a symbol or ulong that defines its meaning."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type. `code` is the format code of the elements. `descriptor` is set if the elements are
    described.
    """

    code: int
    items: tuple[Any, ...]
    descriptor: Any = None
