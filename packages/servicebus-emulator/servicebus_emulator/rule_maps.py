"""Rules as AMQP maps and described lists (request-response operations `add-rule` and `enumerate-rules`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servicebus_emulator.amqp.values import Described, Timestamp, Ulong
from servicebus_emulator.broker.descriptions import RuleDescription
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.filters import CorrelationFilter, FalseFilter, Filter, TrueFilter
from servicebus_emulator.broker.sql import SqlAction, SqlFilter

#: properties of a correlation filter in the order of its described list, with their keys in a request's map
_CORRELATION = {
    "CorrelationId": "correlation-id",
    "MessageId": "message-id",
    "To": "to",
    "ReplyTo": "reply-to",
    "Label": "label",
    "SessionId": "session-id",
    "ReplyToSessionId": "reply-to-session-id",
    "ContentType": "content-type",
}
#: range of dates of .NET and of the XML of the management API, in Unix milliseconds
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_RULE, _EMPTY_ACTION, _SQL_ACTION = Ulong(0x13700000004), Ulong(0x13700000005), Ulong(0x13700000006)
_SQL, _TRUE, _FALSE, _CORRELATES = (Ulong(0x1370000006 + offset) for offset in range(4))


def read_rule(name: str, description: Any) -> RuleDescription:
    """Returns the rule that an `add-rule` request describes. Raises InvalidRequest if the description is invalid."""
    if not name or not isinstance(description, dict):
        raise InvalidRequest("A rule must have a name and a description.")
    action = description.get("sql-rule-action")
    changes = SqlAction(_expression(action)) if action else None
    return RuleDescription(name, _read_filter(description), changes)


def _read_filter(description: Mapping[str, Any]) -> Filter:
    if (sql := description.get("sql-filter")) is not None:
        return SqlFilter(_expression(sql))
    if "true-filter" in description:
        return TrueFilter()
    if "false-filter" in description:
        return FalseFilter()
    correlation = description.get("correlation-filter")
    if not isinstance(correlation, dict):
        raise InvalidRequest("A rule must have a filter.")
    system = {name: str(value) for name, key in _CORRELATION.items() if (value := correlation.get(key)) is not None}
    application = dict(correlation.get("properties") or {})
    for name, value in application.items():
        if isinstance(value, Timestamp) and not _FIRST_MS <= value <= _LAST_MS:
            raise InvalidRequest(f"The property '{name}' is not a date of the years 1 to 9999.")
    if not system and not application:
        raise InvalidRequest("A correlation filter must name at least one property.")
    return CorrelationFilter(system, application)


def _expression(value: Any) -> str:
    expression = value.get("expression") if isinstance(value, dict) else None
    if not isinstance(expression, str):
        raise InvalidRequest("An SQL filter or action must have an expression.")
    return expression


def write_rule(rule: RuleDescription, created_at_ms: int) -> Described:
    """Returns the rule as a described list of an `enumerate-rules` reply."""
    action = (
        Described(_EMPTY_ACTION, []) if rule.action is None else Described(_SQL_ACTION, [rule.action.expression, None])
    )
    return Described(_RULE, [_write_filter(rule.filter), action, rule.name, Timestamp(created_at_ms)])


def _write_filter(selects: Filter) -> Described:
    match selects:
        case TrueFilter():
            return Described(_TRUE, [])
        case FalseFilter():
            return Described(_FALSE, [])
        case SqlFilter():
            return Described(_SQL, [selects.expression, None])
        case CorrelationFilter():
            system = [selects.system.get(name) for name in _CORRELATION]
            return Described(_CORRELATES, [*system, dict(selects.application)])
    raise TypeError(type(selects).__name__)
