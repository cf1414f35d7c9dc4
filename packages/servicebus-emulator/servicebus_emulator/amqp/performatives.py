"""Frame bodies of AMQP and SASL, and delivery states: described lists with typed fields (AMQP 1.0, 2.7, 3.4, 5.3).

`decode_body` checks the type of every field, so the state machine does not. `encode_body` returns bytes. Field
names are those of the specification, with underscores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar

from servicebus_emulator.amqp.decoder import decode
from servicebus_emulator.amqp.encoder import encode, encode_fields, encoder_of
from servicebus_emulator.amqp.errors import DecodeError
from servicebus_emulator.amqp.values import Array, Described, Symbol, Ubyte, Uint, Ulong, Ushort


@dataclass(frozen=True, slots=True)
class Field:
    """One field on the wire, with the accepted types and its encoder. The field is mandatory or optional."""

    accepts: tuple[type, ...]
    encode: Callable[[Any], bytes]
    mandatory: bool = False
    #: maximum number; 0 for a field that is not a number
    maximum: int = 0


def _number(kind: type, bits: int) -> Field:
    return Field((int,), encoder_of(kind), maximum=(1 << bits) - 1)


def _symbols(value: tuple[str, ...]) -> bytes:
    return encode(Array(0xB3, tuple(Symbol(item) for item in value)))


_STRING = Field((str,), encode)
_SYMBOL = Field((str,), lambda value: encode(Symbol(value)))
_SYMBOLS = Field((Array, str), _symbols)
_BOOL = Field((bool,), encode)
_MAP = Field((dict,), encode)
_BINARY = Field((bytes,), encode)
_UBYTE, _USHORT, _UINT, _ULONG = _number(Ubyte, 8), _number(Ushort, 16), _number(Uint, 32), _number(Ulong, 64)
_ANY = Field((object,), encode)
_BODY = Field((Described,), lambda value: encode_body(value) if isinstance(value, Body) else encode(value))


def _mandatory(spec: Field) -> Field:
    return replace(spec, mandatory=True)


class Body:
    """A described list: `CODE` is the descriptor, `WIRE` describes each field in order."""

    CODE: ClassVar[int]
    WIRE: ClassVar[tuple[Field, ...]]
    __slots__ = ()


@dataclass(slots=True)
class Open(Body):
    CODE = 0x10
    WIRE = (_mandatory(_STRING), _STRING, _UINT, _USHORT, _UINT, _SYMBOLS, _SYMBOLS, _SYMBOLS, _SYMBOLS, _MAP)
    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: Any = None
    incoming_locales: Any = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Begin(Body):
    CODE = 0x11
    WIRE = (_USHORT, _mandatory(_UINT), _mandatory(_UINT), _mandatory(_UINT), _UINT, _SYMBOLS, _SYMBOLS, _MAP)
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Attach(Body):
    CODE = 0x12
    WIRE = (
        *(_mandatory(_STRING), _mandatory(_UINT), _mandatory(_BOOL), _UBYTE, _UBYTE, _BODY, _BODY),
        *(_MAP, _BOOL, _UINT, _ULONG, _SYMBOLS, _SYMBOLS, _MAP),
    )
    name: str
    handle: int
    #: `True` if the sender of this frame receives messages
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Any = None
    target: Any = None
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Flow(Body):
    CODE = 0x13
    WIRE = (
        *(_UINT, _mandatory(_UINT), _mandatory(_UINT), _mandatory(_UINT), _UINT, _UINT, _UINT),
        *(_UINT, _BOOL, _BOOL, _MAP),
    )
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Any, Any] | None = None


@dataclass(slots=True)
class Transfer(Body):
    CODE = 0x14
    WIRE = (_mandatory(_UINT), _UINT, _BINARY, _UINT, _BOOL, _BOOL, _UBYTE, _BODY, _BOOL, _BOOL, _BOOL)
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(slots=True)
class Disposition(Body):
    CODE = 0x15
    WIRE = (_mandatory(_BOOL), _mandatory(_UINT), _UINT, _BOOL, _BODY, _BOOL)
    role: bool
    first: int
    last: int | None = None
    settled: bool | None = None
    state: Any = None
    batchable: bool | None = None


@dataclass(slots=True)
class Detach(Body):
    CODE = 0x16
    WIRE = (_mandatory(_UINT), _BOOL, _BODY)
    handle: int
    closed: bool | None = None
    error: Any = None


@dataclass(slots=True)
class End(Body):
    CODE = 0x17
    WIRE = (_BODY,)
    error: Any = None


@dataclass(slots=True)
class Close(Body):
    CODE = 0x18
    WIRE = (_BODY,)
    error: Any = None


@dataclass(slots=True)
class Error(Body):
    CODE = 0x1D
    WIRE = (_mandatory(_SYMBOL), _STRING, _MAP)
    condition: str
    description: str | None = None
    #: always sent, since the Python SDK reads three fields and fails on two
    info: dict[Any, Any] | None = field(default_factory=dict)


@dataclass(slots=True)
class Received(Body):
    CODE = 0x23
    WIRE = (_mandatory(_UINT), _mandatory(_ULONG))
    section_number: int
    section_offset: int


@dataclass(slots=True)
class Accepted(Body):
    CODE = 0x24
    WIRE = ()


@dataclass(slots=True)
class Rejected(Body):
    CODE = 0x25
    WIRE = (_BODY,)
    error: Any = None


@dataclass(slots=True)
class Released(Body):
    CODE = 0x26
    WIRE = ()


@dataclass(slots=True)
class Modified(Body):
    CODE = 0x27
    WIRE = (_BOOL, _BOOL, _MAP)
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


@dataclass(slots=True)
class Source(Body):
    CODE = 0x28
    WIRE = (_ANY, _UINT, _SYMBOL, _UINT, _BOOL, _MAP, _SYMBOL, _MAP, _BODY, _SYMBOLS, _SYMBOLS)
    address: Any = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Any = None
    outcomes: Any = None
    capabilities: Any = None


@dataclass(slots=True)
class Target(Body):
    CODE = 0x29
    WIRE = (_ANY, _UINT, _SYMBOL, _UINT, _BOOL, _MAP, _SYMBOLS)
    address: Any = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: Any = None


@dataclass(slots=True)
class Coordinator(Body):
    """Target of a link that controls transactions (part 4)."""

    CODE = 0x30
    WIRE = (_SYMBOLS,)
    capabilities: Any = None


@dataclass(slots=True)
class TransactionalState(Body):
    """Delivery state of a message that belongs to a transaction (part 4)."""

    CODE = 0x34
    WIRE = (_mandatory(_BINARY), _BODY)
    txn_id: bytes
    outcome: Any = None


@dataclass(slots=True)
class SaslMechanisms(Body):
    CODE = 0x40
    WIRE = (_mandatory(_SYMBOLS),)
    mechanisms: tuple[str, ...]


@dataclass(slots=True)
class SaslInit(Body):
    CODE = 0x41
    WIRE = (_mandatory(_SYMBOL), _BINARY, _STRING)
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(slots=True)
class SaslOutcome(Body):
    CODE = 0x44
    WIRE = (_mandatory(_UBYTE), _BINARY)
    code: int
    additional_data: bytes | None = None


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that reads the attributes of these names."""
    if len(names) == 1:
        return lambda body: (getattr(body, names[0]),)
    return attrgetter(*names)


_BODIES: dict[int | str, type[Body]] = {
    body.CODE: body
    for body in (
        *(Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close, Error),
        *(Received, Accepted, Rejected, Released, Modified, Source, Target, Coordinator, TransactionalState),
        *(SaslMechanisms, SaslInit, SaslOutcome),
    )
}
_NAMES = {
    "open": 0x10, "begin": 0x11, "attach": 0x12, "flow": 0x13, "transfer": 0x14, "disposition": 0x15,
    "detach": 0x16, "end": 0x17, "close": 0x18, "error": 0x1D, "received": 0x23, "accepted": 0x24,
    "rejected": 0x25, "released": 0x26, "modified": 0x27, "source": 0x28, "target": 0x29, "coordinator": 0x30,
    "transactional-state": 0x34, "sasl-mechanisms": 0x40, "sasl-init": 0x41, "sasl-outcome": 0x44,
}  # fmt: skip
#: reader and encoders of each body's fields, created once, since a send spends most of its time here
_READERS = {body: _reader(tuple(body.__slots__)) for body in _BODIES.values() if body.WIRE}
_WRITERS: dict[type[Body], tuple[Callable[[Any], bytes], ...]] = {
    body: tuple(spec.encode for spec in body.WIRE) for body in _BODIES.values()
}
#: checks of each body's fields, and the minimum number of fields
_CHECKS = {body: tuple((spec.accepts, spec.mandatory, spec.maximum) for spec in body.WIRE) for body in _BODIES.values()}
_FEWEST = {
    body: max((index + 1 for index, spec in enumerate(body.WIRE) if spec.mandatory), default=0)
    for body in _BODIES.values()
}
#: bodies without fields, such as accepted
_CONSTANT = {body: encode_fields(body.CODE, []) for body in _BODIES.values() if not body.WIRE}
#: a descriptor can be symbolic too (part 1, 1.2), such as `amqp:accepted:list`
_BODIES.update({f"amqp:{name}:list": _BODIES[code] for name, code in _NAMES.items()})


def decode_body(data: bytes, pos: int = 0) -> tuple[Body, int]:
    """Returns the performative at `pos`, and the position of its payload."""
    value, pos = decode(data, pos)
    body = interpret(value)
    if not isinstance(body, Body):
        raise DecodeError("a frame without a known performative")
    return body, pos


def interpret(value: Any) -> Any:
    """Returns the body of a described value, or the value itself if its descriptor is unknown."""
    if not isinstance(value, Described) or not isinstance(value.descriptor, int | str):
        return value
    kind = _BODIES.get(value.descriptor)
    if kind is None:
        return value
    fields = value.value
    if not isinstance(fields, list) or len(fields) > len(kind.WIRE):
        raise DecodeError(f"{kind.__name__} must be a list of at most {len(kind.WIRE)} fields")
    for index, ((accepts, mandatory, maximum), item) in enumerate(zip(_CHECKS[kind], fields, strict=False)):
        if item is None:
            if mandatory:
                raise DecodeError(f"{kind.__name__} lacks its field {index}")
        elif not isinstance(item, accepts):
            raise DecodeError(f"field {index} of {kind.__name__} is a {type(item).__name__}")
        elif type(item) is Described:
            fields[index] = interpret(item)
        elif maximum and not _in_range(item, maximum):
            raise DecodeError(f"field {index} of {kind.__name__} must be a number from 0 to {maximum}")
    if len(fields) < _FEWEST[kind]:
        raise DecodeError(f"{kind.__name__} lacks a mandatory field")
    return kind(*fields, *(None,) * (len(kind.WIRE) - len(fields)))


def _in_range(item: Any, maximum: int) -> bool:
    return item is not True and item is not False and 0 <= item <= maximum


def encode_body(body: Body) -> bytes:
    """Returns a performative's bytes, without trailing nulls (part 1, 1.4)."""
    kind = type(body)
    if kind in _CONSTANT:
        return _CONSTANT[kind]
    values = _READERS[kind](body)
    count = len(values)
    while count and values[count - 1] is None:
        count -= 1
    fields = [
        b"\x40" if value is None else write(value) for value, write in zip(values[:count], _WRITERS[kind], strict=False)
    ]
    return encode_fields(body.CODE, fields)
