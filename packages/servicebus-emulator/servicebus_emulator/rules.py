"""Rules of a subscription, changed while it runs: over HTTP by any SDK, over AMQP by the JavaScript one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from servicebus_emulator.admin.entities_xml import describe_subscription
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import RuleDescription
from servicebus_emulator.broker.topic import Subscription


def keep_subscription(broker: Broker, subscription: Subscription) -> None:
    """Stores a subscription with its rules, so that the next run has them as they are now."""
    text = describe_subscription(subscription.description)
    broker.store.put_entity(subscription.queue.path, f"created\n{text}")


def set_rules(broker: Broker, topic_name: str, subscription: Subscription, rules: Iterable[RuleDescription]) -> None:
    """Replaces the rules; messages already selected stay."""
    broker.change_subscription(topic_name, replace(subscription.description, rules=tuple(rules)))
    keep_subscription(broker, subscription)
