"""Faults that tests set on a bus."""

from __future__ import annotations

import time
import urllib.error

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.servicebus_emulator.process import Bus

WAIT_S = 60


def test_faults(own_bus: Bus) -> None:
    """The SDK recovers from dropped connections, detached links, busy servers, delays and duplicates."""
    with ServiceBusClient.from_connection_string(own_bus.connection_string, retry_backoff_factor=0.1) as client:
        with client.get_topic_sender("t") as sender, client.get_subscription_receiver("t", "a") as receiver:
            sender.send_messages(ServiceBusMessage("1"))
            assert own_bus.post("/faults", {"fault": "drop-connections"})["affected"] == 2
            sender.send_messages(ServiceBusMessage("2"))
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            assert own_bus.post("/faults", {"fault": "detach-links", "entity": "T/subscriptions/A"})["affected"] == 1
            assert own_bus.post("/faults", {"fault": "detach-links", "entity": "t"})["affected"] == 1
            sender.send_messages(ServiceBusMessage("3"))
            receiver.complete_message(message)
            own_bus.post("/faults", {"fault": "duplicate", "entity": "t/Subscriptions/a", "count": 1})
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            receiver.complete_message(message)
            [again] = receiver.receive_messages(max_wait_time=WAIT_S)
            assert (str(again), again.delivery_count) == (str(message), 1)
            receiver.complete_message(again)
            started = time.monotonic()
            own_bus.post("/faults", {"fault": "refuse-sends", "entity": "t", "ms": 500})
            sender.send_messages(ServiceBusMessage("4"))
            assert time.monotonic() - started > 0.45
            own_bus.post("/faults", {"fault": "delay", "ms": 200})
            started = time.monotonic()
            sender.send_messages(ServiceBusMessage("5"))
            assert time.monotonic() - started > 0.2
            own_bus.post("/faults", {}, "DELETE")
    counts = own_bus.get("/entities")
    assert counts["t/Subscriptions/b"]["active"] == 5
    for wrong in ({"fault": "fire"}, {"fault": "delay"}, {"fault": "duplicate", "entity": "t", "count": 1}, []):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            own_bus.post("/faults", wrong)
