"""Entities made, changed or deleted through the management API in earlier runs, laid over the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from servicebus_emulator.admin.entities_xml import read_described
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.configuration import Topology

_SUBSCRIPTIONS = "/Subscriptions/"


def overlay(topology: Topology, stored: Mapping[str, str | None]) -> Topology:
    """The topology with what the store keeps (`Store.entities`); what was deleted stays deleted."""
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
                _put_subscription(topics[key][1], subscription, text)
            continue
        if text is None:
            queues.pop(key, None)
            topics.pop(key, None)
            continue
        kind, _, xml = text.partition("\n")
        described = read_described(name, xml)
        if isinstance(described, QueueDescription):
            queues[key] = described
        elif isinstance(described, TopicDescription):
            topics[key] = (described, topics[key][1] if kind == "changed" and key in topics else {})
    return Topology(
        tuple(queues.values()),
        tuple((topic, tuple(subscriptions.values())) for topic, subscriptions in topics.values()),
    )


def _put_subscription(subscriptions: dict[str, SubscriptionDescription], name: str, text: str | None) -> None:
    if text is None:
        subscriptions.pop(name.lower(), None)
        return
    described = read_described(name, text.partition("\n")[2])
    assert isinstance(described, SubscriptionDescription)
    subscriptions[name.lower()] = described
