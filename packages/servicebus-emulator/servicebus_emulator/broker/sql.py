"""SQL filters and actions of rules."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from servicebus_emulator.broker.message import Content
from servicebus_emulator.broker.sql_parser import Expression, Parser, Properties
from servicebus_emulator.broker.sql_tokens import InvalidExpression
from servicebus_emulator.broker.sql_values import FilterError

#: system properties that an action can set
_SETTABLE = frozenset(
    {"MessageId", "CorrelationId", "To", "ReplyTo", "Label", "ContentType", "SessionId", "ReplyToSessionId"}
)


@dataclass(frozen=True)
class SqlFilter:
    """A filter that selects messages for which the condition is true. Unknown counts as false."""

    expression: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    _condition: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_condition", Parser(self.expression, self.parameters).whole_condition())

    def matches(self, content: Content) -> bool:
        return self._condition(Properties(content.system_properties, content.application_properties)) is True


@dataclass(frozen=True)
class SqlAction:
    """An action that executes `SET property = value` and `REMOVE property`, separated by semicolons, in order."""

    expression: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    _statements: tuple[tuple[str, str, Expression | None], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parser = Parser(self.expression, self.parameters)
        statements = []
        while parser.token.kind != "end":
            statements.append(_statement(parser))
            if not parser.take("symbol", ";"):
                parser.expect("end")
                break
        if not statements:
            raise InvalidExpression("An action must have at least one statement.")
        object.__setattr__(self, "_statements", tuple(statements))

    def apply(self, content: Content) -> Content:
        """Returns a changed copy of the message. Raises FilterError if a value cannot be computed or encoded."""
        properties = Properties(content.system_properties, content.application_properties)
        names = {name.lower(): name for name in content.application_properties()}
        application: dict[str, Any] = {}
        system: dict[str, Any] = {}
        for scope, name, expression in self._statements:
            value = None if expression is None else expression(properties)
            if scope == "sys":
                system[name] = value
            else:
                application[names.setdefault(name.lower(), name)] = value
                properties.set_user(name, value)
        try:
            return content.with_changes(application, system)
        except (ValueError, TypeError, KeyError, struct.error) as error:
            raise FilterError(f"A value does not fit into a message: {error}") from error


def _statement(parser: Parser) -> tuple[str, str, Expression | None]:
    keyword = parser.expect("keyword", "SET", "REMOVE").value
    scope, name = parser.property_name(parser.expect("name"))
    if scope == "sys" and (keyword == "REMOVE" or name not in _SETTABLE):
        raise InvalidExpression(f"An action cannot {keyword} the system property '{name}'.")
    if keyword == "REMOVE":
        return scope, name, None
    parser.expect("symbol", "=")
    return scope, name, parser.sum()
