"""Entities of the bus with replies: a topic for each lane, and a queue to which these topics can forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

#: message property with the name of its topic, set by a rule of each reply subscription for every sender
#: (`topicProperty` in infra/bicep/topology.json)
TOPIC_PROPERTY = "lucius_topic"
#: maximum digits of a lane's number
_DIGITS = 3


@dataclass(frozen=True)
class ReplyEntities:
    """Names of the entities with replies, and their receivers."""

    prefix: str
    subscription: str
    queue: str = ""
    #: `True` if the topics forward to the queue
    are_shared: bool = False

    def topic(self, lane: int) -> str:
        return f"{self.prefix}{lane}"

    def lane_of(self, properties: Mapping[Any, Any] | None) -> int:
        """Returns the lane of a message in the queue, or 0 if the message was sent to the queue itself.

        The Functions host gives names and values as text, and the SDK gives bytes.
        """
        known = properties or {}
        topic = known.get(TOPIC_PROPERTY, known.get(TOPIC_PROPERTY.encode()))
        number = (topic.decode(errors="replace") if isinstance(topic, bytes) else str(topic)).removeprefix(self.prefix)
        # an error here would prevent the queue's dead letters from being drained
        return int(number) if number.isdecimal() and len(number) <= _DIGITS else 0

    def lane_receiver(self, client: ServiceBusClient, lane: int) -> ServiceBusReceiver:
        return client.get_subscription_receiver(self.topic(lane), self.subscription)

    def queue_receiver(self, client: ServiceBusClient) -> ServiceBusReceiver:
        return client.get_queue_receiver(self.queue)

    def dead(self, client: ServiceBusClient, lane: int | None) -> Iterator[ServiceBusReceiver]:
        """Yields a receiver for each entity with dead replies of the lane. `lane` None means the queue.

        A topic's dead-letter queue has replies that the queue did not accept ("Dead-lettering in auto forward
        scenarios" of Azure's documentation). The queue itself is read if the topics do not forward. The messages of the
        queue then arrived before a change of `LUCIUS_REPLIES`, and no function reads these messages.
        """
        kind = ServiceBusSubQueue.DEAD_LETTER
        if lane is not None:
            yield client.get_subscription_receiver(self.topic(lane), self.subscription, sub_queue=kind)
            return
        if not self.are_shared:
            yield self.queue_receiver(client)
        yield client.get_queue_receiver(self.queue, sub_queue=kind)
