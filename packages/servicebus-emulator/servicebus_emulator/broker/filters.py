"""Filters of rules. The module `sql` has the SQL filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from servicebus_emulator.broker.message import Content


class Filter(Protocol):
    """A selection of messages for a subscription."""

    def matches(self, content: Content) -> bool: ...


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """A filter that selects every message."""

    def matches(self, content: Content) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """A filter that selects no message."""

    def matches(self, content: Content) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """A filter that selects messages whose named properties all have the given values.

    Keys of `system` are `MessageId, CorrelationId, To, ReplyTo, Label, ContentType, SessionId, ReplyToSessionId`.
    """

    system: Mapping[str, str] = field(default_factory=dict)
    application: Mapping[str, Any] = field(default_factory=dict)

    def matches(self, content: Content) -> bool:
        if self.system:
            properties = content.system_properties()
            for name, value in self.system.items():
                actual = properties.get(name)
                if actual is None or str(actual) != value:
                    return False
        if self.application:
            properties = content.application_properties()
            return all(_equal(properties.get(name), value) for name, value in self.application.items())
        return True


def _equal(actual: Any, expected: Any) -> bool:
    """Returns True if values are equal in value and type: 1 is not True, and the text "1" is not the number."""
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    return actual is not None and bool(actual == expected)
