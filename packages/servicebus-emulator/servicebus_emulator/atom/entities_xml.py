"""Queues, topics and subscriptions in the XML of the management API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from servicebus_emulator.atom import feeds, fields
from servicebus_emulator.atom.rules_xml import SERVICE_BUS, read_rule
from servicebus_emulator.broker.descriptions import (
    DEFAULT_RULE,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.topic import Subscription, Topic

_NS = {"s": SERVICE_BUS}
_COUNTS_NAMESPACE = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
_LONGEST_LOCK_MS = 300_000
_COUNTS = {
    "ActiveMessageCount": "active",
    "DeadLetterMessageCount": "dead_letter",
    "ScheduledMessageCount": "scheduled",
    "TransferDeadLetterMessageCount": "transfer_dead_letter",
    "TransferMessageCount": "transfer",
}


def read_queue(name: str, element: Element) -> QueueDescription:
    return _checked(QueueDescription(name, **fields.read(fields.QUEUE, feeds.texts_of(element))))


def read_topic(name: str, element: Element) -> TopicDescription:
    return TopicDescription(name, **fields.read(fields.TOPIC, feeds.texts_of(element)))


def read_subscription(name: str, element: Element) -> SubscriptionDescription:
    queue = _checked(QueueDescription(name, **fields.read(fields.SUBSCRIPTION, feeds.texts_of(element))))
    default = element.find("s:DefaultRuleDescription", _NS)
    if default is None:
        return SubscriptionDescription(queue)
    rule_name_element = default.find("s:Name", _NS)
    rule_name = DEFAULT_RULE if rule_name_element is None else rule_name_element.text or DEFAULT_RULE
    return SubscriptionDescription(queue, (read_rule(rule_name, default),))


def change_queue(old: QueueDescription, element: Element) -> QueueDescription:
    return _checked(_changed(fields.QUEUE, old, element))


def change_topic(old: TopicDescription, element: Element) -> TopicDescription:
    changed: TopicDescription = _changed(fields.TOPIC, old, element)
    return changed


def change_subscription(old: QueueDescription, element: Element) -> QueueDescription:
    return _checked(_changed(fields.SUBSCRIPTION, old, element))


def _changed(properties: tuple[fields.Property, ...], old: Any, element: Element) -> Any:
    changes = fields.read(properties, feeds.texts_of(element))
    for item in properties:
        if item.fixed and changes.get(item.field, getattr(old, item.field)) != getattr(old, item.field):
            raise InvalidRequest(f"The property {item.name} cannot be changed after creation.")
        if item.kind == "entity":
            changes.setdefault(item.field, None)  # a property that is left out is reset
        elif item.kind == "megabytes" and changes.get(item.field) == fields.whole_megabytes(getattr(old, item.field)):
            del changes[item.field]  # written back as it was read, without the rest of a size in bytes
    return replace(old, **changes)


def _checked(queue: QueueDescription) -> QueueDescription:
    if queue.lock_duration_ms > _LONGEST_LOCK_MS:
        raise InvalidRequest("LockDuration must be at most PT5M.")
    return queue


def write(entity: MessageQueue | Topic, endpoint: str) -> str:
    """Returns the description of a queue or topic with counts and times. `endpoint` precedes the names of other
    entities.
    """
    if isinstance(entity, Topic):
        texts = fields.write(fields.TOPIC, entity.description)
        texts["CreatedAt"] = feeds.instant(entity.created_at_ms)
        texts["UpdatedAt"] = texts["AccessedAt"] = feeds.instant(entity.updated_at_ms)
        queues = [item.queue for item in entity.subscriptions.values()]
        texts["SizeInBytes"] = str(sum(queue.size_bytes for queue in queues))
        texts["SubscriptionCount"] = str(len(queues))
        counts = {"scheduled": len(entity.schedule.messages)}
        return feeds.write_description("TopicDescription", texts, _write_counts(counts))
    texts = {**fields.write(fields.QUEUE, entity.description, endpoint), **_runtime(entity)}
    return feeds.write_description("QueueDescription", texts, _write_counts(entity.counts()))


def write_subscription(subscription: Subscription, endpoint: str) -> str:
    queue = subscription.queue
    texts = {**fields.write(fields.SUBSCRIPTION, queue.description, endpoint), **_runtime(queue)}
    return feeds.write_description("SubscriptionDescription", texts, _write_counts(queue.counts()))


def _runtime(queue: MessageQueue) -> dict[str, str]:
    counts = queue.counts()
    return {
        "CreatedAt": feeds.instant(queue.created_at_ms),
        "UpdatedAt": feeds.instant(queue.updated_at_ms),
        "AccessedAt": feeds.instant(queue.accessed_at_ms),
        "MessageCount": str(counts["active"] + counts["deferred"] + counts["scheduled"] + counts["dead_letter"]),
        "SizeInBytes": str(queue.size_bytes),
        "EntityAvailabilityStatus": "Available",
    }


def _write_counts(counts: dict[str, int]) -> str:
    # The SDKs read the counts by these names with any prefix, but the namespace must be this one.
    items = "".join(f"<d2:{name}>{counts.get(key, 0)}</d2:{name}>" for name, key in _COUNTS.items())
    return f'<CountDetails xmlns:d2="{_COUNTS_NAMESPACE}">{items}</CountDetails>'
