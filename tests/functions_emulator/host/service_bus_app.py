"""Support for tests of the app `bus`: its queues and topics, its settings, and a log of the messages it received."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage

from tests.servicebus_emulator.process import Bus

CONFIG = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "sbemulatorns",
                "Queues": [
                    {"Name": "work", "Properties": {"MaxDeliveryCount": 3}},
                    {"Name": "batch", "Properties": {"MaxDeliveryCount": 3}},
                    {"Name": "exact", "Properties": {}},
                    {"Name": "bytes", "Properties": {}},
                    {"Name": "ordered", "Properties": {"RequiresSession": True}},
                    {"Name": "slow", "Properties": {"LockDuration": "PT6S", "MaxDeliveryCount": 1}},
                ],
                "Topics": [{"Name": "news", "Properties": {}, "Subscriptions": [{"Name": "all"}]}],
            }
        ]
    }
}


class MessageLog:
    """The file to which the functions write one JSON line per message."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def of(self, body: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["body"] == body]


def environment(bus: Bus, received: MessageLog) -> dict[str, str]:
    """The settings of the app."""
    return {"BUS_CONNECTION": bus.connection_string, "TOPIC": "news", "SEEN_FILE": str(received.path)}


def send(bus: Bus, entity: str, *messages: ServiceBusMessage | AmqpAnnotatedMessage) -> None:
    """Sends to the topic `news` or to a queue."""
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        sender = client.get_topic_sender("news") if entity == "news" else client.get_queue_sender(entity)
        with sender:
            sender.send_messages(list(messages))
