"""The codec: values to bytes and back, compared with itself and with the codec of the SDK."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import Header, Message, Properties
from hypothesis import example, given, settings
from hypothesis import strategies as st

from servicebus_emulator.amqp.decoder import MAX_EMPTY_ELEMENTS, decode, skip
from servicebus_emulator.amqp.encoder import encode
from servicebus_emulator.amqp.errors import DecodeError
from servicebus_emulator.amqp.message import AmqpMessage
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


def _integers(kind: type, bits: int, *, signed: bool) -> st.SearchStrategy[Any]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high).map(kind)


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    _integers(Ubyte, 8, signed=False),
    _integers(Ushort, 16, signed=False),
    _integers(Uint, 32, signed=False),
    _integers(Ulong, 64, signed=False),
    _integers(Byte, 8, signed=True),
    _integers(Short, 16, signed=True),
    _integers(Int, 32, signed=True),
    _integers(int, 64, signed=True),
    _integers(Timestamp, 64, signed=True),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    st.uuids(),
    st.binary(max_size=300),
    TEXT,
    st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol),
    st.characters(exclude_categories=("Cs",)).map(Char),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
ARRAYS = st.one_of(
    st.lists(st.uuids(), max_size=20).map(lambda items: Array(0x98, tuple(items))),
    st.lists(_integers(int, 64, signed=True), max_size=40).map(lambda items: Array(0x81, tuple(items))),
    st.lists(st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol), max_size=20).map(
        lambda items: Array(0xB3, tuple(items))
    ),
    st.lists(TEXT, max_size=5).map(lambda items: Array(0xB1, tuple(items), Symbol("described"))),
    st.lists(st.lists(st.booleans(), max_size=3), max_size=3).map(lambda items: Array(0xD0, tuple(items))),
    st.lists(st.none(), max_size=300).map(lambda items: Array(0x40, tuple(items))),
)
VALUES = st.recursive(
    st.one_of(HASHABLE, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=40),
        st.dictionaries(HASHABLE, inner, max_size=20),
        st.builds(Described, st.one_of(_integers(Ulong, 64, signed=False), TEXT.map(str)), inner),
    ),
    max_leaves=30,
)


def typed(value: Any) -> Any:
    """A value together with its types, because 1 == True == Uint(1)."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, Array):
        return (Array, value.code, [typed(item) for item in value.items], typed(value.descriptor))
    if isinstance(value, Described):
        return (Described, typed(value.descriptor), typed(value.value))
    return (type(value), value)


@settings(deadline=None)
@given(VALUES)
@example([None] * 300)
@example({"key": "x" * 256})
@example(-0.0)
def test_what_is_encoded_decodes_to_the_same_value_and_type(value: Any) -> None:
    """Every value survives the way to bytes and back with its AMQP type."""
    data = encode(value)
    decoded, end = decode(data)
    assert (typed(value), len(data)) == (typed(decoded), end)


@settings(deadline=None)
@given(VALUES)
def test_skip_agrees_with_decode(value: Any) -> None:
    """`skip` and `decode` find the same end of a value."""
    data = encode(value)
    assert len(data) == skip(data + b"\x40", 0)


def _decode_all(data: bytes) -> None:
    pos = 0
    while pos < len(data):
        _, pos = decode(data, pos)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    """No bytes raise anything but DecodeError."""
    for read in (_decode_all, lambda raw: skip(raw, 0), AmqpMessage.parse):
        with contextlib.suppress(DecodeError):
            read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",  # four thousand million nulls in ten bytes
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xc0\x02\x05\x40",
        b"\xc1\x02\x01\x40",  # a key without a value
        b"\xb0\xff\xff\xff\xff\x00",
        b"\x00" * 5000,
        b"\xc0\xff\xff" * 2000,
        b"\x56\x02",
        b"\xa1\x01\xff",
        b"\x73\x00\x11\x00\x00",
        b"\x73\x80\x00\x00\x00",
        b"\xc1\x03\x02\x45\x40",  # a list as a key
    ],
)
def test_wild_sizes_and_broken_values_are_refused(data: bytes) -> None:
    """Sizes, counts and depths that the bytes do not cover raise DecodeError, and cost nothing."""
    with pytest.raises(DecodeError):
        decode(data)


def test_empty_elements_are_bounded() -> None:
    """An array of the largest allowed number of nulls is decoded."""
    body = b"\xf0\x00\x00\x00\x05%b\x40"
    decoded, _ = decode(body % MAX_EMPTY_ELEMENTS.to_bytes(4, "big"))
    assert len(decoded.items) == MAX_EMPTY_ELEMENTS


SDK_VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
        st.floats(allow_nan=False),
        st.uuids(),
        TEXT,
        st.binary(max_size=40),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=10,
)


def folded(value: Any) -> Any:
    """A value as the SDK's decoder returns it: text as bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [folded(item) for item in value]
    if isinstance(value, dict):
        return {folded(key): folded(item) for key, item in value.items()}
    return value


@settings(deadline=None)
@given(SDK_VALUES, st.dictionaries(TEXT, st.one_of(st.booleans(), TEXT, st.uuids()), max_size=5))
def test_the_codec_and_the_sdk_read_each_other(body: Any, application: dict[str, Any]) -> None:
    """A message of the SDK's encoder, parsed and rendered by the bus, is the same to the SDK's decoder."""
    original = Message(
        header=Header(durable=True, ttl=1000),
        properties=Properties(message_id=uuid.UUID(int=7), correlation_id="c", group_id="g"),
        application_properties=application,
        value=body,
    )
    raw = bytes(encode_payload(bytearray(), original))
    message = AmqpMessage.parse(raw)
    assert (uuid.UUID(int=7), "g", 1000) == (message.message_id, message.session_id, message.time_to_live_ms)
    assert application == message.application_properties()
    rendered = message.render(3, {Symbol("x-opt-sequence-number"): 9})
    read = decode_payload(memoryview(rendered))
    assert decode_payload(memoryview(raw)).value == read.value
    assert folded(application) == (read.application_properties or {})
    assert (read.header.delivery_count, read.header.durable) == (3, True)
    assert read.message_annotations == {b"x-opt-sequence-number": 9}
    assert raw.endswith(message.body)
    assert AmqpMessage.parse(message.encode()) == message
