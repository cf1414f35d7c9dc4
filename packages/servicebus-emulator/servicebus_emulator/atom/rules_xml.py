"""Rules in the XML of the management API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape, quoteattr

from servicebus_emulator.amqp.values import Described, NaiveTimestamp, Symbol, Timestamp
from servicebus_emulator.broker.descriptions import RuleDescription
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.filters import CorrelationFilter, FalseFilter, Filter, TrueFilter
from servicebus_emulator.broker.sql import SqlAction, SqlFilter
from servicebus_emulator.durations import format_duration, parse_duration

SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_SCHEMA = "http://www.w3.org/2001/XMLSchema"
_TYPE = f"{{{INSTANCE}}}type"
_NS = {"s": SERVICE_BUS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: .NET encodes a TimeSpan in a message as ticks of 100 ns with this descriptor (azure-sdk-for-net,
#: `AmqpMessageConverter`)
_TIMESPAN, _TICKS_PER_MS = Symbol("com.microsoft:timespan"), 10_000
_CORRELATION = (
    *("CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"),
)


def read_rule(name: str, element: Element) -> RuleDescription:
    """Returns the rule of a RuleDescription element. Raises InvalidRequest if its filter or action is invalid."""
    filters, actions = element.find("s:Filter", _NS), element.find("s:Action", _NS)
    selects = TrueFilter() if filters is None else _read_filter(filters)
    action = None
    if actions is not None and _kind(actions) == "SqlRuleAction":
        action = SqlAction(_text(actions, "SqlExpression") or "", _pairs(actions.find("s:Parameters", _NS)))
    return RuleDescription(name, selects, action)


def _read_filter(element: Element) -> Filter:
    match _kind(element):
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            expression = _text(element, "SqlExpression") or ""
            return SqlFilter(expression, _pairs(element.find("s:Parameters", _NS)))
        case "CorrelationFilter":
            system = {name: text for name in _CORRELATION if (text := _text(element, name)) is not None}
            application = _pairs(element.find("s:Properties", _NS))
            if not system and not application:
                raise InvalidRequest("A correlation filter must name at least one property.")
            return CorrelationFilter(system, application)
        case kind:
            raise InvalidRequest(f"The filter type '{kind}' is unknown.")


def _kind(element: Element) -> str:
    return element.get(_TYPE, "").rpartition(":")[2]


def _text(element: Element, name: str) -> str | None:
    child = element.find(f"s:{name}", _NS)
    return None if child is None else child.text or ""


def _pairs(element: Element | None) -> dict[str, Any]:
    if element is None:
        return {}
    pairs = {}
    for pair in element.findall("s:KeyValueOfstringanyType", _NS):
        key, value = _text(pair, "Key"), pair.find("s:Value", _NS)
        if key is None or value is None:
            raise InvalidRequest("A property must have a key and a value.")
        pairs[key] = _value(_kind(value), value.text or "")
    return pairs


def _value(kind: str, text: str) -> Any:
    try:
        match kind:
            case "int" | "long" | "short" | "byte":
                return int(text)
            case "double" | "float" | "decimal":
                return float(text)
            case "boolean":
                return text.strip().lower() == "true"
            case "dateTime":
                return _timestamp(datetime.fromisoformat(text.strip()))
            case "duration":
                return Described(_TIMESPAN, _duration_ms(text.strip()) * _TICKS_PER_MS)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f"'{text}' is not of the type {kind}.") from error
    return text


def _timestamp(moment: datetime) -> Timestamp:
    """Returns the moment in milliseconds. Without a time zone it is read as UTC, and written back without one."""
    kind = NaiveTimestamp if moment.tzinfo is None else Timestamp
    return kind(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1))


def _duration_ms(text: str) -> int:
    ms = parse_duration(text)
    if ms is None:
        raise ValueError("a duration without end")
    return ms


def write_rule(rule: RuleDescription, created_at: str) -> str:
    """Returns the RuleDescription element of a rule."""
    return (
        f'<RuleDescription xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}">{_write_filter(rule.filter)}'
        f"{_write_action(rule.action)}<CreatedAt>{created_at}</CreatedAt><Name>{escape(rule.name)}</Name>"
        "</RuleDescription>"
    )


def _write_filter(selects: Filter) -> str:
    match selects:
        case TrueFilter():
            return f'<Filter i:type="TrueFilter">{_sql("1=1", {})}</Filter>'
        case FalseFilter():
            return f'<Filter i:type="FalseFilter">{_sql("1=0", {})}</Filter>'
        case SqlFilter():
            return f'<Filter i:type="SqlFilter">{_sql(selects.expression, selects.parameters)}</Filter>'
        case CorrelationFilter():
            texts = "".join(
                f"<{name}>{escape(selects.system[name])}</{name}>" for name in _CORRELATION if name in selects.system
            )
            pairs = _write_pairs("Properties", selects.application)
            return f'<Filter i:type="CorrelationFilter">{texts}{pairs}</Filter>'
    raise TypeError(type(selects).__name__)


def _write_action(action: SqlAction | None) -> str:
    if action is None:
        return '<Action i:type="EmptyRuleAction"/>'
    return f'<Action i:type="SqlRuleAction">{_sql(action.expression, action.parameters)}</Action>'


def _sql(expression: str, parameters: Mapping[str, Any]) -> str:
    text = f"<SqlExpression>{escape(expression)}</SqlExpression><CompatibilityLevel>20</CompatibilityLevel>"
    return text + _write_pairs("Parameters", parameters)


def _write_pairs(name: str, pairs: Mapping[str, Any]) -> str:
    if not pairs:
        return ""
    items = "".join(
        f"<KeyValueOfstringanyType><Key>{escape(key)}</Key>{_write_value(value)}</KeyValueOfstringanyType>"
        for key, value in pairs.items()
    )
    return f"<{name}>{items}</{name}>"


def _write_value(value: Any) -> str:
    kind, text = _typed(value)
    # The JavaScript SDK removes the prefix by its length: it must have four characters.
    return f'<Value xmlns:d6p1={quoteattr(_SCHEMA)} i:type="d6p1:{kind}">{escape(text)}</Value>'


def _typed(value: Any) -> tuple[str, str]:
    """Returns the XML Schema type of a value and its text."""
    match value:
        case bool():
            return "boolean", str(value).lower()
        case Timestamp():
            return "dateTime", _moment(value)
        case int():
            return ("int" if -(1 << 31) <= value < 1 << 31 else "long"), str(value)
        case float():
            return "double", str(value)
        case Described(descriptor, int(ticks)) if descriptor == _TIMESPAN:
            return "duration", format_duration(ticks // _TICKS_PER_MS)
    return "string", str(value)


def _moment(value: Timestamp) -> str:
    moment = _EPOCH + timedelta(milliseconds=value)
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if value % 1000 else "seconds")
    return text if isinstance(value, NaiveTimestamp) else f"{text}Z"
