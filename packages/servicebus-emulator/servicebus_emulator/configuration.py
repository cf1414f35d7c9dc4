"""Reads the official emulator's `Config.json`. Refuses an unknown property, with its name.

A subscription without rules gets the rule `$Default`, which selects every message. Configured rules replace `$Default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import (
    DEFAULT_RULE,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.filters import CorrelationFilter, Filter
from servicebus_emulator.broker.sql import SqlAction, SqlFilter
from servicebus_emulator.broker.sql_tokens import InvalidExpression
from servicebus_emulator.durations import parse_duration

#: property of Config.json: the field of the description, and the type of its value
_QUEUE = {
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_expiration", bool),
    "DefaultMessageTimeToLive": ("default_time_to_live_ms", "duration"),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_window_ms", "duration"),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_letters_to", str),
    "ForwardTo": ("forward_to", str),
    "LockDuration": ("lock_duration_ms", "duration"),
    "MaxDeliveryCount": ("max_delivery_count", int),
    "RequiresDuplicateDetection": ("requires_duplicate_detection", bool),
    "RequiresSession": ("requires_session", bool),
}
_TOPIC = {
    name: _QUEUE[name]
    for name in (
        "DefaultMessageTimeToLive",
        "DuplicateDetectionHistoryTimeWindow",
        "RequiresDuplicateDetection",
    )
}
_SUBSCRIPTION = {
    name: field
    for name, field in _QUEUE.items()
    if name not in ("DuplicateDetectionHistoryTimeWindow", "RequiresDuplicateDetection")
}
_CORRELATION = (
    "ContentType",
    "CorrelationId",
    "Label",
    "MessageId",
    "ReplyTo",
    "ReplyToSessionId",
    "SessionId",
    "To",
)


_T = TypeVar("_T")


class ConfigurationError(Exception):
    """The configuration cannot be used. The message has the position and the reason."""


@dataclass(frozen=True, slots=True)
class Topology:
    """All entities of the namespace."""

    queues: tuple[QueueDescription, ...] = ()
    topics: tuple[tuple[TopicDescription, tuple[SubscriptionDescription, ...]], ...] = ()

    def create_in(self, broker: Broker) -> None:
        """Adds all entities to the broker."""
        for queue in self.queues:
            broker.add_queue(queue)
        for topic, subscriptions in self.topics:
            broker.add_topic(topic)
            for subscription in subscriptions:
                broker.add_subscription(topic.name, subscription)

    def plus(self, other: Topology) -> Topology:
        """Returns the entities of both topologies."""
        return Topology(self.queues + other.queues, self.topics + other.topics)

    def limited(self, max_size_bytes: int) -> Topology:
        """Returns the same entities, each with this maximum size."""

        def cut(items: tuple[SubscriptionDescription, ...]) -> tuple[SubscriptionDescription, ...]:
            return tuple(replace(item, queue=replace(item.queue, max_size_bytes=max_size_bytes)) for item in items)

        return Topology(
            tuple(replace(queue, max_size_bytes=max_size_bytes) for queue in self.queues),
            tuple((replace(topic, max_size_bytes=max_size_bytes), cut(items)) for topic, items in self.topics),
        )


def from_names(queues: list[str], topics: list[str]) -> Topology:
    """Returns entities named on a command line: queues `q`, and subscriptions `t/s` together with their topics. Raises
    ConfigurationError for a topic or subscription without the other.
    """
    subscriptions: dict[str, list[SubscriptionDescription]] = {}
    for text in topics:
        topic, _, name = text.partition("/")
        if not topic or not name:
            raise ConfigurationError(f"--topic {text}: TOPIC/SUBSCRIPTION expected")
        subscriptions.setdefault(topic, []).append(SubscriptionDescription(QueueDescription(name)))
    return Topology(
        tuple(QueueDescription(name) for name in queues),
        tuple((TopicDescription(topic), tuple(items)) for topic, items in subscriptions.items()),
    )


def load(path: Path) -> Topology:
    """Returns the entities of a Config.json. Raises ConfigurationError if the file cannot be read or is invalid."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from error
    try:
        return parse(document)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def parse(document: Any) -> Topology:
    """Returns the entities of a Config.json that is parsed as JSON. Raises ConfigurationError if it is invalid."""
    user = _section(_mapping(document, "the file"), "UserConfig", "the file", ("UserConfig",))
    _known(user, ("Namespaces", "Logging"), "UserConfig")
    namespaces = _list(user, "Namespaces", "UserConfig")
    if len(namespaces) != 1:
        raise ConfigurationError("UserConfig.Namespaces must have exactly one namespace")
    namespace = _mapping(namespaces[0], "Namespaces[0]")
    _known(namespace, ("Name", "Queues", "Topics"), "Namespaces[0]")
    queues = [_queue(item, f"Queues[{i}]") for i, item in enumerate(_list(namespace, "Queues", "Namespaces[0]"))]
    topics = [_topic(item, f"Topics[{i}]") for i, item in enumerate(_list(namespace, "Topics", "Namespaces[0]"))]
    names = [item.name.lower() for item in queues] + [topic.name.lower() for topic, _ in topics]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two entities are named '{name}'")
    subscriptions = [item for _, items in topics for item in items]
    for item in [*queues, *(subscription.queue for subscription in subscriptions)]:
        for target in (item.forward_to, item.forward_dead_letters_to):
            if target is not None and target.lower() not in names:
                raise ConfigurationError(f"'{item.name}' forwards to '{target}', which is not configured")
    return Topology(tuple(queues), tuple(topics))


def _queue(value: Any, where: str) -> QueueDescription:
    item = _mapping(value, where)
    _known(item, ("Name", "Properties"), where)
    return _described(QueueDescription, item, _QUEUE, where)


def _topic(value: Any, where: str) -> tuple[TopicDescription, tuple[SubscriptionDescription, ...]]:
    item = _mapping(value, where)
    _known(item, ("Name", "Properties", "Subscriptions"), where)
    topic = _described(TopicDescription, item, _TOPIC, where)
    subscriptions = tuple(
        _subscription(entry, f"{where}.Subscriptions[{i}]")
        for i, entry in enumerate(_list(item, "Subscriptions", where))
    )
    names = [entry.queue.name.lower() for entry in subscriptions]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{where}: two subscriptions are named '{name}'")
    return topic, subscriptions


def _subscription(value: Any, where: str) -> SubscriptionDescription:
    item = _mapping(value, where)
    _known(item, ("Name", "Properties", "Rules"), where)
    queue = _described(QueueDescription, item, _SUBSCRIPTION, where)
    rules = tuple(
        _rule(entry, f"{where}.Rules[{i}]") for i, entry in enumerate(_list(item, "Rules", where, optional=True))
    )
    return SubscriptionDescription(queue, rules or (RuleDescription(DEFAULT_RULE),))


def _rule(value: Any, where: str) -> RuleDescription:
    item = _mapping(value, where)
    _known(item, ("Name", "Properties"), where)
    inside = f"{where}.Properties"
    properties = _mapping(item.get("Properties", {}), inside)
    _known(properties, ("FilterType", "CorrelationFilter", "SqlFilter", "Action"), inside)
    kind = properties.get("FilterType")
    if kind not in ("Correlation", "Sql"):
        raise ConfigurationError(f"{inside}.FilterType: Correlation or Sql expected, not '{kind}'")
    wrong = "SqlFilter" if kind == "Correlation" else "CorrelationFilter"
    if wrong in properties:
        raise ConfigurationError(f"{inside}: '{wrong}' is not allowed with FilterType {kind}")
    try:
        selects: Filter
        if kind == "Correlation":
            selects = _correlation(properties, inside)
        else:
            selects = SqlFilter(_expression(properties, "SqlFilter", inside))
        action = SqlAction(_expression(properties, "Action", inside)) if properties.get("Action") else None
    except InvalidExpression as error:
        raise ConfigurationError(f"{inside}: {error}") from error
    return RuleDescription(_name(item, where), selects, action)


def _expression(properties: Mapping[str, Any], name: str, where: str) -> str:
    where = f"{where}.{name}"
    item = _mapping(properties.get(name, {}), where)
    _known(item, ("SqlExpression",), where)
    expression = item.get("SqlExpression")
    if not isinstance(expression, str) or not expression:
        raise ConfigurationError(f"{where}.SqlExpression is missing")
    return expression


def _correlation(properties: Mapping[str, Any], where: str) -> Filter:
    where = f"{where}.CorrelationFilter"
    item = _mapping(properties.get("CorrelationFilter", {}), where)
    _known(item, (*_CORRELATION, "Properties"), where)
    application = _mapping(item.get("Properties", {}), f"{where}.Properties")
    system = {name: item[name] for name in _CORRELATION if item.get(name) is not None}
    if not system and not application:
        raise ConfigurationError(f"{where} must name at least one property")
    return CorrelationFilter(system, dict(application))


def _described(
    kind: Callable[..., _T], item: Mapping[str, Any], known: Mapping[str, tuple[str, Any]], where: str
) -> _T:
    try:
        return kind(_name(item, where), **_properties(item, known, where))
    except InvalidRequest as error:
        raise ConfigurationError(f"{where}.Properties: {error}") from error


def _properties(item: Mapping[str, Any], known: Mapping[str, tuple[str, Any]], where: str) -> dict[str, Any]:
    where = f"{where}.Properties"
    properties = _mapping(item.get("Properties", {}), where)
    _known(properties, tuple(known), where)
    fields: dict[str, Any] = {}
    for name, value in properties.items():
        field, kind = known[name]
        fields[field] = _value(value, kind, f"{where}.{name}")
    for field in ("forward_to", "forward_dead_letters_to"):
        if fields.get(field) == "":
            fields[field] = None
    return fields


def _value(value: Any, kind: Any, where: str) -> Any:
    if kind == "duration":
        try:
            return parse_duration(value)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where}: {error}") from error
    if type(value) is not kind:
        raise ConfigurationError(f"{where}: must be of the type {kind.__name__}, not {json.dumps(value)}")
    return value


def _name(item: Mapping[str, Any], where: str) -> str:
    name = item.get("Name")
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where}.Name is missing")
    return name


def _known(item: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in item:
        if name not in names:
            raise ConfigurationError(f"{where} has the unknown property '{name}' (known: {', '.join(names)})")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: must be an object")
    return value


def _section(item: Mapping[str, Any], name: str, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    _known(item, known, where)
    if name not in item:
        raise ConfigurationError(f"{where} lacks '{name}'")
    return _mapping(item[name], name)


def _list(item: Mapping[str, Any], name: str, where: str, *, optional: bool = False) -> list[Any]:
    value = item.get(name, [] if optional else None)
    if not isinstance(value, list):
        raise ConfigurationError(f"{where}.{name}: must be a list")
    return value
