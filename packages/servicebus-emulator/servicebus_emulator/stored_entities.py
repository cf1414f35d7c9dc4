"""Entities that the management API created, changed or deleted. The store retains these entities between runs.

A stored value is `created` or `changed`, a line break and the XML of the entity, or None for a deleted entity. A topic
that was `created` replaces a configured topic and its subscriptions. A `changed` topic keeps the subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from xml.etree import ElementTree

from servicebus_emulator.atom import entities_xml, feeds, fields
from servicebus_emulator.atom.rules_xml import SERVICE_BUS, read_rule, write_rule
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import (
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from servicebus_emulator.broker.destination import Destination
from servicebus_emulator.broker.topic import Subscription, Topic
from servicebus_emulator.configuration import Topology

_SUBSCRIPTIONS = "/Subscriptions/"
_NS = {"s": SERVICE_BUS}


def store_entity(broker: Broker, destination: Destination, *, created: bool) -> None:
    """Stores the present queue or topic. `created` is False for a change."""
    entity = destination.entity
    if isinstance(entity, Topic):
        xml = feeds.write_description("TopicDescription", fields.write(fields.TOPIC, entity.description))
    else:
        xml = feeds.write_description("QueueDescription", fields.write(fields.QUEUE, entity.description))
    broker.store.put_entity(destination.path, f"{'created' if created else 'changed'}\n{xml}")


def store_subscription(broker: Broker, subscription: Subscription) -> None:
    """Stores the present subscription with its rules."""
    description = subscription.description
    rules = "".join(write_rule(rule, "") for rule in description.rules)
    texts = fields.write(fields.SUBSCRIPTION, description.queue)
    xml = feeds.write_description("SubscriptionDescription", texts, f"<Rules>{rules}</Rules>")
    broker.store.put_entity(subscription.queue.path, f"created\n{xml}")


def set_rules(broker: Broker, topic_name: str, subscription: Subscription, rules: Iterable[RuleDescription]) -> None:
    """Replaces and stores the rules of a subscription. The messages in its queue stay."""
    broker.change_subscription(topic_name, replace(subscription.description, rules=tuple(rules)))
    store_subscription(broker, subscription)


def apply_stored(topology: Topology, stored: Mapping[str, str | None]) -> Topology:
    """Returns the configured topology with the stored entities (`Store.entities`), which have precedence."""
    queues = {queue.name.lower(): queue for queue in topology.queues}
    topics = {
        topic.name.lower(): (topic, {item.queue.name.lower(): item for item in subscriptions})
        for topic, subscriptions in topology.topics
    }
    for path, text in sorted(stored.items(), key=lambda item: _SUBSCRIPTIONS in item[0]):
        name, _, subscription = path.partition(_SUBSCRIPTIONS)
        key = name.lower()
        if subscription:
            if key in topics:
                _apply_subscription(topics[key][1], subscription, text)
            continue
        if text is None:
            queues.pop(key, None)
            topics.pop(key, None)
            continue
        kind, _, xml = text.partition("\n")
        description = _read(name, xml)
        if isinstance(description, QueueDescription):
            queues[key] = description
        elif isinstance(description, TopicDescription):
            topics[key] = (description, topics[key][1] if kind == "changed" and key in topics else {})
    return Topology(
        tuple(queues.values()),
        tuple((topic, tuple(subscriptions.values())) for topic, subscriptions in topics.values()),
    )


def _apply_subscription(subscriptions: dict[str, SubscriptionDescription], name: str, text: str | None) -> None:
    if text is None:
        subscriptions.pop(name.lower(), None)
        return
    description = _read(name, text.partition("\n")[2])
    assert isinstance(description, SubscriptionDescription)
    subscriptions[name.lower()] = description


def _read(name: str, xml: str) -> QueueDescription | TopicDescription | SubscriptionDescription:
    element = ElementTree.fromstring(xml)
    if element.tag.endswith("}QueueDescription"):
        return entities_xml.read_queue(name, element)
    if element.tag.endswith("}TopicDescription"):
        return entities_xml.read_topic(name, element)
    elements = element.findall("s:Rules/s:RuleDescription", _NS)
    rules = [read_rule(rule.findtext("s:Name", "", _NS), rule) for rule in elements]
    return replace(entities_xml.read_subscription(name, element), rules=tuple(rules))
